// Order-preserving keys of numbers. See number_key.hpp. No PostgreSQL.
#include "types/match/number_key.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace vectorgpu::types
{
namespace
{

constexpr uint64_t kSignBit = uint64_t{1} << 63;
constexpr int64_t kExactInteger = int64_t{1} << 53; // every whole number up to this is a binary64 number
constexpr int kExponentBias = 1 << 23;
constexpr int kShortDigits = 15; // every whole number with this many digits is a binary64 number
constexpr int kExactPower = 22;  // 10^22 is the largest power of ten that is a binary64 number

constexpr double kPowers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
	1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

void
put_double(double value, uint8_t *key)
{
	if (std::isnan(value))
		value = std::numeric_limits<double>::quiet_NaN();
	if (value == 0)
		value = 0; // not -0

	uint64_t bits = std::bit_cast<uint64_t>(value);

	bits = (bits & kSignBit) ? ~bits : bits | kSignBit;
	for (int i = 0; i < kNumberKeyHead; i++)
		key[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
}

double
get_double(const uint8_t *key)
{
	uint64_t bits = 0;

	for (int i = 0; i < kNumberKeyHead; i++)
		bits = bits << 8 | key[i];
	bits = (bits & kSignBit) ? bits & ~kSignBit : ~bits;
	return std::bit_cast<double>(bits);
}

/// Write the digits after the head; return the length of the key.
int
put_digits(const Decimal &value, uint8_t *key)
{
	const uint32_t exponent = static_cast<uint32_t>(value.exponent + kExponentBias);
	const uint8_t inversion = value.negative ? 0xFF : 0;
	int length = kNumberKeyHead;

	key[length++] = static_cast<uint8_t>(exponent >> 16) ^ inversion;
	key[length++] = static_cast<uint8_t>(exponent >> 8) ^ inversion;
	key[length++] = static_cast<uint8_t>(exponent) ^ inversion;
	for (int i = 0; i < value.n_digits; i += 2)
	{
		const int high = value.digits[i] - '0';
		const int low = i + 1 < value.n_digits ? value.digits[i + 1] - '0' : 0;

		key[length++] = static_cast<uint8_t>(1 + 10 * high + low) ^ inversion;
	}
	if (value.negative)
		key[length++] = 0xFF;
	return length;
}

/// Return the sign of |a| - |b|, for decimals that are not zero.
int
compare_magnitudes(const Decimal &a, const Decimal &b)
{
	if (a.exponent != b.exponent)
		return a.exponent < b.exponent ? -1 : 1;

	const int common = a.n_digits < b.n_digits ? a.n_digits : b.n_digits;
	const int order = std::memcmp(a.digits, b.digits, static_cast<size_t>(common));

	if (order != 0)
		return order;
	return a.n_digits - b.n_digits;
}

/// Return the binary64 number nearest to |value|; *sign: the sign of (that number) - |value|.
double
nearest_short(const Decimal &value, int *sign)
{
	const int scale = value.n_digits - value.exponent; // |value| = whole / 10^scale
	double whole = 0;
	double nearest;
	double error;

	for (int i = 0; i < value.n_digits; i++)
		whole = whole * 10 + (value.digits[i] - '0');
	if (scale >= 0)
	{
		nearest = whole / kPowers[scale];
		error = std::fma(nearest, kPowers[scale], -whole);
	}
	else
	{
		nearest = whole * kPowers[-scale];
		error = -std::fma(whole, kPowers[-scale], -nearest);
	}
	*sign = error > 0 ? 1 : (error < 0 ? -1 : 0);
	return nearest;
}

double
nearest_long(const Decimal &value, int *sign)
{
	char text[kMaxNumberDigits + 32];
	char exact[kExactDecimalBytes];
	double nearest = 0;

	// Truncating the digits cannot change the result: the exact comparison below uses all of them.
	const int n_digits = value.n_digits < kMaxNumberDigits ? value.n_digits : kMaxNumberDigits;

	if (value.exponent > 310)
		nearest = std::numeric_limits<double>::max();
	else if (value.exponent >= -330)
	{
		std::memcpy(text, value.digits, static_cast<size_t>(n_digits));
		text[n_digits] = 'e';

		const auto end = std::to_chars(text + n_digits + 1, text + sizeof(text), value.exponent - n_digits);
		const auto read = std::from_chars(text, end.ptr, nearest);

		if (read.ec == std::errc::result_out_of_range)
			nearest = value.exponent > 0 ? std::numeric_limits<double>::max() : 0;
		if (std::isinf(nearest))
			nearest = std::numeric_limits<double>::max();
	}
	*sign = nearest == 0 ? -1 : compare_magnitudes(exact_decimal(nearest, exact), value);
	return nearest;
}

} // namespace

Decimal
exact_decimal(double value, char *digits)
{
	const auto end =
		std::to_chars(digits, digits + kExactDecimalBytes, value, std::chars_format::scientific, kDoubleDigits - 1);
	char *mark = digits;
	int exponent = 0;

	while (mark < end.ptr && *mark != 'e')
		mark++;
	const bool minus = mark + 1 < end.ptr && mark[1] == '-';

	for (const char *p = mark + 2; p < end.ptr; p++)
		exponent = exponent * 10 + (*p - '0');
	std::memmove(digits + 1, digits + 2, static_cast<size_t>(mark - digits - 2)); // drop the point

	int n_digits = static_cast<int>(mark - digits) - 1;

	while (n_digits > 0 && digits[n_digits - 1] == '0')
		n_digits--;
	return {false, digits, n_digits, (minus ? -exponent : exponent) + 1};
}

int
number_key(double value, uint8_t *key)
{
	put_double(value, key);
	return kNumberKeyHead;
}

int
number_key(const Decimal &value, uint8_t *key)
{
	constexpr double kInfinity = std::numeric_limits<double>::infinity();
	const int scale = value.n_digits - value.exponent;
	int sign;
	double floor;

	if (value.n_digits == 0)
		return number_key(0.0, key);

	const double nearest = value.n_digits <= kShortDigits && scale >= -kExactPower && scale <= kExactPower
		? nearest_short(value, &sign)
		: nearest_long(value, &sign);

	if (sign != 0 && value.n_digits > kMaxNumberDigits)
		return 0;
	if (value.negative) // the largest binary64 number <= -|v| is at least as far from 0 as v
		floor = sign < 0 ? std::nextafter(-nearest, -kInfinity) : -nearest;
	else
		floor = sign > 0 ? std::nextafter(nearest, -kInfinity) : nearest;
	put_double(floor, key);
	return sign == 0 ? kNumberKeyHead : put_digits(value, key);
}

int
number_key(int64_t value, uint8_t *key)
{
	char text[24];

	if (value >= -kExactInteger && value <= kExactInteger)
		return number_key(static_cast<double>(value), key);

	const auto end = std::to_chars(text, text + sizeof(text), value);
	const char *digits = text + (value < 0);
	const int n_digits = static_cast<int>(end.ptr - digits);
	Decimal decimal = {value < 0, digits, n_digits, n_digits};

	while (decimal.digits[decimal.n_digits - 1] == '0')
		decimal.n_digits--;
	return number_key(decimal, key);
}

bool
read_number_key(const uint8_t *key, int length, char *digits, NumberFromKey *number)
{
	uint8_t again[kMaxNumberKey];

	if (length < kNumberKeyHead || length > kMaxNumberKey)
		return false;
	number->value = get_double(key);
	number->is_double = length == kNumberKeyHead;
	if (number->is_double)
	{
		put_double(number->value, again);
		return std::memcmp(key, again, kNumberKeyHead) == 0; // only one NaN and one zero are valid
	}
	if (std::isnan(number->value))
		return false;

	const bool negative = std::signbit(number->value);
	const uint8_t inversion = negative ? 0xFF : 0;
	const int end = negative ? length - 1 : length;
	uint32_t exponent = 0;
	int n_digits = 0;

	if (end < kNumberKeyHead + 4)
		return false;
	for (int i = 0; i < 3; i++)
		exponent = exponent << 8 | static_cast<uint8_t>(key[kNumberKeyHead + i] ^ inversion);
	for (int i = kNumberKeyHead + 3; i < end; i++)
	{
		const int pair = static_cast<uint8_t>(key[i] ^ inversion) - 1;

		if (pair < 0 || pair > 99)
			return false;
		digits[n_digits++] = static_cast<char>('0' + pair / 10);
		digits[n_digits++] = static_cast<char>('0' + pair % 10);
	}
	if (digits[n_digits - 1] == '0')
		n_digits--;
	if (digits[0] == '0' || digits[n_digits - 1] == '0')
		return false;
	number->decimal = {negative, digits, n_digits, static_cast<int32_t>(exponent) - kExponentBias};
	return number_key(number->decimal, again) == length && std::memcmp(key, again, static_cast<size_t>(length)) == 0;
}

} // namespace vectorgpu::types
