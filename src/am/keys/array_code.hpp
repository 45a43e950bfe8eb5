// Codes of arrays: a signature of 128 bits in two streams, in which each element sets a few bits. PG dialect.
#pragma once

#include "am/keys/key_column.hpp"

namespace vectorgpu::am
{

/// Bits of one element, all in one stream. README.md says why there are four.
constexpr int kElementBits = 4;

/// The bits that an element sets in each stream; or those that several elements do.
struct ArrayBits
{
	uint64 bits[kMostKeyStreams];
};

/// The elements of an array, whatever its dimensions: the bits of each that is not NULL. Memory is the current
/// context's.
struct ArrayElements
{
	ArrayBits *elements; // [n], in their order
	int n;
	bool has_null;
};

/// Prepare a column of arrays: the extended hash function that goes with the elements' equality. Raises 42883 if they
/// have none.
void array_column_open(KeyColumn *column);

/// Read an array, detoasting.
void array_elements(const KeyColumn *column, Datum value, ArrayElements *elements);

/// The signature: the bits of all elements.
ArrayBits array_signature(const ArrayElements &elements);

} // namespace vectorgpu::am
