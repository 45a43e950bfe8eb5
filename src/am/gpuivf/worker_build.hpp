// The worker's part in a build or a merge: training, the lists and codes of rows, the neighbours of a calibration's
// queries. Whatever goes wrong is a false, and the backend does it by itself: labels, codes and neighbours are the
// same, centroids and codebooks as good. The worker keeps the samples, the centroids, what codes are made with and what
// the queries have found, never the table. PG dialect.
#pragma once

#include "am/gpuivf/assign.hpp"
#include "am/gpuivf/codec.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::am
{

struct IvfWriter;
struct CalibrationQueries;

struct WorkerBuild
{
	bool open;           // the worker has something of this build
	bool by_gpu;         // it trained the writer's model, on a GPU: what it compares costs little
	bool has_waited;     // for a worker that starts: once a build
	bool lists;          // ... the centroids of the writer's model
	bool codes;          // ... and what its codes are made with: rows that it assigns are coded, too
	bool queries;        // ... and the calibration's queries, which have seen all rows assigned so far
	uint64 n_seen;       // rows assigned by it, from the first on without a gap
	uint64 request_rows; // that fit one request
	uint32 n_queries;
	uint32 k;
	MemoryContextCallback on_reset; // ends the session if an error leaves something open
};

/// Begins a build by the worker: sample, training. On true centroids [spec.n_clusters, dim] has the n_used first. The
/// worker expects the queries of a calibration (ivf_calibration_queries).
bool worker_build_train(IvfWriter *writer, const engine::ivf::KMeansSpec *spec, float *centroids, uint32 *n_used);

/// Begins one with the centroids of the writer's model.
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
	Assigner *assigner;      // its arrays take the batch,
	const CodeArrays *coded; // ... and these its codes; null: there are to be none
	char *reply;             // as it comes
	Size reply_bytes;        // that there is room for
	char *next;              // [batch_rows] the batch that the worker has
	uint64 first;            // of it
	uint64 n;                // rows of it; 0: it has none
};

/// coded: of the assigner's batch_rows, or null.
void worker_assign_begin(WorkerAssign *state, IvfWriter *writer, Assigner *assigner, const CodeArrays *coded);

/// The next batch: vectors, labels and scores in the assigner, *n rows; *has_codes: they are coded. False: the worker
/// is out, and the rows behind the last batch have neither.
bool worker_assign_next(WorkerAssign *state, uint64 *n, bool *has_codes);
void worker_assign_end(WorkerAssign *state);

/// What the queries have found, into their topks, finished; false if they have not seen all rows.
bool worker_build_neighbors(IvfWriter *writer, CalibrationQueries *queries, uint64 k);

/// The worker forgets all of it.
void worker_build_end(IvfWriter *writer);

} // namespace vectorgpu::am
