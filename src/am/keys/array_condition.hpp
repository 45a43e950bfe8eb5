// Conditions on arrays, by signatures: a row whose signature lacks bits fails, the value of any other is checked. PG
// dialect.
#pragma once

#include "am/keys/key_column.hpp"
#include "engine/predicate/tree.hpp"

namespace vectorgpu::am
{

/// Write `column <strategy> constant`. stream: the column's first. strategy: = or one of arrays (key_kind.hpp).
void array_column_condition(
	const KeyColumn *column, uint16 stream, StrategyNumber strategy, Datum constant, engine::predicate::Node *node);

} // namespace vectorgpu::am
