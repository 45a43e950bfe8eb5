// The GEMM filter of batched search: one fp32 matrix product gives every inner product of a block of rows with all
// queries of a batch, with a proven bound on the difference between the score that follows and the canonical one
// (README.md, "The GEMM filter"). Rows that the bound rules out are skipped; the caller scores the others canonically.
// Used by the CPU engine only; threads may each have a filter of their own. Throws bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/filter/filter_bounds.hpp"
#include "engine/filter/gemm_filter_kernels.hpp"
#include "engine/distance/distance.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine
{

/// True for L2, inner product and cosine of float elements.
bool gemm_filter_supports(const DistanceSpec &spec);

/// Return Σ x² in double, within (dim + 1) * 2^-53 of it. vector: one vector of a spec that the filter supports.
double square_norm(const DistanceSpec &spec, const void *vector);

/// True if the error bound holds for such a vector: no sum with it can overflow or, for cosine, lose its digits.
bool gemm_filter_trusts(const DistanceSpec &spec, double square_norm);

/// Finds the rows of a block that may matter to a query.
class GemmFilter
{
public:
	static constexpr size_t kBlockRows = 256; // 128 KB of 128 dimensions: the rows stay in L2 for all queries
	static constexpr size_t kMaxQueries = 256;

	/// queries [n_queries], at most kMaxQueries: each trusted, alive as long as the filter.
	GemmFilter(const DistanceSpec &spec, const std::vector<const void *> &queries);

	/// Multiply. vectors [n_rows, dim] row-major, square_norms [n_rows]; n_rows <= kBlockRows. topks [n_queries]:
	/// the selection of each query; unchanged until survivors() was called for that query.
	void load_block(const uint8_t *vectors, const double *square_norms, size_t n_rows, const TopK *const *topks);

	/// Write to survivors [n_rows of the block] the ascending numbers of the rows whose canonical score may come
	/// before topk's threshold and after its `after`; return how many. No other row can.
	size_t survivors(size_t query, const TopK &topk, uint32_t *survivors) const;

private:
	struct Query
	{
		double norm;        // |x|
		double square_norm; // |x|²
	};

	size_t find_hits(const FilterCall &call);
	void sort_hits(size_t n_hits);

	DistanceSpec spec_;
	FilterBounds bounds_;
	const FilterKernel *kernel_; // null: the BLAS multiplies
	std::vector<Query> queries_;
	std::vector<float> query_matrix_;  // [n_queries, dim] row-major, or the kernel's panels
	std::vector<float> row_matrix_;    // [kBlockRows, dim], halves widened; empty for float32
	std::vector<float> products_;      // [n_queries, n_rows] row-major, without a kernel
	std::vector<double> norms_;        // [kBlockRows] |y|, 0 for rows that are not trusted
	std::vector<double> below_terms_;  // [kBlockRows] the row term of `below`, -infinity for rows that are not trusted
	std::vector<double> above_terms_;  // [kBlockRows] the row term of `above`, +infinity for rows that are not trusted
	std::vector<float> quick_offsets_; // [panels of queries] `below` in fp32, rounded to the safe side
	std::vector<float> quick_slopes_;  // [panels of queries]
	std::vector<float> quick_terms_;   // [kBlockRows]
	std::vector<float> quick_norms_;   // [kBlockRows]
	std::vector<FilterHit> found_;     // [kBlockRows * n_queries] as the kernel found them
	std::vector<FilterHit> hits_;      // the same by query
	std::vector<uint32_t> first_hit_;  // [n_queries + 1] the first hit of a query
};

} // namespace vectorgpu::engine
