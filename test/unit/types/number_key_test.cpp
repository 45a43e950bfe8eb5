// Order-preserving keys of numbers against fixed-point decimal strings that are wide enough for every binary64 number.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "types/match/number_text.hpp"

namespace
{

using namespace vectorgpu::types;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string
key_of(double value)
{
	uint8_t key[kMaxNumberKey];

	return {reinterpret_cast<char *>(key), static_cast<size_t>(number_key(value, key))};
}

std::string
key_of(int64_t value)
{
	uint8_t key[kMaxNumberKey];

	return {reinterpret_cast<char *>(key), static_cast<size_t>(number_key(value, key))};
}

std::string
key_of(const std::string &text)
{
	uint8_t key[kMaxNumberKey];
	int length = 0;

	EXPECT_EQ(read_number(text.data(), static_cast<int>(text.size()), key, &length), ReadNumber::kOk) << text;
	return {reinterpret_cast<char *>(key), static_cast<size_t>(length)};
}

std::string
text_of(const std::string &key)
{
	char digits[kMaxNumberDigits + 2];
	char text[kMaxNumberText];
	NumberFromKey number;

	EXPECT_TRUE(
		read_number_key(reinterpret_cast<const uint8_t *>(key.data()), static_cast<int>(key.size()), digits, &number));

	const int length = number_text(number, text);

	EXPECT_EQ(static_cast<size_t>(length), std::strlen(text));
	return text;
}

/// The order of memcmp, a prefix first: std::string compares unsigned bytes likewise.
int
sign(int order)
{
	return order < 0 ? -1 : (order > 0 ? 1 : 0);
}

/// "[-]" and the exact value with 330 digits before the point and 1100 after it.
std::string
fixed(double value)
{
	std::vector<char> text(1600);

	std::snprintf(text.data(), text.size(), "%0*.1100f", 1432 + std::signbit(value), value);
	return text.data();
}

std::string
fixed(const std::string &digits, int exponent, bool negative)
{
	std::string text(1431, '0');

	for (size_t i = 0; i < digits.size(); i++)
		text[static_cast<size_t>(330 - exponent) + i + 1] = digits[i];
	std::string result(negative ? 1 : 0, '-');
	return result.append(text, 0, 331).append(1, '.').append(text, 331);
}

int
compare_fixed(const std::string &a, const std::string &b)
{
	const bool a_negative = a[0] == '-';
	const bool b_negative = b[0] == '-';

	if (a_negative != b_negative)
		return a_negative ? -1 : 1;
	return a_negative ? sign(b.compare(a)) : sign(a.compare(b));
}

struct Sample
{
	std::string key;
	std::string value; // fixed
	std::string shown;
};

/// Numbers of every input type, many of them equal or next to each other.
std::vector<Sample>
samples(std::mt19937_64 &random, int n)
{
	std::vector<Sample> found;
	std::uniform_int_distribution<int> exponents(-40, 40);

	auto add_double = [&](double value)
	{
		if (std::isfinite(value) && value != 0)
			found.push_back({key_of(value), fixed(value), "double " + std::to_string(value)});
	};
	auto add_decimal = [&](std::string digits, int exponent, bool negative)
	{
		while (!digits.empty() && digits.back() == '0')
			digits.pop_back();
		while (!digits.empty() && digits.front() == '0')
		{
			digits.erase(0, 1);
			exponent--;
		}
		if (digits.empty())
			return;
		const std::string text = (negative ? "-0." : "0.") + digits + "e" + std::to_string(exponent);

		found.push_back({key_of(text), fixed(digits, exponent, negative), text});
	};

	for (int i = 0; i < n; i++)
	{
		const double wild = std::bit_cast<double>(random());
		const double mild =
			std::ldexp(static_cast<double>(static_cast<int64_t>(random()) >> (random() % 60)), exponents(random) / 4);
		char digits[1200];

		add_double(wild);
		add_double(mild);
		add_double(std::nextafter(mild, kInfinity));
		if (std::isfinite(wild) && wild != 0 && std::fabs(wild) < 1e300 && std::fabs(wild) > 1e-300)
		{
			// the exact decimal of a double, the same one cut off, and one digit longer
			std::snprintf(digits, sizeof(digits), "%.800e", std::fabs(wild));
			const int exponent = std::atoi(std::strchr(digits, 'e') + 1) + 1;
			const std::string exact = std::string(1, digits[0]) + std::string(digits + 2, 800);

			add_decimal(exact, exponent, wild < 0);
			add_decimal(exact.substr(0, 3 + random() % 30), exponent, wild < 0);
			add_decimal(exact.substr(0, 790) + "1", exponent, wild < 0);
		}
		std::string short_digits = std::to_string(random() >> (random() % 63));

		add_decimal(short_digits, exponents(random), random() % 2 != 0);
		add_decimal(short_digits + std::to_string(random()), exponents(random) / 8, random() % 2 != 0);

		const int64_t whole = static_cast<int64_t>(random()) >> (random() % 63);

		if (whole != 0)
		{
			const std::string text = std::to_string(whole);
			const bool negative = whole < 0;

			found.push_back({key_of(whole),
				fixed(text.substr(negative), static_cast<int>(text.size()) - negative, negative), text});
			add_decimal(text.substr(negative), static_cast<int>(text.size()) - negative, negative);
			add_double(static_cast<double>(whole));
		}
	}
	return found;
}

TEST(NumberKey, keys_order_as_the_values_of_every_input_type)
{
	std::mt19937_64 random(20170531);
	const std::vector<Sample> all = samples(random, 400);
	int equal = 0;

	for (size_t i = 0; i < all.size(); i++)
		for (size_t j = i; j < all.size(); j += (j - i < 12 ? 1 : 37))
		{
			const int expected = compare_fixed(all[i].value, all[j].value);

			ASSERT_EQ(sign(all[i].key.compare(all[j].key)), expected) << all[i].shown << " and " << all[j].shown;
			equal += i != j && expected == 0;
		}
	EXPECT_GT(equal, 400); // a whole number as decimal and as integer, a double and its exact decimal
}

TEST(NumberKey, text_reads_back_as_the_same_key)
{
	std::mt19937_64 random(7);

	for (const Sample &sample : samples(random, 300))
		ASSERT_EQ(key_of(text_of(sample.key)), sample.key) << sample.shown << " shown as " << text_of(sample.key);
}

TEST(NumberKey, special_values_are_in_the_order_of_postgres)
{
	const std::vector<std::string> ascending = {key_of(-kInfinity), key_of("-1e131071"), key_of("-1e400"),
		key_of(-std::numeric_limits<double>::max()), key_of(-1.0), key_of(-5e-324), key_of("-1e-400"),
		key_of("-1e-16383"), key_of(0.0), key_of("1e-16383"), key_of("1e-400"), key_of(5e-324), key_of("6e-324"),
		key_of(1e-310), key_of(0.1), key_of(int64_t{1}), key_of("9007199254740992.5"),
		key_of(int64_t{9007199254740993}), key_of(9007199254740994.0), key_of(int64_t{9223372036854775807}),
		key_of(9223372036854775808.0), key_of(std::numeric_limits<double>::max()), key_of("1.8e308"), key_of("1e400"),
		key_of("1e131071"), key_of(kInfinity), key_of(std::nan(""))};

	for (size_t i = 1; i < ascending.size(); i++)
		EXPECT_LT(ascending[i - 1], ascending[i]) << i;
	EXPECT_EQ(key_of(-0.0), key_of(int64_t{0}));
	EXPECT_EQ(key_of(-std::nan("")), key_of("nan"));
	EXPECT_EQ(key_of("-INFINITY"), key_of(-kInfinity));
	EXPECT_EQ(key_of("-0.000e5"), key_of(0.0));
	EXPECT_EQ(key_of(std::numeric_limits<int64_t>::min()), key_of(-9223372036854775808.0));
}

TEST(NumberKey, a_binary_fraction_is_not_its_decimal)
{
	EXPECT_NE(key_of(0.1), key_of("0.1"));
	EXPECT_EQ(key_of(0.1), key_of("0.1f"));
	EXPECT_EQ(key_of(0.1), key_of("0.1000000000000000055511151231257827021181583404541015625"));
	EXPECT_EQ(key_of(0.5), key_of("0.50"));
	EXPECT_EQ(text_of(key_of(0.1)), "0.1f");
	EXPECT_EQ(text_of(key_of(0.5)), "0.5");
	EXPECT_EQ(text_of(key_of("0.10")), "0.1");
	EXPECT_EQ(text_of(key_of(-1234567.0)), "-1234567");
	EXPECT_EQ(text_of(key_of(1e300)), "1e+300f");
	EXPECT_EQ(text_of(key_of("1e300")), "1e+300");
	EXPECT_EQ(text_of(key_of(std::numeric_limits<int64_t>::min())), "-9223372036854775808");
	EXPECT_EQ(text_of(key_of(std::ldexp(1.0, 80))), "1.2089258196146292e+24f");
	EXPECT_EQ(text_of(key_of("123e18")), "123000000000000000000");
}

TEST(NumberKey, whole_numbers_and_doubles_have_short_keys)
{
	EXPECT_EQ(key_of(int64_t{1} << 53).size(), 8u);
	EXPECT_EQ(key_of((int64_t{1} << 53) + 1).size(), 8u + 3 + 8);
	EXPECT_EQ(key_of("17.25").size(), 8u);
	EXPECT_EQ(key_of("17.3").size(), 8u + 3 + 2);
	EXPECT_EQ(key_of("-17.3").size(), 8u + 3 + 2 + 1);
}

TEST(NumberKey, refuses_text_that_is_no_number_or_too_long)
{
	uint8_t key[kMaxNumberKey];
	int length;
	auto read = [&](const std::string &text)
	{ return read_number(text.data(), static_cast<int>(text.size()), key, &length); };

	for (const char *text :
		{"", "-", ".", "e5", "1e", "1e+", "1..2", "1.2.3", "+1", " 1", "1 ", "0x10", "1f2", "inf", "--1", "1ff"})
		EXPECT_EQ(read(text), ReadNumber::kSyntax) << text;
	EXPECT_EQ(read("1e200001"), ReadNumber::kOutOfRange);
	EXPECT_EQ(read("1e99999999999999999999999"), ReadNumber::kOutOfRange);
	EXPECT_EQ(read("1e-99999999999999999999999"), ReadNumber::kOutOfRange);
	EXPECT_EQ(read("0e99999999999999999999999"), ReadNumber::kOk);
	EXPECT_EQ(read("1e400f"), ReadNumber::kOutOfRange);
	EXPECT_EQ(read("0." + std::string(kMaxNumberDigits, '7')), ReadNumber::kOk);
	EXPECT_EQ(length, kMaxNumberKey - 1);
	EXPECT_EQ(read("0." + std::string(kMaxNumberDigits + 1, '7')), ReadNumber::kTooLong);
	EXPECT_EQ(read("1" + std::string(kMaxNumberDigits + 5000, '0')), ReadNumber::kOk);
	EXPECT_EQ(read("1" + std::string(kMaxNumberDigits + 5000, '0') + "1"), ReadNumber::kTooLong);
}

TEST(NumberKey, reads_only_keys_that_it_writes)
{
	std::mt19937_64 random(3);
	char digits[kMaxNumberDigits + 2];
	uint8_t bytes[24];
	NumberFromKey number;
	int valid = 0;

	for (int i = 0; i < 200000; i++)
	{
		const std::string good = i % 2 ? key_of(static_cast<int64_t>(random()) >> (random() % 12)) : key_of("-17.3");
		int length = static_cast<int>(good.size());

		std::memcpy(bytes, good.data(), good.size());
		bytes[random() % good.size()] = static_cast<uint8_t>(random());
		if (random() % 4 == 0)
			length = static_cast<int>(random() % 24);
		if (!read_number_key(bytes, length, digits, &number))
			continue;
		valid++;
		const std::string key(reinterpret_cast<char *>(bytes), static_cast<size_t>(length));

		ASSERT_EQ(key_of(text_of(key)), key);
	}
	EXPECT_GT(valid, 1000);
}

} // namespace
