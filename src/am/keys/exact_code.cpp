// See exact_code.hpp.
#include "am/keys/exact_code.hpp"

extern "C"
{
#include "datatype/timestamp.h"
#include "utils/date.h"
#include "utils/timestamp.h"
}

#include <bit>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kSign64 = UINT64CONST(1) << 63;
constexpr uint32 kSign32 = UINT32_C(1) << 31;
constexpr uint16 kSign16 = UINT16_C(1) << 15;

constexpr uint64 kInfinity64 = kSign64 | UINT64CONST(0x7FF0000000000000);
constexpr uint32 kInfinity32 = kSign32 | UINT32_C(0x7F800000);

constexpr uint64
signed_code(int64 value)
{
	return static_cast<uint64>(value) ^ kSign64;
}

constexpr uint64
signed_code(int32 value)
{
	return static_cast<uint32>(value) ^ kSign32;
}

/// Bits of a number whose sign bit is set are inverted, the sign bit of others is set.
template <class Bits>
constexpr Bits
sorted_bits(Bits bits, Bits sign)
{
	return static_cast<Bits>((bits & sign) != 0 ? ~bits : bits | sign);
}

template <class Bits>
constexpr Bits
original_bits(Bits sorted, Bits sign)
{
	return static_cast<Bits>((sorted & sign) != 0 ? sorted & ~sign : ~sorted);
}

uint32
float4_code(float value)
{
	if (value != value)
		return kInfinity32 + 1;
	return sorted_bits(std::bit_cast<uint32>(value == 0 ? 0.0f : value), kSign32);
}

constexpr ExactKind
plain(uint8 width, uint64 first, uint64 last)
{
	return {width, first, last, false, 0, 0};
}

constexpr ExactKind kBoolCodes = plain(1, 0, 1);
constexpr ExactKind kCharCodes = plain(1, 0, UINT8_MAX);
constexpr ExactKind kInt2Codes = plain(2, 0, UINT16_MAX);
constexpr ExactKind kInt4Codes = plain(4, 0, UINT32_MAX);
constexpr ExactKind kInt8Codes = plain(8, 0, UINT64_MAX);
constexpr ExactKind kFloat4Codes = plain(4, static_cast<uint32>(~kInfinity32), kInfinity32 + 1);
constexpr ExactKind kFloat8Codes = plain(8, ~kInfinity64, kInfinity64 + 1);
constexpr ExactKind kTimeCodes = plain(8, signed_code(int64{0}), signed_code(USECS_PER_DAY));
constexpr ExactKind kDateCodes = {4, signed_code(int32{DATETIME_MIN_JULIAN - POSTGRES_EPOCH_JDATE}),
	signed_code(int32{DATE_END_JULIAN - POSTGRES_EPOCH_JDATE - 1}), true, 0, UINT32_MAX};
constexpr ExactKind kTimestampCodes = {
	8, signed_code(int64{MIN_TIMESTAMP}), signed_code(int64{END_TIMESTAMP} - 1), true, 0, UINT64_MAX};

} // namespace

uint64
float8_code(double value)
{
	if (value != value)
		return kInfinity64 + 1;
	return sorted_bits(std::bit_cast<uint64>(value == 0 ? 0.0 : value), kSign64);
}

const ExactKind *
exact_kind(KeyKind kind)
{
	switch (kind)
	{
		case KeyKind::kBool:
			return &kBoolCodes;
		case KeyKind::kChar:
			return &kCharCodes;
		case KeyKind::kInt2:
			return &kInt2Codes;
		case KeyKind::kInt4:
		case KeyKind::kOid:
			return &kInt4Codes;
		case KeyKind::kInt8:
			return &kInt8Codes;
		case KeyKind::kFloat4:
			return &kFloat4Codes;
		case KeyKind::kFloat8:
			return &kFloat8Codes;
		case KeyKind::kDate:
			return &kDateCodes;
		case KeyKind::kTime:
			return &kTimeCodes;
		case KeyKind::kTimestamp:
		case KeyKind::kTimestampTz:
			return &kTimestampCodes;
		default:
			return nullptr;
	}
}

uint64
exact_code(KeyKind kind, Datum value)
{
	switch (kind)
	{
		case KeyKind::kBool:
			return DatumGetBool(value) ? 1 : 0;
		case KeyKind::kChar:
			return static_cast<uint8>(DatumGetChar(value));
		case KeyKind::kInt2:
			return static_cast<uint16>(static_cast<uint16>(DatumGetInt16(value)) ^ kSign16);
		case KeyKind::kInt4:
		case KeyKind::kDate:
			return signed_code(DatumGetInt32(value));
		case KeyKind::kOid:
			return DatumGetObjectId(value);
		case KeyKind::kFloat4:
			return float4_code(DatumGetFloat4(value));
		case KeyKind::kFloat8:
			return float8_code(DatumGetFloat8(value));
		default: // of 64 bits
			return signed_code(DatumGetInt64(value));
	}
}

Datum
exact_value(KeyKind kind, uint64 code)
{
	switch (kind)
	{
		case KeyKind::kBool:
			return BoolGetDatum(code != 0);
		case KeyKind::kChar:
			return CharGetDatum(static_cast<char>(code));
		case KeyKind::kInt2:
			return Int16GetDatum(static_cast<int16>(static_cast<uint16>(code) ^ kSign16));
		case KeyKind::kInt4:
		case KeyKind::kDate:
			return Int32GetDatum(static_cast<int32>(static_cast<uint32>(code) ^ kSign32));
		case KeyKind::kOid:
			return ObjectIdGetDatum(static_cast<Oid>(code));
		case KeyKind::kFloat4:
			return Float4GetDatum(std::bit_cast<float>(
				original_bits(code > kInfinity32 ? uint32{0xFFC00000} : static_cast<uint32>(code), kSign32)));
		case KeyKind::kFloat8:
			return Float8GetDatum(std::bit_cast<double>(
				original_bits(code > kInfinity64 ? UINT64CONST(0xFFF8000000000000) : code, kSign64)));
		default:
			return Int64GetDatum(static_cast<int64>(code ^ kSign64));
	}
}

} // namespace vectorgpu::am
