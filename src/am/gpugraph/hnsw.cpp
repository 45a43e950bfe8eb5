// The access method hnsw: gpugraph under pgvector's name and with its options, for the extension vector
// (docs/pgvector.md). PG dialect. Called by core.
#include "am/gpugraph/graph.hpp"
#include "am/method/callbacks.hpp"
#include "am/method/cost.hpp"
#include "am/method/pgvector_settings.hpp"
#include "am/sparse/sparse.hpp"

extern "C"
{
#include "access/reloptions.h"

	PG_FUNCTION_INFO_V1(vectorgpu_hnsw_handler);
}

namespace vectorgpu::am
{

namespace
{

constexpr int kM = 16; // pgvector's defaults and ranges
constexpr int kLeastM = 2;
constexpr int kMostM = 100;
constexpr int kEfConstruction = 64;
constexpr int kLeastEfConstruction = 4;
constexpr int kMostEfConstruction = 1000;
constexpr int kEdgesOfM = 2; // edges of a row in pgvector's lowest layer

struct HnswReloptions
{
	int32 vl_len_;
	int m;
	int ef_construction;
};

relopt_kind
hnsw_kind()
{
	static relopt_kind kind = RELOPT_KIND_LOCAL;

	if (kind != RELOPT_KIND_LOCAL)
		return kind;
	kind = add_reloption_kind();
	add_int_reloption(kind, "m", "Half of the edges of a row; 16: chosen by the measured recall.", kM, kLeastM, kMostM,
		AccessExclusiveLock);
	add_int_reloption(kind, "ef_construction", "Accepted for pgvector's sake: builds compare with exact neighbours.",
		kEfConstruction, kLeastEfConstruction, kMostEfConstruction, AccessExclusiveLock);
	return kind;
}

/// amoptions: checks pgvector's options as it does, and returns those of gpugraph.
bytea *
parse_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt kParse[] = {
		{"m", RELOPT_TYPE_INT, offsetof(HnswReloptions, m)},
		{"ef_construction", RELOPT_TYPE_INT, offsetof(HnswReloptions, ef_construction)},
	};
	const HnswReloptions *given = reinterpret_cast<const HnswReloptions *>(
		build_reloptions(reloptions, validate, hnsw_kind(), sizeof(HnswReloptions), kParse, lengthof(kParse)));

	if (given == nullptr)
		return nullptr;
	if (validate && given->ef_construction < 2 * given->m)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("ef_construction must be greater than or equal to 2 * m")));
	return given->m == kM ? nullptr : graph_parse_options(int_option("degree", kEdgesOfM * given->m), false);
}

const AccessMethod kSparseHnsw = sparse_method("hnsw", true);

/// gpugraph, and for sparsevec an exact index: no graph is built over it.
AccessMethod
hnsw_method()
{
	AccessMethod method = graph_method("hnsw", true);

	method.sparse = &kSparseHnsw;
	return method;
}

const AccessMethod kHnsw = hnsw_method();

void
hnsw_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	(path_is_sparse(path) ? exact_cost_estimate : graph_cost_estimate)(
		root, path, loop_count, startup_cost, total_cost, selectivity, correlation, pages);
}

} // namespace

} // namespace vectorgpu::am

Datum
vectorgpu_hnsw_handler(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	IndexAmRoutine *routine = shared_routine<&kHnsw>();

	routine->amcostestimate = hnsw_cost_estimate;
	routine->amoptions = parse_options;
	PG_RETURN_POINTER(routine);
}
