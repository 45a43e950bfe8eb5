// Numbers as text. See number_text.hpp. No PostgreSQL.
#include "types/match/number_text.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace vectorgpu::types
{
namespace
{

constexpr int kShortExact = 20; // most digits of a binary64 number that is written exactly, such as 2^63

/// Write a decimal that is not zero, with a terminator; return the length.
int
decimal_text(const Decimal &value, char *text)
{
	char *p = text;

	if (value.negative)
		*p++ = '-';
	if (value.exponent < -4 || value.exponent > 21)
	{
		*p++ = value.digits[0];
		if (value.n_digits > 1)
		{
			*p++ = '.';
			std::memcpy(p, value.digits + 1, static_cast<size_t>(value.n_digits - 1));
			p += value.n_digits - 1;
		}
		*p++ = 'e';
		if (value.exponent > 0)
			*p++ = '+';
		p = std::to_chars(p, p + 12, value.exponent - 1).ptr;
	}
	else
	{
		if (value.exponent <= 0)
			*p++ = '0';
		for (int i = 0; i < value.exponent; i++)
			*p++ = i < value.n_digits ? value.digits[i] : '0';
		if (value.n_digits > value.exponent)
			*p++ = '.';
		for (int i = value.exponent; i < value.n_digits; i++)
			*p++ = i < 0 ? '0' : value.digits[i];
	}
	*p = '\0';
	return static_cast<int>(p - text);
}

/// Return the shortest decimal that identifies a finite number other than 0. digits [32] is a buffer.
Decimal
shortest_decimal(double value, char *digits)
{
	char text[32];
	const auto end = std::to_chars(text, text + sizeof(text), std::fabs(value), std::chars_format::scientific);
	int n_digits = 0;
	int exponent = 0;
	const char *p = text;

	for (; p < end.ptr && *p != 'e'; p++)
		if (*p != '.')
			digits[n_digits++] = *p;
	const bool minus = p[1] == '-';

	for (p += 2; p < end.ptr; p++)
		exponent = exponent * 10 + (*p - '0');
	while (n_digits > 1 && digits[n_digits - 1] == '0')
		n_digits--;
	return {value < 0, digits, n_digits, (minus ? -exponent : exponent) + 1};
}

bool
equals_word(const char *text, int length, const char *word)
{
	if (length != static_cast<int>(std::strlen(word)))
		return false;
	for (int i = 0; i < length; i++)
		if ((text[i] | 0x20) != word[i])
			return false;
	return true;
}

/// Read digits with at most one point into value->digits [n_bytes], without leading zeros, and set n_digits and
/// exponent. Returns the first character that is not part of the number. *any: there was a digit. *dropped: a digit
/// other than 0 did not fit.
const char *
read_mantissa(const char *p, const char *end, char *digits, int n_bytes, Decimal *value, bool *any, bool *dropped)
{
	bool point = false;

	for (; p < end && ((*p >= '0' && *p <= '9') || (*p == '.' && !point)); p++)
	{
		if (*p == '.')
		{
			point = true;
			continue;
		}
		*any = true;
		if (value->n_digits > 0 || *p != '0')
		{
			if (value->n_digits < n_bytes)
				digits[value->n_digits++] = *p;
			else if (*p != '0')
				*dropped = true;
			if (!point)
				value->exponent++;
		}
		else if (point)
			value->exponent--;
	}
	return p;
}

/// Read "e", an optional sign and digits, if they follow. Returns null if the digits are missing. A large exponent
/// stops growing beyond ten times kMaxNumberExponent.
const char *
read_exponent(const char *p, const char *end, int64_t *exponent)
{
	if (p == end || (*p | 0x20) != 'e')
		return p;

	const bool minus = p + 1 < end && p[1] == '-';

	p += minus || (p + 1 < end && p[1] == '+') ? 2 : 1;
	if (p == end || *p < '0' || *p > '9')
		return nullptr;
	for (; p < end && *p >= '0' && *p <= '9'; p++)
		*exponent = *exponent > int64_t{kMaxNumberExponent} * 10 ? *exponent : *exponent * 10 + (*p - '0');
	if (minus)
		*exponent = -*exponent;
	return p;
}

} // namespace

int
number_text(const NumberFromKey &number, char *text)
{
	char digits[32];
	char exact_digits[kExactDecimalBytes];
	uint8_t key[kMaxNumberKey];

	if (!number.is_double)
		return decimal_text(number.decimal, text);
	if (std::isnan(number.value) || std::isinf(number.value) || number.value == 0)
	{
		const char *word = std::isnan(number.value)
			? "NaN"
			: (number.value == 0 ? "0" : (number.value > 0 ? "Infinity" : "-Infinity"));

		std::strcpy(text, word);
		return static_cast<int>(std::strlen(text));
	}

	const Decimal shortest = shortest_decimal(number.value, digits);

	if (number_key(shortest, key) == kNumberKeyHead)
		return decimal_text(shortest, text);

	Decimal exact = exact_decimal(std::fabs(number.value), exact_digits);
	int length;

	exact.negative = number.value < 0;
	if (exact.n_digits <= kShortExact)
		return decimal_text(exact, text);
	length = decimal_text(shortest, text);
	text[length++] = 'f';
	text[length] = '\0';
	return length;
}

ReadNumber
read_number(const char *text, int length, uint8_t *key, int *key_length)
{
	constexpr double kInfinity = std::numeric_limits<double>::infinity();
	char digits[kMaxNumberDigits + kDoubleDigits];
	Decimal value = {false, digits, 0, 0};
	const char *p = text;
	const char *end = text + length;
	bool any = false;
	bool dropped = false;
	int64_t exponent = 0;

	if (equals_word(text, length, "nan") || equals_word(text, length, "infinity") ||
		equals_word(text, length, "-infinity"))
	{
		*key_length = number_key(
			text[0] == '-' ? -kInfinity : ((text[0] | 0x20) == 'n' ? -(kInfinity - kInfinity) : kInfinity), key);
		return ReadNumber::kOk;
	}
	if (p < end && *p == '-')
	{
		value.negative = true;
		p++;
	}
	p = read_mantissa(p, end, digits, static_cast<int>(sizeof(digits)), &value, &any, &dropped);
	if (!any)
		return ReadNumber::kSyntax;
	p = read_exponent(p, end, &exponent);
	if (p == nullptr)
		return ReadNumber::kSyntax;

	const bool nearest = p < end && (*p | 0x20) == 'f';

	if (p + nearest != end)
		return ReadNumber::kSyntax;
	while (value.n_digits > 0 && digits[value.n_digits - 1] == '0')
		value.n_digits--;
	if (value.n_digits == 0)
	{
		*key_length = number_key(0.0, key);
		return ReadNumber::kOk;
	}
	if (dropped)
		return ReadNumber::kTooLong;
	exponent += value.exponent;
	if (exponent > kMaxNumberExponent || exponent < -kMaxNumberExponent)
		return ReadNumber::kOutOfRange;
	value.exponent = static_cast<int32_t>(exponent);
	if (nearest)
	{
		double number;
		const char *from = value.negative && *text == '-' ? text + 1 : text;
		const auto read = std::from_chars(from, p, number);

		if (read.ec != std::errc() || std::isinf(number))
			return ReadNumber::kOutOfRange;
		*key_length = number_key(value.negative ? -number : number, key);
		return ReadNumber::kOk;
	}
	*key_length = number_key(value, key);
	return *key_length == 0 ? ReadNumber::kTooLong : ReadNumber::kOk;
}

} // namespace vectorgpu::types
