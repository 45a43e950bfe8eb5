// Order-preserving keys of numbers. One key per value, for every type: integers, decimals of any length and binary64
// numbers that are mathematically equal have equal keys. Keys compare (memcmp, a prefix first) as the values do,
// -Infinity first, NaN last. No PostgreSQL, no allocation, no exceptions, independent of the locale.
//
// Key of value v:
//   8 bytes  d, the largest binary64 number <= v, big-endian: its bits, negated if the sign is set, else with the sign
//            bit set. -0 counts as 0, every NaN as the quiet positive one. If v is greater than the largest finite
//            number, d is that number; if v is less than the smallest finite number, d is -Infinity.
//   then, only if v is not d, the decimal digits of v = +-0.d1d2d3... x 10^e with d1 and the last digit not 0:
//   3 bytes  e + 2^23, big-endian
//   n bytes  pairs of digits, each 1 + its value (1 .. 100), the last one padded with a 0
//   and if v is negative, these bytes are inverted and followed by a byte 0xFF
// Among values with equal d the digits decide; d itself, with no digits, is the smallest. Whole numbers up to 2^53 and
// all binary64 numbers have keys of 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::types
{

/// A decimal number: +-0.d1d2d3... x 10^exponent. Zero has no digits and is not negative.
struct Decimal
{
	bool negative;
	const char *digits; // [n_digits] '0' .. '9', the first and the last not '0'
	int32_t n_digits;
	int32_t exponent;
};

constexpr int kNumberKeyHead = 8; // bytes of a key that is a binary64 number

/// Most significant digits of a number that has a key, unless it is a binary64 number.
constexpr int kMaxNumberDigits = 2000;
constexpr int kMaxNumberKey = kNumberKeyHead + 3 + kMaxNumberDigits / 2 + 1; // bytes

/// Write the key of a number into key [kMaxNumberKey] and return its length in bytes; 0 if the number has more than
/// kMaxNumberDigits significant digits and is not a binary64 number.
int number_key(const Decimal &value, uint8_t *key);
int number_key(int64_t value, uint8_t *key);
int number_key(double value, uint8_t *key);

/// The number that a key represents.
struct NumberFromKey
{
	bool is_double;
	double value;    // if is_double
	Decimal decimal; // otherwise; digits point into the caller's buffer
};

/// Read a key of `length` bytes; digits [kMaxNumberDigits + 2] is a buffer. Returns false unless number_key writes such
/// a key.
bool read_number_key(const uint8_t *key, int length, char *digits, NumberFromKey *number);

constexpr int kDoubleDigits = 767; // no binary64 number has more significant decimal digits
constexpr int kExactDecimalBytes = kDoubleDigits + 16;

/// Return the exact decimal of a finite number > 0. digits [kExactDecimalBytes] is a buffer into which the result
/// points.
Decimal exact_decimal(double value, char *digits);

} // namespace vectorgpu::types
