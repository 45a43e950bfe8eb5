// Storage parameters and settings of gpugraph, and the width of a search by them. PG dialect.
#include "am/gpugraph/graph.hpp"

#include "am/scan/batch_plan.hpp"
#include "am/method/cost.hpp"
#include "am/method/pgvector_settings.hpp"
#include "engine/graph/search.hpp"
#include "pg/define_setting.hpp"

#include <algorithm>
#include <cmath>

extern "C"
{
#include "access/reloptions.h"
#include "optimizer/cost.h"
#include "utils/guc.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kDefaultWidth = 64;   // without calibration
constexpr double kPlanWidth = 25;      // calibrations of SIFT for a recall of 0.95
constexpr double kPlanBytes = 512;     // of a row of SIFT
constexpr double kCalibratedRows = 10; // nearest rows whose recall calibration measures
// For k rows a search is (k / 10) to this power wider, and at least k. With 0.5 a target of 0.95 found 0.97 of 20 and
// of 100 rows (SIFT and embeddings of arXiv, 100,000 and 60,000 rows); with 0.35 one of 0.98 found 0.972 of 100
// (arXiv), before later steps had higher targets (batch_plan_target).
constexpr double kMoreRows = 0.35;
// Codes have the same relative error at any distance, so the number of rows that seem nearer than the last of k grows
// nearly as k does. For 0.95 of 10, 100, 300 and 1,000 rows (20,000 rows, uniform in 16 dimensions) 48, 360, 880 and
// 2,400 were needed with 512 bits, 80, 450, 1,150 and 2,700 with 256: 0.8, 0.7 and less with fewer bits.
constexpr double kMoreCandidates = 0.8;
constexpr double kRoundGrowth = 2; // a round is this factor wider than the one before
// Time of a look at all rows for each row, in ns, by the row's bytes (README.md, "Cost", has the figures of this and of
// the constants below).
constexpr double kPassRowNs = 5;
constexpr double kPassByteNs = 0.1;
// Time of a search for each row of its width, in ns: it reads the row's edges, looks each of them up among the rows
// that it has met, and scores new rows. Rows of more bytes than 512 cost no more: those measured have neighbours in
// common, so that fewer are new.
constexpr double kNodeNs = 300;
constexpr double kEdgeNs = 10;
constexpr double kScoreNs = 112;
constexpr double kScoreByteNs = 0.5;
constexpr double kScoreBytes = 512;
// New rows are one and this share of the edges. It is less than measured, since the share differs between tables: a
// search looks at all rows only where that is surely cheaper. SIFT, degree 32: 48 rows in the time of one row of the
// width.
constexpr double kNewRows = 0.145;
constexpr double kNewBitRows = 0.37;
// The width that finds at least as much as one row of width in pgvector's graph. arXiv, 150,000 rows: 0.944 by 40 and
// 0.954 by 50, as much as pgvector by 40.
constexpr double kWidthOfPgvector = 1.25;
constexpr double kCloseEnough = 0.005;    // below a target: samples of 1,000 rows do not tell less apart ...
constexpr double kCloseEnoughDeep = 0.02; // ... nor do those of 67, for more rows than ten

/// The storage parameters as core keeps them.
struct GraphReloptions
{
	int32 vl_len_;
	int degree;
	int prune;
	int hash_bits;
	int codes; // Codes
	int bits;
};

/// The storage parameter `codes`.
enum Codes : int
{
	kCodesDefault = 0, // hash_bits says
	kCodesNone = 1,
	kCodesRabitq = 2,
};

constexpr int kDefaultRabitqBits = 4; // as of gpuivf

int width_setting = 0;
double recall_target = kDefaultRecallTarget;
relopt_kind options_kind;

relopt_enum_elt_def kPruneKinds[] = {
	{"rank", static_cast<int>(engine::graph::PruneKind::kRank)},
	{"rng", static_cast<int>(engine::graph::PruneKind::kRng)},
	{nullptr, 0},
};

relopt_enum_elt_def kHashBits[] = {
	{"0", 0},
	{"32", 32},
	{"64", 64},
	{"128", 128},
	{"256", 256},
	{"512", 512},
	{nullptr, 0},
};

relopt_enum_elt_def kCodes[] = {
	{"none", kCodesNone},
	{"rabitq", kCodesRabitq},
	{nullptr, 0},
};

relopt_enum_elt_def kRabitqBits[] = {
	{"0", 0},
	{"1", 1},
	{"2", 2},
	{"4", 4},
	{nullptr, 0},
};

/// The parameters that an index without codes of RaBitQ does without: codes cannot be reset alone where bits are set.
/// As a list for RESET; with `prose` in words.
const char *
codes_and_bits(const GraphReloptions *given, bool prose)
{
	return given->bits == 0 ? "codes" : prose ? "codes and bits" : "codes, bits";
}

/// Raises 22023 for storage parameters that contradict each other.
void
check_codes(const GraphReloptions *given)
{
	if (given->codes != kCodesDefault && given->hash_bits > 0)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("hash_bits does not go with codes \"%s\"", given->codes == kCodesRabitq ? "rabitq" : "none"),
				given->codes == kCodesRabitq
					? errdetail("A row has one code: of RaBitQ, or of random projections, which hash_bits asks for.")
					: 0,
				errhint("Leave out hash_bits or %s (of an existing index: ALTER INDEX ... RESET (hash_bits) or "
						"RESET (%s)).",
					codes_and_bits(given, true), codes_and_bits(given, false))));
	if (given->bits > 0 && given->codes != kCodesRabitq)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("bits is a parameter of codes \"rabitq\""),
				errhint("Set codes to \"rabitq\", or leave out bits (of an existing index: ALTER INDEX ... RESET "
						"(bits), or RESET (codes, bits) for none).")));
}

/// The width of searches by codes over that of searches by vectors for the same recall. SIFT, 100,000 rows, 0.95: 3
/// times with 512 bits, 7 with 256, 21 with 128, 128 with 64. RaBitQ, 200,000 rows: 1.1 times with 4 bits, 1.2 with 2,
/// 4.4 with 1.
double
wider_by_codes(uint32 code_bits)
{
	if (engine::graph::codes_are_rabitq(code_bits))
		return code_bits == 1 ? 4.4 : code_bits == 2 ? 1.2 : 1.1;
	return code_bits == 0 ? 1 : 3 * std::pow(static_cast<double>(engine::graph::kMaxHashBits) / code_bits, 1.5);
}

/// The width for `wanted` rows, where the calibrated one is for kCalibratedRows.
double
width_for(double calibrated, double wanted, uint32 code_bits)
{
	const double times = Max(wanted / kCalibratedRows, 1.0);

	if (width_setting > 0)
		return Max(static_cast<double>(width_setting), wanted);
	if (code_bits != 0)
		return Max(wanted, Min(calibrated, kCalibratedRows)) +
			Max(calibrated - kCalibratedRows, 0.0) * std::pow(times, kMoreCandidates);
	return Max(calibrated * std::pow(times, kMoreRows), wanted);
}

/// The width of a search that finds `target` of the `wanted` nearest rows. A step's target may be above all measured
/// recalls though the scan's is not: then the highest measured recall is the target.
double
target_width(const GraphModel *model, double target, double wanted)
{
	const engine::ivf::Calibration &calibration = model->calibration;
	const double reached = Min(target, Max(graph_most_recall(model, wanted), recall_target));

	if (width_setting > 0 || calibration.n_queries == 0)
		return width_for(kDefaultWidth, wanted, model->code_bits);
	if (model->depths.n_depths > 0)
		return Max(std::round(engine::ivf::probes_for_rows(
					   calibration, model->depths, reached, static_cast<uint64>(std::ceil(wanted)))),
			wanted);
	// one row more of width may find a hundredth more
	return width_for(std::round(engine::ivf::fractional_probes_for(calibration, reached)), wanted, model->code_bits);
}

/// As target_width, but at least as wide as pgvector's setting needs, unless gpugraph.search_width says how wide.
double
search_width(const GraphModel *model, double target, double wanted)
{
	const double width = target_width(model, target, wanted);

	return width_setting > 0 ? width : std::max(width, std::ceil(kWidthOfPgvector * pgvector_ef_search()));
}

/// The rows that a look at all rows passes in the time that a search takes for a row of its width. The metric and the
/// number of rows do not matter: where the processor's caches hold less of a table, both take longer.
double
rows_per_width(ElementType element, double row_bytes, uint32 degree)
{
	const double new_rows = 1 + degree * (element == ElementType::kBit ? kNewBitRows : kNewRows);
	const double score_ns = kScoreNs + kScoreByteNs * Min(row_bytes, kScoreBytes);

	return (kNodeNs + degree * kEdgeNs + new_rows * score_ns) / (kPassRowNs + kPassByteNs * row_bytes);
}

} // namespace

void
graph_define_options()
{
	options_kind = add_reloption_kind();
	add_int_reloption(options_kind, "degree", "Edges of a row; 0: chosen by the measured recall.", 0, 0,
		engine::graph::kMaxDegree, AccessExclusiveLock);
	add_enum_reloption(options_kind, "prune", "How the edges of a row are chosen among its nearest rows.", kPruneKinds,
		static_cast<int>(engine::graph::PruneKind::kRank), "Valid values are \"rank\" and \"rng\".",
		AccessExclusiveLock);
	add_enum_reloption(options_kind, "hash_bits",
		"Bits of a row's code, by which searches compare rows; 0: they compare the rows themselves.", kHashBits, 0,
		"Valid values are 0, 32, 64, 128, 256 and 512.", AccessExclusiveLock);
	add_enum_reloption(options_kind, "codes", "What searches compare instead of vectors, beside hash_bits.", kCodes,
		kCodesDefault, "Valid values are \"none\" and \"rabitq\".", AccessExclusiveLock);
	add_enum_reloption(options_kind, "bits", "Bits of a dimension in codes of rabitq; 0: as by default.", kRabitqBits,
		0, "Valid values are 0, 1, 2 and 4.", AccessExclusiveLock);
	pg::define_int("gpugraph.search_width", "Width of a search: the nearest rows that it keeps.",
		"0: chosen by gpugraph.recall_target.", &width_setting, 0, 0, kMaxSearchWidth, PGC_USERSET, 0, nullptr, nullptr,
		nullptr);
	pg::define_real("gpugraph.recall_target",
		"Share of the nearest rows that a scan has to find, if gpugraph.search_width is 0.", nullptr, &recall_target,
		kDefaultRecallTarget, 0, 1, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::reserve_prefix("gpugraph");
}

bytea *
graph_parse_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt kParse[] = {
		{"degree", RELOPT_TYPE_INT, offsetof(GraphReloptions, degree)},
		{"prune", RELOPT_TYPE_ENUM, offsetof(GraphReloptions, prune)},
		{"hash_bits", RELOPT_TYPE_ENUM, offsetof(GraphReloptions, hash_bits)},
		{"codes", RELOPT_TYPE_ENUM, offsetof(GraphReloptions, codes)},
		{"bits", RELOPT_TYPE_ENUM, offsetof(GraphReloptions, bits)},
	};

	bytea *options = static_cast<bytea *>(
		build_reloptions(reloptions, validate, options_kind, sizeof(GraphReloptions), kParse, lengthof(kParse)));
	const GraphReloptions *given = reinterpret_cast<const GraphReloptions *>(options);

	if (validate && given != nullptr && given->degree > 0 && given->degree < kLeastDegree)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("value %d out of bounds for option \"degree\"", given->degree),
				errdetail("Valid values are 0, by which the degree is chosen, and %d to %u.", kLeastDegree,
					engine::graph::kMaxDegree)));
	if (validate && given != nullptr)
		check_codes(given);
	return options;
}

void
graph_store_options(Relation index, const IndexShape *shape, uint8 *options)
{
	const GraphReloptions *given = reinterpret_cast<const GraphReloptions *>(index->rd_options);
	GraphOptions *stored = reinterpret_cast<GraphOptions *>(options);

	stored->degree = static_cast<uint32>(given != nullptr ? given->degree : 0);
	stored->prune =
		given != nullptr ? static_cast<uint32>(given->prune) : static_cast<uint32>(engine::graph::PruneKind::kRank);
	stored->code_bits = graph_plan_code_bits(index);
	if (stored->code_bits != 0 && !engine::graph::codes_support(shape->metric))
	{
		const bool rabitq = engine::graph::codes_are_rabitq(stored->code_bits);
		const char *named = rabitq ? codes_and_bits(given, true) : "hash_bits";
		const char *reset = rabitq ? codes_and_bits(given, false) : "hash_bits";

		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("index \"%s\" cannot have codes", RelationGetRelationName(index)),
				shape->element == ElementType::kBit
					? errdetail("Codes encode angles between vectors. Bit strings are compared directly.")
					: errdetail("Codes encode angles between vectors, which do not give the taxicab distance."),
				shape->element == ElementType::kBit
					? errhint("Leave out %s (of an existing index: ALTER INDEX ... RESET (%s)).", named, reset)
					: errhint("Leave out %s (of an existing index: ALTER INDEX ... RESET (%s)), or use an operator "
							  "class of <->, <#> or <=>.",
						  named, reset)));
	}
}

uint32
graph_plan_code_bits(Relation index)
{
	const GraphReloptions *given = reinterpret_cast<const GraphReloptions *>(index->rd_options);

	if (given == nullptr)
		return 0;
	if (given->codes == kCodesRabitq)
		return static_cast<uint32>(given->bits > 0 ? given->bits : kDefaultRabitqBits);
	return static_cast<uint32>(given->hash_bits);
}

uint32
graph_plan_degree(Relation index)
{
	const GraphReloptions *given = reinterpret_cast<const GraphReloptions *>(index->rd_options);

	return given != nullptr && given->degree > 0 ? static_cast<uint32>(given->degree) : kDefaultDegree;
}

double
graph_rows_per_width(const MetaData *meta, const GraphModel *model)
{
	return model->code_bits != 0
		? 0
		: rows_per_width(meta->element, static_cast<double>(meta_vector_bytes(meta)), model->degree);
}

bool
graph_looks_at_all(double width, double n_rows, double rows_per_width, double n_entries)
{
	return engine::graph::looks_at_all(width, n_rows) ||
		(width_setting == 0 && rows_per_width > 0 && width * rows_per_width + n_entries >= n_rows);
}

double
graph_most_recall(const GraphModel *model, double n_nearest)
{
	const engine::ivf::Calibration &calibration = model->calibration;
	const uint32 last = calibration.n_points - 1;
	double rows_before = std::log(kCalibratedRows);
	double before;

	if (calibration.n_queries == 0 || calibration.n_points == 0)
		return 1;
	before = static_cast<double>(calibration.recall[last]);
	for (uint32 d = 0; d < model->depths.n_depths && std::log(n_nearest) > rows_before; d++)
	{
		const double rows_here = std::log(static_cast<double>(model->depths.depths[d]));
		const double here = static_cast<double>(model->depths.recall[d][last]);
		const double share = Min((std::log(n_nearest) - rows_before) / (rows_here - rows_before), 1.0);

		before += (here - before) * share;
		rows_before = rows_here;
	}
	return before;
}

bool
graph_reaches(const GraphModel *model, double recall, double n_nearest)
{
	return recall < 1 &&
		graph_most_recall(model, n_nearest) >= recall - (n_nearest > kCalibratedRows ? kCloseEnoughDeep : kCloseEnough);
}

MissedTarget
graph_missed_target(const GraphModel *model, double n_nearest)
{
	if (width_setting > 0 || model->calibration.n_queries == 0 || graph_reaches(model, recall_target, n_nearest))
		return {};
	return {recall_target, graph_most_recall(model, n_nearest)};
}

bool
graph_describe_reach(Relation index, const MetaData *meta, const SegmentEntry *segment, RecallReach *reach)
{
	GraphModel model;
	double usual_width;

	if (!graph_read_model(index, meta, segment, &model, nullptr))
		return false;
	usual_width = kPlanWidth * wider_by_codes(model.code_bits);
	reach->measured = model.calibration.n_queries > 0;
	reach->recall = graph_most_recall(&model);
	reach->margin = kCloseEnough;
	reach->saves_nothing = engine::graph::looks_at_all(usual_width, static_cast<double>(segment->n_rows)) ||
		usual_width * graph_rows_per_width(meta, &model) >= static_cast<double>(segment->n_rows);
	reach->of = "of its graph";
	reach->hint = model.code_bits == 1 || model.code_bits == 2
		? "Use more bits, or no codes, a higher degree, an index of gpuivf, or a lower recall target."
		: engine::graph::hash_bits_valid(model.code_bits)
		? "Use codes \"rabitq\" instead of hash_bits, a higher degree, an index of gpuivf, or a lower recall target."
		: "Use a higher degree, an index of gpuivf, or a lower recall target.";
	return true;
}

double
graph_width(const MetaData *meta, const GraphModel *model, const SegmentEntry *segment, uint64 n_before, uint64 wanted,
	uint32 round)
{
	const double n_rows = static_cast<double>(segment->n_rows);
	// Rows that vacuum has marked take places in the width that no answer has. Without a wider search, rows of the
	// delta would fill the batch that lie farther away than rows that the graph has not reached.
	const double wider = n_rows / Max(n_rows - static_cast<double>(Min(segment->n_dead, segment->n_rows)), 1.0);
	const double last = static_cast<double>(n_before + wanted);
	const double width =
		std::ceil(search_width(model, batch_plan_target(recall_target, n_before, n_before + wanted), last) *
			std::pow(kRoundGrowth, round) * wider);

	// No measured width reaches the target: a wider search may take longer than a look at all rows, and find less.
	if (width_setting == 0 && !graph_reaches(model, recall_target, last))
		return Max(width, n_rows);
	return graph_looks_at_all(width, n_rows, graph_rows_per_width(meta, model), model->n_entries) ? Max(width, n_rows)
																								  : width;
}

GraphPlan
graph_plan(Relation index, const ScanDemand &demand, double wider)
{
	const uint32 code_bits = graph_plan_code_bits(index);
	GraphPlan plan = {};
	const SegmentEntry *largest;
	MetaData *meta = width_setting > 0 ? nullptr : meta_read_for_plan(index, &largest);
	GraphModel model;
	// Without a segment there is no graph; the model's page is ignored if a merge has reused it.
	const bool described =
		meta != nullptr && largest != nullptr && graph_read_model(index, meta, largest, &model, nullptr);

	plan.rows_per_width =
		code_bits != 0 ? 0 : rows_per_width(ElementType::kFloat32, kPlanBytes, graph_plan_degree(index));
	plan.reaches = !described || graph_reaches(&model, recall_target);
	plan.n_entries = described ? model.n_entries : std::sqrt(demand.rows);
	if (described)
		plan.rows_per_width = graph_rows_per_width(meta, &model);
	if (meta != nullptr)
		pfree(meta);
	for (uint64 begin, end = 0; plan.n_steps < kGraphPlanSteps && batch_plan_next_step(demand, &begin, &end);
		plan.n_steps++)
	{
		const double target = batch_plan_target(recall_target, begin, end);
		const double last = static_cast<double>(end);

		// Where no measured width reaches the target, all rows are looked at.
		plan.widths[plan.n_steps] = !described
			? std::ceil(
				  wider * width_for(kPlanWidth * wider_by_codes(code_bits) * recall_factor(target), last, code_bits))
			: graph_reaches(&model, recall_target, last) ? std::ceil(wider * search_width(&model, target, last))
														 : static_cast<double>(kMaxSearchWidth);
		plan.ends[plan.n_steps] = last;
	}
	return plan;
}

} // namespace vectorgpu::am
