// The state of a segment being written: rows wait, in memory or in a temporary file, until all have come, since lists
// are known only then. PG dialect. Used by ivf_format.cpp (the callbacks, the assignment), write_lists.cpp, train*.cpp
// and calibrate*.cpp.
#pragma once

#include "am/gpuivf/build_phases.hpp"
#include "am/gpuivf/codec.hpp"
#include "am/gpuivf/worker_build.hpp"
#include "engine/recall/near_copies.hpp"
#include "engine/distance/topk.hpp"
#include "storage/row_store.hpp"

namespace vectorgpu::am
{

/// The errors of rows under the model (drift.cpp).
struct RowErrors
{
	uint64 n;
	uint64 n_finite; // with a distance to their centroid
	double sum;      // of these (squared)
	uint64 n_out;    // with elements beyond the codec's ranges
};

constexpr uint32 kDepthSamples = 2;
constexpr uint32 kNearDepth = 60;    // neighbours among all rows, beside those among samples
constexpr uint32 kMostWaiting = 256; // rows of a sample that are compared at a time

/// Queries of a calibration that are compared with samples of all rows, each sample a part of the one before. See
/// calibrate_depths.cpp.
struct DepthQueries
{
	uint64 n;                                        // 0: none
	bool later;                                      // they are compared once all rows are assigned: rows are in memory
	uint64 *numbers;                                 // [n] of their rows
	char *vectors;                                   // [n, vector_bytes] as in IvfWriter::vectors
	engine::TopK *topks[kDepthSamples];              // [n] each: number << 32 | list in place of row ids
	engine::Neighbor *selected[kDepthSamples];       // theirs
	uint64 batch;                                    // rows that may wait, at most kMostWaiting
	uint64 n_waiting;                                // of the first sample, yet to be compared:
	char *waiting;                                   // [batch, vector_bytes]
	RowId *ids;                                      // [batch] as in topks
	double *scores;                                  // [batch], scratch
	uint8 left_out[kDepthSamples][kMostWaiting / 8]; // a bit for each of these rows: it is not in the sample
};

/// Queries of a calibration: rows of the segment.
struct CalibrationQueries
{
	uint64 n;              // 0: none
	uint64 *numbers;       // [n] of their rows
	char *vectors;         // [n, vector_bytes] as in IvfWriter::vectors
	engine::TopK *topks;   // [n] their true neighbours: row numbers in place of row ids, their own row among them
	uint32 *ranks;         // [n, kCalibrationNeighbors] of the neighbours' lists; PG_UINT32_MAX: no neighbour
	uint32 *nearest_ranks; // the same for the very nearest rows; none is passed over
	uint32 *near_ranks;    // [n, kNearDepth] the same for more neighbours
};

struct IvfWriter
{
	SegmentPlan plan;
	const MetaData *meta;
	Watch watch;
	IvfLayout layout;
	engine::DistanceSpec rows; // the type of `vectors`: halves, if the segment keeps no more
	Size vector_bytes;         // of such a row
	Size coded_bytes;          // of a row in `codes`
	Size memory;               // bytes: maintenance_work_mem
	uint64 n_rows;
	RowStore vectors;       // in TID order
	BufFile *labels;        // uint32 list of each row, in TID order; null before rows are assigned
	RowStore codes;         // code and term of each row, in TID order; not begun without codes, or before they are made
	BufFile *list_rows;     // kListRowStream; null before lists are written
	BufFile *ordered_codes; // as `codes`, by place; null before lists are written
	void *narrowed;         // scratch of one row
	IvfModel model;
	float *centroids;              // [model.n_lists, dim]
	Codec codec;                   // trained, or taken over with the model
	bool has_codec;                // the codec that needs no lists is trained, for the model that is being made
	uint64 *offsets;               // [model.n_lists + 1], of the lists of this segment
	bool same_model[kMaxSegments]; // by number of the segment: it has the model that is taken over
	bool has_trained_rows;         // one of them has the rows that this model was trained for
	uint8 *old_rows;               // a bit for each row: it comes from such a segment; null: none does
	Size old_bytes;
	RowErrors old_errors;       // of these rows,
	RowErrors new_errors;       // and of the others
	WorkerBuild worker;         // the worker's part
	CalibrationQueries queries; // of a new model, until it is calibrated
	DepthQueries depths;
};

/// train.cpp. Takes over the model of the segment that the rows come from, if it still fits the number of rows.
bool ivf_take_model(IvfWriter *writer);

/// train.cpp. The segment whose model the new one might take over: the largest of those merged, else of the index.
/// Null: none.
const SegmentEntry *ivf_model_source(const IvfWriter *writer);

/// drift.cpp. Finds the segments that have the model; before rows are put.
void ivf_begin_drift(IvfWriter *writer);

/// drift.cpp. Notes the source of the next row (SegmentFormat::put).
void ivf_note_source(IvfWriter *writer, const SegmentEntry *source);

/// drift.cpp. Adds rows [first, first + n), assigned at these squared distances. is_out: may be null.
void ivf_add_errors(IvfWriter *writer, uint64 first, uint64 n, const float *scores, const uint8 *is_out);
RowErrors ivf_all_errors(const IvfWriter *writer);
double ivf_mean_error(const IvfWriter *writer);

/// drift.cpp. True if the rows, or the new ones among them, differ from those that the model was trained for.
bool ivf_has_drifted(const IvfWriter *writer);

/// train.cpp. Trains a model on a sample of the rows. False: it gave way.
bool ivf_train(IvfWriter *writer);

/// train_codec.cpp. Trains the codec for the writer's centroids. False: it gave way.
bool ivf_train_codec(IvfWriter *writer);

/// train_codec.cpp. Trains a codec that needs no centroids (SQ8, RaBitQ), if it is not trained yet. The model has its
/// id.
void ivf_train_codec_alone(IvfWriter *writer);

/// train.cpp. A sample [n, dim] of the rows, evenly spread; of length 1 for cosine. palloc'd.
float *ivf_read_sample(IvfWriter *writer, uint64 n);

/// calibrate.cpp. The number of queries of a calibration; 0: too few rows. More, if a GPU finds their neighbours.
uint64 ivf_calibration_queries(const IvfWriter *writer);

/// calibrate.cpp. The number of queries that this process has time for.
uint64 ivf_own_queries(const IvfWriter *writer);

/// calibrate.cpp. The cost of comparing a query with a row, in elements of a vector.
double ivf_compared_elements(const IvfWriter *writer);

constexpr uint64 kCalibrationNeighbors = 10;
// Rows of a table have nearer neighbours in it than queries from elsewhere, above all the nearest one: that is passed
// over. With it, SIFT's own queries found 0.015 less than a target of 0.80.
constexpr uint64 kCalibrationPassedOver = 1;
// A query finds itself, and the noisy copies of its row if the table has such, which a query from elsewhere would not
// find: they are passed over as well, as far as there is room for them here.
constexpr uint64 kCalibrationFound = engine::kCopiesAmong + 1;

/// The rows that a query should find: its nearest rows without those passed over.
struct TrueNeighbors
{
	uint64 nearest[kCalibrationFound]; // [n_found], of which [n_passed_over + n_as_near] count here: numbers of rows,
									   // in the order of their distance
	uint64 n_found;                    // of `nearest`
	uint64 n_passed_over;              // kCalibrationPassedOver, or the copies of the query's row if they are more
	uint64 n;                          // at most kCalibrationNeighbors
	uint64 n_nearer;                   // those of them that are nearer than the last
	uint64 n_as_near; // at least n: with the rows behind them that are as near as the last, as far as these were looked
					  // for; with codes n. Bit strings have many

	const uint64 *numbers() const { return nearest + n_passed_over; } // [n_as_near]
	uint64 n_copies() const { return n_passed_over > kCalibrationPassedOver ? n_passed_over : 0; }
};

/// calibrate.cpp. Chooses the queries, before rows are assigned. n is set: see ivf_calibration_queries.
void ivf_begin_calibration(IvfWriter *writer, CalibrationQueries *queries);

/// calibrate.cpp. Measures recall by probes on some of the rows, IvfWriter::queries, which are none then. Rows have
/// been assigned. False: it gave way.
bool ivf_calibrate(IvfWriter *writer);

/// calibrate.cpp. The rows that query i should find, at most kCalibrationNeighbors, after the search for its
/// neighbours.
void ivf_true_neighbors(const IvfWriter *writer, const CalibrationQueries *queries, uint64 i, TrueNeighbors *neighbors);

/// calibrate.cpp. ranks [n_lists]: the rank of each list for a waiting vector.
void ivf_rank_lists(const IvfWriter *writer, const char *vector, uint32 *ranks);

/// calibrate_depths.cpp. Chooses some of the queries, or all. Before rows are assigned.
void ivf_begin_depths(const IvfWriter *writer, const CalibrationQueries *queries, DepthQueries *depths);

/// calibrate_depths.cpp. Compares waiting rows [first, first + n), which were assigned to these lists, unless this is
/// done later.
void ivf_sample_depths(
	const IvfWriter *writer, DepthQueries *depths, uint64 first, const char *vectors, const uint32 *labels, uint64 n);

/// calibrate_depths.cpp. Measures IvfModel::depths at the points of its calibration, after all rows were assigned.
/// False: it gave way.
bool ivf_calibrate_depths(IvfWriter *writer, const CalibrationQueries *queries);

/// calibrate_codes.cpp. Measures how many candidates codes need, and their recall. The model is calibrated for the
/// lists. False: it gave way.
bool ivf_calibrate_codes(IvfWriter *writer, const CalibrationQueries *queries);

/// calibrate_codes.cpp. The most bytes of memory that this passes to ivf_reserve.
Size ivf_code_calibration_bytes(const IvfWriter *writer, const CalibrationQueries *queries);

/// write_lists.cpp. True if rows and codes are in memory, with room for the numbers of all rows and for `others`: bytes
/// that the caller holds.
bool ivf_are_in_memory(const IvfWriter *writer, Size others);

/// write_lists.cpp. Numbers [n_rows] of the rows, list by list, palloc'd.
uint32 *ivf_order_rows(IvfWriter *writer);

/// write_lists.cpp. SegmentFormat::write.
BlockNumber ivf_write_lists(IvfWriter *writer, SegmentEntry *entry, BlockNumber start);

/// progress.cpp. Reads waiting rows [first, first + n); sets the file's position behind them.
/// progress.cpp. Bytes that rows and codes may take in memory, beside those that are there already.
Size ivf_room_for_rows(const IvfWriter *writer);

/// progress.cpp. Have rows and codes leave memory if they do not leave n_bytes.
void ivf_reserve(IvfWriter *writer, Size n_bytes);

void ivf_read_spooled(IvfWriter *writer, uint64 first, uint64 n, char *vectors);

/// progress.cpp. True if the merge should stop; looks at interrupts.
bool ivf_gives_way(const IvfWriter *writer);

/// progress.cpp. For pg_stat_progress_create_index.
void ivf_start_phase(const IvfWriter *writer, IvfBuildPhase phase);
void ivf_report_rows(const IvfWriter *writer, uint64 n_done);

} // namespace vectorgpu::am
