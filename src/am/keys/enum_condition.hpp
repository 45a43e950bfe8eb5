// Conditions on enums. Codes are OIDs of labels, which stay when labels are added or renamed; an order becomes the list
// of the labels that pass, as the catalog has them when a scan begins. PG dialect.
#pragma once

#include "am/keys/key_column.hpp"
#include "engine/predicate/tree.hpp"

namespace vectorgpu::am
{

void enum_condition(
	const KeyColumn *column, uint16 stream, StrategyNumber strategy, Datum constant, engine::predicate::Node *node);

} // namespace vectorgpu::am
