// A sample of an indexed column's values, from which the planner estimates how many rows lie within a distance of a
// query. PostgreSQL's statistics do not serve: ANALYZE leaves out values wider than 1 kB. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// The rows that are asked about.
struct DistanceRange
{
	Oid function; // of (value, query): the distance
	Oid collation;
	bool has_query; // false: how many it is for a query like the rows
	Datum query;
	double limit;
	bool or_equal; // rows at the limit are meant, too
};

/// Estimate the share of the index's rows whose distance is below the limit, in [0, 1]; rows with NULL or NaN are not.
/// The first call of a session reads some rows of the table. False: the table has too few, or the index is on an
/// expression, or partial by more than columns and operators of PostgreSQL's own types.
bool distance_sample_share(PlannerInfo *root, const IndexOptInfo *index, const DistanceRange &range, double *share);

} // namespace vectorgpu::am
