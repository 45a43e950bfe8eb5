// The lower bound of a sparse vector's distance from a query, by sums over the vector's elements; for the host and for
// kernels. Sums here are binary64, in any order, whose roundings are within kDoubleError of the terms; the canonical
// sums of n binary32 terms are within (n + 2) * 2^-24 of them, to first order (README.md, "Sparse vectors").
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "common/host_device.hpp"
#include "common/types.hpp"

namespace vectorgpu::engine::sparse
{

constexpr double kNothing = -HUGE_VAL;
constexpr double kDoubleError = 1e-11;   // 32,000 terms, 2^-53 each, and some
constexpr double kMostSum = FLT_MAX / 4; // canonical sums up to this do not overflow on their way
constexpr double kLeastSum = 1e-30;      // squares that are lost in binary32 do not matter beside this
constexpr double kMostLost = 1e-40;      // 32,000 terms that underflow in binary32

/// The slot of a hash table of 2^(32 - shift) slots at which the search for an index begins.
VECTORGPU_HOST_DEVICE inline uint32_t
slot_of(int32_t index, int shift)
{
	return (static_cast<uint32_t>(index) * 0x9E3779B1u) >> shift;
}

/// Two sums over the elements of a row, a, and the query's elements at their indices, b.
struct Sums
{
	double shared; // what a and b have in common
	double own;    // of a; for the inner product of |a b|
};

struct Products // of L2 and cosine
{
	VECTORGPU_HOST_DEVICE static double shared(double a, double b) { return a * b; }
	VECTORGPU_HOST_DEVICE static double own(double a, double) { return a * a; }
};

struct ProductsWithSize // of the inner product
{
	VECTORGPU_HOST_DEVICE static double shared(double a, double b) { return a * b; }
	VECTORGPU_HOST_DEVICE static double own(double a, double b) { return fabs(a * b); }
};

struct Absolutes // of L1
{
	VECTORGPU_HOST_DEVICE static double shared(double a, double b) { return fabs(a) + fabs(b) - fabs(a - b); }
	VECTORGPU_HOST_DEVICE static double own(double a, double) { return fabs(a); }
};

/// Of a query: sums of its elements' absolute values and squares.
struct QuerySums
{
	double sum;
	double squares;
};

VECTORGPU_HOST_DEVICE inline double
least_l2(const QuerySums &query, const Sums &row, double error)
{
	const double both = row.own + query.squares;
	const double least = (both - 2 * row.shared - kDoubleError * both) * (1 - error) - kMostLost;

	return least > 0 ? sqrt(least) * (1 - kDoubleError) : 0;
}

VECTORGPU_HOST_DEVICE inline double
least_cosine(const QuerySums &query, const Sums &row, double error)
{
	const double aa = row.own;
	const double bb = query.squares;

	if (!(aa > kLeastSum && bb > kLeastSum && aa < kMostSum && bb < kMostSum))
		return kNothing;
	// each of the three sums is off by `error`, relative to the product of the norms
	return 1 - row.shared / sqrt(aa * bb) - 4 * error - kDoubleError;
}

VECTORGPU_HOST_DEVICE inline double
least_l1(const QuerySums &query, const Sums &row, double error)
{
	const double both = row.own + query.sum;

	return (both - row.shared - kDoubleError * both) * (1 - error) - kMostLost;
}

VECTORGPU_HOST_DEVICE inline double
least_inner_product(const Sums &row, double error)
{
	if (!(row.own < kMostSum))
		return kNothing;
	return -row.shared - (error + kDoubleError) * row.own - kMostLost;
}

/// sparse_least_distance, from the sums of the metric's terms. n_terms: elements of both.
VECTORGPU_HOST_DEVICE inline double
least_distance(Metric metric, const QuerySums &query, const Sums &row, uint32_t n_terms)
{
	const double terms = n_terms;
	const double error = (terms + 8) * 0x1p-24 * (1 + terms * 0x1p-23);

	switch (metric)
	{
		case Metric::kL2:
			return least_l2(query, row, error);
		case Metric::kCosine:
			return least_cosine(query, row, error);
		case Metric::kL1:
			return least_l1(query, row, error);
		case Metric::kInnerProduct:
			return least_inner_product(row, error);
		default:
			return kNothing;
	}
}

} // namespace vectorgpu::engine::sparse
