// Host side of the kernels: argument structures and launchers. A launcher enqueues on the given stream and returns
// cudaGetLastError(). Pointers are device memory. Called by gpu/cuda; no locks, no allocation.
//
// Names of sizes: n_rows of one block of rows (a "source"); n_queries of one chunk of a batch; dim_pad = dim rounded up
// to 32 elements, filled with zeros in rows and queries alike, so canonical lanes beyond the end add zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "common/types.hpp"

namespace vectorgpu::kernels
{

/// How the elements of a source are kept on the device. Rows are kept in a narrower form only where it is exact.
enum class Form : uint8_t
{
	kFloat32 = 0,
	kFloat16 = 1,
	kByte = 2, // whole numbers 0 ... 255
	kBit = 3,
	kScaled = 4, // signed bytes times a factor of the row: not exact, for the filter alone (filter/scaled.hpp)
};

constexpr uint32_t kLanes = 32;        // canonical lanes, elements of a padding group
constexpr uint32_t kBitPadBytes = 16;  // rows of bits are padded to this
constexpr uint32_t kMaxSelectK = 2048; // largest k of the selection kernels
constexpr uint32_t kMaxGroups = 4096;  // groups of rows with a minimum each

constexpr uint64_t kNanKey = 0xFFFFFFFFFFFFFFFEu;      // sorts after all numbers
constexpr uint64_t kExcludedKey = 0xFFFFFFFFFFFFFFFFu; // dead, or not after `after`: never returned

/// One result: key orders as the score does (order.cuh), ties by row.
struct Entry
{
	uint64_t key;
	uint64_t row;
};

/// The score of a key; kNanKey is the quiet NaN.
double key_to_score(uint64_t key);
uint64_t score_to_key(double score);

/// A block of rows.
struct Rows
{
	const void *vectors = nullptr;     // [n_rows, pitch_bytes], 16-byte aligned
	const uint64_t *row_ids = nullptr; // [n_rows]
	const uint8_t *dead = nullptr;     // bitmap, bit i of byte i / 8 is 1 << (i % 8); null: none dead
	int64_t dead_start = 0;            // bit of row 0; bits outside [0, dead_bits) are alive
	uint64_t dead_bits = 0;
	uint32_t n_rows = 0;
	uint32_t pitch_bytes = 0;
	Form form = Form::kFloat32;
};

/// A chunk of a batch.
struct Queries
{
	const void *vectors = nullptr;      // [n_queries, dim_pad] float32, or [n_queries, bit pitch]
	const uint32_t *k = nullptr;        // [n_queries], 1 ... kMaxSelectK
	const Entry *after = nullptr;       // [n_queries]; null: none. {0, 0} and has_after 0: none for this query
	const uint8_t *has_after = nullptr; // [n_queries]
	uint32_t n_queries = 0;
	uint32_t dim_pad = 0; // elements; bits: bytes of the pitch
};

/// A chunk on its way to the device: the first kernel of a search copies it from pinned memory. Vectors come first.
struct Incoming
{
	const void *from = nullptr; // null: the chunk is there
	void *to = nullptr;         // Queries::vectors
	size_t bytes = 0;           // multiple of 16
};

constexpr uint32_t kMostParts = 4;

/// Sources of one form that are searched together: row r of part i has the number first_row[i] + r.
struct RowParts
{
	Rows rows[kMostParts];
	const float *values[kMostParts] = {}; // launch_row_values
	uint32_t first_row[kMostParts] = {};  // ascending multiples of a tile's rows
	uint32_t n = 0;
};

/// The head of a query's answer, in pinned host memory. It is written after the query's entries, the mark last.
struct AnswerHead
{
	uint32_t n_entries;
	uint32_t n_rescored;
	uint32_t redo; // 1: the query has no answer and has to be searched again
	uint32_t mark;
};

/// Where a search writes its results directly: pinned host memory.
struct Answers
{
	AnswerHead *heads = nullptr; // [n_queries]; null: results are not written to the host
	Entry *entries = nullptr;    // [n_queries, stride]
	uint32_t stride = 0;
	uint32_t mark = 0; // the mark that heads get
};

/// Results of a query so far, ascending: best [n_queries, stride], n_best [n_queries].
struct Best
{
	Entry *entries = nullptr;
	uint32_t *counts = nullptr;
	uint32_t stride = 0;
};

/// Candidates of each query: [n_queries, capacity]. counts may exceed capacity: candidates beyond it are not stored.
struct Candidates
{
	uint64_t *keys = nullptr;
	uint32_t *rows = nullptr;   // row of the source
	float *estimates = nullptr; // filter only; NaN: no estimate, keep
	uint32_t *counts = nullptr;
	uint32_t capacity = 0;
};

// --- scores.cu, bits.cu: canonical scores of all rows ---------------------------------------------------------------

struct ScoreArgs
{
	Metric metric = Metric::kL2;
	Rows rows;
	Queries queries;
	uint64_t *keys = nullptr; // out [n_queries, key_stride]
	uint64_t key_stride = 0;
	uint64_t *minima = nullptr; // out [n_queries, kMaxGroups], smallest key of each group; null: not computed
	uint32_t group_rows = 0;    // multiple of 32, ceil(n_rows / group_rows) <= kMaxGroups
};

/// Keys of all rows for all queries. Reproducible: each key is the canonical score.
[[nodiscard]] cudaError_t launch_scores(const ScoreArgs &args, cudaStream_t stream);

/// A small source that is searched after others.
struct BoundedScanArgs
{
	Metric metric = Metric::kL2;
	Rows rows;
	Queries queries;
	Best best;             // of the sources before; its k-th row is the bound
	Candidates candidates; // keys, rows, counts; capacity >= n_rows. counts are 0 before and after
};

/// Set best to the k first of best and the rows, in two launches. Fast if best's k-th rows exclude nearly all rows;
/// right in any case. Not for bits. Reproducible.
[[nodiscard]] cudaError_t launch_bounded_scan(const BoundedScanArgs &args, uint32_t max_k, cudaStream_t stream);

struct RescoreArgs
{
	Metric metric = Metric::kL2;
	Rows rows;
	Queries queries;
	Candidates candidates; // keys are written for the first min(count, capacity)
};

[[nodiscard]] cudaError_t launch_rescore(const RescoreArgs &args, cudaStream_t stream);

// --- copy.cu: small copies -------------------------------------------------------------------------------------------

/// Copy bytes, rounded up to 16, between device memory and pinned host memory, in the order of the stream. Both are
/// aligned to 16.
[[nodiscard]] cudaError_t launch_copy(void *to, const void *from, size_t bytes, cudaStream_t stream);

/// Larger copies are as fast by the copy engine (PCIe bandwidth against the engine's start).
constexpr size_t kMostCopiedByKernel = 64 * 1024;

// --- select.cu: the k first -----------------------------------------------------------------------------------------

/// Set thresholds [n_queries] to a key that at least k rows (or all) do not exceed, from the minima of n_groups groups
/// and the entries in best. Also set candidates.counts to 0.
[[nodiscard]] cudaError_t launch_thresholds(const Queries &queries, const uint64_t *minima, uint32_t n_groups,
	const Best &best, uint64_t *thresholds, uint32_t *counts, cudaStream_t stream);

/// Append the rows with key <= threshold to the candidates; their order is not reproducible.
[[nodiscard]] cudaError_t launch_compact(const Queries &queries, const uint64_t *keys, uint64_t key_stride,
	uint32_t n_rows, const uint64_t *thresholds, const Candidates &candidates, cudaStream_t stream);

/// Set best to the k first of best and the candidates. max_k: largest k of the chunk. redo [n_queries], may be null:
/// set to 1 if there are more candidates than room. Reproducible (a total order).
[[nodiscard]] cudaError_t launch_merge(const Queries &queries, const Candidates &candidates, const uint64_t *row_ids,
	const Best &best, uint32_t max_k, cudaStream_t stream, uint8_t *redo = nullptr);

/// As launch_merge, after launch_bounded_scan: sets the candidates' counts back to 0; cheap if there are no candidates.
[[nodiscard]] cudaError_t launch_bounded_merge(const Queries &queries, const Candidates &candidates,
	const uint64_t *row_ids, const Best &best, uint32_t max_k, cudaStream_t stream);

/// Set best to the k first of keys [n_queries, key_stride], the first n_rows (at least k) of each, with columns as
/// rows. Earlier entries of best are dropped. For few columns: a block reads all of a query. Reproducible. A kernel
/// launched after this one by launch_after may read, before it waits, what the stream wrote before the keys.
[[nodiscard]] cudaError_t launch_select_keys(const Queries &queries, const uint64_t *keys, uint64_t key_stride,
	uint32_t n_rows, const Best &best, uint32_t max_k, cudaStream_t stream);

/// Set the shared-memory limits of all kernels; once per device, before any launch.
[[nodiscard]] cudaError_t prepare_select_kernels();

// --- sort.cu: all rows in order, for large k ------------------------------------------------------------------------

/// Sort keys, rows [n] by (key, row) into sorted_keys, sorted_rows. rows_ascending: rows are ascending already. With
/// temp == nullptr only *temp_bytes is set.
[[nodiscard]] cudaError_t sort_entries(void *temp, size_t *temp_bytes, uint64_t *keys, uint64_t *rows,
	uint64_t *sorted_keys, uint64_t *sorted_rows, uint64_t n, bool rows_ascending, cudaStream_t stream);

/// Set out [n] to the entries of keys and rows.
[[nodiscard]] cudaError_t launch_zip(
	const uint64_t *keys, const uint64_t *rows, uint64_t n, Entry *out, cudaStream_t stream);

// --- rows.cu: storing rows ------------------------------------------------------------------------------------------

/// Set flags[0] |= 1 if an element is not a whole number 0 ... 255, |= 2 if an element is not exact in binary16.
/// vectors [n_rows, dim] float32, dense.
[[nodiscard]] cudaError_t launch_narrow_check(
	const float *vectors, uint64_t n_elements, uint32_t *flags, cudaStream_t stream);

/// Store rows: to [n_rows, pitch_bytes] in `form`, zeros beyond dim; from [n_rows, row_bytes] dense in `element`.
[[nodiscard]] cudaError_t launch_store_rows(const void *from, ElementType element, uint32_t dim, uint32_t n_rows,
	void *to, Form form, uint32_t pitch_bytes, cudaStream_t stream);

/// Rows in their form in pinned host memory, and their destinations. Vectors are aligned to 16 bytes on both sides, the
/// others to their own size.
struct StoredRows
{
	uint32_t n_rows = 0;
	uint32_t pitch_bytes = 0;               // a multiple of 16
	const void *from_vectors = nullptr;     // [n_rows, pitch_bytes]
	const uint64_t *from_row_ids = nullptr; // [n_rows]
	const float *from_values = nullptr;     // [n_rows]; null: none
	void *vectors = nullptr;
	uint64_t *row_ids = nullptr;
	float *values = nullptr;
};

/// Copy vectors, row ids and values in one launch of few blocks: the bus is the limit.
[[nodiscard]] cudaError_t launch_take_rows(const StoredRows &rows, cudaStream_t stream);

/// Facts about a source that the filter needs.
struct RowStats
{
	uint32_t max_norm_bits; // bits of the largest |row| of trusted rows, a float rounded up
	uint32_t n_untrusted;
	uint32_t max_inverse_bits; // the same of 1 / |row|; cosine only
};

/// values [n_rows]: L2: |y|² / 2; inner product: 0; cosine: -1 / |y|; NaN for rows whose norm the filter's bound does
/// not cover. stats must be zero before.
[[nodiscard]] cudaError_t launch_row_values(
	Metric metric, const Rows &rows, uint32_t dim_pad, float *values, RowStats *stats, cudaStream_t stream);

} // namespace vectorgpu::kernels
