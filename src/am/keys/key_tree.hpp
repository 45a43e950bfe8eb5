// A condition on key columns as a tree of scan keys, for callers that have more to say than scan keys can: OR, and
// negated lists. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "access/skey.h"
}

namespace vectorgpu::am
{

enum class KeyTreeOp : uint8
{
	kAnd,   // without operands every row passes
	kOr,    // without operands none does
	kMaybe, // every row may pass: the caller tests it
	kKey,   // as a scan key of a column behind the first
	kAllOf, // likewise, for each element of the array that is its argument: NOT IN. One that is NULL fails every row
};

/// A condition. A row passes if SQL finds it true; there is no NOT, since false and unknown are one here: who writes
/// the tree negates the operators of its leaves.
struct KeyTree
{
	KeyTreeOp op;
	int n_operands;           // kAnd, kOr
	const KeyTree **operands; // [n_operands]
	ScanKeyData key;          // kKey, kAllOf; its function is not called
};

} // namespace vectorgpu::am
