// The state of a segment being written: rows wait in a temporary file until all are there, since lists are known only
// then. PG dialect. Used by ivf_format.cpp (the callbacks, the assignment), write_lists.cpp, train*.cpp and
// calibrate*.cpp.
#pragma once

#include "am/gpuivf/build_phases.hpp"
#include "am/gpuivf/codec.hpp"
#include "am/gpuivf/worker_build.hpp"
#include "engine/recall/near_copies.hpp"
#include "engine/distance/topk.hpp"
#include "storage/spool.hpp"

namespace vectorgpu::am
{

/// What rows are to the model: see drift.cpp.
struct RowErrors
{
	uint64 n;
	uint64 n_finite; // with a distance to their centroid
	double sum;      // of these (squared)
	uint64 n_out;    // with elements beyond what the codec was trained for
};

constexpr uint32 kDepthSamples = 2;
constexpr uint32 kNearDepth = 60;    // neighbours among all rows, beside those among samples
constexpr uint32 kMostWaiting = 256; // rows of a sample that are compared at a time

/// Queries of a calibration whose nearest rows are looked for among samples of all rows, each sample a part of the one
/// before. See calibrate_depths.cpp.
struct DepthQueries
{
	uint64 n;                                        // 0: none
	uint64 *numbers;                                 // [n] of the rows that they are
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

struct IvfWriter
{
	SegmentPlan plan;
	const MetaData *meta;
	Watch watch;
	IvfLayout layout;
	engine::DistanceSpec rows; // what waits in `vectors`: halves, if no more than these is kept
	Size vector_bytes;         // of such a row
	Size coded_bytes;          // of a row in `codes`
	Size memory;               // bytes: maintenance_work_mem
	uint64 n_rows;
	BufFile *vectors;       // in TID order
	BufFile *labels;        // uint32 list of each row, in TID order; null before rows are assigned
	BufFile *codes;         // code of each row, its term if there are such, in TID order; null without codes, or before
	BufFile *list_rows;     // kListRowStream; null before lists are written
	BufFile *ordered_codes; // as `codes`, by place; null before lists are written
	void *narrowed;         // scratch of one row
	IvfModel model;
	float *centroids;              // [model.n_lists, dim]
	Codec codec;                   // what codes are made with, trained or taken over with the model
	uint64 *offsets;               // [model.n_lists + 1], of the lists of this segment
	bool same_model[kMaxSegments]; // by number of the segment: rows from there have the model that is taken over
	bool has_trained_rows; // one of them has the rows that this model was trained for, as far as they are still there
	uint8 *old_rows;       // a bit for each row: it comes from such a segment; null: none does
	Size old_bytes;
	RowErrors old_errors; // of these rows,
	RowErrors new_errors; // and of the others
	WorkerBuild worker;   // what of it the worker does
	DepthQueries depths;  // of the calibration of a new model
};

/// train.cpp. Takes over the model of the segment that the rows come from, if it is still right for so many rows.
bool ivf_take_model(IvfWriter *writer);

/// train.cpp. The segment whose model the new one might take over: the largest of those merged, else of the index.
/// Null: none.
const SegmentEntry *ivf_model_source(const IvfWriter *writer);

/// drift.cpp. Finds out from which segments rows come that the model knows; before rows are put.
void ivf_begin_drift(IvfWriter *writer);

/// drift.cpp. Where the next row comes from, as SegmentFormat::put says it.
void ivf_note_source(IvfWriter *writer, const SegmentEntry *source);

/// drift.cpp. Rows from `first` on, [n], were assigned at these squared distances. is_out: or null.
void ivf_add_errors(IvfWriter *writer, uint64 first, uint64 n, const float *scores, const uint8 *is_out);
RowErrors ivf_all_errors(const IvfWriter *writer);
double ivf_mean_error(const IvfWriter *writer);

/// drift.cpp. The rows, or those that have come since, are of another kind than those that the model was trained for.
bool ivf_has_drifted(const IvfWriter *writer);

/// train.cpp. Trains a model on a sample of the rows. False: it gave way.
bool ivf_train(IvfWriter *writer);

/// train_codec.cpp. Trains the codec, for the centroids that there are now. False: it gave way.
bool ivf_train_codec(IvfWriter *writer);

/// train.cpp. A sample [n, dim] of the rows, evenly spread; of length 1 for cosine. palloc'd.
float *ivf_read_sample(IvfWriter *writer, uint64 n);

/// calibrate.cpp. Queries of a calibration of these rows; 0: too few rows for one. More, if a GPU finds their
/// neighbours.
uint64 ivf_calibration_queries(const IvfWriter *writer);

/// calibrate.cpp. As many of them as this process has time for.
uint64 ivf_own_queries(const IvfWriter *writer);

/// calibrate.cpp. What comparing a query with a row costs, in elements of a vector.
double ivf_compared_elements(const IvfWriter *writer);

/// Queries of a calibration: rows of the segment.
struct CalibrationQueries
{
	uint64 n;
	uint64 *numbers;       // [n] of the rows that they are
	char *vectors;         // [n, vector_bytes] as in IvfWriter::vectors
	engine::TopK *topks;   // [n] their true neighbours, found: row numbers in place of row ids, their own among them
	uint32 *ranks;         // [n, kCalibrationNeighbors] of the neighbours' lists; PG_UINT32_MAX where there is none
	uint32 *nearest_ranks; // the same of the very nearest, none of which is passed over
	uint32 *near_ranks;    // [n, kNearDepth] of more than those of `ranks`
};

constexpr uint64 kCalibrationNeighbors = 10;
// Rows of a table have nearer neighbours in it than queries from elsewhere, the more so the nearest: that one is passed
// over. With it, SIFT's own queries found 0.015 less than a target of 0.80.
constexpr uint64 kCalibrationPassedOver = 1;
// A query finds itself, and where rows come as copies of each other but for noise the other copies, which a query from
// elsewhere has no counterpart of: they are passed over as well, if they are no more than this leaves room for.
constexpr uint64 kCalibrationFound = engine::kCopiesAmong + 1;

/// What a query should find: of its nearest rows those behind the ones that are passed over.
struct TrueNeighbors
{
	uint64 nearest[kCalibrationFound]; // [n_found], of which [n_passed_over + n_as_near] count here: numbers of rows,
									   // in the order of their distance
	uint64 n_found;                    // of `nearest`
	uint64 n_passed_over;              // kCalibrationPassedOver, or as many copies of the query's row as are more
	uint64 n;                          // at most kCalibrationNeighbors
	uint64 n_nearer;                   // of these those that are nearer than the last
	uint64 n_as_near; // at least n: with the rows behind them that are as near as the last, as far as these were looked
					  // for; with codes n. Bit strings have many

	const uint64 *numbers() const { return nearest + n_passed_over; } // [n_as_near]
	uint64 n_copies() const { return n_passed_over > kCalibrationPassedOver ? n_passed_over : 0; }
};

/// calibrate.cpp. Chooses the queries, before rows are assigned. n is set: see ivf_calibration_queries.
void ivf_begin_calibration(IvfWriter *writer, CalibrationQueries *queries);

/// calibrate.cpp. Measures on some of the rows what recall how many probes give. Rows have been assigned. False: it
/// gave way.
bool ivf_calibrate(IvfWriter *writer, CalibrationQueries *queries);

/// calibrate.cpp. The rows that query i should find, at most kCalibrationNeighbors of them, once its neighbours have
/// been looked for.
void ivf_true_neighbors(const IvfWriter *writer, const CalibrationQueries *queries, uint64 i, TrueNeighbors *neighbors);

/// calibrate.cpp. ranks [n_lists]: how many lists come before each one, for a vector as it waits.
void ivf_rank_lists(const IvfWriter *writer, const char *vector, uint32 *ranks);

/// calibrate_depths.cpp. Takes some of the queries, or all. Before rows are assigned.
void ivf_begin_depths(const IvfWriter *writer, const CalibrationQueries *queries, DepthQueries *depths);

/// calibrate_depths.cpp. Looks at rows [n] from number `first` on, as they wait, that were assigned to these lists.
void ivf_sample_depths(
	const IvfWriter *writer, DepthQueries *depths, uint64 first, const char *vectors, const uint32 *labels, uint64 n);

/// calibrate_depths.cpp. Measures IvfModel::depths at the points of its calibration, when all rows have been looked at.
void ivf_calibrate_depths(IvfWriter *writer, const CalibrationQueries *queries);

/// calibrate_codes.cpp. How many candidates codes need, and what recall is left. The model is calibrated for the lists.
/// False: it gave way.
bool ivf_calibrate_codes(IvfWriter *writer, const CalibrationQueries *queries);

/// write_lists.cpp. SegmentFormat::write.
BlockNumber ivf_write_lists(IvfWriter *writer, SegmentEntry *entry, BlockNumber start);

/// progress.cpp. Reads n rows from number `first` on, as they wait; the file's position is behind them then.
void ivf_read_spooled(IvfWriter *writer, uint64 first, uint64 n, char *vectors);

/// progress.cpp. True if the merge should stop; looks at interrupts.
bool ivf_gives_way(const IvfWriter *writer);

/// progress.cpp. For pg_stat_progress_create_index.
void ivf_start_phase(const IvfWriter *writer, IvfBuildPhase phase);
void ivf_report_rows(const IvfWriter *writer, uint64 n_done);

} // namespace vectorgpu::am
