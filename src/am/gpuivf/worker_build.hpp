// The worker's part in a build or a merge: training, the lists and codes of rows, the neighbours of a calibration's
// queries. Every failure returns false, and the backend does the work by itself: labels, codes and neighbours are the
// same, centroids and codebooks as good. The worker keeps the samples, the centroids, the codec and the queries'
// neighbours, never the table. PG dialect.
#pragma once

#include "am/gpuivf/assign.hpp"
#include "am/gpuivf/codec.hpp"
#include "bridge/rows_request.hpp"
#include "engine/ivf/counts/code_counts.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::am
{

struct IvfWriter;
struct CalibrationQueries;

struct WorkerBuild
{
	bool open;           // the worker has state of this build
	bool by_gpu;         // it trained the writer's model on a GPU: comparisons cost little
	bool has_waited;     // the backend waits for a starting worker once a build
	bool lists;          // the worker has the centroids of the writer's model,
	bool codes;          // ... and the codec: it codes the rows that it assigns,
	bool queries;        // ... and the calibration's queries, which have seen all rows assigned so far
	uint64 n_seen;       // rows assigned by it, from the first on without a gap
	uint64 request_rows; // that fit one request
	uint32 n_queries;
	uint32 k;
	MemoryContextCallback on_reset; // ends the session after an error
};

/// Begins a build by the worker: sample, training. On true centroids [spec.n_clusters, dim] has the n_used first. The
/// worker expects the queries of a calibration (ivf_calibration_queries).
bool worker_build_train(IvfWriter *writer, const engine::ivf::KMeansSpec *spec, float *centroids, uint32 *n_used);

/// Begins a build with the centroids of the writer's model.
bool worker_build_take_model(IvfWriter *writer);

/// Trains the codec (begun, its floats yet to be filled in) on a sample of n rows. False: the backend does it; rows may
/// still be assigned.
bool worker_build_train_codec(IvfWriter *writer, uint64 n);

/// Hands over the writer's codec, if the worker has the centroids and makes such codes.
void worker_build_take_codec(IvfWriter *writer);

/// Sends the queries; before rows are assigned.
void worker_build_queries(IvfWriter *writer, const CalibrationQueries *queries, uint64 k);

/// Labels, scores and codes of all rows, in order, a batch at a time: the worker assigns one batch while the next is
/// read.
struct WorkerAssign
{
	IvfWriter *writer;
	Assigner *assigner;          // its arrays take the batch,
	const CodeArrays *coded;     // ... and these the terms of its codes and more; null: no codes
	char *reply;                 // scratch for a reply
	Size reply_bytes;            // room in `reply`
	const uint8 *codes;          // [n, code_bytes] of the last batch, there
	bridge::RowsRequest request; // the last one
	char *next;                  // [batch_rows] the batch that the worker has: where the rows wait in memory, or
	char *read[2];               // ... read into one of these; the first is the assigner's own
	uint64 first;                // of it
	uint64 n;                    // rows of that batch; 0: it has none
};

/// coded: of the assigner's batch_rows, or null.
void worker_assign_begin(WorkerAssign *state, IvfWriter *writer, Assigner *assigner, const CodeArrays *coded);

/// Gets the next batch: vectors, labels and scores in the assigner, *n rows; *has_codes: they are coded. False: the
/// worker has failed, and the rows behind the last batch have neither.
bool worker_assign_next(WorkerAssign *state, uint64 *n, bool *has_codes);
void worker_assign_end(WorkerAssign *state);

/// Gets the queries' neighbours into their topks, finished. False: they have not seen all rows.
bool worker_build_neighbors(IvfWriter *writer, CalibrationQueries *queries, uint64 k);

/// worker_counts.cpp. Counts the codes of all rows for queries [n], into their `better`, if the worker made the codes.
/// False: it has not counted them, or *gave_way.
bool worker_count_codes(IvfWriter *writer, const engine::ivf::CountSampling *sampling,
	engine::ivf::CountedQuery **queries, uint64 n, bool *gave_way);

/// Lets the worker forget the build.
void worker_build_end(IvfWriter *writer);

} // namespace vectorgpu::am
