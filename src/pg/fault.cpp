// Fault points: see fault.hpp. Empty unless built with FAULTS=1.
#include "pg/fault.hpp"

#ifdef VECTORGPU_FAULTS

#include "pg/define_setting.hpp"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

extern "C"
{
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "utils/guc.h"
}

namespace vectorgpu::pg
{

namespace
{

enum class FaultAction : uint8
{
	kError,
	kSleep,
	kLock,
	kExit,
	kEnomem,
	kCorrupt,
};

struct Fault
{
	char name[48];
	int64 nth;
	int64 hits;
	FaultAction action;
};

constexpr int kMaxFaults = 8;
constexpr long kSleepStepUs = 10000;
constexpr int kSleepSteps = 500; // 5 s
constexpr uint32 kAdvisoryKey = 1;

struct FaultPlan
{
	int n;
	Fault faults[kMaxFaults];
};

char *fault_setting = nullptr;
FaultPlan active_plan;

bool
parse_action(const char *text, FaultAction *action)
{
	static const struct
	{
		const char *name;
		FaultAction action;
	} kActions[] = {{"error", FaultAction::kError}, {"sleep", FaultAction::kSleep}, {"lock", FaultAction::kLock},
		{"exit", FaultAction::kExit}, {"enomem", FaultAction::kEnomem}, {"corrupt", FaultAction::kCorrupt}};

	for (const auto &known : kActions)
	{
		if (strcmp(text, known.name) == 0)
		{
			*action = known.action;
			return true;
		}
	}
	return false;
}

/// Parses one 'name:nth:action'.
bool
parse_fault(char *text, Fault *fault)
{
	char *nth = strchr(text, ':');
	char *action = nth != nullptr ? strchr(nth + 1, ':') : nullptr;

	if (action == nullptr)
		return false;
	*nth++ = '\0';
	*action++ = '\0';
	memset(fault, 0, sizeof(*fault));
	strlcpy(fault->name, text, sizeof(fault->name));
	fault->nth = atoll(nth);
	return fault->nth > 0 && parse_action(action, &fault->action);
}

bool
check_fault_setting(char **value, void **extra, GucSource source)
{
	FaultPlan plan;
	char copy[512];
	char *rest = nullptr;

	memset(&plan, 0, sizeof(plan));
	if (strlen(*value) >= sizeof(copy))
		return false;
	strlcpy(copy, *value, sizeof(copy));
	for (char *item = strtok_r(copy, ", ", &rest); item != nullptr; item = strtok_r(nullptr, ", ", &rest))
	{
		if (plan.n == kMaxFaults || !parse_fault(item, &plan.faults[plan.n++]))
		{
			GUC_check_errdetail(
				"Expected up to %d items of the form name:nth:action, separated by commas.", kMaxFaults);
			return false;
		}
	}
	*extra = setting_alloc(sizeof(plan));
	if (*extra == nullptr)
		return false;
	memcpy(*extra, &plan, sizeof(plan));
	return true;
}

void
assign_fault_setting(const char *value, void *extra)
{
	if (extra != nullptr)
		memcpy(&active_plan, extra, sizeof(active_plan));
}

void
sleep_interruptibly()
{
	for (int i = 0; i < kSleepSteps; i++)
	{
		pg_usleep(kSleepStepUs);
		CHECK_FOR_INTERRUPTS();
	}
}

/// Wait until no session holds pg_advisory_lock(1).
void
wait_for_lock()
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, kAdvisoryKey, 1);
	(void) LockAcquire(&tag, ShareLock, false, false);
	LockRelease(&tag, ShareLock, false);
}

} // namespace

bool
fault_hit(const char *name)
{
	for (int i = 0; i < active_plan.n; i++)
	{
		Fault *fault = &active_plan.faults[i];

		if (strcmp(fault->name, name) != 0 || ++fault->hits != fault->nth)
			continue;
		// Tests read in the log which points were reached, since some actions have no visible effect.
		ereport(LOG,
			(errmsg("fault point \"%s\" acts at call " INT64_FORMAT, name, fault->nth), errhidestmt(true),
				errhidecontext(true)));
		switch (fault->action)
		{
			case FaultAction::kError:
				ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("fault point \"%s\" reached", name)));
				break;
			case FaultAction::kEnomem:
				ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
						errdetail("Fault point \"%s\" was reached.", name)));
				break;
			case FaultAction::kSleep:
				sleep_interruptibly();
				break;
			case FaultAction::kLock:
				wait_for_lock();
				break;
			case FaultAction::kExit:
				_exit(2); // like a crash: no cleanup, the postmaster restarts the server
			case FaultAction::kCorrupt:
				return true;
		}
	}
	return false;
}

void
fault_define_guc()
{
	define_string("vectorgpu.fault", "Fault points to trigger, for tests.",
		"Items name:nth:action separated by commas; actions: error, sleep, lock, exit, enomem, corrupt.",
		&fault_setting, "", PGC_SUSET, GUC_NOT_IN_SAMPLE, check_fault_setting, assign_fault_setting, nullptr);
}

} // namespace vectorgpu::pg

#endif
