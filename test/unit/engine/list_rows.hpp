// Rows in inverted lists, in memory, and what a search of them must give. Shared by the tests of the engines.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "common/half.hpp"
#include "engine/held_rows.hpp"
#include "engine/copies/lists.hpp"

namespace vectorgpu::engine::test
{

/// An element as centroids have it: bits are 0 and 1.
inline float
number_at(ElementType element, const void *vector, size_t i)
{
	return element == ElementType::kBit ? static_cast<float>(bit_at(vector, i)) : element_at(element, vector, i);
}

/// By definition. Sums of zeros and ones are exact in any order.
inline double
soft_jaccard(const std::vector<float> &query, const float *centroid)
{
	double smaller = 0;
	double larger = 0;

	for (size_t d = 0; d < query.size(); d++)
	{
		smaller += static_cast<double>(std::min(query[d], centroid[d]));
		larger += static_cast<double>(std::max(query[d], centroid[d]));
	}
	return larger > 0 ? 1 - smaller / larger : 1;
}

/// One segment: rows by number as Rows has them, and lists around centroids that are some of the rows.
struct ListRows
{
	Rows rows;
	uint32_t n_lists;
	std::vector<float> centroids;  // [n_lists, dim]
	std::vector<uint64_t> offsets; // [n_lists + 1]
	std::vector<uint32_t> numbers; // [n], by place

	/// Takes all rows of `from`. n_lists 1 ... n; lists may stay empty.
	ListRows(const Rows &from, uint32_t lists, std::mt19937 &rng) : rows(from), n_lists(lists)
	{
		std::vector<uint32_t> list_of(rows.n());

		for (uint32_t l = 0; l < n_lists; l++)
		{
			const size_t row = rng() % rows.n();

			for (uint32_t d = 0; d < rows.spec.dim; d++)
			{
				const float x = number_at(rows.spec.element, rows.vector(row), d);

				centroids.push_back(std::isfinite(x) ? x : 0);
			}
		}
		for (size_t i = 0; i < rows.n(); i++) // an engine does not depend on the choice of lists
			list_of[i] = i % 3 == 0 ? static_cast<uint32_t>(rng() % n_lists) : nearest_list(rows.vector(i));
		numbers.resize(rows.n());
		std::iota(numbers.begin(), numbers.end(), 0);
		std::stable_sort(
			numbers.begin(), numbers.end(), [&](uint32_t a, uint32_t b) { return list_of[a] < list_of[b]; });
		offsets.assign(n_lists + 1, 0);
		for (const uint32_t list : list_of)
			offsets[list + 1]++;
		std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
	}

	/// The lists in the order of a query.
	std::vector<uint32_t> ranked(const void *query) const
	{
		const DistanceSpec coarse = {rows.spec.metric == Metric::kHamming ? Metric::kL2 : rows.spec.metric,
			ElementType::kFloat32, rows.spec.dim};
		std::vector<float> wide;
		std::vector<Neighbor> order;
		std::vector<uint32_t> lists;

		for (uint32_t d = 0; d < rows.spec.dim; d++)
			wide.push_back(number_at(rows.spec.element, query, d));
		for (uint32_t l = 0; l < n_lists; l++)
		{
			const float *centroid = &centroids[size_t{l} * rows.spec.dim];

			order.push_back({rows.spec.metric == Metric::kJaccard ? soft_jaccard(wide, centroid)
																  : oracle_score(coarse, wide.data(), centroid),
				l});
		}
		std::sort(order.begin(), order.end(), neighbor_less);
		for (const Neighbor &list : order)
			lists.push_back(static_cast<uint32_t>(list.row));
		return lists;
	}

	/// Numbers of the rows in the first n_probes lists.
	std::vector<uint32_t> looked_at(const void *query, uint32_t n_probes) const
	{
		const std::vector<uint32_t> order = ranked(query);
		std::vector<uint32_t> found;

		for (uint32_t i = 0; i < std::min(n_probes, n_lists); i++)
			found.insert(found.end(), numbers.begin() + static_cast<ptrdiff_t>(offsets[order[i]]),
				numbers.begin() + static_cast<ptrdiff_t>(offsets[order[i] + 1]));
		return found;
	}

	/// Vectors by place, for load_segment; zeros for a number beyond the rows, which a test may set.
	Bytes vectors_by_place() const
	{
		Bytes vectors;

		for (const uint32_t number : numbers)
			if (number < rows.n())
				vectors.insert(vectors.end(), rows.vector(number), rows.vector(number) + rows.row_bytes);
			else
				vectors.insert(vectors.end(), rows.row_bytes, 0);
		return vectors;
	}

	/// The description for load_structure.
	Bytes description() const
	{
		Bytes bytes;
		const auto put = [&bytes](const auto &values)
		{
			const uint8_t *from = reinterpret_cast<const uint8_t *>(values.data());

			bytes.insert(bytes.end(), from, from + values.size() * sizeof(values[0]));
		};

		put(offsets);
		put(centroids);
		put(numbers);
		return bytes;
	}

	/// Load into a copy of kind kLists, in parts, and seal.
	Status load(Engine *engine, CopyId copy, SegmentId segment) const
	{
		const Bytes vectors = vectors_by_place();
		const Bytes lists = description();
		const size_t part = lists.size() / 3 + 1;
		const size_t half = rows.n() / 2;
		Status status = engine->load_segment(copy, segment, {{rows.ids.data(), half}, vectors.data(), half});

		if (status.is_ok())
			status = engine->load_segment(copy, segment,
				{{rows.ids.data() + half, rows.n() - half}, vectors.data() + half * rows.row_bytes, rows.n() - half});
		for (size_t at = 0; at < lists.size() && status.is_ok(); at += part)
			status =
				engine->load_structure(copy, segment, n_lists, {lists.data() + at, std::min(part, lists.size() - at)});
		return status.is_ok() ? engine->seal_segment(copy, segment) : status;
	}

private:
	uint32_t nearest_list(const uint8_t *row) const { return ranked(row).front(); }
};

/// The answer by definition: segments' rows in the lists looked at, and the delta. probes 0: all rows.
inline std::vector<Neighbor>
nearest_in_lists(const std::vector<std::pair<const ListRows *, uint32_t>> &segments, const Rows *delta,
	const void *query, size_t k, const Neighbor *after = nullptr, const std::set<RowId> &dead = {})
{
	return nearest_of_chosen(
		segments, [&](const ListRows &segment, uint32_t probes)
		{ return segment.looked_at(query, probes == 0 ? segment.n_lists : probes); }, delta, query, k, after, dead);
}

} // namespace vectorgpu::engine::test
