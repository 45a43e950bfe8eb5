// A key column: its operator class, its streams of codes, and the codes of its values. PG dialect.
#pragma once

#include "am/keys/key_kind.hpp"

namespace vectorgpu::am
{

constexpr int kMostKeyStreams = 2;

/// A key column, opened. Valid as long as the memory context it was opened in.
struct KeyColumn
{
	KeyKind kind;
	bool bytewise; // kText, kBytea: equal values have equal bytes; kArray: equal texts have
	bool in_order; // likewise: values sort as their bytes do, and stream 1 has prefixes
	uint8 n_streams;
	uint8 widths[kMostKeyStreams]; // bytes of a code
	Oid family;
	Oid class_type; // as the operator class has it: ANYENUMOID for enums, ANYARRAYOID for arrays
	Oid type;       // of the values, not a domain
	Oid collation;
	FmgrInfo hash; // of values, or of an array's elements; fn_oid is 0 if the kind needs none
};

/// Open the column of a filter class. Raises 0A000 for another class, 42883 for arrays whose elements have no hashes.
void key_column_open(Oid family, Oid class_type, Oid type, Oid collation, KeyColumn *column);

/// Open column `attribute` (from 1 on) of an index. Raises 0A000 if its operator class is no filter class.
void key_column_of_index(Relation index, AttrNumber attribute, KeyColumn *column);

/// What a page has to store of a column so that its codes can be read later: the kind, and whether equality and order
/// are those of bytes, which the collation decides.
uint32 key_format(const KeyColumn *column);

/// Hash a value, or an element of an array, by column->hash under the column's collation.
uint64 key_hash(const KeyColumn *column, Datum value);

/// Set codes [column->n_streams] of a value that is not NULL. Reads it where it is, detoasting; what it allocates is in
/// the current memory context.
void key_encode(const KeyColumn *column, Datum value, uint64 *codes);

} // namespace vectorgpu::am
