// Storage parameters and settings of gpuivf, and the defaults that follow from the number of rows. PG dialect.
#include "am/gpuivf/storage.hpp"

#include "am/scan/batch_plan.hpp"
#include "am/method/cost.hpp"
#include "am/method/pgvector_settings.hpp"
#include "common/limits.hpp"
#include "pg/define_setting.hpp"

#include <algorithm>
#include <cmath>

extern "C"
{
#include "access/reloptions.h"
#include "catalog/pg_type_d.h"
#include "utils/guc.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowsPerList = 40;        // fewer make centroids that are rows themselves
constexpr double kDefaultShare = 1.0 / 32; // of the lists, without calibration
constexpr uint64 kCalibratedRows = engine::ivf::kCalibratedRows;
constexpr double kMoreRows = 0.25;    // for k rows the probes grow by (k / 10) to this power, without calibration
constexpr double kPlanMoreRows = 0.3; // the same for the planner, which counts the selection too

constexpr double kCloseEnough = 0.005; // below a target: samples of 1,000 rows do not tell less apart

// Lists of an index of pgvector: its default, or what its documentation advises for the number of rows, if less.
constexpr double kPgvectorLists = 100;
constexpr double kPgvectorListRows = 1000;
// Lists beyond ivfflat.probes: which rows lie next to a border of lists is the chance of a training. Seven of
// pgvector's on made embeddings, 60 lists, found .947 to .983 of the ten nearest rows with one list.
constexpr double kMoreThanPgvector = 2;

constexpr double kBytesBesides = 16;     // of a row, beside vector and code: row id, number, place
constexpr double kMoreCandidates = 0.25; // for k rows 1 + (f - 1) (10 / k)^0.25 each, f: candidates for one of ten.
										 // SIFT, pq, loses 0.001 of 1,000 rows, with the square root 0.013
constexpr uint64 kSetRows = 2048;
constexpr double kDefaultCandidates = 16; // candidates for each of 10 wanted rows, without calibration
constexpr double kPlanCandidates =
	8; // the same for the planner, which does not know the calibration: 2 to 12 of real data

/// The storage parameters as core keeps them.
struct IvfReloptions
{
	int32 vl_len_;
	int lists;
	IvfStorageRequest storage;
};

int probes_setting = 0;
double recall_target = kDefaultRecallTarget;
relopt_kind options_kind;

relopt_enum_elt_def kStorages[] = {
	{"fp32", kStorageFp32},
	{"fp16", kStorageFp16},
	{"sq8", kStorageSq8},
	{"pq", kStoragePq},
	{"rabitq", kStorageRabitq},
	{nullptr, 0},
};

relopt_enum_elt_def kRefines[] = {
	{"none", kRefineNone},
	{"fp16", kRefineFp16},
	{"fp32", kRefineFp32},
	{nullptr, 0},
};

// A boolean with a state for "not given".
relopt_enum_elt_def kSwitches[] = {
	{"on", 1},
	{"true", 1},
	{"yes", 1},
	{"1", 1},
	{"off", 0},
	{"false", 0},
	{"no", 0},
	{"0", 0},
	{nullptr, 0},
};

void
define_storage_parameters()
{
	options_kind = add_reloption_kind();
	add_int_reloption(options_kind, "lists", "Number of inverted lists; 0: as the number of rows wants.", 0, 0,
		kMaxLists, AccessExclusiveLock);
	add_enum_reloption(options_kind, "storage", "What the lists are scanned by.", kStorages, kStorageDefault,
		"Valid values are \"fp32\", \"fp16\", \"sq8\", \"pq\", and \"rabitq\".", AccessExclusiveLock);
	add_enum_reloption(options_kind, "refine", "Vectors that the distances found by codes are refined by.", kRefines,
		kRefineDefault, "Valid values are \"none\", \"fp16\", and \"fp32\".", AccessExclusiveLock);
	add_int_reloption(options_kind, "pq_m", "Parts that a product quantiser codes; 0: as the dimensions want.", 0, 0,
		kMaxDimensions, AccessExclusiveLock);
	add_int_reloption(options_kind, "pq_bits", "Bits of the code of a part: 4 or 8.", 0, 0, 8, AccessExclusiveLock);
	add_int_reloption(options_kind, "bits", "Bits of a dimension in codes of rabitq, 1 to 8; 0: as by default.", 0, 0,
		engine::ivf::kMaxRabitqBits, AccessExclusiveLock);
	add_enum_reloption(options_kind, "opq", "Rotate the vectors before product quantisation.", kSwitches, -1,
		"Valid values are \"on\" and \"off\".", AccessExclusiveLock);
}

/// Candidates for `wanted` rows, if one of ten takes `factor`.
double
candidates_for(double factor, double wanted)
{
	const double rows = Max(wanted, static_cast<double>(kCalibratedRows));

	return rows * (1 + (factor - 1) * std::pow(kCalibratedRows / rows, kMoreCandidates));
}

/// The planner's bytes of a row's code: parameters may have changed since the build.
double
plan_code_bytes(const IvfStorageRequest *request, double dim)
{
	const uint32 bits = request->pq_bits == 4 ? 4 : 8;

	if (request->storage == kStorageFp16)
		return 2 * dim;
	if (request->storage == kStorageRabitq)
		return static_cast<double>(ivf_rabitq_code_bytes(request->bits, static_cast<uint32>(dim)));
	if (request->storage != kStoragePq)
		return dim;
	return bits / 8.0 * (request->pq_m > 0 ? request->pq_m : ivf_default_pq_m(bits, static_cast<uint32>(dim)));
}

/// The highest measured recall of `wanted` rows by fewer than all lists.
double
most_recall(const IvfModel *model, uint64 wanted)
{
	const engine::ivf::Calibration *calibration = &model->calibration;
	const engine::ivf::DepthCalibration *depths = &model->depths;
	const auto most = [model, calibration](const float *recall)
	{
		float best = 0;

		for (uint32 p = 0; p < calibration->n_points && calibration->probes[p] < model->n_lists; p++)
			best = Max(best, recall[p]);
		return best;
	};
	float reached = most(calibration->recall);

	for (uint32 d = 0; d < depths->n_depths && (d == 0 ? kCalibratedRows : depths->depths[d - 1]) < wanted; d++)
		reached = Min(reached, most(depths->recall[d]));
	return static_cast<double>(reached);
}

/// The least number of lists by ivfflat.probes, 0 where it is unknown. Of an index whose number of lists was chosen it
/// takes the same share as of pgvector's lists, if there are more than those.
double
pgvector_least_probes(const IvfModel *model, uint32 asked_lists)
{
	const double probes = pgvector_probes();
	const double theirs = Min(Max(model->n_trained_rows / kPgvectorListRows, 1.0), kPgvectorLists);

	if (probes == 0)
		return 0;
	return kMoreThanPgvector + (probes > 1 && asked_lists == 0 ? probes * Max(model->n_lists / theirs, 1.0) : probes);
}

/// Without a model, by those of SIFT.
double
planned_probes(double n_lists, double wanted, double target)
{
	if (probes_setting > 0)
		return probes_setting;
	return std::ceil(
		n_lists * kDefaultShare * recall_factor(target) * std::pow(Max(wanted / kCalibratedRows, 1.0), kPlanMoreRows));
}

} // namespace

void
ivf_define_options()
{
	define_storage_parameters();
	pg::define_int("gpuivf.probes", "Lists that a scan looks at first.", "0: chosen by gpuivf.recall_target.",
		&probes_setting, 0, 0, kMaxLists, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::define_real("gpuivf.recall_target", "Share of the nearest rows that a scan has to find, if gpuivf.probes is 0.",
		nullptr, &recall_target, kDefaultRecallTarget, 0, 1, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::reserve_prefix("gpuivf");
}

bytea *
ivf_parse_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt kParse[] = {
		{"lists", RELOPT_TYPE_INT, offsetof(IvfReloptions, lists)},
		{"storage", RELOPT_TYPE_ENUM, offsetof(IvfReloptions, storage.storage)},
		{"refine", RELOPT_TYPE_ENUM, offsetof(IvfReloptions, storage.refine)},
		{"pq_m", RELOPT_TYPE_INT, offsetof(IvfReloptions, storage.pq_m)},
		{"pq_bits", RELOPT_TYPE_INT, offsetof(IvfReloptions, storage.pq_bits)},
		{"opq", RELOPT_TYPE_ENUM, offsetof(IvfReloptions, storage.opq)},
		{"bits", RELOPT_TYPE_INT, offsetof(IvfReloptions, storage.bits)},
	};

	bytea *parsed = static_cast<bytea *>(
		build_reloptions(reloptions, validate, options_kind, sizeof(IvfReloptions), kParse, lengthof(kParse)));

	if (validate && parsed != nullptr)
		ivf_check_storage(&reinterpret_cast<const IvfReloptions *>(parsed)->storage);
	return parsed;
}

void
ivf_store_options(Relation index, const IndexShape *shape, uint8 *options)
{
	const IvfReloptions *given = reinterpret_cast<const IvfReloptions *>(index->rd_options);
	IvfOptions *stored = reinterpret_cast<IvfOptions *>(options);

	if (given == nullptr)
		return;
	stored->lists = static_cast<uint32>(given->lists);
	ivf_resolve_storage(&given->storage, shape->element, shape->metric, shape->dim, stored);
}

uint32
ivf_lists_for(const IvfOptions *options, uint64 n_rows)
{
	uint64 lists = options->lists;

	if (lists == 0)
		lists = Min(static_cast<uint64>(std::lround(std::sqrt(static_cast<double>(n_rows)))), n_rows / kRowsPerList);
	return static_cast<uint32>(Max(Min(lists, Min(n_rows, static_cast<uint64>(kMaxLists))), UINT64CONST(1)));
}

double
ivf_probes(const IvfModel *model, uint32 asked_lists, uint64 wanted, double target)
{
	// A set number holds for the usual numbers of rows; behind them a filter looks for rows that may lie anywhere.
	double probes = probes_setting * std::sqrt(static_cast<double>(Max(wanted, kSetRows)) / kSetRows);

	if (probes_setting == 0 && target >= 1)
		probes = model->n_lists; // a sample that finds all rows with fewer lists is no proof
	else if (probes_setting == 0 && model->calibration.n_queries > 0)
		probes = engine::ivf::probes_for_rows(model->calibration, model->depths, target, wanted);
	else if (probes_setting == 0)
		probes = std::ceil(model->n_lists * kDefaultShare) *
			std::pow(static_cast<double>(Max(wanted, kCalibratedRows)) / kCalibratedRows, kMoreRows);
	if (probes_setting == 0)
		probes = std::max(probes, pgvector_least_probes(model, asked_lists));
	return Max(Min(probes, static_cast<double>(model->n_lists)), 1.0);
}

MissedTarget
ivf_missed_target(const IvfModel *model, uint64 wanted, double target)
{
	const double reached = most_recall(model, wanted);

	if (probes_setting > 0 || model->calibration.n_queries == 0 || (target < 1 && target <= reached))
		return {};
	return {target, reached};
}

bool
ivf_describe_reach(Relation index, const MetaData *meta, const SegmentEntry *segment, RecallReach *reach)
{
	IvfModel model;

	if (!ivf_read_model(index, meta, segment, &model, nullptr))
		return false;
	reach->measured = model.calibration.n_queries > 0;
	reach->recall = most_recall(&model, kCalibratedRows);
	reach->margin = kCloseEnough;
	reach->of = "of a part of its lists";
	reach->hint = ivf_options(meta)->storage == IvfStorage::kPlain
		? "Use more lists, an index of gpugraph, or a lower recall target."
		: "Use finer codes or full vectors, more lists, or a lower recall target.";
	return true;
}

double
ivf_recall_target()
{
	return recall_target;
}

bool
ivf_probes_follow_rows(const IvfModel *model)
{
	return probes_setting == 0 && model->calibration.n_queries > 0 && model->depths.n_depths > 0;
}

uint64
ivf_candidates(const IvfModel *model, uint64 wanted)
{
	return static_cast<uint64>(std::ceil(
		candidates_for(model->candidates > 0 ? model->candidates : kDefaultCandidates, static_cast<double>(wanted))));
}

namespace
{

/// The steps of ranks, until one looks at all lists: from then on the order is exact.
void
plan_steps(const ScanDemand &demand, const IvfModel *model, uint32 asked_lists, IvfPlan *plan)
{
	plan->n_searches = plan->n_probes = plan->n_passes = plan->candidates = 0;
	for (uint64 begin, end = 0; batch_plan_next_step(demand, &begin, &end);)
	{
		const double target = batch_plan_target(recall_target, begin, end);
		const double rank = static_cast<double>(end) / demand.passing; // among all rows
		const double n_probes = model != nullptr ? ivf_probes(model, asked_lists, static_cast<uint64>(rank), target)
												 : Min(planned_probes(plan->n_lists, rank, target), plan->n_lists);

		if (n_probes >= plan->n_lists)
		{
			plan->n_passes =
				1 + batch_plan_exact_batches(demand, static_cast<double>(end), static_cast<double>(end - begin));
			return;
		}
		plan->n_searches++;
		plan->n_probes += Min(n_probes * plan->imbalance, plan->n_lists) / plan->imbalance;
		if (plan->has_codes)
			plan->candidates += Min(
				Max(kCalibratedRows * kDefaultCandidates, candidates_for(kPlanCandidates, static_cast<double>(end))),
				demand.rows);
	}
}

} // namespace

IvfPlan
ivf_plan(Relation index, const ScanDemand &demand)
{
	static const IvfReloptions kNothing = {};
	const IvfReloptions *given =
		index->rd_options != nullptr ? reinterpret_cast<const IvfReloptions *>(index->rd_options) : &kNothing;
	const IvfOptions options = {.lists = static_cast<uint32>(given->lists)};
	const double dim = Max(TupleDescAttr(RelationGetDescr(index), 0)->atttypmod, 1);
	const double row_bytes = dim / 8; // of a bit string
	const int storage = given->storage.storage;
	const double code_bytes = plan_code_bytes(&given->storage, dim);
	const double vector_bytes = given->storage.refine == kRefineNone ? 0
		: given->storage.refine == kRefineFp16                       ? 2 * dim
																	 : 4 * dim;
	const SegmentEntry *largest;
	MetaData *meta;
	IvfModel model;
	IvfPlan plan;
	bool described;

	plan.n_lists = ivf_lists_for(&options, static_cast<uint64>(demand.rows));
	plan.imbalance = 1;
	meta = probes_setting > 0 ? nullptr : meta_read_for_plan(index, &largest);
	// The model's page is ignored if a merge has reused it.
	described = meta != nullptr && largest != nullptr && ivf_read_model(index, meta, largest, &model, nullptr);
	if (described)
	{
		plan.n_lists = model.n_lists;
		plan.imbalance = Max(model.imbalance, 1.0);
	}
	if (meta != nullptr)
		pfree(meta);
	plan.has_codes =
		storage == kStorageFp16 || storage == kStorageSq8 || storage == kStoragePq || storage == kStorageRabitq;
	plan.from_table = plan.has_codes &&
		(given->storage.refine == kRefineNone || (storage == kStorageFp16 && given->storage.refine != kRefineFp32));
	plan.scanned_share =
		plan.has_codes ? (code_bytes + kBytesBesides / 2) / (code_bytes + vector_bytes + kBytesBesides) : 1;
	plan.of_bits = index->rd_opcintype[0] == BITOID; // the operator class's type: a column may be bit varying
	plan.list_cost = plan.of_bits ? (4 * dim + kBytesBesides) / (row_bytes + kBytesBesides) : 1;
	plan_steps(demand, described ? &model : nullptr, options.lists, &plan);
	return plan;
}

} // namespace vectorgpu::am
