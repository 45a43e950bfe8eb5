// See sparse_query.hpp. Sums here are binary64, whose roundings are within kDoubleError of the terms; the canonical
// sums of n binary32 terms are within (n + 2) * 2^-24 of them, to first order (README.md, "Sparse vectors").
#include "engine/distance/sparse_query.hpp"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

namespace vectorgpu::engine
{
namespace
{

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kDoubleError = 1e-11;   // 32,000 terms, 2^-53 each, and some
constexpr double kMostSum = FLT_MAX / 4; // canonical sums up to this do not overflow on their way
constexpr double kLeastSum = 1e-30;      // squares that are lost in binary32 do not matter beside this
constexpr double kMostLost = 1e-40;      // 32,000 terms that underflow in binary32
constexpr uint32_t kMostDense = 1 << 20; // dimensions of a table of all elements: 4 MB
constexpr uint32_t kLeastBits = 8;
constexpr uint32_t kLanes = 4; // sums beside each other: an addition waits for the one before

uint32_t
slot_bits(uint32_t n)
{
	return std::max(static_cast<uint32_t>(std::bit_width(8 * n)), kLeastBits);
}

uint32_t
slot_of(int32_t index, int shift)
{
	return (static_cast<uint32_t>(index) * 0x9E3779B1u) >> shift;
}

/// The query's elements by index, 0 where it has none.
struct Dense
{
	const float *elements;

	float at(int32_t index) const { return elements[index]; }
};

struct Hashed
{
	const SparseSlot *slots;
	int shift;
	uint32_t mask;

	float at(int32_t index) const
	{
		for (uint32_t slot = slot_of(index, shift);; slot = (slot + 1) & mask)
		{
			if (slots[slot].index == index)
				return slots[slot].value;
			if (slots[slot].index < 0)
				return 0;
		}
	}
};

/// Two sums over the elements of a row, a, and the query's elements at their indices, b.
struct Sums
{
	double shared; // what a and b have in common
	double own;    // of a; for the inner product of |a b|
};

struct Products // of L2 and cosine
{
	static double shared(double a, double b) { return a * b; }
	static double own(double a, double) { return a * a; }
};

struct ProductsWithSize // of the inner product
{
	static double shared(double a, double b) { return a * b; }
	static double own(double a, double b) { return std::fabs(a * b); }
};

struct Absolutes // of L1
{
	static double shared(double a, double b) { return std::fabs(a) + std::fabs(b) - std::fabs(a - b); }
	static double own(double a, double) { return std::fabs(a); }
};

template <class Terms, class Elements>
Sums
sums_of(const Elements &query, const SparseVector &row)
{
	double shared[kLanes] = {};
	double own[kLanes] = {};
	uint32_t i = 0;

	for (; i + kLanes <= row.n; i += kLanes)
		for (uint32_t lane = 0; lane < kLanes; lane++)
		{
			const double a = row.values[i + lane];
			const double b = query.at(row.indices[i + lane]);

			shared[lane] += Terms::shared(a, b);
			own[lane] += Terms::own(a, b);
		}
	for (; i < row.n; i++)
	{
		const double a = row.values[i];
		const double b = query.at(row.indices[i]);

		shared[0] += Terms::shared(a, b);
		own[0] += Terms::own(a, b);
	}
	return {shared[0] + shared[1] + shared[2] + shared[3], own[0] + own[1] + own[2] + own[3]};
}

template <class Terms>
Sums
sums(const SparseQuery &query, const SparseVector &row)
{
	if (query.elements != nullptr)
		return sums_of<Terms>(Dense{query.elements}, row);
	return sums_of<Terms>(Hashed{query.slots, query.shift, (1u << (32 - query.shift)) - 1}, row);
}

double
least_l2(const SparseQuery &query, const Sums &row, double error)
{
	const double both = row.own + query.squares;
	const double least = (both - 2 * row.shared - kDoubleError * both) * (1 - error) - kMostLost;

	return least > 0 ? std::sqrt(least) * (1 - kDoubleError) : 0;
}

double
least_cosine(const SparseQuery &query, const Sums &row, double error)
{
	const double aa = row.own;
	const double bb = query.squares;

	if (!(aa > kLeastSum && bb > kLeastSum && aa < kMostSum && bb < kMostSum))
		return kNothing;
	// each of the three sums is off by `error`, relative to the product of the norms
	return 1 - row.shared / std::sqrt(aa * bb) - 4 * error - kDoubleError;
}

double
least_l1(const SparseQuery &query, const Sums &row, double error)
{
	const double both = row.own + query.sum;

	return (both - row.shared - kDoubleError * both) * (1 - error) - kMostLost;
}

double
least_inner_product(const Sums &row, double error)
{
	if (!(row.own < kMostSum))
		return kNothing;
	return -row.shared - (error + kDoubleError) * row.own - kMostLost;
}

} // namespace

size_t
sparse_table_bytes(uint32_t n, uint32_t dim)
{
	return dim <= kMostDense ? dim * sizeof(float) : (size_t{1} << slot_bits(n)) * sizeof(SparseSlot);
}

void
sparse_query_init(SparseQuery *query, Metric metric, const SparseVector &vector, uint32_t dim, void *table)
{
	*query = {metric, vector, nullptr, nullptr, 0, 0, 0};
	for (uint32_t i = 0; i < vector.n; i++)
	{
		const double value = vector.values[i];

		query->sum += std::fabs(value);
		query->squares += value * value;
	}
	if (dim <= kMostDense)
	{
		query->elements = static_cast<float *>(table);
		std::fill_n(query->elements, dim, 0.0f);
		for (uint32_t i = 0; i < vector.n; i++)
			query->elements[vector.indices[i]] = vector.values[i];
		return;
	}

	const uint32_t n_slots = 1u << slot_bits(vector.n);

	query->slots = static_cast<SparseSlot *>(table);
	query->shift = static_cast<int>(32 - slot_bits(vector.n));
	std::fill_n(query->slots, n_slots, SparseSlot{-1, 0});
	for (uint32_t i = 0; i < vector.n; i++)
	{
		uint32_t slot = slot_of(vector.indices[i], query->shift);

		while (query->slots[slot].index >= 0)
			slot = (slot + 1) & (n_slots - 1);
		query->slots[slot] = {vector.indices[i], vector.values[i]};
	}
}

double
sparse_least_distance(const SparseQuery &query, const SparseVector &row)
{
	const double terms = static_cast<double>(query.vector.n) + row.n;
	const double error = (terms + 8) * 0x1p-24 * (1 + terms * 0x1p-23);

	switch (query.metric)
	{
		case Metric::kL2:
			return least_l2(query, sums<Products>(query, row), error);
		case Metric::kCosine:
			return least_cosine(query, sums<Products>(query, row), error);
		case Metric::kL1:
			return least_l1(query, sums<Absolutes>(query, row), error);
		case Metric::kInnerProduct:
			return least_inner_product(sums<ProductsWithSize>(query, row), error);
		default:
			return kNothing;
	}
}

} // namespace vectorgpu::engine
