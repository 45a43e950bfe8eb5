// The change of a sub-query that ranks rows: its table gives way to a search for the nearest of them. PG dialect. Used
// by ranked_query.cpp, which finds out where that is right.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/parsenodes.h"
}

namespace vectorgpu::am
{

/// A sub-query that is to be changed.
struct Ranked
{
	Query *query;
	const WindowClause *window;
	int outer;    // range table index of q
	int table;    // of t
	int64 n_rows; // wanted of each partition
	Query *search;
	List *columns; // of Var: the columns of t that the sub-query reads, in the order of the search's target list
};

/// Put the search in the place of t. conditions: of the sub-query's joins and WHERE.
void ranked_replace_table(Ranked *ranked, List *conditions);

} // namespace vectorgpu::am
