// Codes that are the value: types of a fixed width whose order is that of unsigned numbers after a change of bits. Pure
// functions; PG dialect.
#pragma once

#include "am/keys/key_kind.hpp"

namespace vectorgpu::am
{

/// The codes of a kind. Codes outside of what is named here belong to no value.
struct ExactKind
{
	uint8 width;  // bytes
	uint64 first; // the least code of an ordinary value
	uint64 last;
	bool has_ends; // the values -infinity and infinity of dates and timestamps, whose codes lie apart
	uint64 lower_end;
	uint64 upper_end;
};

/// Null if the kind's codes are not exact.
const ExactKind *exact_kind(KeyKind kind);

/// The code of a value, and the value of a code, of an exact kind. Equal values (-0 and 0, any NaN) have one code.
uint64 exact_code(KeyKind kind, Datum value);
Datum exact_value(KeyKind kind, uint64 code);

/// A double's bits as a number that sorts as the doubles do: NaN last.
uint64 float8_code(double value);

} // namespace vectorgpu::am
