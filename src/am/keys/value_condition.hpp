// Conditions of one column with one constant, as nodes of a predicate: by the column's kind. PG dialect.
#pragma once

#include "am/keys/key_column.hpp"
#include "engine/predicate/tree.hpp"

extern "C"
{
#include "access/stratnum.h"
}

namespace vectorgpu::am
{

/// `column <strategy> constant`.
struct ValueCondition
{
	const KeyColumn *column;
	uint16 stream; // the column's first
	StrategyNumber strategy;
	Datum constant;
	Oid constant_type; // 0: the column's
};

void value_condition(const ValueCondition &condition, engine::predicate::Node *node);

} // namespace vectorgpu::am
