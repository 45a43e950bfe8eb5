// gpugraph's storage parameters, the streams of a segment, its model, and the functions that its files share. PG
// dialect. See README.md.
#pragma once

#include "am/method/am_interface.hpp"
#include "am/method/scan_demand.hpp"
#include "engine/graph/build.hpp"
#include "engine/graph/codes/codes.hpp"
#include "engine/interface/graph_layout.hpp"
#include "engine/ivf/calibration.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

// Streams of a segment beside the common ones. Stored: never renumber.
constexpr StreamKind kGraphStream = static_cast<StreamKind>(4); // one GraphModel
constexpr StreamKind kPartStream = static_cast<StreamKind>(5);  // [n_parts] GraphPart
constexpr StreamKind kEntryStream = static_cast<StreamKind>(6); // [n_entries] uint32 row numbers
constexpr StreamKind kEntryVectorStream =
	static_cast<StreamKind>(7);                                // [n_entries] their vectors, so that they lie together
constexpr StreamKind kEdgeStream = static_cast<StreamKind>(8); // [n_rows, degree] uint32 row numbers; kNoNode: none

constexpr StreamKind kHashStream =
	static_cast<StreamKind>(9); // with codes: GraphHashHead, float32 [code_model_floats], codes of the entry points
constexpr StreamKind kCodeStream = static_cast<StreamKind>(10); // with codes: [n_rows, code_bytes]

constexpr int kLeastDegree = 4;
constexpr uint32 kDefaultDegree = 32;       // where none is given ...
constexpr uint32 kMostAutomaticDegree = 64; // ... and if with that one searches do not reach the default target
constexpr int kMaxSearchWidth = 1000000;

/// MetaData::am_options.
struct GraphOptions
{
	uint32 degree;    // 0: chosen for each segment (degree.cpp)
	uint32 prune;     // engine::graph::PruneKind
	uint32 code_bits; // kind of codes (engine/graph/codes/code_scores.hpp); 0: no codes
};

static_assert(sizeof(GraphOptions) <= kAmOptionBytes);

inline const GraphOptions *
graph_options(const MetaData *meta)
{
	return reinterpret_cast<const GraphOptions *>(meta->am_options);
}

/// The graph of a segment.
struct GraphModel
{
	uint32 degree;
	uint32 n_parts;
	uint32 n_entries;
	uint32 code_bits;                     // as GraphOptions
	engine::ivf::Calibration calibration; // recall of the 10 nearest by the width of the search (`probes`)
	engine::ivf::DepthCalibration depths; // of more rows; none in segments of older releases, which end before it
};

/// True if a segment's description has one of its two lengths.
inline bool
graph_model_size_valid(uint64 n_bytes)
{
	return n_bytes == sizeof(GraphModel) || n_bytes == offsetof(GraphModel, depths);
}

/// Rows that merges have changed since the graph was built anew (engine/graph/insert.hpp: changed_rows). Stored in the
/// place of a calibration's last point, which is never used: zero in indexes of older releases.
inline uint32
graph_changed_rows(const GraphModel *model)
{
	return model->calibration.probes[engine::ivf::kMaxCalibrationPoints - 1];
}

inline void
graph_set_changed_rows(GraphModel *model, uint32 changed)
{
	model->calibration.probes[engine::ivf::kMaxCalibrationPoints - 1] = changed;
}

/// Rows [first_row, first_row + n_rows) have a graph of their own, with entries [first_entry, …): as large as memory
/// allows.
struct GraphPart
{
	uint32 first_row;
	uint32 n_rows;
	uint32 first_entry;
	uint32 n_entries;
};

/// degree.cpp. Edges of a row in a segment; 0 without rows.
uint32 graph_segment_degree(const SegmentEntry *segment);

/// graph_options.cpp. Defines the settings and the storage parameters.
void graph_define_options();

/// graph_options.cpp. The highest calibrated recall of the n_nearest nearest rows; 1 if the graph was not calibrated.
double graph_most_recall(const GraphModel *model, double n_nearest = engine::ivf::kCalibratedRows);

/// graph_options.cpp. True if a search by the graph reaches this recall of the n_nearest nearest rows, which is below
/// 1; else only a look at all rows does.
bool graph_reaches(const GraphModel *model, double recall, double n_nearest = engine::ivf::kCalibratedRows);

/// graph_options.cpp. The recall target, if the width follows from it and it was measured that the graph does not reach
/// it for the n_nearest nearest rows.
MissedTarget graph_missed_target(const GraphModel *model, double n_nearest);

/// graph_options.cpp. ApproximateMethod::describe_reach.
bool graph_describe_reach(Relation index, const MetaData *meta, const SegmentEntry *segment, RecallReach *reach);

/// graph_options.cpp. The width of a pass's search of a segment, for a batch of `wanted` rows behind n_before others.
/// At least n_rows where a look at all rows is faster, or alone reaches gpugraph.recall_target.
double graph_width(const MetaData *meta, const GraphModel *model, const SegmentEntry *segment, uint64 n_before,
	uint64 wanted, uint32 round);

/// graph_options.cpp. The rows that a look at all rows passes while a search by the graph handles one row of its width;
/// 0: not known, with codes.
double graph_rows_per_width(const MetaData *meta, const GraphModel *model);

/// graph_options.cpp. True if a processor looks at all rows instead of a search of this width that begins with a look
/// at n_entries entry points. With codes, and where the width was set, only if the engine does.
bool graph_looks_at_all(double width, double n_rows, double rows_per_width, double n_entries);

constexpr uint32 kGraphPlanSteps = 12; // a scan for more rows looks at all rows

/// The planner's estimate of a scan, until it has the rows that are wanted.
struct GraphPlan
{
	uint32 n_steps;
	double widths[kGraphPlanSteps]; // [n_steps] of the steps of ranks (batch_plan.hpp),
	double ends[kGraphPlanSteps];   // and the last rank of each
	double rows_per_width;          // graph_rows_per_width
	double n_entries;               // entry points, all of which each scan looks at
	bool reaches; // false: it looks at all rows, since no measured width reaches gpugraph.recall_target
};

/// graph_options.cpp. By the calibration of the largest segment; without a segment, and where index scans are turned
/// off, by that of SIFT. wider: how many times as wide searches are as without conditions on key columns.
GraphPlan graph_plan(Relation index, const ScanDemand &demand, double wider);

/// graph_options.cpp. Edges of a row, and bits of its code, for the planner.
uint32 graph_plan_degree(Relation index);
uint32 graph_plan_code_bits(Relation index);

/// gpugraph.cpp. The access method under this name, a constant.
AccessMethod graph_method(const char *name, bool named_for_pgvector);

/// graph_options.cpp. amoptions; AccessMethod::store_options.
bytea *graph_parse_options(Datum reloptions, bool validate);
void graph_store_options(Relation index, const IndexShape *shape, uint8 *options);

/// model.cpp. Reads the model of a segment that has rows. False if a page was foreign.
bool graph_read_model(Relation index, const MetaData *meta, const SegmentEntry *segment, GraphModel *model,
	BufferAccessStrategy strategy);

/// model.cpp. Reads parts [n_parts] and entries [n_entries], palloc'd in the current context, and checks their bounds.
/// False if a page was foreign.
bool graph_read_entries(Relation index, const MetaData *meta, const SegmentEntry *segment, const GraphModel *model,
	GraphPart **parts, uint32 **entries, BufferAccessStrategy strategy);

/// model.cpp. Bytes of kHashStream before the codes of entry points.
constexpr Size
graph_code_model_bytes(uint32 code_bits, uint32 dim)
{
	return sizeof(engine::GraphHashHead) + engine::graph::code_model_floats(code_bits, dim) * sizeof(float);
}

/// model.cpp. For a segment with codes: reads the code functions, and the codes of the entry points [n_entries],
/// palloc'd in one piece, which graph_free_hash frees. False if a page was foreign: then nothing is to be freed.
bool graph_read_hash(Relation index, const MetaData *meta, const SegmentEntry *segment, const GraphModel *model,
	engine::graph::CodeModel *hash, uint8 **entry_codes, BufferAccessStrategy strategy);
void graph_free_hash(engine::graph::CodeModel *hash);

/// graph_format.cpp.
extern const SegmentFormat kGraphFormat;

/// graph_check.cpp. SegmentFormat::check_entry, check.
const char *graph_check_entry(const MetaData *meta, const SegmentEntry *segment);
void graph_check(
	Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy);

/// graph_search.cpp. AccessMethod::search_segment.
bool graph_search_segment(const SegmentSearch *search);

/// graph_worker.cpp. AccessMethod::worker_structure.
extern const WorkerStructure kGraphWorkerStructure;

/// graph_cost.cpp. amcostestimate.
void graph_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages);

} // namespace vectorgpu::am
