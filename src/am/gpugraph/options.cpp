// Storage parameters and settings of gpugraph, and how wide a search is by them. PG dialect.
#include "am/gpugraph/graph.hpp"

#include "am/shared/cost.hpp"

#include <cmath>

extern "C"
{
#include "access/reloptions.h"
#include "utils/guc.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kDefaultRecall = 0.95;
constexpr double kDefaultWidth = 64;   // where no calibration was possible
constexpr double kPlanWidth = 25;      // what calibrations of SIFT say for a recall of 0.95
constexpr double kCalibratedRows = 10; // nearest rows that a calibration is about
// For k rows a search is (k / 10) to this power wider, and at least k. SIFT, 100,000 rows: for 100 rows a target of 0.95 finds 0.975
// with 0.6, and a width of 100 finds 0.968.
constexpr double kMoreRows = 0.5;
constexpr double kRoundGrowth = 2;     // a round is so much wider than the one before

/// What core keeps of the storage parameters.
struct GraphReloptions
{
	int32 vl_len_;
	int degree;
	int prune;
};

int width_setting = 0;
double recall_target = kDefaultRecall;
relopt_kind options_kind;

relopt_enum_elt_def kPruneKinds[] = {
	{"rank", static_cast<int>(engine::graph::PruneKind::kRank)},
	{"rng", static_cast<int>(engine::graph::PruneKind::kRng)},
	{nullptr, 0},
};

/// The width for `wanted` rows, where the calibrated one is for kCalibratedRows.
double
width_for(double calibrated, double wanted)
{
	if (width_setting > 0)
		return Max(static_cast<double>(width_setting), wanted);
	return Max(calibrated * std::pow(Max(wanted / kCalibratedRows, 1.0), kMoreRows), wanted);
}

} // namespace

void
graph_define_options()
{
	options_kind = add_reloption_kind();
	add_int_reloption(options_kind, "degree", "Edges of a row.", kDefaultDegree, 4, engine::graph::kMaxDegree,
		AccessExclusiveLock);
	add_enum_reloption(options_kind, "prune", "How the edges of a row are chosen among its nearest rows.", kPruneKinds,
		static_cast<int>(engine::graph::PruneKind::kRank), "Valid values are \"rank\" and \"rng\".", AccessExclusiveLock);
	DefineCustomIntVariable("gpugraph.search_width", "Rows that a search keeps in mind.",
		"0: as many as gpugraph.recall_target wants.", &width_setting, 0, 0, kMaxSearchWidth, PGC_USERSET, 0, nullptr,
		nullptr, nullptr);
	DefineCustomRealVariable("gpugraph.recall_target",
		"Share of the nearest rows that a scan shall find, if gpugraph.search_width is 0.", nullptr, &recall_target,
		kDefaultRecall, 0, 1, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	MarkGUCPrefixReserved("gpugraph");
}

bytea *
graph_parse_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt kParse[] = {
		{"degree", RELOPT_TYPE_INT, offsetof(GraphReloptions, degree)},
		{"prune", RELOPT_TYPE_ENUM, offsetof(GraphReloptions, prune)},
	};

	return static_cast<bytea *>(
		build_reloptions(reloptions, validate, options_kind, sizeof(GraphReloptions), kParse, lengthof(kParse)));
}

void
graph_store_options(Relation index, const IndexShape *shape, uint8 *options)
{
	const GraphReloptions *given = reinterpret_cast<const GraphReloptions *>(index->rd_options);
	GraphOptions *stored = reinterpret_cast<GraphOptions *>(options);

	stored->degree = graph_plan_degree(index);
	stored->prune = given != nullptr ? static_cast<uint32>(given->prune)
									 : static_cast<uint32>(engine::graph::PruneKind::kRank);
}

uint32
graph_plan_degree(Relation index)
{
	const GraphReloptions *given = reinterpret_cast<const GraphReloptions *>(index->rd_options);

	return static_cast<uint32>(given != nullptr ? given->degree : kDefaultDegree);
}

double
graph_width(const GraphModel *model, double wanted, uint32 round)
{
	const double calibrated = model->calibration.n_queries > 0
		? engine::ivf::probes_for(model->calibration, recall_target)
		: kDefaultWidth;

	return std::ceil(width_for(calibrated, wanted) * std::pow(kRoundGrowth, round));
}

double
graph_plan_width(double wanted)
{
	return std::ceil(width_for(kPlanWidth * recall_factor(recall_target), wanted));
}

} // namespace vectorgpu::am
