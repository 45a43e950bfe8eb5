// Recall of an index: the share of the true nearest rows of a query that the index finds. The truth is a scan of the
// table that computes the operator's own distance for every row. PG dialect. Used by vectorgpu_recall()
// (recall_function.cpp) and by the sampler of scans (recall_sampler.cpp).
#pragma once

#include "am/recall/recall_count.hpp"
#include "common/types.hpp"
#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
#include "utils/snapshot.h"
}

namespace vectorgpu::am
{

/// The comparison of an index's column with a query.
struct RecallOperator
{
	Oid column_type; // of the indexed value, domains looked through
	Oid query_type;  // of the operator's right argument
	Oid function;    // (column_type, query_type) returns float8
	Oid collation;
	int16 query_length; // pg_type of query_type
	bool query_by_value;
};

/// The ordering operator of the index for its column's type. Raises XX000 if the operator class has none.
RecallOperator recall_operator(Relation index);

/// One query: the index's answer, and the result of the scan of the table.
struct RecallQuery
{
	Datum argument;
	RowId own; // the row that the query was taken from: left out of both answers
	bool has_own;
	RowId *answer; // [n_answer]: rows that the index returned
	uint32 n_answer;
	double *found;   // [n_found]: distances of the answer's rows that the table's scan has met
	uint32 n_found;  // at most n_answer
	double *nearest; // [n_nearest] of capacity k: the least distances of the table, a heap with the greatest first
	uint32 n_nearest;
};

/// A query with room for k nearest and n_answers answers, palloc'd in the current context; no answers yet.
RecallQuery recall_new_query(Datum argument, uint32 k, uint32 n_answers);

/// Asks the index for the rows nearest to query->argument, as a scan under LIMIT k does. Fills in the answer, which has
/// room for k + 1 rows (one may be the query's own).
void recall_ask_index(
	Relation index, Relation heap, Snapshot snapshot, const RecallOperator *op, RecallQuery *query, uint32 k);

/// Scans the table, computing the distance of each row of the index that the snapshot sees to each query. Returns
/// false, with an unusable result, if that takes longer than `deadline` (pg::monotonic_ms; 0: none).
bool recall_scan_table(Relation index, Relation heap, Snapshot snapshot, const RecallOperator *op, RecallQuery *queries,
	uint32 n_queries, uint32 k, uint64 deadline);

/// Adds a query to the count. A row counts as found if it is as near as the true k-th row: ties are no misses.
void recall_count(const RecallQuery *query, RecallCount *count);

} // namespace vectorgpu::am
