// Shared by the files of a search: ivf_search.cpp (ranking of lists, rounds, lists of vectors), ivf_search_codes.cpp
// (lists of codes), refine.cpp (canonical distances of the candidates), table_reader.cpp (values from the table). PG
// dialect.
#pragma once

#include "am/gpuivf/codec.hpp"

extern "C"
{
#include "access/relscan.h"
#include "nodes/execnodes.h"
}

namespace vectorgpu::am
{

/// A query's ranking of the lists of one segment, for all its rounds.
struct RankedSegment
{
	uint32 segment; // id
	uint32 n_lists;
	IvfModel described;     // the model
	double *scores;         // [n_lists] of the centroids
	const CodeQuery *codes; // the query against the codes; null: no codes
	bool far;               // with codes: ivf_query_is_far
};

/// A range of places to look at.
struct PlaceRange
{
	uint32 list;
	uint64 first;
	uint64 end;
};

/// ivf_search_codes.cpp. Looks at the lists [n] by their codes, and offers the best rows with their canonical
/// distances. False if a page was foreign.
bool ivf_search_codes(const SegmentSearch *search, const RankedSegment *ranked, const PlaceRange *ranges, uint32 n);

/// refine.cpp. Offers the rows at places [n], ascending, with their canonical distances; of rows kept as halves (layout
/// of `fp16`) only those that can be among the wanted ones. False if a page was foreign.
bool ivf_refine(const SegmentSearch *search, const IvfLayout *layout, const uint64 *places, uint64 n);

/// refine.cpp. The same for the rows of a segment without full vectors that the worker has found
/// (ApproximateSearch::candidates).
bool ivf_refine_found(const SegmentSearch *search, const IvfLayout *layout);

/// refine.cpp. The same for all rows of a segment without full vectors: their values are read from the table.
bool ivf_search_table(const SegmentSearch *search);

/// Reads values of the index's column from the table, as the scan's snapshot sees them.
struct TableReader
{
	const SegmentSearch *search;
	BlockNumber n_blocks; // of the table
	IndexFetchTableData *fetch;
	TupleTableSlot *slot;
	IndexInfo *info; // null: the index is on a column
	EState *estate;
};

/// table_reader.cpp. Memory in the current context.
void table_reader_begin(TableReader *reader, const SegmentSearch *search);
void table_reader_end(TableReader *reader);

/// Canonical scores of rows [*n], which are put in the table's order; rows that the snapshot does not see are left out
/// (both arrays are compacted).
void table_reader_score(TableReader *reader, RowId *rows, double *scores, uint64 *n);

} // namespace vectorgpu::am
