// See sq8.hpp.
#include "engine/ivf/sq8.hpp"

#include <algorithm>
#include <cmath>

#include "engine/ivf/ivf_kernels.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kLanes = 32;

constexpr size_t
padded(size_t dim)
{
	return (dim + kLanes - 1) / kLanes * kLanes;
}

} // namespace

void
sq8_train(const float *rows, size_t n_rows, size_t dim, const Sq8Ranges &ranges)
{
	// `step` holds the largest elements until the steps are computed.
	for (size_t d = 0; d < dim; d++)
		ranges.low[d] = ranges.step[d] = n_rows == 0 ? 0 : rows[d];
	for (size_t i = 1; i < n_rows; i++)
		for (size_t d = 0; d < dim; d++)
		{
			ranges.low[d] = std::min(ranges.low[d], rows[i * dim + d]);
			ranges.step[d] = std::max(ranges.step[d], rows[i * dim + d]);
		}
	for (size_t d = 0; d < dim; d++) // in double: the difference of two floats may overflow
		ranges.step[d] =
			static_cast<float>((static_cast<double>(ranges.step[d]) - static_cast<double>(ranges.low[d])) / 255);
}

size_t
sq8_encode(const Sq8Ranges &ranges, const float *rows, size_t n_rows, size_t dim, uint8_t *codes, uint8_t *is_out)
{
	size_t n_out = 0;

	for (size_t i = 0; i < n_rows; i++)
	{
		bool out = false;

		for (size_t d = 0; d < dim; d++)
		{
			const double above = static_cast<double>(rows[i * dim + d]) - static_cast<double>(ranges.low[d]);
			const double step = static_cast<double>(ranges.step[d]);
			const double level = step > 0 ? above / step : 0;

			// Every rounding may be off by half a step: within that, an element beyond the ends is in range.
			out |= !(above >= -step / 2 && above <= 255.5 * step);
			codes[i * dim + d] =
				level > 0 ? static_cast<uint8_t>(std::nearbyint(std::min(level, 255.0))) : uint8_t{0}; // 0 for NaN
		}
		n_out += out;
		if (is_out != nullptr)
			is_out[i] = out;
	}
	return n_out;
}

void
sq8_decode(const Sq8Ranges &ranges, const uint8_t *codes, size_t n_rows, size_t dim, float *rows)
{
	for (size_t i = 0; i < n_rows; i++)
		for (size_t d = 0; d < dim; d++)
			rows[i * dim + d] = static_cast<float>(
				static_cast<double>(ranges.low[d]) + codes[i * dim + d] * static_cast<double>(ranges.step[d]));
}

size_t
sq8_query_floats(size_t dim)
{
	return 2 * padded(dim);
}

Sq8Query
sq8_prepare(const Sq8Ranges &ranges, Metric metric, const float *query, size_t dim, float *state)
{
	const bool product = metric == Metric::kInnerProduct || metric == Metric::kCosine;
	float *offset = state;
	float *weight = state + padded(dim);
	double constant = 0;

	std::fill_n(state, 2 * padded(dim), 0.0f);
	for (size_t d = 0; d < dim; d++)
	{
		const double q = static_cast<double>(query[d]);

		offset[d] = static_cast<float>(q - static_cast<double>(ranges.low[d]));
		weight[d] = product ? static_cast<float>(q * static_cast<double>(ranges.step[d])) : ranges.step[d];
		constant += product ? q * static_cast<double>(ranges.low[d]) : 0;
	}
	return {metric, dim, offset, weight, constant};
}

void
sq8_scores(const Sq8Query &query, const uint8_t *codes, size_t n_rows, double *scores)
{
	constexpr size_t kChunk = 256;
	const IvfKernels &kernels = ivf_kernels();
	float sums[kChunk];

	for (size_t first = 0; first < n_rows; first += kChunk)
	{
		const size_t n = std::min(kChunk, n_rows - first);
		const Sq8Block block = {codes + first * query.dim, n, query.dim, query.offset, query.weight, sums};

		switch (query.metric)
		{
			case Metric::kInnerProduct:
			case Metric::kCosine:
				kernels.sq8_dot(block);
				break;
			case Metric::kL1:
				kernels.sq8_l1(block);
				break;
			default:
				kernels.sq8_l2(block);
				break;
		}
		for (size_t i = 0; i < n; i++)
		{
			const double sum = static_cast<double>(sums[i]);

			scores[first + i] = query.metric == Metric::kInnerProduct ? -(sum + query.constant)
				: query.metric == Metric::kCosine                     ? 1 - (sum + query.constant)
																	  : sum;
		}
	}
}

double
sq8_score_error(const Sq8Query &query)
{
	const double unit = 0x1p-24;
	const double m = std::ceil(static_cast<double>(query.dim) / kLanes) + 8;
	double sum = 0;

	// The largest value of a term over the 256 levels; the offset's and weight's own roundings are within 2 units of
	// it.
	for (size_t d = 0; d < query.dim; d++)
	{
		const double offset = std::fabs(static_cast<double>(query.offset[d]));
		const double reach = 255 * std::fabs(static_cast<double>(query.weight[d]));
		const bool product = query.metric == Metric::kInnerProduct || query.metric == Metric::kCosine;
		const double term = product ? reach : offset + reach;

		// (t + e)² - t² <= 2 t e + e² with e <= 3 u t
		sum += query.metric == Metric::kL2 ? term * term * (m + 8) : term * (m + 4);
	}
	return sum * unit / (1 - (m + 8) * unit) + 0x1p-120;
}

} // namespace vectorgpu::engine::ivf
