// From scan keys to a predicate program. Constants are encoded here, when a scan begins, under the session's time zone,
// so that neither the worker nor an engine knows types. PG dialect.
#pragma once

#include "am/keys/key_column.hpp"
#include "am/keys/key_tree.hpp"
#include "engine/predicate/program.hpp"

extern "C"
{
#include "access/skey.h"
}

namespace vectorgpu::am
{

/// A program in the current memory context, opened. Equal conditions have equal bytes.
struct KeyProgram
{
	uint8 *bytes;
	size_t n_bytes;
	engine::predicate::Program program;
};

/// Make the program of scan keys, all of which have to hold. columns [n_columns]: key columns 2 and on of the index, of
/// which column i has attribute number i + 2. Their streams are numbered in this order. Keys of column 1 are left out.
/// A key may be an array: it holds if it does for any element (SK_SEARCHARRAY). Keys that codes cannot decide become
/// kMaybe: the caller has to let core check the conditions unless program.exact. tree: has to hold, too; null: none.
void make_key_program(const KeyColumn *columns, int n_columns, const ScanKeyData *keys, int n_keys, const KeyTree *tree,
	KeyProgram *result);

/// The number of the first stream of column i; of n_columns: of all streams.
uint32 first_stream(const KeyColumn *columns, int i);

} // namespace vectorgpu::am
