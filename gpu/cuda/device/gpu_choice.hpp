// The choice between searching a segment's graph and scoring all of its rows, by a model of the time of both. An exact
// answer is good for every width, and the slower one up to some width. The choice depends on the copy and the query,
// and on a batch as clients make it, not on the present batch: what a query finds does not depend on the queries beside
// it. Arithmetic alone, no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vectorgpu::cuda
{

/// Rows with a graph, and a query's search of it.
struct GraphChoice
{
	uint64_t n_rows = 0;
	uint32_t dim = 0;
	uint32_t row_bytes = 0; // on the device
	bool is_byte = false;   // rows and query: no row is rescored
	bool measured = true;   // false: the model does not cover the exact search of these rows or this query; only much
							// longer searches of the graph are replaced by it
	uint32_t width = 0;     // of the search
	uint32_t n_entries = 0; // of the graph: entry points
};

/// Microseconds that an exact search takes longer for its k first rows than for ten.
double more_results_us(uint64_t k);

/// Microseconds of an exact search for the k first, alone: the fixed part, and the part of the rows.
double exact_pass_us(const GraphChoice &rows, uint64_t k);
double exact_rows_us(const GraphChoice &rows);

/// The pass over rows of several segments and of the delta.
struct Passes
{
	bool shared = false; // one pass over all rows scored, with one fixed part; false: a pass for each segment
	bool begun = false;  // the pass takes place in any case, for rows of a delta
};

/// Return a mask: bit i is set if all rows of graph i of a copy, at most 64, are to be scored.
uint64_t choose_exact(std::span<const GraphChoice> graphs, uint64_t k, const Passes &passes);

} // namespace vectorgpu::cuda
