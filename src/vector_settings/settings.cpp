// The library vectorgpu_vector, of databases whose extension vector is ours: settings of pgvector's names and ranges,
// and the handlers of its access methods. vectorgpu.so never defines these settings, since a second definition would be
// an error in pgvector's library; it reads them by name (am/method/pgvector_settings.cpp). PG dialect.
#include "pg/define_setting.hpp"
#include "pg/pgvector_numbers.hpp"

extern "C"
{
#include "fmgr.h"
#include "utils/guc.h"

	PG_MODULE_MAGIC;
	PG_FUNCTION_INFO_V1(vectorgpu_vector_hnsw_handler);
	PG_FUNCTION_INFO_V1(vectorgpu_vector_ivfflat_handler);
	PGDLLEXPORT void _PG_init(void);
}

namespace
{

using vectorgpu::pg::PgvectorNumber;

constexpr int kOff = 0;
constexpr const char *kNoEffect = "Without effect: a scan goes on until it has the rows that the query asks for.";

int ef_search;
int graph_iterative = kOff;
int max_scan_tuples;
double scan_mem_multiplier;
int probes;
int max_probes;
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

void
define(const PgvectorNumber &setting, const char *summary, const char *detail, int *value)
{
	*value = setting.usual;
	vectorgpu::pg::define_int(setting.name, summary, detail, value, setting.usual, setting.least, setting.most,
		PGC_USERSET, 0, nullptr, nullptr, nullptr);
}

void
define(const PgvectorNumber &setting, const char *summary, const char *detail, double *value)
{
	*value = setting.usual;
	vectorgpu::pg::define_real(setting.name, summary, detail, value, setting.usual, setting.least, setting.most,
		PGC_USERSET, 0, nullptr, nullptr, nullptr);
}

/// Call a handler of vectorgpu.so.
Datum
handler(const char *name, FunctionCallInfo fcinfo)
{
	return reinterpret_cast<PGFunction>(load_external_function("$libdir/vectorgpu", name, true, nullptr))(fcinfo);
}

} // namespace

extern "C" void
_PG_init(void)
{
	using namespace vectorgpu;

	define(
		pg::kEfSearch, "Least width of a search.", "Where gpugraph.recall_target needs more, it decides.", &ef_search);
	pg::define_enum("hnsw.iterative_scan", "Order of scans that go on.", kNoEffect, &graph_iterative, kOff,
		kGraphOrders, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	define(pg::kMaxScanTuples, "Rows after which a scan ends.", kNoEffect, &max_scan_tuples);
	define(pg::kScanMemMultiplier, "Memory of scans that go on, as a multiple of work_mem.", kNoEffect,
		&scan_mem_multiplier);
	pg::reserve_prefix("hnsw");
	define(pg::kProbes, "Least number of lists that a scan looks at.",
		"Where gpuivf.recall_target needs more, it decides.", &probes);
	define(pg::kMaxProbes, "Lists after which a scan ends.", kNoEffect, &max_probes);
	pg::define_enum("ivfflat.iterative_scan", "Order of scans that go on.", kNoEffect, &lists_iterative, kOff,
		kListOrders, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::reserve_prefix("ivfflat");
}

// They are here and not in vectorgpu.so, so that the settings are there with the access methods, and so that pg_upgrade
// looks for this library on the new server before it begins.
Datum
vectorgpu_vector_hnsw_handler(PG_FUNCTION_ARGS)
{
	return handler("vectorgpu_hnsw_handler", fcinfo);
}

Datum
vectorgpu_vector_ivfflat_handler(PG_FUNCTION_ARGS)
{
	return handler("vectorgpu_ivfflat_handler", fcinfo);
}
