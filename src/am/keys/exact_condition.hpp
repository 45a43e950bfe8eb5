// Conditions on key columns whose codes are exact, as nodes of a predicate. The constant may be of another type of the
// operator family: then its place among the codes is found with the family's comparison function, so that no pair of
// types has rules of its own here. PG dialect.
#pragma once

#include "am/keys/key_column.hpp"
#include "engine/predicate/tree.hpp"

namespace vectorgpu::am
{

/// Write `column <strategy> constant` of the stream. constant_type: as the operator has it, or 0 for the column's own.
void exact_condition(const KeyColumn *column, uint16 stream, StrategyNumber strategy, Datum constant, Oid constant_type,
	engine::predicate::Node *node);

} // namespace vectorgpu::am
