// parse_float (src/types/parse_float.hpp) against strtof: the same bits, the same end, the same errno.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <string>

#include "types/parse_float.hpp"

namespace
{

using vectorgpu::types::parse_float;

void
expect_as_strtof(const std::string &text)
{
	char *reference_end;
	const char *end;

	errno = 0;
	const float reference = std::strtof(text.c_str(), &reference_end);
	const int reference_errno = errno;

	errno = 0;
	const float value = parse_float(text.c_str(), &end);

	ASSERT_EQ(end, reference_end) << "'" << text << "'";
	ASSERT_EQ(errno, reference_errno) << "'" << text << "'";
	if (std::isnan(reference))
		ASSERT_TRUE(std::isnan(value)) << "'" << text << "'";
	else
		ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(reference)) << "'" << text << "'";
}

std::string
print(const char *format, int precision, double value)
{
	char text[512];

	std::snprintf(text, sizeof(text), format, precision, value);
	return text;
}

TEST(ParseFloat, takes_what_strtof_takes_and_stops_where_it_stops)
{
	for (const char *text : {"", "-", "+", ".", "-.", "e5", ".e5", "0", "-0", "+1", "1.", ".5", "-.5", "1.5.2", "1e",
			 "1e+", "1e-", "1e5", "1E5", "1e+5", "1e-5", "1ee5", "00001", "1,2", "1]", "1 2", " 1", "\t-1", "0x10",
			 "0X1p-3", "0x", "1x", "nan", "NaN", "-nan(12)", "inf", "-Infinity", "infinityx", "1e00005", "1e99999",
			 "1e-99999", "0e99999", "1e38", "3.4028235e38", "3.4028236e38", "4e38", "-4e38", "1e-38", "1e-45", "1e-46",
			 "-1e-46", "9223372036854775807", "9999999999999999999", "18446744073709551616",
			 "123456789012345678901234567890", "0.00000000000000000000000000001",
			 "0.1000000000000000055511151231257827", "1000000000000000000000000000000000000000", "--1", "+-1", "hello"})
		expect_as_strtof(text);
}

TEST(ParseFloat, rounds_as_strtof_does_beside_the_middle_of_two_floats)
{
	// the middle itself, and a digit's breadth to either side, at every length that the fast way takes
	for (const char *text : {"16777217", "16777217.0", "16777217.0000000001", "16777216.9999999999",
			 "16777217.00000000001", "16777216.99999999999", "16777219", "33554434", "33554438", "9007199791611904",
			 "9007199791611905", "9007199791611903", "0.50000002980232238770", "0.500000029802322387",
			 "1.00000005960464477", "1.000000059604644775", "1.0000000596046448", "1.00000017881393433"})
		expect_as_strtof(text);
}

TEST(ParseFloat, equals_strtof_on_random_numbers_of_every_length)
{
	std::mt19937_64 random(20240611);
	std::uniform_real_distribution<double> unit(-1, 1);

	for (int i = 0; i < 200000; i++)
	{
		const double value = std::ldexp(unit(random), static_cast<int>(random() % 160) - 80);
		const int precision = static_cast<int>(random() % 22);

		expect_as_strtof(print("%.*g", precision, value));
		expect_as_strtof(print("%.*e", precision, value));
		expect_as_strtof(print("%.*f", precision, unit(random)));
		if (::testing::Test::HasFatalFailure())
			return;
	}
}

TEST(ParseFloat, equals_strtof_near_the_middle_of_random_neighbours)
{
	std::mt19937_64 random(7);

	for (int i = 0; i < 200000; i++)
	{
		const float low = std::ldexp(
			1.0f + static_cast<float>(random() % (1 << 23)) / (1 << 23), static_cast<int>(random() % 60) - 30);
		const float high = std::nextafter(low, INFINITY);
		const double middle = (static_cast<double>(low) + high) / 2;
		const int precision = 15 + static_cast<int>(random() % 6);

		expect_as_strtof(print("%.*g", precision, middle));
		expect_as_strtof(print("%.*g", precision, std::nextafter(middle, 0.0)));
		expect_as_strtof(print("%.*g", precision, std::nextafter(middle, INFINITY)));
		if (::testing::Test::HasFatalFailure())
			return;
	}
}

} // namespace
