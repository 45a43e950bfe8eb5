// Host side of the kernels that search inverted lists by codes (README.md, "Codes"): estimates of the rows of the lists
// that a query looks at, the rows with the best estimates, and canonical scores of those. Launchers as in kernels.hpp.
#pragma once

#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::kernels
{

/// The kind of codes, and their layout on the device.
enum class CodeForm : uint8_t
{
	kHalves = 0, // [n_rows, pitch] float16, padded with zeros
	kSq8 = 1,    // [n_rows, pitch]: 128 elements to 32 words, word i has elements i, i + 32, i + 64, i + 96
	kPq8 = 2,    // [blocks of 32 rows, pitch / 16, 32, 16]: a thread takes 16 bytes of its row at a time
	kPq4 = 3,    // as kPq8, two parts a byte, the low half first
	kRabitq = 4, // blocks of 32 rows: signs as kPq4, factors [factor, 32], the other bits by row (codes_rabitq.cuh)
};

constexpr uint32_t kCodeRows = 32;             // of a block of codes of PQ or RaBitQ
constexpr uint32_t kMostPassCandidates = 2048; // of a query, found by one pass
constexpr uint32_t kSq8GroupDims = 128;

/// Codes of a source, by place.
struct Codes
{
	CodeForm form = CodeForm::kPq8;
	const uint8_t *codes = nullptr;  // 16-byte aligned
	uint32_t pitch_bytes = 0;        // of a row; PQ: a multiple of 16; RaBitQ: rabitq_pitch_bytes
	const float *terms = nullptr;    // [n_rows], or null
	const float *model = nullptr;    // SQ8: low [dim], step [dim]; PQ: codebook [m, sub_dim, 2^bits]; RaBitQ: centre
									 // [dim], seed
	const float *rotation = nullptr; // [dim, rotation_stride], or null
	uint32_t rotation_stride = 0;
	uint32_t dim = 0;
	uint32_t m = 0; // PQ
	uint32_t sub_dim = 0;
	uint32_t n_rows = 0;
	uint32_t bits = 0;     // RaBitQ: of a dimension
	double deviations = 0; // RaBitQ: engine/ivf's kRabitqDeviations
};

/// Bytes that a row takes of a block of RaBitQ codes.
uint32_t rabitq_pitch_bytes(uint32_t dim, uint32_t bits);

/// Floats of CodeQueries::states that a query takes.
uint32_t code_state_floats(const Codes &codes);

/// Values of each query that estimates need.
struct CodeQueries
{
	float *units = nullptr;  // [n_queries, dim_pad] the query; for cosine of length 1. Not set for RaBitQ
	float *states = nullptr; // [n_queries, state_stride] SQ8: offset, weight, each padded to 128; PQ: the query in the
							 // quantiser's space; RaBitQ: RabitqState, table, elements
	uint32_t state_stride = 0;
	double *constants = nullptr; // [n_queries] SQ8; RaBitQ: the distance between query and centre
};

/// Candidates of each query [n_queries], and those that are left for this pass and the next ones.
struct CodePasses
{
	const uint32_t *candidates = nullptr;
	uint32_t *left = nullptr;
	uint32_t *wanted = nullptr; // by one pass: up to kMostPassCandidates
};

/// Prepare the queries, with the bits of engine/ivf (code_query_prepare), and set passes.left to candidates, wanted to
/// min(left, kMostPassCandidates). Grid n_queries. after_select: the launch ahead is launch_select_keys, whose keys
/// came after the queries.
[[nodiscard]] cudaError_t launch_code_queries(Metric metric, const Codes &codes, const Queries &queries,
	const CodePasses &passes, const CodeQueries &prepared, bool after_select, cudaStream_t stream);

struct CodedScanArgs
{
	Metric metric = Metric::kL2;
	Codes codes;
	uint32_t n_queries = 0;
	uint32_t dim_pad = 0;
	CodeQueries prepared;
	IvfProbes probes;
	const uint32_t *wanted = nullptr; // [n_queries]: candidates, 0 ... kMostPassCandidates
	const Entry *after = nullptr;     // [n_queries]: only entries after it; null: all
	uint32_t n_splits = 1;            // blocks that share a query
	uint32_t stride = 0;              // largest of wanted
	Entry *parts = nullptr;           // [n_queries, n_splits, stride]; null: n_splits is 1, and found is set at once
	uint32_t *part_counts = nullptr;  // [n_queries, n_splits]
	Candidates found;                 // capacity >= stride; keys: of the estimates, NaN is kNanKey
	Entry *last = nullptr;            // [n_queries] out: estimate and place of the last candidate
	uint8_t *tables = nullptr;        // [table_blocks, code_table_bytes]: if code_table_fits is false
	uint32_t table_blocks = 0;
};

/// Bytes of a query's tables, a multiple of 16.
size_t code_table_bytes(const Codes &codes);

/// True if tables and the selection of `stride` candidates fit shared memory.
bool code_table_fits(const Codes &codes, uint32_t stride);

/// Set found to the `wanted` rows of the lists looked at with the best (estimate, place), NaN last, dead rows included.
/// Estimates have the bits of engine/ivf's code_scores. Reproducible; the order of found is not that of the rows.
[[nodiscard]] cudaError_t launch_coded_scan(const CodedScanArgs &args, cudaStream_t stream);

/// The end of a search in one pass by few queries, in one launch: the parts joined, scores of the candidates (or their
/// estimates), the merge into what was found.
struct CodedFinishArgs
{
	CodedScanArgs scan;  // with parts
	RescoreArgs refine;  // candidates are not used
	bool scores = false; // candidates are scored canonically
	Best best;
	uint32_t max_k = 0;
	uint32_t *n_scored = nullptr; // [n_queries] += candidates scored; null: not counted
	Answers answers;              // heads: results are written to the host, too
};

/// True if a block finishes a query of `stride` candidates about as soon as the launches that it replaces.
bool coded_finish_pays(const Rows &rows, uint32_t stride, uint32_t max_k);

/// Only the scan: args.parts is set and not joined.
[[nodiscard]] cudaError_t launch_coded_parts(const CodedScanArgs &args, cudaStream_t stream);

/// Set best to the k first of best and the candidates of the parts, as launch_code_refine (or launch_code_keep) and
/// launch_merge do. Reproducible. Grid n_queries.
[[nodiscard]] cudaError_t launch_coded_finish(const CodedFinishArgs &args, cudaStream_t stream);

/// Set candidates.keys to the keys of estimates: kExcludedKey for dead rows and those not after `after`. Of rows only
/// dead and row_ids are read. Grid (n_queries, blocks of a query).
[[nodiscard]] cudaError_t launch_code_keep(const RescoreArgs &args, cudaStream_t stream);

/// Set candidates.keys, of candidates.rows, to the keys of canonical scores; kExcludedKey for dead rows, rows not after
/// `after`, and NaN.
[[nodiscard]] cudaError_t launch_code_refine(const RescoreArgs &args, cudaStream_t stream);

/// left -= candidates found, 0 if fewer than wanted were found; wanted = min(left, kMostPassCandidates). n_found
/// [n_queries] += candidates found; null: not counted.
[[nodiscard]] cudaError_t launch_code_next(uint32_t n_queries, const uint32_t *counts, uint32_t *left, uint32_t *wanted,
	uint32_t *n_found, cudaStream_t stream);

/// Convert codes from the index's layout (engine/interface/codes_layout.hpp), n_blocks blocks of 32 rows from
/// `first_block` on, to the device's form, or back. code_bytes: of a row.
[[nodiscard]] cudaError_t launch_pq_layout(const uint8_t *from, uint32_t code_bytes, uint64_t first_block,
	uint64_t n_blocks, uint8_t *codes, uint32_t pitch_bytes, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_pq_layout_back(const uint8_t *codes, uint32_t pitch_bytes, uint32_t code_bytes,
	uint64_t first_byte, uint64_t n_bytes, uint8_t *to, cudaStream_t stream);
/// The same for rows of SQ8 [n_rows, dim].
[[nodiscard]] cudaError_t launch_sq8_layout(const uint8_t *from, uint32_t dim, uint64_t first_row, uint64_t n_rows,
	uint8_t *codes, uint32_t pitch_bytes, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_sq8_layout_back(const uint8_t *codes, uint32_t pitch_bytes, uint32_t dim,
	uint64_t first_byte, uint64_t n_bytes, uint8_t *to, cudaStream_t stream);
/// The same for blocks of RaBitQ. codes gives dimensions, bits and pitch; of `back` its codes are read as well.
[[nodiscard]] cudaError_t launch_rabitq_layout(
	const Codes &codes, const uint8_t *from, uint64_t first_block, uint64_t n_blocks, uint8_t *to, cudaStream_t stream);
[[nodiscard]] cudaError_t launch_rabitq_layout_back(
	const Codes &codes, uint64_t first_byte, uint64_t n_bytes, uint8_t *to, cudaStream_t stream);

/// Set the shared-memory limits of all kernels; once per device, before any launch.
[[nodiscard]] cudaError_t prepare_code_kernels();

} // namespace vectorgpu::kernels
