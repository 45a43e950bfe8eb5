// See gemm_filter.hpp. The constants below are those of the proof in README.md, "The GEMM filter".
#include "engine/filter/gemm_filter.hpp"

#include "common/narrow.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <cblas.h>

namespace vectorgpu::engine
{
namespace
{

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnit = 0x1p-24;            // unit roundoff of fp32
constexpr uint32_t kLargestDim = 1 << 16;    // the proof's constants assume no more
constexpr double kQuickUnderflow = 0x1p-120; // absolute: fp32 values that round to subnormals

/// Return the kernel of the instruction set in use, or null.
const FilterKernel *
choose_kernel()
{
	switch (simd_level())
	{
		case SimdLevel::kAvx512:
			return &kFilterKernelAvx512;
		case SimdLevel::kAvx2:
			return &kFilterKernelAvx2;
		default:
			return nullptr;
	}
}

/// Return v in fp32, at least 7 units of roundoff below (README.md, "Quick comparison").
float
safely_below(double v)
{
	return static_cast<float>(v - 8 * kUnit * std::fabs(v) - kQuickUnderflow);
}

} // namespace

bool
gemm_filter_supports(const DistanceSpec &spec)
{
	return metric_supports(spec.metric, spec.element) && spec.element != ElementType::kBit &&
		spec.metric != Metric::kL1 && spec.dim <= kLargestDim;
}

double
square_norm(const DistanceSpec &spec, const void *vector)
{
	constexpr size_t kPiece = 256;
	const uint8_t *bytes = static_cast<const uint8_t *>(vector);
	const size_t element_bytes = vector_bytes(spec.element, 1);
	float piece[kPiece];
	double sum[4] = {};
	const FilterKernel *kernel = choose_kernel();

	if (kernel != nullptr && spec.element == ElementType::kFloat32 &&
		reinterpret_cast<uintptr_t>(vector) % alignof(float) == 0)
		return kernel->square_norm(static_cast<const float *>(vector), spec.dim);
	for (size_t first = 0; first < spec.dim; first += kPiece)
	{
		const size_t n = std::min<size_t>(kPiece, spec.dim - first);

		if (spec.element == ElementType::kFloat16)
			widen_halves(bytes + first * element_bytes, n, piece);
		else
			std::memcpy(piece, bytes + first * element_bytes, n * element_bytes);
		std::fill(piece + n, piece + (n + 3) / 4 * 4, 0.0f);
		for (size_t i = 0; i < n; i += 4)
			for (size_t j = 0; j < 4; j++)
				sum[j] += static_cast<double>(piece[i + j]) * static_cast<double>(piece[i + j]); // an exact product
	}
	return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

bool
gemm_filter_trusts(const DistanceSpec &spec, double square_norm)
{
	return narrow_trusts(spec.metric, square_norm);
}

GemmFilter::GemmFilter(const DistanceSpec &spec, const std::vector<const void *> &queries)
	: spec_(spec), bounds_(spec, rounding_error(static_cast<double>(spec.dim) + 2)), kernel_(choose_kernel()),
	  norms_(kBlockRows), below_terms_(kBlockRows), above_terms_(kBlockRows), quick_terms_(kBlockRows),
	  quick_norms_(kBlockRows), found_(kBlockRows * queries.size()), hits_(kBlockRows * queries.size()),
	  first_hit_(queries.size() + 1)
{
	const size_t width = kernel_ != nullptr ? kernel_->width : 1;
	const size_t n_places = (queries.size() + width - 1) / width * width;
	std::vector<float> query(spec.dim);

	query_matrix_.resize(n_places * spec.dim);
	quick_offsets_.resize(n_places, std::numeric_limits<float>::infinity());
	quick_slopes_.resize(n_places);
	if (kernel_ == nullptr)
		products_.resize(queries.size() * kBlockRows);
	if (spec.element == ElementType::kFloat16)
		row_matrix_.resize(kBlockRows * spec.dim);
	for (size_t i = 0; i < queries.size(); i++)
	{
		const double squares = square_norm(spec, queries[i]);
		float *panel = query_matrix_.data() + i / width * width * spec.dim + i % width;

		queries_.push_back({std::sqrt(squares), squares});
		if (spec.element == ElementType::kFloat16)
			widen_halves(queries[i], spec.dim, query.data());
		else
			std::memcpy(query.data(), queries[i], spec.dim * sizeof(float));
		for (size_t d = 0; d < spec.dim; d++)
			panel[d * width] = query[d];
	}
}

void
GemmFilter::load_block(const uint8_t *vectors, const double *square_norms, size_t n_rows, const TopK *const *topks)
{
	const float *rows = reinterpret_cast<const float *>(vectors);

	if (spec_.element == ElementType::kFloat16)
	{
		widen_halves(vectors, n_rows * spec_.dim, row_matrix_.data());
		rows = row_matrix_.data();
	}
	for (size_t i = 0; i < n_rows; i++)
	{
		const bool trusted = gemm_filter_trusts(spec_, square_norms[i]);

		norms_[i] = trusted ? std::sqrt(square_norms[i]) : 0;
		below_terms_[i] = trusted ? bounds_.below_term(square_norms[i]) : -kInfinity;
		above_terms_[i] = trusted ? bounds_.above_term(square_norms[i]) : kInfinity;
		quick_terms_[i] = safely_below(below_terms_[i]);
		quick_norms_[i] = static_cast<float>(norms_[i]);
	}
	for (size_t query = 0; query < queries_.size(); query++)
	{
		const TopK &topk = *topks[query];
		const auto [norm, square_norm] = queries_[query];
		const FilterBounds::Bound below =
			bounds_.lower(norm, square_norm, topk.full ? topk.threshold.score : kInfinity);

		quick_offsets_[query] = safely_below(below.offset - std::fabs(below.slope) * 0x1p-140);
		quick_slopes_[query] = static_cast<float>(below.slope + 8 * kUnit * std::fabs(below.slope));
	}
	sort_hits(find_hits({rows, n_rows, spec_.dim, query_matrix_.data(), queries_.size(), quick_offsets_.data(),
		quick_slopes_.data(), quick_terms_.data(), quick_norms_.data(), found_.data()}));
}

/// Find hits with the kernel, or with the BLAS. Return how many.
size_t
GemmFilter::find_hits(const FilterCall &call)
{
	if (kernel_ != nullptr)
		return kernel_->run(call);

	const int dim = static_cast<int>(call.dim);
	const int n_rows = static_cast<int>(call.n_rows);
	size_t n = 0;

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(call.n_queries), n_rows, dim, 1, call.panels,
		dim, call.rows, dim, 0, products_.data(), n_rows);
	for (size_t query = 0; query < call.n_queries; query++)
	{
		const float *products = products_.data() + query * call.n_rows;

		for (size_t row = 0; row < call.n_rows; row++)
		{
			const float bound = call.offsets[query] + call.terms[row] - call.slopes[query] * call.norms[row];

			// A comparison with NaN is false, and the row survives.
			if (!(products[row] < bound))
				call.hits[n++] = {static_cast<uint16_t>(row), static_cast<uint16_t>(query), products[row]};
		}
	}
	return n;
}

/// Sort hits by query, each query's rows in ascending order.
void
GemmFilter::sort_hits(size_t n_hits)
{
	std::vector<uint32_t> &first = first_hit_;

	std::fill(first.begin(), first.end(), 0);
	for (size_t i = 0; i < n_hits; i++)
		first[found_[i].query + 1u]++;
	for (size_t query = 1; query < first.size(); query++)
		first[query] += first[query - 1];
	for (size_t i = 0; i < n_hits; i++)
		hits_[first[found_[i].query]++] = found_[i];
	for (size_t query = first.size() - 1; query > 0; query--) // each now ends where the next one began
		first[query] = first[query - 1];
	first[0] = 0;
}

size_t
GemmFilter::survivors(size_t query, const TopK &topk, uint32_t *survivors) const
{
	const uint32_t first = first_hit_[query];
	const uint32_t last = first_hit_[query + 1];

	if (first == last)
		return 0;

	const auto [norm, square_norm] = queries_[query];
	const FilterBounds::Bound below = bounds_.lower(norm, square_norm, topk.full ? topk.threshold.score : kInfinity);
	const FilterBounds::Bound above = bounds_.upper(norm, square_norm, topk.has_after ? topk.after.score : -kInfinity);
	size_t n = 0;

	// A comparison with NaN is false, and the row survives.
	for (uint32_t i = first; i < last; i++)
	{
		const uint32_t row = hits_[i].row;
		const double product = hits_[i].product;
		const bool out = product < below.offset + below_terms_[row] - below.slope * norms_[row] ||
			(topk.has_after && product > above.offset + above_terms_[row] + above.slope * norms_[row]);

		survivors[n] = row;
		n += !out;
	}
	return n;
}

} // namespace vectorgpu::engine
