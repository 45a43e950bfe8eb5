// Numbers of matchrow and matchquery as text. No PostgreSQL, no allocation, no exceptions, independent of the locale.
#pragma once

#include "types/match/number_key.hpp"

namespace vectorgpu::types
{

constexpr int kMaxNumberText = kMaxNumberDigits + 32; // bytes of a number's text, including the terminator

/// Write the text of a number, which read_number turns into the same key: decimal, in plain form or with an exponent. A
/// binary64 number with many digits is written in its shortest decimal form followed by "f". Return the length; a
/// terminator follows.
int number_text(const NumberFromKey &number, char *text);

enum class ReadNumber
{
	kOk,
	kSyntax,     // not a number
	kTooLong,    // more than kMaxNumberDigits significant digits
	kOutOfRange, // exponent beyond +-kMaxNumberExponent, or "f" after a number that is not a finite binary64 number
};

constexpr int kMaxNumberExponent = 200000; // numeric ranges from 10^-16383 to 10^131072

/// Read text [length]: [-]digits[.digits][e[+-]digits][f], "NaN", "Infinity" or "-Infinity", in upper or lower case.
/// The key goes to key [kMaxNumberKey].
ReadNumber read_number(const char *text, int length, uint8_t *key, int *key_length);

} // namespace vectorgpu::types
