// How many rows codes rank before the true neighbours of a query: a search by codes finds a neighbour if it takes more
// candidates than these. A calibration counts them, for some rows of the table as queries. Plain functions, for
// backends and engines alike: the counts are the same.
#pragma once

#include "engine/ivf/calibration.hpp"
#include "engine/ivf/code_query.hpp"

namespace vectorgpu::engine::ivf
{

constexpr size_t kCountedNeighbors = kCalibratedRows;
constexpr size_t kMostCopies = 64; // of a query's row

/// What a query looks for. On the wire: the order of the fields is fixed.
struct CountedNeighbors
{
	uint32_t n = 0;
	uint32_t n_copies = 0;
	uint32_t near_point = 0; // rows of lists with at most this point are near
	uint32_t zero = 0;
	double limits[kCountedNeighbors] = {}; // [n] their estimates; NaN: none, never found
	uint64_t numbers[kCountedNeighbors] = {};
	uint64_t copies[kMostCopies] = {}; // [n_copies] rows that do not count
};
static_assert(sizeof(CountedNeighbors) == 16 + kCountedNeighbors * 16 + kMostCopies * 8);

/// A query, and its counts.
struct CountedQuery
{
	CodeQuery codes;
	const float *constants = nullptr; // [n_lists] of the lists; null: codes without constants
	const uint8_t *points = nullptr;  // [n_lists]: the first calibration point that looks at the list
	CountedNeighbors neighbors;
	uint32_t better[kCountedNeighbors][kMaxCalibrationPoints] =
		{}; // rows with a better estimate, by their list's point
};

/// The worst estimate of a query's neighbours: rows behind it do not count. -infinity without any.
double worst_estimate(const CountedNeighbors &neighbors);

inline bool
is_near(const CountedQuery &query, uint32_t list)
{
	return query.points[list] <= query.neighbors.near_point;
}

/// Rows to be counted.
struct CountedRows
{
	size_t n = 0;
	const uint64_t *numbers = nullptr;
	const uint32_t *labels = nullptr; // below n_lists
	const uint8_t *codes = nullptr;   // row by row, or in blocks (code_unit_rows)
	const float *terms = nullptr;     // or null
	double *constants = nullptr;      // scratch [n]; zeros, if the query has none
};

/// For how many rows one counts.
struct CountWeights
{
	uint32_t near = 1;
	uint32_t far = 1;
};

/// Estimate scores [n]; those above `limit` not all (code_scores).
void score_counted(const CountedQuery &query, const CountedRows &rows, double limit, double *scores);

/// Add the rows that a search by codes prefers to the query's neighbours: among equal estimates it takes the first row.
/// worst: worst_estimate. scores: scratch [n].
void count_better(
	CountedQuery *query, const CountedRows &rows, double worst, const CountWeights &weights, double *scores);

/// Of many rows those near a query are all counted, and of the others every stride-th batch, by turns of the queries.
/// These then count for stride rows.
struct CountSampling
{
	uint32_t batch_rows = 0; // a multiple of kCodeBlockRows
	uint32_t stride = 1;     // 1: all rows are counted
};

inline bool
is_sampled(const CountSampling &sampling, uint64_t batch, uint64_t query)
{
	return batch % sampling.stride == query % sampling.stride;
}

} // namespace vectorgpu::engine::ivf
