// The coarse quantiser: the list of a row, and the order in which a query scans lists.
// Labels are those of the canonical distance: list(x) = the first of the smallest canonical L2 scores of x against the
// centroids. A matrix product finds the few lists that may be nearest, with a proven bound; if there is more than one,
// canonical scores decide (README.md, "Assignment").
#pragma once

#include "common/types.hpp"
#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::ivf
{

/// Packed centroids. A plain struct over the caller's memory: set up by coarse_init, read by any number of threads.
struct Coarse
{
	uint32_t dim = 0;
	uint32_t n_lists = 0;
	const float *centroids = nullptr;  // [n_lists, dim], the caller's
	uint32_t panel_width = 0;          // of the instruction set in use at coarse_init
	const float *panels = nullptr;     // [n_panels, dim, panel_width]
	const float *half_norms = nullptr; // [n_panels * panel_width] ½|c|², +infinity behind n_lists
	double largest_norm = 0;
	bool trusted = false; // the bound of the matrix product holds
};

/// Bytes of memory for coarse_init, which must live as long as the Coarse.
size_t coarse_bytes(uint32_t dim, uint32_t n_lists);

/// centroids [n_lists, dim] float32, n_lists from 1; they have to live as long as the Coarse.
Outcome coarse_init(
	const float *centroids, uint32_t n_lists, uint32_t dim, void *memory, size_t memory_bytes, Coarse *coarse);

/// Bytes of coarse_assign's work memory.
size_t coarse_assign_work_bytes(const Coarse &coarse, size_t n_threads);

/// Set labels [n_rows] and, if not null, scores [n_rows]: canonical L2 scores (squared distances, unchanged binary32
/// sums) to the label's centroid. rows [n_rows, dim] float32, `row_stride` floats apart; for cosine of length 1
/// (normalise_rows). A row with NaN gets list 0 and score NaN. Costs 2 n_rows n_lists dim operations; a few hundred
/// rows a call are enough for full speed. Threads may share the Coarse, each with work memory of its own.
Outcome coarse_assign(const Coarse &coarse, const float *rows, size_t row_stride, size_t n_rows, uint32_t *labels,
	float *scores, void *work, size_t work_bytes, const Call &call = {});

/// Rank the lists for a query by (canonical score of `metric` between query and centroid, list). lists [n_lists]: the
/// first n_probes are in order, the others follow in no order. scores [n_lists] by list: scores[lists[i]] belongs to
/// lists[i]. query [dim] float32. NaN scores come last.
void coarse_rank(
	const Coarse &coarse, Metric metric, const float *query, size_t n_probes, uint32_t *lists, double *scores);

} // namespace vectorgpu::engine::ivf
