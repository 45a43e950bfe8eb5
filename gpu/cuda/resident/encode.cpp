// See encode.hpp.
#include "cuda/resident/encode.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/half.hpp"
#include "engine/distance/distance.hpp"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

constexpr size_t kAtOnce = 128; // elements between two checks for an early end

bool
are_bytes(const float *elements, size_t n)
{
	for (size_t first = 0; first < n; first += kAtOnce)
	{
		const size_t end = std::min(n, first + kAtOnce);
		uint32_t differ = 0;

		for (size_t i = first; i < end; i++)
		{
			const float value = elements[i];
			const float inside = value >= 0.0f && value <= 255.0f ? value : 0.0f; // NaN: 0, whose bits differ

			differ |=
				std::bit_cast<uint32_t>(static_cast<float>(static_cast<int>(inside))) ^ std::bit_cast<uint32_t>(value);
		}
		if (differ != 0)
			return false;
	}
	return true;
}

bool
are_halves(const float *elements, size_t n)
{
	return std::all_of(elements, elements + n,
		[](float value)
		{
			return value == value &&
				std::bit_cast<uint32_t>(half_to_float(float_to_half(value))) == std::bit_cast<uint32_t>(value);
		});
}

} // namespace

Form
narrowest_form(Form least, const float *elements, size_t n)
{
	if (least == Form::kByte && are_bytes(elements, n))
		return Form::kByte;
	if (least != Form::kFloat32 && are_halves(elements, n))
		return Form::kFloat16;
	return Form::kFloat32;
}

void
encode_row(const engine::DistanceSpec &spec, const void *row, Form form, uint32_t pitch_bytes, uint8_t *to)
{
	const float *elements = static_cast<const float *>(row);
	size_t written = vector_bytes(spec.element, spec.dim);

	if (spec.element != ElementType::kFloat32 || form == Form::kFloat32)
		std::memcpy(to, row, written);
	else if (form == Form::kByte)
	{
		for (uint32_t e = 0; e < spec.dim; e++)
			to[e] = static_cast<uint8_t>(static_cast<int>(elements[e]));
		written = spec.dim;
	}
	else
	{
		for (uint32_t e = 0; e < spec.dim; e++)
		{
			const uint16_t half = float_to_half(elements[e]);

			std::memcpy(to + size_t{2} * e, &half, 2);
		}
		written = size_t{2} * spec.dim;
	}
	std::memset(to + written, 0, pitch_bytes - written);
}

RowValue
row_value(const engine::DistanceSpec &spec, const void *row, float *scratch)
{
	constexpr size_t kSums = 8;
	double sums[kSums] = {};
	double sum = 0.0;
	size_t e = 0;

	if (spec.element == ElementType::kFloat16)
		engine::widen_halves(row, spec.dim, scratch);
	else
		std::memcpy(scratch, row, spec.dim * sizeof(float));
	for (; e + kSums <= spec.dim; e += kSums)
		for (size_t j = 0; j < kSums; j++)
			sums[j] += static_cast<double>(scratch[e + j]) * scratch[e + j];
	for (; e < spec.dim; e++)
		sum += static_cast<double>(scratch[e]) * scratch[e];
	for (const double part : sums)
		sum += part;

	const double norm = std::sqrt(sum);

	if (!kernels::filter_trusts(spec.metric, norm))
		return {std::numeric_limits<float>::quiet_NaN(), 0};
	return {spec.metric == Metric::kL2       ? static_cast<float>(sum / 2)
			: spec.metric == Metric::kCosine ? static_cast<float>(-1.0 / norm)
											 : 0.0f,
		norm * 1.000001};
}

} // namespace vectorgpu::cuda
