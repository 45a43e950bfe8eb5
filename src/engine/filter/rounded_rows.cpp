// See rounded_rows.hpp.
#include "engine/filter/rounded_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/filter/gemm_filter.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint32_t kFewestDims = 32; // shorter rows are scored as fast
constexpr float kMostRounded = 127;
constexpr double kUp = 1 + 0x1p-20; // more than the rounding of what is summed in binary64, and of its float
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 4; // sums kept apart, for the compiler's vectors

float
largest(const float *x, size_t n)
{
	float most[kLanes] = {};
	size_t i = 0;

	for (; i + kLanes <= n; i += kLanes)
		for (size_t lane = 0; lane < kLanes; lane++)
			most[lane] = std::max(most[lane], std::fabs(x[i + lane]));
	for (; i < n; i++)
		most[0] = std::max(most[0], std::fabs(x[i]));
	return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

/// Set *c to x in units of scale; return (x - scale * c)². NaN, also of an infinity in units of an infinity, is the
/// least byte, as of the kernels in gpu/kernels/graph.
inline double
round_element(float x, float scale, float inverse, int8_t *c)
{
	constexpr float kNoFraction = 0x1.8p23F; // added, it leaves whole numbers, rounded to the nearest
	const float unbounded = (x * inverse + kNoFraction) - kNoFraction;
	const float whole = std::min(std::max(-kMostRounded, unbounded), kMostRounded); // this order of arguments drops NaN
	const double apart = static_cast<double>(x) - static_cast<double>(scale) * static_cast<double>(whole);

	*c = static_cast<int8_t>(whole);
	return apart * apart;
}

RoundedKernel
choose_kernel()
{
	switch (simd_level())
	{
		case SimdLevel::kAvx512:
			return __builtin_cpu_supports("avx512vnni") ? rounded_products_vnni : rounded_products_avx512;
		case SimdLevel::kAvx2:
			return rounded_products_avx2;
		default:
			return rounded_products_scalar;
	}
}

} // namespace

void
rounded_products_scalar(const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products)
{
	for (size_t i = 0; i < n; i++)
	{
		int32_t sum = 0;

		for (size_t at = 0; at < n_bytes; at++)
			sum += int32_t{rows[i][at]} * int32_t{query[at]};
		products[i] = sum;
	}
}

bool
rounds(const DistanceSpec &spec)
{
	return spec.element == ElementType::kFloat32 && spec.dim >= kFewestDims && gemm_filter_supports(spec);
}

Rounding
round_row(const DistanceSpec &spec, const float *x, double square_norm, int8_t *c)
{
	std::fill_n(c, rounded_bytes(spec), int8_t{0});
	if (!gemm_filter_trusts(spec, square_norm))
		return {0, kInfinity, 0};
	return round_any(spec, x, c);
}

Rounding
round_any(const DistanceSpec &spec, const float *x, int8_t *c)
{
	std::fill_n(c, rounded_bytes(spec), int8_t{0});

	const float scale = largest(x, spec.dim) / kMostRounded;
	const float inverse = scale > 0 && std::isfinite(1 / scale) ? 1 / scale : 0; // all are 0 at a subnormal scale
	double squares[kLanes] = {};
	size_t i = 0;

	for (; i + kLanes <= spec.dim; i += kLanes)
		for (size_t lane = 0; lane < kLanes; lane++)
			squares[lane] += round_element(x[i + lane], scale, inverse, &c[i + lane]);
	for (; i < spec.dim; i++)
		squares[0] += round_element(x[i], scale, inverse, &c[i]);

	const double error = std::sqrt((squares[0] + squares[1]) + (squares[2] + squares[3])) * kUp;

	int32_t whole_squares = 0;

	for (size_t e = 0; e < spec.dim; e++)
		whole_squares += int32_t{c[e]} * int32_t{c[e]};
	return {scale, std::nextafter(static_cast<float>(error), kInfinity), whole_squares};
}

RoundedQuery::RoundedQuery(const DistanceSpec &spec, const void *query)
	: bounds_(spec, 0), kernel_(choose_kernel()), query_(rounded_bytes(spec)), square_norm_(square_norm(spec, query))
{
	std::vector<float> floats(spec.dim);

	std::memcpy(floats.data(), query, spec.dim * sizeof(float));
	norm_ = std::sqrt(square_norm_);
	rounding_ = round_any(spec, floats.data(), query_.data());
	is_trusted_ = gemm_filter_trusts(spec, square_norm_);
}

/// x . y <= scales * product + |x - x'||y| + |x'||y - y'|, x' and y' rounded, and |x'| <= |x| + |x - x'|.
size_t
RoundedQuery::survivors(const RoundedBlock &block, double threshold, uint32_t *survivors) const
{
	const FilterBounds::Bound bound = bounds_.lower(norm_, square_norm_, threshold);
	const double query_error = static_cast<double>(rounding_.error) * kUp;
	const double rounded_norm = (norm_ + query_error) * kUp;
	const double scale = rounding_.scale;
	int32_t products[RoundedBlock::kMost];
	size_t n = 0;

	kernel_(block.rows, block.n, query_.size(), query_.data(), products);
	for (size_t i = 0; i < block.n; i++)
	{
		const Rounding rounding = block.roundings[i];
		const double norm = std::sqrt(block.square_norms[i]);
		const double most = scale * static_cast<double>(rounding.scale) * products[i] + rounded_norm * rounding.error;

		// A comparison with NaN is false, and the row survives.
		survivors[n] = static_cast<uint32_t>(i);
		n += !(most < bound.offset + bounds_.below_term(block.square_norms[i]) - (bound.slope + query_error) * norm);
	}
	return n;
}

} // namespace vectorgpu::engine
