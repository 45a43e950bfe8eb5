// Convert a number in text to the nearest float, for the text input of vectors: the result of strtof, several times as
// fast for typical numbers. No PostgreSQL, no allocation. LC_NUMERIC must be C, as it is in a backend.
#pragma once

#include <bit>
#include <cerrno>
#include <cfloat>
#include <cstdint>
#include <cstdlib>

namespace vectorgpu::types
{

/// Powers of ten that a double holds exactly.
constexpr double kExactPowersOfTen[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14,
	1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/// Digits of a plain decimal number, read up to the first character that is not part of it.
struct DecimalDigits
{
	uint64_t mantissa = 0; // all digits, without the point
	int exponent = 0;      // value = mantissa * 10^exponent
	int n_digits = 0;      // digits read, leading zeros included
	const char *end = nullptr;
};

inline DecimalDigits
read_digits(const char *text)
{
	DecimalDigits digits;

	for (; *text >= '0' && *text <= '9'; text++, digits.n_digits++)
		digits.mantissa = digits.mantissa * 10 + static_cast<uint64_t>(*text - '0');
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++, digits.n_digits++, digits.exponent--)
			digits.mantissa = digits.mantissa * 10 + static_cast<uint64_t>(*text - '0');

	if (*text == 'e' || *text == 'E')
	{
		const bool minus = text[1] == '-';
		const char *digit = text + ((minus || text[1] == '+') ? 2 : 1);
		int power = 0;
		int n_power_digits = 0;

		for (; *digit >= '0' && *digit <= '9' && n_power_digits < 4; digit++, n_power_digits++)
			power = power * 10 + (*digit - '0');
		if (n_power_digits > 0)
		{
			digits.exponent += minus ? -power : power;
			text = digit;
		}
	}
	digits.end = text;
	return digits;
}

/// Return strtof(text, end), with the same errno (ERANGE; otherwise errno is unchanged).
inline float
parse_float(const char *text, const char **end)
{
	const bool minus = *text == '-';
	const DecimalDigits digits = read_digits(minus ? text + 1 : text);
	const int power = digits.exponent < 0 ? -digits.exponent : digits.exponent;

	// Converting the mantissa to double and the operation round once each, so the double is within 2 units in its last
	// place of the number. Rounding it to float is right unless a point halfway between two floats (low 29 bits: 1 and
	// zeros) is as near. The number lies between 1e-22 and 2e41, so the float is normal or out of range. More than 19
	// digits may have overflowed the mantissa. An x or a digit after the end means that the number continues.
	if (digits.n_digits > 0 && digits.n_digits <= 19 && power <= 22 && *digits.end != 'x' && *digits.end != 'X' &&
		!(*digits.end >= '0' && *digits.end <= '9'))
	{
		const double mantissa = static_cast<double>(digits.mantissa);
		const double value =
			digits.exponent < 0 ? mantissa / kExactPowersOfTen[power] : mantissa * kExactPowersOfTen[power];
		const int64_t low_bits = static_cast<int64_t>(std::bit_cast<uint64_t>(value) & 0x1FFFFFFF);
		const bool halfway = low_bits >= 0x10000000 - 2 && low_bits <= 0x10000000 + 2;

		if (digits.mantissa == 0 || (!halfway && value <= FLT_MAX))
		{
			*end = digits.end;
			return minus ? -static_cast<float>(value) : static_cast<float>(value);
		}
	}

	char *stop;
	const float value = std::strtof(text, &stop);

	*end = stop;
	return value;
}

} // namespace vectorgpu::types
