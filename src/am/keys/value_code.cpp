// See value_code.hpp.
#include "am/keys/value_code.hpp"

#include "am/keys/exact_code.hpp"

extern "C"
{
#include "utils/fmgrprotos.h"
#include "utils/inet.h"

#include <sys/socket.h>
}

#include <cmath>
#include <cstdlib>

namespace vectorgpu::am
{

namespace
{

/// Decimals of at most this number of digits stay apart when they are rounded to 52 bits: the nearest two of them
/// differ by 10^-15 of the value, which is more than two units in the last of 52 bits.
constexpr int kExactDigits = 15;

/// Beyond these a double has fewer digits, or none.
constexpr double kLeastExact = 1e-290;
constexpr double kGreatestExact = 1e290;

constexpr uint64 kNotANumber = PG_UINT64_MAX - 3; // behind infinity, and exact

/// The digits of a decimal from the first to the last that is not zero.
int
count_digits(const char *text)
{
	int n = 0;
	int n_to_last = 0;

	for (; *text != '\0'; text++)
		if (*text >= '0' && *text <= '9' && (n > 0 || *text != '0'))
		{
			n++;
			if (*text != '0')
				n_to_last = n;
		}
	return n_to_last;
}

} // namespace

uint64
numeric_code(Datum value)
{
	char *text = DatumGetCString(DirectFunctionCall1(numeric_out, value));
	const double number = strtod(text, nullptr); // NaN and infinities have their names
	const double size = std::fabs(number);
	const bool is_name = (*text == '-' ? text[1] : *text) > '9';
	const bool exact = is_name ||
		(count_digits(text) <= kExactDigits && (size == 0 ? count_digits(text) == 0 : size >= kLeastExact) &&
			size <= kGreatestExact);

	pfree(text);
	if (number != number)
		return kNotANumber;
	return (float8_code(number) & ~UINT64CONST(1)) | (exact ? 0 : 1);
}

uint64
short_bytes_code(const char *bytes, size_t size)
{
	return prefix_code(bytes, size) | size;
}

uint64
prefix_code(const char *bytes, size_t size)
{
	uint64 code = 0;

	for (size_t i = 0; i < sizeof(code); i++)
		code = code << 8 | (i < size ? static_cast<uint8>(bytes[i]) : 0);
	return code;
}

bool
ipv4_code(Datum value, uint64 *code)
{
	inet *address = DatumGetInetPP(value);

	if (ip_family(address) != PGSQL_AF_INET)
		return false;
	*code =
		prefix_code(reinterpret_cast<const char *>(ip_addr(address)), 4) | static_cast<uint64>(ip_bits(address)) << 8;
	return true;
}

} // namespace vectorgpu::am
