// Keys of single SQL values, read in their binary form: no setting of the session has an effect. PG dialect.
#pragma once

#include "types/match/row_value.hpp"

namespace vectorgpu::types
{

/// Set the kind of a type that scalar_type returned. False if values of this type cannot be matched.
extern bool kind_of_type(Oid type, ValueKind *kind);

/// Return the type under all domains; ANYENUMOID for every enum.
extern Oid scalar_type(Oid type);

/// Return the key of a value that is not NULL, palloc'd. `type` is one that kind_of_type accepts.
extern ElementKey scalar_key(Oid type, Datum datum);

} // namespace vectorgpu::types
