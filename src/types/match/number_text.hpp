// Numbers of matchrow and matchquery as text. No PostgreSQL, no allocation, no exceptions, independent of the locale.
#pragma once

#include "types/match/number_key.hpp"

namespace vectorgpu::types
{

constexpr int kMaxNumberText = kMaxNumberDigits + 32; // bytes of a number's text, terminator included

/// Writes the text of a key, which read_number turns into the same key: decimal, in plain form or with an exponent;
/// binary64 numbers of many digits are their shortest decimal form followed by "f". Returns its length; the text ends
/// in 0.
int number_text(const NumberFromKey &number, char *text);

enum class ReadNumber
{
	kOk,
	kSyntax,     // no number
	kTooLong,    // more than kMaxNumberDigits significant digits
	kOutOfRange, // exponent beyond +-kMaxNumberExponent, or "f" after a number that is no finite binary64 number
};

constexpr int kMaxNumberExponent = 200000; // numeric goes from 10^-16383 to 10^131072

/// Reads text [length]: [-]digits[.digits][e[+-]digits][f], "NaN", "Infinity" or "-Infinity" in any case. key
/// [kMaxNumberKey].
ReadNumber read_number(const char *text, int length, uint8_t *key, int *key_length);

} // namespace vectorgpu::types
