// Host side of the kernels that scan inverted lists (README.md, "Inverted lists"): which lists a chunk of queries looks
// at, a threshold from the nearest of them, and the rows below it. Launchers as in kernels.hpp.
#pragma once

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kIvfGroupRows = 8;      // rows of a group whose smallest key the first pass keeps
constexpr uint32_t kIvfQueriesPerTile = 8; // of a list, which share the loads of its rows
constexpr uint32_t kIvfRowsPerTile = 256;
constexpr uint32_t kIvfByteQueriesPerTile = 32; // of launch_ivf_scan_bytes
constexpr uint32_t kIvfMostByteDims = 256;      // 256 * 255^2 < 2^24
constexpr uint32_t kIvfMostSampled = 1024;      // groups of launch_ivf_thresholds

/// Lists of a source, and the lists that the queries of a chunk look at.
struct IvfProbes
{
	const uint64_t *offsets = nullptr; // [n_lists + 1]: list l has the places [offset l, offset l + 1)
	uint32_t n_lists = 0;
	const Entry *ranked = nullptr;    // [n_queries, stride]: Entry::row is a list, the nearest first
	const uint32_t *counts = nullptr; // [n_queries]: how many of them the query looks at, at most stride
	uint32_t stride = 0;
};

/// How lists with rows that pass a search's conditions are chosen. A query names `most` lists; it looks at the first
/// ceil(least * most) of these, and at more until they hold as many rows that pass as those first ones would if rows
/// that pass were spread evenly over all rows. If even all of them hold fewer, the rows that pass lie away from the
/// query, and it looks at none. It looks at fewer than the first ones if these already hold as many rows that pass,
/// and are as good as ceil(full * most) lists all of whose rows pass: a list whose share p passes counts for
/// p ^ (.5 - .4 p) of these (as engine::ivf::even_lists), computed as sqrt(p) (1 + .6 p (1 - p)).
struct IvfCut
{
	const uint32_t *n_pass = nullptr; // [n_lists + 1]: rows that pass and live, and of all lists; null: queries look at
									  // the lists that they name
	float least = 0;
	float full = 1;
};

constexpr uint32_t kIvfMostCut = 256; // lists that a query with conditions may name, unless it names all
constexpr uint32_t kAnswerIsAway = 2; // AnswerHead::redo and IvfScanArgs: the rows that pass lie away from the query

/// The queries of each list.
struct IvfPlan
{
	uint32_t *counts = nullptr;      // [n_lists], zero before
	uint32_t *firsts = nullptr;      // [n_lists + 1]: list l has queries [first l, first l + 1)
	uint32_t *cursors = nullptr;     // [n_lists]
	uint32_t *queries = nullptr;     // [n_queries * stride]
	uint32_t *tile_firsts = nullptr; // [n_lists + 1]: its tiles
	uint32_t *next_tile = nullptr;   // one number
	uint32_t queries_per_tile = kIvfQueriesPerTile;
};

struct IvfScanArgs
{
	Metric metric = Metric::kL2;
	Rows rows; // by place: row_ids and dead too
	Queries queries;
	IvfProbes probes;
	uint64_t *minima = nullptr;     // [n_queries, kMaxGroups], of the first pass
	uint32_t n_groups = 0;          // a multiple of 4, at most kMaxGroups
	uint64_t *thresholds = nullptr; // [n_queries]
	Best best;                      // launch_ivf_thresholds
	Candidates candidates;          // Candidates::rows are places
	uint32_t first_place = 0;       // launch_ivf_scan_queries: places before it, and from end_place on, are skipped
	uint32_t end_place = 0;
	IvfPlan plan; // launch_ivf_scan_lists, launch_ivf_scan_bytes
	// Launch_ivf_scan_bytes: [n_queries, dim_pad] the queries as bytes, 4-byte aligned.
	const uint8_t *byte_queries = nullptr;
	const int32_t *byte_norms = nullptr; // [n_queries] Σ x²
	const float *row_values = nullptr;   // [n_rows] launch_row_values
};

/// Set minima to the smallest key of each group of kIvfGroupRows rows, in the order of the ranked lists, for n_groups
/// groups. Groups without rows get kExcludedKey; rows whose score is NaN count as dead. Grid (blocks, n_queries), block
/// 256.
[[nodiscard]] cudaError_t launch_ivf_minima(const IvfScanArgs &args, cudaStream_t stream);

/// launch_ivf_minima and launch_thresholds in one, for n_groups up to kIvfMostSampled: a block for each query. Writes
/// thresholds, and zeros to candidates.counts. Grid n_queries, block 256.
[[nodiscard]] cudaError_t launch_ivf_thresholds(const IvfScanArgs &args, cudaStream_t stream);

/// Append the rows with key <= threshold of all lists that a query looks at to its candidates, except rows whose score
/// is NaN. Each query separately: for few queries. The order of candidates is not reproducible.
[[nodiscard]] cudaError_t launch_ivf_scan_queries(const IvfScanArgs &args, cudaStream_t stream);

/// Make plan from probes. The tiles of all lists, sum over lists of ceil(queries / 8) * ceil(rows / 256), must be below
/// 2^31; no query names a list twice.
[[nodiscard]] cudaError_t launch_ivf_plan(
	const IvfProbes &probes, uint32_t n_queries, const IvfPlan &plan, cudaStream_t stream);

/// As launch_ivf_scan_queries, list by list, the queries of a list together: for many queries.
[[nodiscard]] cudaError_t launch_ivf_scan_lists(const IvfScanArgs &args, cudaStream_t stream);

/// Set n_pass [n_lists + 1] to the rows of each list that are not dead, and of all.
[[nodiscard]] cudaError_t launch_ivf_count_live(
	const uint64_t *offsets, uint32_t n_lists, const Rows &rows, uint32_t *n_pass, cudaStream_t stream);

/// Cut the lists that each query looks at: counts [n_queries] are replaced. probes.ranked has a query's lists nearest
/// first, up to kIvfMostCut of them. The redo [n_queries] of a query whose rows lie away becomes kAnswerIsAway.
[[nodiscard]] cudaError_t launch_ivf_cut(const IvfProbes &probes, const IvfCut &cut, uint32_t n_queries,
	uint32_t *counts, uint8_t *redo, cudaStream_t stream);

/// counts [n_queries] of queries with a mark in redo become 0: they are searched again, and look at no list now.
[[nodiscard]] cudaError_t launch_ivf_skip(
	const uint8_t *redo, uint32_t n_queries, uint32_t *counts, cudaStream_t stream);

/// True if launch_ivf_scan_bytes can take such rows, with queries of whole numbers 0 ... 255: canonical scores are
/// exact integers.
bool ivf_bytes_are_exact(Metric metric, Form form, uint32_t dim_pad);

/// As launch_ivf_scan_lists, by integer products on tensor cores.
[[nodiscard]] cudaError_t launch_ivf_scan_bytes(const IvfScanArgs &args, cudaStream_t stream);

/// by_place [n_rows] = by_number[numbers[place]].
[[nodiscard]] cudaError_t launch_ivf_row_ids(
	const uint64_t *by_number, const uint32_t *numbers, uint32_t n_rows, uint64_t *by_place, cudaStream_t stream);

/// The same for bits: by_place [ceil(n_rows / 8)] bytes.
[[nodiscard]] cudaError_t launch_ivf_bits(
	const uint8_t *by_number, const uint32_t *numbers, uint32_t n_rows, uint8_t *by_place, cudaStream_t stream);

/// The reverse, of rows [first, first + n): bit numbers[place] - first of by_number [ceil(n / 32)] = the place's bit of
/// by_place, the others 0.
[[nodiscard]] cudaError_t launch_ivf_bits_back(const uint8_t *by_place, const uint32_t *numbers, uint32_t n_rows,
	uint32_t first, uint32_t n, uint32_t *by_number, cudaStream_t stream);

/// Set places [n] to the places of the rows with numbers [first, first + n), of n_rows.
[[nodiscard]] cudaError_t launch_ivf_places(
	const uint32_t *numbers, uint32_t n_rows, uint32_t first, uint32_t n, uint32_t *places, cudaStream_t stream);

/// Set ids [n] to 0, 1, 2, ...
[[nodiscard]] cudaError_t launch_ivf_iota(uint64_t *ids, uint32_t n, cudaStream_t stream);

} // namespace vectorgpu::kernels
