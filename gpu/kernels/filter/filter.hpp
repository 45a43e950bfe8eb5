// The tensor-core filter of batches: estimates of all scores with a proven bound. Only rows that may be among the k
// first survive, and are scored canonically. Proof of the bound: README.md, "The filter".
//
// The estimate a of row y for query x: L2: |y|² / 2 - x·y; inner product: -x·y; cosine: -x·y / |y|. Within one query a
// orders as the score does.
#pragma once

#include "common/host_device.hpp"
#include "kernels/filter/scaled.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr double kFilterLargestNorm = 0x1p60;         // sums of squares stay far below overflow
constexpr double kFilterSmallestCosineNorm = 0x1p-40; // below, a cosine loses its digits

/// True if the bound holds for a vector of this norm; false for NaN.
VECTORGPU_HOST_DEVICE inline bool
filter_trusts(Metric metric, double norm)
{
	return norm <= kFilterLargestNorm && (metric != Metric::kCosine || norm >= kFilterSmallestCosineNorm);
}

/// The constants of the bound for a metric, form and source. All relative to |x||y| unless said otherwise.
struct FilterBound
{
	Metric metric = Metric::kL2;
	double max_norm = 0;  // of the source's trusted rows
	double product = 0;   // |estimated - true x·y|
	double lost = 0;      // |x - x'| and |y - y'| beyond that, of elements too small for binary16; absolute
	double inverse = 0;   // the largest 1 / |y| that `lost` counts for; cosine, where rows were rounded
	double off = 0;       // the largest |y - y'| of scaled rows; cosine: relative to |y|
	double sums = 0;      // rounding of sums that begin at a threshold, relative to max_norm² + |x| max_norm
	double canonical = 0; // canonical sum, relative to Σ|terms|
	double underflow = 0; // absolute
};

/// The rows that the filter reads, and what was rounded to their form.
struct FilteredRows
{
	Form form = Form::kFloat32;
	double max_norm = 0;          // from RowStats
	double max_inverse = 0;       // the same
	bool rows_rounded = false;    // a binary16 copy of rows that may not be exact in it
	bool queries_rounded = false; // binary16 rows, queries of any numbers
	double off = 0;               // scaled rows: RowScaling::off
};

/// dim: true number of dimensions.
FilterBound filter_bound(Metric metric, uint32_t dim, const FilteredRows &rows);

/// True if the bound of rows rounded to binary16 is about as narrow as that of exact ones: no element is too large for
/// it, and few are so small that they lose digits.
bool halves_serve(Metric metric, uint32_t dim, double max_norm, double max_inverse);

/// True if there is a kernel whose shared memory holds the queries at this number of dimensions. Form::kScaled: only
/// where warp groups multiply, and without PartialReduce.
bool filter_fits(Form form, uint32_t dim_pad);

/// Bytes of one query's operand.
size_t filter_operand_bytes(Form form, uint32_t dim_pad);

/// The batch in the form of the tensor cores.
struct FilterQueries
{
	void *operand = nullptr; // [n_queries, filter_operand_bytes]
	double *norms = nullptr; // [n_queries] |x|
	ScaledQueries scaled;    // Form::kScaled
	// [n_queries] 1: this query needs another path (not exact in the form, not trusted, overflow).
	uint8_t *redo = nullptr;
};

/// Fills the operand and norms from queries.vectors (float32); sets redo, which must be 0 before the first source.
/// Takes the chunk over first if it is incoming; then redo lies in it. Not for Form::kScaled: launch_scale_queries.
[[nodiscard]] cudaError_t launch_prepare_queries(Metric metric, Form form, const Queries &queries,
	const Incoming &incoming, const FilterQueries &out, cudaStream_t stream);

/// The purpose of a pass over the tiles.
enum class FilterPass : uint8_t
{
	kMinima,     // find the smallest estimate of each group of rows of sampled tiles
	kCandidates, // collect the rows whose estimate is not above the threshold
	kBins,       // keep the row with the smallest estimate of each bin: PartialReduce
};

struct FilterArgs
{
	Metric metric = Metric::kL2;
	Rows rows;
	const float *row_values = nullptr; // [n_rows], launch_row_values; Form::kScaled: not read
	ScaledPass scaled;                 // Form::kScaled
	const void *operand = nullptr;     // FilterQueries::operand
	uint32_t n_queries = 0;
	uint32_t dim_pad = 0;

	// Tiles first_tile, first_tile + stride, ... of the rows; n_tiles of them.
	uint32_t first_tile = 0;
	uint32_t n_tiles = 0;
	uint32_t tile_stride = 1;

	// Of each kept_period tiles of the rows the first n_kept stay in the L2 cache rather than the others, in passes
	// with few queries; 0: no preference.
	uint32_t kept_period = 0;
	uint32_t n_kept = 0;

	// Minima pass.
	float *minima = nullptr; // out [n_queries, minima_stride], one per kFilterGroupRows rows
	uint32_t minima_stride = 0;

	// Candidates pass.
	const float *thresholds = nullptr; // [n_queries]
	Candidates candidates;             // rows, estimates, counts

	// Bins pass, over all tiles: tile t belongs to stripe t mod n_stripes.
	uint32_t n_stripes = 0;         // 1 ... n_tiles
	float *bin_estimates = nullptr; // out [n_queries, n_stripes * kFilterTileRows]
	uint32_t *bin_rows = nullptr;   // out, as many; kNoBinRow: no row
	int32_t *bin_keys = nullptr;    // out, as many, instead of both: BinsForm::keys
	uint32_t key_tile_bits = 0;     // of BinsForm
};

/// The form of an entry that the bins pass writes for each place.
struct BinsForm
{
	uint32_t n_stripes = 0;
	/// Not 0: keys, twice the estimate << key_tile_bits | number of the tile within its stripe; INT_MAX: no row. Else
	/// estimates and rows.
	uint32_t key_tile_bits = 0;
};

constexpr uint32_t kFilterTileRows = 128;
constexpr uint32_t kFilterGroupRows = 32;
constexpr uint32_t kFilterGroupsPerTile = kFilterTileRows / kFilterGroupRows;
constexpr uint32_t kNoBinRow = 0xFFFFFFFFu;

/// Find the smallest estimate of each group of the sampled tiles; dead and untrusted rows do not count. Reproducible.
[[nodiscard]] cudaError_t launch_filter_minima(const FilterArgs &args, cudaStream_t stream);

/// Append all rows whose estimate is not above the threshold. The order is not reproducible, the set is.
[[nodiscard]] cudaError_t launch_filter_candidates(const FilterArgs &args, cudaStream_t stream);

/// Keep, for each stripe and place in a tile, the row with the smallest estimate, the first of equals; dead rows do not
/// count. Rows whose norm the bound does not cover (values NaN) are never taken: do not call it for sources that have
/// some. Reproducible.
[[nodiscard]] cudaError_t launch_filter_bins(const FilterArgs &args, cudaStream_t stream);

/// Stripes for launch_filter_bins that keep the device busy, a multiple of `unit`, at most n_tiles, and the form of the
/// entries it writes. n_tiles >= unit.
[[nodiscard]] cudaError_t plan_filter_bins(
	Metric metric, Form form, uint32_t n_queries, uint32_t dim_pad, uint32_t n_tiles, uint32_t unit, BinsForm *plan);

struct FilterSelect
{
	FilterBound bound;
	Queries queries;
	FilterQueries prepared;
	Best best;
	const float *minima = nullptr; // [n_queries, n_minima]
	uint32_t n_minima = 0;
	float *thresholds = nullptr; // out of thresholds, in and out of tighten
	Candidates candidates;
	uint64_t *n_rescored = nullptr; // one counter, the last tighten adds to it
	bool last = true;               // this source gives no more candidates
};

/// Set thresholds: no row with an estimate above can be among the k first. Also set candidates.counts to 0.
[[nodiscard]] cudaError_t launch_filter_thresholds(const FilterSelect &args, cudaStream_t stream);

/// Drop candidates that the k-th best estimate among them excludes, and sharpen thresholds for the next stages. A query
/// whose candidates overflowed is marked for redo.
[[nodiscard]] cudaError_t launch_filter_tighten(const FilterSelect &args, cudaStream_t stream);

/// Turn the results of the bins pass into candidates: of the n_stripes * kFilterTileRows places those with the same
/// number mod n_bins (a divisor) are one bin. Sets candidates.rows, estimates, counts, and thresholds so that tighten
/// or finish can follow. A query with fewer than k candidates is marked for redo. candidates.capacity >= n_bins. bins:
/// as given to the pass.
[[nodiscard]] cudaError_t launch_collect_bins(
	const FilterSelect &args, const FilterArgs &bins, uint32_t n_bins, cudaStream_t stream);

/// The largest k of launch_finish.
constexpr uint32_t kFinishMostK = 128;

/// Candidates of a query that a block of launch_finish holds; a query with more is finished by three launches. One pass
/// does not answer such a query.
constexpr uint32_t kFinishMostCandidates = 2048;

/// launch_filter_tighten, launch_rescore and launch_merge in one launch, a block to a query. answers: also gets the
/// queries' results.
[[nodiscard]] cudaError_t launch_finish(
	const FilterSelect &select, const RescoreArgs &args, cudaStream_t stream, const Answers &answers = {});

/// Shared memory that a block may have on this device, bytes; known once prepare_filter_kernels has run.
size_t filter_most_shared();

/// For tests and benchmarks: false makes warps multiply where warp groups could; true restores the choice by device.
void allow_filter_groups(bool allowed);
bool filter_groups_allowed();

/// Sets shared-memory limits; once per device.
[[nodiscard]] cudaError_t prepare_filter_kernels();

} // namespace vectorgpu::kernels
