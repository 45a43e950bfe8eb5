// A sparse query prepared for many rows: a lower bound of a row's distance from the query's elements in a table, a few
// times as fast as the canonical distance, which takes both vectors' elements in order. See README.md ("Sparse
// vectors").
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/distance/sparse.hpp"

namespace vectorgpu::engine
{

struct SparseSlot
{
	int32_t index; // -1: empty
	float value;
};

/// A plain struct: the caller owns the table, so that the code may run in a frame that an error can leave by longjmp.
struct SparseQuery
{
	Metric metric;
	SparseVector vector;
	float *elements;   // [dim]; null if there are too many dimensions
	SparseSlot *slots; // [1 << (32 - shift)] a hash table, seven eighths of it empty at least; null with elements
	int shift;
	double sum;     // of the elements' absolute values
	double squares; // of the elements
};

/// The size in bytes of sparse_query_init's table for a query of n elements.
size_t sparse_table_bytes(uint32_t n, uint32_t dim);

/// Prepare a query. table: sparse_table_bytes(vector.n, dim) bytes, aligned to 4; it and the vector must outlive the
/// query.
void sparse_query_init(SparseQuery *query, Metric metric, const SparseVector &vector, uint32_t dim, void *table);

/// Return a number that finish_score(metric, sparse_score(metric, row, query.vector)) is not below, or that it is NaN.
/// It is below it by about n * 2^-24 of the sums' terms, n elements of both; -infinity where the canonical sums may
/// overflow or underflow. row: of the query's dimensions.
double sparse_least_distance(const SparseQuery &query, const SparseVector &row);

} // namespace vectorgpu::engine
