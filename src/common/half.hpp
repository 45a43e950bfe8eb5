// IEEE 754 binary16 <-> binary32 in portable code: exact one way, round to nearest even the other. It gives the bits
// that the F16C instructions give (a signalling NaN comes out quiet), so files compiled with and without them agree.
// Needs the default rounding mode and no fast-math.
#pragma once

#include <bit>
#include <cstdint>

namespace vectorgpu
{

/// The float with the value of the binary16 number whose bits are `half`.
constexpr float
half_to_float(uint16_t half)
{
	const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
	const uint32_t magnitude = half & 0x7FFF;

	if (magnitude > 0x7C00) // NaN: keep the payload, set the quiet bit
		return std::bit_cast<float>(sign | 0x7FC00000 | (magnitude << 13));
	if (magnitude == 0x7C00) // infinity
		return std::bit_cast<float>(sign | 0x7F800000);
	if (magnitude >= 0x0400) // normal: move the fields, correct the exponent's bias (127 - 15)
		return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));

	// subnormal or zero: a multiple of 2^-24, exact in binary32
	return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
}

/// The bits of the binary16 number nearest to `value`, ties to even. From 65520 on that is infinity.
constexpr uint16_t
float_to_half(float value)
{
	const uint32_t bits = std::bit_cast<uint32_t>(value);
	const uint32_t sign = (bits >> 16) & 0x8000;
	const uint32_t magnitude = bits & 0x7FFFFFFF;

	if (magnitude > 0x7F800000) // NaN
		return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
	if (magnitude >= 0x47800000) // 65536 and more, infinity
		return static_cast<uint16_t>(sign | 0x7C00);
	if (magnitude >= 0x38800000) // 2^-14 and more: a normal number, or infinity by the carry out of the mantissa
	{
		const uint32_t rebased = magnitude - (112u << 23);

		return static_cast<uint16_t>(sign | ((rebased + 0xFFF + ((rebased >> 13) & 1)) >> 13));
	}

	// Subnormal: the unit in the last place of floats in [0.5, 1) is 2^-24, that of binary16 subnormals, so that the
	// addition does the rounding.
	const float shifted = std::bit_cast<float>(magnitude) + 0.5f;

	return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
}

constexpr bool
half_is_nan(uint16_t half)
{
	return (half & 0x7FFF) > 0x7C00;
}

constexpr bool
half_is_infinite(uint16_t half)
{
	return (half & 0x7FFF) == 0x7C00;
}

} // namespace vectorgpu
