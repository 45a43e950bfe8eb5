// The rows of a segment in TID order, group by group. PG dialect; locks one page at a time, none between two groups.
#pragma once

#include "am/sparse/sparse.hpp"

namespace vectorgpu::am
{

constexpr uint32 kSparseGroupRows = kPayloadBytes / sizeof(uint64); // at most: a page of ends or of row ids

struct SparseRows
{
	Relation index;
	const MetaData *meta;
	const SegmentEntry *segment;
	BufferAccessStrategy strategy;
	uint64 first;                      // row of the group
	uint32 n;                          // rows of the group
	uint64 ends[kSparseGroupRows + 1]; // [n + 1] where the values begin and end in kVectors
	char *bytes;                       // from ends[0] on
};

/// Stand before the first row. Allocates in the current context.
void sparse_rows_begin(
	SparseRows *rows, Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy);

/// Read the next group, which has rows unless none is left. Returns false if a page was foreign.
bool sparse_rows_next(SparseRows *rows);

/// Row i of the group.
inline engine::SparseVector
sparse_rows_get(const SparseRows *rows, uint32 i)
{
	return engine::sparse_vector(rows->bytes + (rows->ends[i] - rows->ends[0]), rows->ends[i + 1] - rows->ends[i]);
}

} // namespace vectorgpu::am
