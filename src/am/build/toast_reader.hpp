// Reads values that lie out of line, uncompressed, in the order in which they were stored. The chunks of one value are
// mostly followed by those of the next, so their place need not be looked up in the index of the TOAST table, which is
// the larger part of what reading them costs. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "utils/snapshot.h"
}

namespace vectorgpu::am
{

struct ToastReader
{
	Relation table; // null: none has been read
	Relation *indexes;
	int n_indexes;
	int valid_index;
	SnapshotData snapshot; // sees the chunks of every value that a row refers to
	Buffer buffer;         // pinned: of the chunk read last; or invalid
	BlockNumber block;
	OffsetNumber offset;  // behind that chunk
	BlockNumber n_blocks; // of the table, at least
	uint32 n_missed;      // values in a row that were not there
};

void toast_reader_begin(ToastReader *reader);

/// Copy the first n bytes behind the length word of a value to dest, if it lies out of line, uncompressed, and has n
/// such bytes. False: it does not, or could not be read; core's functions return it or raise the error.
bool toast_reader_read(ToastReader *reader, Datum value, char *dest, Size n);

/// Let the page and the TOAST table go; its lock remains until the end of the transaction.
void toast_reader_end(ToastReader *reader);

} // namespace vectorgpu::am
