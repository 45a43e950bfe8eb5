// Definitions of the worker's configuration parameters. See settings.hpp.
#include "bridge/settings.hpp"

#include "common/cores.hpp"
#include "common/device_list.hpp"
#include "pg/define_setting.hpp"

#include <climits>

extern "C"
{
#include "utils/guc.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr int kDefaultSpinUs = 20;
constexpr unsigned kCoresForLongSpins = 8;

/// The worker checks whether the GPUs exist.
bool
check_device(char **value, void **extra, GucSource source)
{
	DeviceList list;

	if (parse_device_list(*value, &list))
		return true;
	GUC_check_errdetail("Valid values are \"auto\", \"cpu\", \"cuda\" for all GPUs, and a list without spaces of up to "
						"%d GPUs by their numbers, such as \"cuda:0\" or \"cuda:0,cuda:1\".",
		static_cast<int>(kMostDevices));
	return false;
}

} // namespace

Settings settings = {true, 2000, -1, 2048, 64 * 1024, 16 * 1024, 0, 4096, 60, 1024, 10, nullptr, nullptr, 0};

void
settings_define()
{
	pg::define_bool("vectorgpu.worker", "Lets the worker process answer scans.",
		"When off, scans are answered from the index's pages. The supervisor goes by the server's own setting.",
		&settings.worker, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.worker_timeout", "Time without a sign of life after which a scan gives the worker up.",
		"The scan is then answered from the index's pages.", &settings.worker_timeout_ms, 2000, 10, 3600 * 1000,
		PGC_USERSET, GUC_UNIT_MS, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.spin_time_us", "Microseconds that a scan looks for the worker's answer before it sleeps.",
		"-1 stands for 20 where there are several processor cores, and 0 where there is one. From 8 cores on, up to a "
		"quarter as "
		"many scans at a time look for 200; three quarters where a GPU searches, unless more scans than cores do.",
		&settings.spin_time_us, -1, -1, 10000, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.worker_min_size",
		"Smallest index, in bytes of its vectors, that the worker is asked about.",
		"A smaller one is searched faster than the worker can be asked.", &settings.worker_min_size_kb, 2048, 0,
		INT_MAX, PGC_USERSET, GUC_UNIT_KB, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.inline_load_size",
		"Largest index, in bytes of its vectors, that a scan itself copies to the worker.",
		"A larger one is copied in the background.", &settings.inline_load_size_kb, 64 * 1024, 0, INT_MAX, PGC_USERSET,
		GUC_UNIT_KB, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.ship_limit",
		"The most changes of an index that a scan itself brings to the worker's copy.",
		"More than that is brought in the background.", &settings.ship_limit_kb, 16 * 1024, 0, INT_MAX, PGC_USERSET,
		GUC_UNIT_KB, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.worker_threads", "Threads of the worker's engine.",
		"0 stands for one a processor core. A change restarts the worker.", &settings.worker_threads, 0, 0, 1024,
		PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.worker_memory", "Memory that the worker's copies of indexes may take.",
		"The copies that were used longest ago give way. A change restarts the worker.", &settings.worker_memory_mb,
		4096, 16, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.worker_max_sessions", "The most server processes that the worker serves at a time.",
		"A change restarts the worker.", &settings.worker_max_sessions, 1024, 1, 65536, PGC_SIGHUP, 0, nullptr, nullptr,
		nullptr);
	pg::define_string("vectorgpu.worker_program", "Path of the worker's executable.",
		"Empty stands for the one that was installed with the module. A change restarts the worker.",
		&settings.worker_program, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, nullptr, nullptr, nullptr);
	pg::define_string("vectorgpu.device",
		"What the worker computes on: auto, cpu, cuda, or a list such as cuda:0,cuda:1.",
		"auto stands for the first GPU, cuda for all of them. Where it cannot be used, the worker computes on the CPU. "
		"A change restarts the "
		"worker.",
		&settings.device, "auto", PGC_SIGHUP, 0, check_device, nullptr, nullptr);
	pg::define_int("vectorgpu.gpu_memory", "Memory of each GPU that the worker's copies of indexes may take.",
		"0 stands for what the GPU has left when the worker starts. A change restarts the worker.",
		&settings.gpu_memory_mb, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.worker_sweep_interval", "Pause between two looks for copies of indexes that are gone.",
		"After DROP, TRUNCATE or REINDEX it looks at once as a rule.", &settings.worker_sweep_interval, 10, 1, 86400,
		PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
	pg::define_int("vectorgpu.worker_restart_delay_max",
		"Longest wait before a worker that dies early is started again.",
		"The wait is one second after the first early death and doubles with each.", &settings.worker_restart_delay_max,
		60, 0, 3600, PGC_SIGHUP, GUC_UNIT_S, nullptr, nullptr, nullptr);
}

namespace
{

/// Determined once: a session's processors hardly change.
unsigned
known_cores()
{
	static unsigned n_cores = 0;

	if (n_cores == 0)
		n_cores = count_cores();
	return n_cores;
}

} // namespace

uint32
spin_us()
{
	if (settings.spin_time_us >= 0)
		return static_cast<uint32>(settings.spin_time_us);
	return known_cores() > 1 ? kDefaultSpinUs : 0;
}

uint32
most_long_spins(bool has_gpu, uint32 last_batch)
{
	const uint32 n_cores = known_cores();

	if (settings.spin_time_us >= 0 || known_cores() < kCoresForLongSpins)
		return 0;
	return has_gpu && last_batch <= n_cores ? n_cores / 4 * 3 : n_cores / 4;
}

uint32
long_spin_us(uint32 last_engine_us)
{
	const uint32 wanted = last_engine_us + last_engine_us / 4 + kDefaultSpinUs;

	return wanted <= kLongestSpinUs ? Max(wanted, kLongSpinUs) : kLongSpinUs;
}

} // namespace vectorgpu::bridge
