// binary16 <-> binary32 (src/common/half.hpp) against the definition of the formats: every half, every rounding
// boundary.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/half.hpp"

namespace
{

using vectorgpu::float_to_half;
using vectorgpu::half_is_infinite;
using vectorgpu::half_is_nan;
using vectorgpu::half_to_float;

constexpr uint16_t kInfinity = 0x7C00;
constexpr uint16_t kSign = 0x8000;

/// The value of a finite half by the definition in IEEE 754.
double
value_of(uint16_t half)
{
	const int exponent = (half >> 10) & 0x1F;
	const int fraction = half & 0x3FF;
	const double magnitude =
		exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 15 - 10);

	return (half & kSign) ? -magnitude : magnitude;
}

TEST(Half, every_finite_half_has_its_value_as_float)
{
	for (uint32_t half = 0; half < 0x10000; half++)
	{
		if ((half & kInfinity) == kInfinity)
			continue;
		const float value = half_to_float(static_cast<uint16_t>(half));

		ASSERT_EQ(value, value_of(static_cast<uint16_t>(half))) << "half " << half;
		ASSERT_EQ(std::signbit(value), (half & kSign) != 0) << "half " << half;
	}
}

TEST(Half, infinities_and_nans_stay_what_they_are)
{
	EXPECT_EQ(half_to_float(kInfinity), std::numeric_limits<float>::infinity());
	EXPECT_EQ(half_to_float(kInfinity | kSign), -std::numeric_limits<float>::infinity());
	EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), kInfinity);
	EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), kInfinity | kSign);
	EXPECT_TRUE(half_is_infinite(kInfinity));
	EXPECT_TRUE(half_is_infinite(kInfinity | kSign));
	EXPECT_FALSE(half_is_nan(kInfinity));

	for (uint32_t fraction = 1; fraction < 0x400; fraction++)
	{
		const uint16_t nan = static_cast<uint16_t>(kInfinity | fraction);
		const float value = half_to_float(nan);

		ASSERT_TRUE(half_is_nan(nan));
		ASSERT_FALSE(half_is_infinite(nan));
		ASSERT_TRUE(std::isnan(value));
		ASSERT_EQ(std::bit_cast<uint32_t>(value), 0x7FC00000u | (fraction << 13)) << "quiet, payload kept";
		ASSERT_EQ(float_to_half(value), nan | 0x200);
	}
}

TEST(Half, every_half_survives_the_way_to_float_and_back)
{
	for (uint32_t half = 0; half < 0x10000; half++)
	{
		const bool is_nan = half_is_nan(static_cast<uint16_t>(half));

		ASSERT_EQ(float_to_half(half_to_float(static_cast<uint16_t>(half))), is_nan ? half | 0x200 : half);
	}
}

TEST(Half, rounding_goes_to_the_nearest_and_ties_to_even)
{
	for (uint16_t half = 0; half < kInfinity; half++)
	{
		// the next half, or what it would be if the format continued: 65536
		const double low = value_of(half);
		const double high = half + 1 == kInfinity ? 65536.0 : value_of(half + 1);
		const float middle = static_cast<float>((low + high) / 2);
		const uint16_t even = (half & 1) ? half + 1 : half;

		ASSERT_EQ(static_cast<double>(middle), (low + high) / 2) << "the middle is a float";
		ASSERT_EQ(float_to_half(middle), even) << "half " << half;
		ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), half) << "half " << half;
		ASSERT_EQ(float_to_half(std::nextafter(middle, 1e30f)), half + 1) << "half " << half;
		ASSERT_EQ(float_to_half(-middle), even | kSign) << "half " << half;
	}
}

TEST(Half, numbers_outside_the_range_become_zero_or_infinity)
{
	EXPECT_EQ(float_to_half(65504.0f), 0x7BFF);
	EXPECT_EQ(float_to_half(65519.996f), 0x7BFF);
	EXPECT_EQ(float_to_half(65520.0f), kInfinity);
	EXPECT_EQ(float_to_half(65536.0f), kInfinity);
	EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), kInfinity);
	EXPECT_EQ(float_to_half(std::ldexp(1.0f, -25)), 0) << "half of the smallest subnormal is a tie: even is zero";
	EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
	EXPECT_EQ(float_to_half(-std::numeric_limits<float>::denorm_min()), kSign);
	EXPECT_EQ(float_to_half(-0.0f), kSign);
}

static_assert(float_to_half(1.0f) == 0x3C00 && half_to_float(0x3C00) == 1.0f, "usable at compile time");

} // namespace
