// The library vectorgpu_vector: settings of pgvector's names and ranges, for databases whose extension vector is
// ours. The access methods hnsw and ivfflat load it; vectorgpu.so never defines these settings, since a second
// definition would be an error in pgvector's library. Their values are read by name (am/method/pgvector_settings.cpp).
// PG dialect.
#include "pg/define_setting.hpp"

#include <climits>

extern "C"
{
#include "access/xact.h"
#include "fmgr.h"
#include "utils/guc.h"

	PG_MODULE_MAGIC;
	PGDLLEXPORT void _PG_init(void);
}

namespace
{

constexpr int kOff = 0;
constexpr int kMostLists = 32768;

int ef_search = 40;
int graph_iterative = kOff;
int max_scan_tuples = 20000;
double scan_mem_multiplier = 1;
int probes = 1;
int max_probes = kMostLists;
int lists_iterative = kOff;

const config_enum_entry kGraphOrders[] = {
	{"off", kOff, false},
	{"relaxed_order", 1, false},
	{"strict_order", 2, false},
	{nullptr, 0, false},
};

const config_enum_entry kListOrders[] = {
	{"off", kOff, false},
	{"relaxed_order", 1, false},
	{nullptr, 0, false},
};

/// A process that loaded the library in parallel mode defines the settings after it.
void
end_transaction(XactEvent event, void *argument)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		vectorgpu::pg::define_postponed();
}

constexpr const char *kNoEffect = "Without effect: a scan goes on until it has the rows that the query asks for.";

} // namespace

extern "C" void
_PG_init(void)
{
	using namespace vectorgpu;

	pg::define_int("hnsw.ef_search", "Least width of a search.", "Where gpugraph.recall_target needs more, it decides.",
		&ef_search, 40, 1, 1000, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::define_enum("hnsw.iterative_scan", "Order of scans that go on.", kNoEffect, &graph_iterative, kOff,
		kGraphOrders, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::define_int("hnsw.max_scan_tuples", "Rows after which a scan ends.", kNoEffect, &max_scan_tuples, 20000, 1,
		INT_MAX, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::define_real("hnsw.scan_mem_multiplier", "Memory of scans that go on, as a multiple of work_mem.", kNoEffect,
		&scan_mem_multiplier, 1, 1, 1000, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::reserve_prefix("hnsw");
	pg::define_int("ivfflat.probes", "Least number of lists that a scan looks at.",
		"Where gpuivf.recall_target needs more, it decides.", &probes, 1, 1, kMostLists, PGC_USERSET, 0, nullptr,
		nullptr, nullptr);
	pg::define_int("ivfflat.max_probes", "Lists after which a scan ends.", kNoEffect, &max_probes, kMostLists, 1,
		kMostLists, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::define_enum("ivfflat.iterative_scan", "Order of scans that go on.", kNoEffect, &lists_iterative, kOff,
		kListOrders, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::reserve_prefix("ivfflat");
	RegisterXactCallback(end_transaction, nullptr);
}
