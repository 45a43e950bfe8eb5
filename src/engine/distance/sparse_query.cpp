// See sparse_query.hpp; the bound itself is in sparse_bound.hpp.
#include "engine/distance/sparse_query.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/distance/sparse_bound.hpp"

namespace vectorgpu::engine
{
namespace
{

using namespace sparse;

constexpr uint32_t kMostDense = 1 << 20; // dimensions of a table of all elements: 4 MB
constexpr uint32_t kLeastBits = 8;
constexpr uint32_t kLanes = 4; // sums beside each other: an addition waits for the one before

uint32_t
slot_bits(uint32_t n)
{
	return std::max(static_cast<uint32_t>(std::bit_width(8 * n)), kLeastBits);
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
	const uint32_t n_terms = query.vector.n + row.n;
	Sums of_row = {0, 0};

	switch (query.metric)
	{
		case Metric::kL2:
		case Metric::kCosine:
			of_row = sums<Products>(query, row);
			break;
		case Metric::kL1:
			of_row = sums<Absolutes>(query, row);
			break;
		case Metric::kInnerProduct:
			of_row = sums<ProductsWithSize>(query, row);
			break;
		default:
			break;
	}
	return least_distance(query.metric, {query.sum, query.squares}, of_row, n_terms);
}

} // namespace vectorgpu::engine
