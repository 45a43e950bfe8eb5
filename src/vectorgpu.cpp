// The entry of the module: _PG_init.
extern "C"
{
#include "postgres.h"
#include "fmgr.h"
}

#include "am/ahead/ahead_path.hpp"
#include "am/filtered/filtered_path.hpp"
#include "am/filtered/filtered_scan.hpp"
#include "am/filtered/semijoin_query.hpp"
#include "am/gpuflat/gpuflat.hpp"
#include "am/gpugraph/gpugraph.hpp"
#include "am/gpumatch/gpumatch.hpp"
#include "am/gpuivf/gpuivf.hpp"
#include "am/scan/explain_scan.hpp"
#include "am/scan/scan_settings.hpp"
#include "am/maintain/merge.hpp"
#include "am/recall/recall_sampler.hpp"
#include "am/shards/shard_limit.hpp"
#include "bridge/drop_hint.hpp"
#include "bridge/index_fallbacks.hpp"
#include "bridge/settings.hpp"
#include "bridge/supervisor.hpp"
#include "engine/distance/distance.hpp"
#include "pg/explain_hook.hpp"
#include "pg/guc.hpp"
#include "pg/limit_hook.hpp"
#include "pg/maintenance.hpp"
#include "pg/order_cost.hpp"

extern "C"
{
	PG_MODULE_MAGIC;

	PGDLLEXPORT void _PG_init(void);
}

void
_PG_init(void)
{
	using namespace vectorgpu;

	pg::maintenance_init(am::merge_when_due); // before guc_define, which reserves the prefix
	am::flat_init();
	am::match_init();
	am::ivf_init();
	am::graph_init();
	am::scan_define_gucs();
	am::recall_define_gucs();
	am::filtered_path_install();
	am::filtered_scan_install();
	am::semijoin_query_install();
	am::shard_limit_install();
	am::ahead_path_install();
	am::ahead_node_install();
	bridge::settings_define();
	pg::guc_define({[](int level) { return engine::simd_supported(static_cast<engine::SimdLevel>(level)); },
		[](int level) { return engine::set_simd_level(static_cast<engine::SimdLevel>(level)); }});
	pg::limit_hook_install(am::scan_explainer.is_ours);
	pg::order_cost_install(am::scan_explainer.is_ours);
	pg::explain_hook_install(am::scan_explainer);
	bridge::drop_hint_install();
	bridge::supervisor_init();
	bridge::index_fallbacks_init();
}
