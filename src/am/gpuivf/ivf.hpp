// gpuivf's storage parameters, the streams of a segment, the model (centroids and calibration), and the functions that
// its files share. PG dialect. See README.md.
#pragma once

#include "am/method/am_interface.hpp"
#include "am/method/scan_demand.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/calibration.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

// Streams of a segment beside the common ones. Stored: never renumber.
constexpr StreamKind kModelStream = static_cast<StreamKind>(4);    // one IvfModel
constexpr StreamKind kCentroidStream = static_cast<StreamKind>(5); // [n_lists, dim] float32
constexpr StreamKind kOffsetStream = static_cast<StreamKind>(6);   // [n_lists + 1] uint64: list l has places [l, l + 1)
constexpr StreamKind kListRowStream = static_cast<StreamKind>(7);  // [n_rows] uint32 by place: number of the row by TID
constexpr StreamKind kPlaceStream = static_cast<StreamKind>(8);    // [n_rows] uint32 by number: place of the row
constexpr StreamKind kCodeStream = static_cast<StreamKind>(9);     // codes by place; PQ, RaBitQ: in blocks of 32 places
constexpr StreamKind kRowTermStream =
	static_cast<StreamKind>(10); // [n_rows] float32 by place: PQ's term of the row, L2 only
constexpr StreamKind kCodecStream = static_cast<StreamKind>(11); // float32: the codec (code_model_floats)

constexpr int kMaxLists = 65536;

/// The data that a scan of lists reads. Stored: never renumber.
enum class IvfStorage : uint8
{
	kPlain = 0,  // the vectors of kVectors, as in the table: no codes. Of bit strings always
	kFp16 = 1,   // of float32 vectors: halves
	kSq8 = 2,    // a byte for each element
	kPq = 3,     // product quantisation of residuals
	kRabitq = 4, // bits of rotated residuals (engine/ivf/rabitq.hpp); not in indexes of release 0.2
};

/// The source of true distances for candidates. Stored: never renumber.
enum class IvfRefine : uint8
{
	kFull = 0, // kVectors as in the table: the canonical distance
	kFp16 = 1, // kVectors in halves, of float32 vectors: they bound distances, the table decides
	kNone = 2, // no kVectors: the table
};

/// MetaData::am_options. All zero: plain lists.
struct IvfOptions
{
	uint32 lists; // 0: by the number of rows
	IvfStorage storage;
	IvfRefine refine;
	uint8 pq_bits; // kPq: 4 or 8
	uint8 opq;     // kPq: 1: rows are rotated
	uint32 pq_m;   // kPq: sub-quantisers, 1 .. dim
	uint8 bits;    // kRabitq: of a dimension, 1 .. 8
};

static_assert(sizeof(IvfOptions) <= kAmOptionBytes);

inline const IvfOptions *
ivf_options(const MetaData *meta)
{
	return reinterpret_cast<const IvfOptions *>(meta->am_options);
}

/// How a segment's rows are divided into lists. A merge copies it from a segment to the next, until it trains anew.
struct IvfModel
{
	uint32 n_lists;
	uint16 candidates;     // refined for each of 10 wanted rows; 0: no codes, or not calibrated
	uint16 out_of_range;   // kSq8: rows with an element beyond the ranges, of 1,000 rows trained for
	uint64 id;             // random, of the training
	uint32 n_trained_rows; // rows of the segment that it was trained for
	uint32 apart;          // 1: taken over by a segment without these rows; 0 also in indexes of older releases
	double mean_error;     // of these rows: mean squared distance to the centroid, of those that have one
	double segment_error;  // the same of the rows of this segment
	double imbalance;      // of this segment's lists: n_lists * (sum of squared sizes) / rows²
	engine::ivf::Calibration calibration;
	engine::ivf::DepthCalibration depths; // none in indexes of older releases, whose models end here
};

/// Bytes of a model of older releases.
constexpr Size kShortModelBytes = offsetof(IvfModel, depths);

static_assert(kShortModelBytes == 568 &&
	sizeof(IvfModel) == 2656); // stored as it is: a model of another length is of another kind

/// ivf_options.cpp. Defines gpuivf.probes and the storage parameters.
void ivf_define_options();

/// The storage parameters that a user gave.
struct IvfStorageRequest
{
	int storage; // IvfStorageName
	int refine;  // IvfRefineName
	int pq_m;    // 0: not said
	int pq_bits; // 0: not said
	int opq;     // -1: not said
	int bits;    // 0: not said
};

enum IvfStorageName
{
	kStorageDefault,
	kStorageFp32,
	kStorageFp16,
	kStorageSq8,
	kStoragePq,
	kStorageRabitq,
};

enum IvfRefineName
{
	kRefineDefault,
	kRefineNone,
	kRefineFp16,
	kRefineFp32,
};

/// storage.cpp. Raises 22023 for parameters that contradict each other whatever the column is: CREATE INDEX and ALTER
/// INDEX refuse them.
void ivf_check_storage(const IvfStorageRequest *request);

/// storage.cpp. Sets what the index stores. Raises 22023 or 0A000 for parameters that the column does not allow.
void ivf_resolve_storage(
	const IvfStorageRequest *request, ElementType element, Metric metric, uint32 dim, IvfOptions *options);
uint32 ivf_default_pq_m(uint32 pq_bits, uint32 dim);
/// Bytes of a code; bits 0: the default.
Size ivf_rabitq_code_bytes(int bits, uint32 dim);

/// ivf_options.cpp. The number of lists for n_rows rows, by the storage parameter or by default.
uint32 ivf_lists_for(const IvfOptions *options, uint64 n_rows);

/// ivf_options.cpp. The lists that a scan's first round looks at for `wanted` rows, on average over queries, to find
/// the share `target` of them. asked_lists: the storage parameter `lists`; 0: the model's number was chosen.
double ivf_probes(const IvfModel *model, uint32 asked_lists, uint64 wanted, double target);

/// ivf_options.cpp. gpuivf.recall_target.
double ivf_recall_target();

/// ivf_options.cpp. True if ivf_probes depends on the number of rows wanted.
bool ivf_probes_follow_rows(const IvfModel *model);

/// ivf_search.cpp. The lists that a round of a scan (ApproximateSearch::round) for `wanted` rows behind n_before others
/// looks at. The fraction and a hash of the query decide whether it rounds up or down, always the same way for a query.
/// Notes in *missed a target for which it looks at all lists.
uint32 ivf_round_probes(const MetaData *meta, const SegmentEntry *segment, const IvfModel *model, uint32 round,
	uint64 n_before, uint64 wanted, const void *query, MissedTarget *missed);

/// The planner's estimate of a scan.
struct IvfPlan
{
	double n_lists;
	double n_searches;    // of lists: one for each step of ranks (batch_plan.hpp)
	double n_probes;      // of all of them together
	double n_passes;      // over all rows, where lists do not give enough
	double imbalance;     // rows of a list that is looked at over those of an average list
	double scanned_share; // of the index's pages: those that a pass over all lists reads
	double candidates;    // rows refined
	bool from_table;      // the table gives their distances
	bool has_codes;
	double list_cost; // of a comparison with a centroid, in comparisons with a row; bit strings: much more
	bool of_bits;     // a worker with a GPU searches these on its processors
};

/// ivf_options.cpp. A scan with this demand, by the lists and the calibration of the index's largest segment. Without a
/// segment, where gpuivf.probes is set and where index scans are turned off, by the storage parameters.
IvfPlan ivf_plan(Relation index, const ScanDemand &demand);

/// gpuivf.cpp. The access method under this name, a constant.
AccessMethod ivf_method(const char *name, bool named_for_pgvector);

/// ivf_options.cpp. amoptions; AccessMethod::store_options.
bytea *ivf_parse_options(Datum reloptions, bool validate);
void ivf_store_options(Relation index, const IndexShape *shape, uint8 *options);

/// ivf_options.cpp. The candidates for `wanted` rows by codes.
uint64 ivf_candidates(const IvfModel *model, uint64 wanted);

/// ivf_search_codes.cpp. The candidates of a segment for `wanted` rows by its codes: more if rows are dead; for a far
/// query all rows, or 32 times as many where the table is read for each.
uint64 ivf_segment_candidates(
	const MetaData *meta, const SegmentEntry *segment, const IvfModel *model, uint64 wanted, bool far);

/// far_query.cpp. *far: the query [dim], for cosine of length 1, lies so far from the segment's lists that calibration
/// does not tell its number of candidates. For vectors with codes. False if a page was foreign.
bool ivf_query_is_far(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfModel *model,
	const float *query, BufferAccessStrategy strategy, bool *far);

/// far_query.cpp. The same for a query of the index's element type.
bool ivf_stored_query_is_far(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfModel *model,
	const void *query, BufferAccessStrategy strategy, bool *far);

/// drift.cpp. The error of the rows of a segment of n_rows rows that came after the training, over that of the rows
/// trained for, as far as the means tell. Infinity: the rows trained for were all at their centroids.
double ivf_drift(const IvfModel *model, uint64 n_rows);

/// rows.cpp. Convert vectors [n, dim] to float32 [n, dim], bits to 0 and 1; to length 1 for cosine.
void ivf_rows_to_floats(const engine::DistanceSpec &spec, const char *vectors, uint64 n, float *floats);

/// rows.cpp. Reads the model of a segment that has rows. False if a page was foreign.
bool ivf_read_model(
	Relation index, const MetaData *meta, const SegmentEntry *segment, IvfModel *model, BufferAccessStrategy strategy);

/// ivf_format.cpp.
extern const SegmentFormat kIvfFormat;

/// ivf_check.cpp. SegmentFormat::check_entry, check.
const char *ivf_check_entry(const MetaData *meta, const SegmentEntry *segment);
void ivf_check(
	Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy);

/// rows.cpp. SegmentFormat::read_vectors.
bool ivf_read_vectors(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 first, uint64 n,
	char *dest, BufferAccessStrategy strategy);

/// ivf_options.cpp. The target of a search for `wanted` rows, if the number of lists follows from it, and it was
/// measured that no part of the lists reaches it: at least some searches look at all of them.
MissedTarget ivf_missed_target(const IvfModel *model, uint64 wanted, double target);

/// ivf_options.cpp. ApproximateMethod::describe_reach.
bool ivf_describe_reach(Relation index, const MetaData *meta, const SegmentEntry *segment, RecallReach *reach);

/// rows.cpp. ApproximateMethod::describe_lists.
bool ivf_describe_lists(Relation index, const MetaData *meta, ListStatistics *statistics);

/// ivf_search.cpp. AccessMethod::search_segment.
bool ivf_search_segment(const SegmentSearch *search);

/// ivf_worker.cpp. AccessMethod::worker_structure.
extern const WorkerStructure kIvfWorkerStructure;

/// ivf_cost.cpp. amcostestimate.
void ivf_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages);

} // namespace vectorgpu::am
