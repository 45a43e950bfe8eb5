// Makes the searches ahead that a scan has made for the rows before, for the queries of the rows that follow: many at a
// time, in requests of SEARCH_MANY. PG dialect. Used by am/ahead.
#pragma once

#include "am/ahead/ahead_table.hpp"

namespace vectorgpu::am
{

/// For the planner: true if the worker answers searches of this index so that they can be made ahead.
bool ahead_possible(Relation index);

/// Begin to make searches ahead with one version of the index, read here, so that the snapshot must be set before.
/// False, with no answers in the table: the scan has made no request that can be made ahead, or the worker would not
/// answer it.
bool ahead_begin(AheadTable *table, Relation index, Relation heap, Snapshot snapshot, uint64 n_queries);

/// Note that the query's searches are wanted. Left out, since the scan has to raise its own error: a query of other
/// dimensions. Detoasts. program: its conditions; null: those that the scan has had last.
void ahead_want(AheadTable *table, Relation index, Datum query, const KeyProgram *program);

/// Make the searches. Where the worker does not answer, the scan asks itself. Returns the number of answers.
uint64 ahead_search(AheadTable *table, Relation index);

/// The bytes that a query's answers take, expected.
Size ahead_bytes_per_query(const AheadTable *table);

} // namespace vectorgpu::am
