// Whether a query looks at a segment by its graph or at all of its rows, by a model of what both take. An exact answer
// is a good one for every width, and up to some width it is the dearer one. The choice looks at the copy and at the
// query alone, for a batch as clients make it, not at the batch that there is: what a query finds does not depend on
// the others that come with it. Arithmetic alone, no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace vectorgpu::cuda
{

/// Rows with a graph, and a query's way through it.
struct GraphChoice
{
	uint64_t n_rows = 0;
	uint32_t dim = 0;
	uint32_t row_bytes = 0; // on the device
	bool is_byte = false;   // rows and query: nothing is scored again
	bool measured = true; // false: the exact search of these rows, or of this query, is none that the model knows, and
						  // only much longer searches give way to it
	uint32_t width = 0;   // of the search
};

/// Microseconds of an exact search of some rows for the k first, alone: what it takes however few rows there are, and
/// what the rows add.
double exact_pass_us(const GraphChoice &rows, uint64_t k);
double exact_rows_us(const GraphChoice &rows);

/// What goes over rows of several segments, and of the delta.
struct Passes
{
	bool shared = false; // all rows that are looked at go in one pass, which costs once; false: each segment's in a
						 // pass of its own
	bool begun = false;  // and that goes on in any case, for rows of a delta
};

/// Bit i: all rows of graph i are looked at, of those of a copy, 64 at most.
uint64_t choose_exact(std::span<const GraphChoice> graphs, uint64_t k, const Passes &passes);

} // namespace vectorgpu::cuda
