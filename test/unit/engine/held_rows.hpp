// Rows in memory, an engine that holds the same, and the comparison of both. Shared by the tests of the CPU engine.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/oracle.hpp"

namespace vectorgpu::engine::test
{

/// Rows in memory beside an engine that holds them.
struct Rows
{
	DistanceSpec spec;
	size_t row_bytes;
	std::vector<RowId> ids;
	Bytes vectors;

	explicit Rows(const DistanceSpec &s) : spec(s), row_bytes(vector_bytes(s.element, s.dim)) {}

	size_t n() const { return ids.size(); }
	const uint8_t *vector(size_t i) const { return vectors.data() + i * row_bytes; }

	void add(RowId id, const uint8_t *vector)
	{
		ids.push_back(id);
		vectors.insert(vectors.end(), vector, vector + row_bytes);
	}

	void add_random(size_t n, Data data, std::mt19937 &rng, RowId first_id)
	{
		Bytes vector(row_bytes);

		for (size_t i = 0; i < n; i++)
		{
			random_vector(spec, data, rng, vector.data());
			add(first_id + i, vector.data());
		}
	}

	RowBlock block(size_t first, size_t n) const
	{
		return {{ids.data() + first, n}, vectors.data() + first * row_bytes, n};
	}

	RowBlock block() const { return block(0, n()); }

	/// The exact answer by definition.
	std::vector<Neighbor> nearest(
		const void *query, size_t k, const Neighbor *after = nullptr, const std::set<RowId> &dead = {}) const
	{
		std::vector<Neighbor> all;

		for (size_t i = 0; i < n(); i++)
		{
			const Neighbor candidate = {oracle_score(spec, query, vector(i)), ids[i]};

			if (!dead.contains(ids[i]) && (after == nullptr || neighbor_less(*after, candidate)))
				all.push_back(candidate);
		}
		std::sort(all.begin(), all.end(), neighbor_less);
		all.resize(std::min(k, all.size()));
		return all;
	}
};

/// The answer by definition of segments whose structures choose rows. choose(segment, how many): the numbers of a
/// segment's rows that are compared, all if how_many is 0; if one is not 0, rows without a score are not found.
template <class Segment, class Choose>
std::vector<Neighbor>
nearest_of_chosen(const std::vector<std::pair<const Segment *, uint32_t>> &segments, const Choose &choose,
	const Rows *delta, const void *query, size_t k, const Neighbor *after, const std::set<RowId> &dead)
{
	std::vector<Neighbor> all;
	const bool approximate =
		std::any_of(segments.begin(), segments.end(), [](const auto &segment) { return segment.second > 0; });
	const auto offer = [&](const Rows &rows, size_t i)
	{
		const Neighbor candidate = {oracle_score(rows.spec, query, rows.vector(i)), rows.ids[i]};

		if (!dead.contains(candidate.row) && (after == nullptr || neighbor_less(*after, candidate)) &&
			!(approximate && std::isnan(candidate.score)))
			all.push_back(candidate);
	};

	for (const auto &[segment, how_many] : segments)
		for (const uint32_t number : choose(*segment, how_many))
			offer(segment->rows, number);
	for (size_t i = 0; delta != nullptr && i < delta->n(); i++)
		offer(*delta, i);
	std::sort(all.begin(), all.end(), neighbor_less);
	all.resize(std::min(k, all.size()));
	return all;
}

inline void
expect_same(const std::vector<Neighbor> &got, const std::vector<Neighbor> &want)
{
	ASSERT_EQ(got.size(), want.size());
	for (size_t i = 0; i < got.size(); i++)
	{
		ASSERT_EQ(got[i].row, want[i].row) << "place " << i << " of " << got.size();
		ASSERT_EQ(bits_of(got[i].score), bits_of(want[i].score)) << "place " << i;
	}
}

#define ASSERT_OK(expression)                                                                                          \
	do                                                                                                                 \
	{                                                                                                                  \
		const Status status_ = (expression);                                                                           \
		ASSERT_TRUE(status_.is_ok()) << status_.message;                                                               \
	} while (false)

/// Bits, about one in three of them set.
inline Bytes
random_bits(size_t n, std::mt19937 &rng)
{
	Bytes bits((n + 7) / 8);

	for (size_t i = 0; i < n; i++)
		if (rng() % 3 == 0)
			bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1 << (i % 8));
	return bits;
}

struct Loaded
{
	std::unique_ptr<Engine> engine;
	CopyId copy = 0;
};

/// An engine whose copy holds the rows as one sealed segment.
inline Loaded
load(const Rows &rows, const CpuEngineOptions &options = {})
{
	Loaded loaded;

	loaded.engine = make_cpu_engine(options);
	EXPECT_TRUE(loaded.engine->create(rows.spec, &loaded.copy).is_ok());
	EXPECT_TRUE(loaded.engine->load_segment(loaded.copy, 1, rows.block()).is_ok());
	EXPECT_TRUE(loaded.engine->seal_segment(loaded.copy, 1).is_ok());
	return loaded;
}

/// Ask for the rows that follow the middle of an answer to the query, if there are two or more. rest(after): the rows
/// to be found.
template <class Rest>
void
expect_rest(
	Engine *engine, CopyId copy, const SearchQuery &query, const std::vector<Neighbor> &answer, const Rest &rest)
{
	if (answer.size() < 2)
		return;

	SearchQuery next = query;
	std::vector<std::vector<Neighbor>> results;

	next.has_after = true;
	next.after = answer[answer.size() / 2];
	ASSERT_OK(engine->search(copy, {&next, 1}, &results));
	ASSERT_NO_FATAL_FAILURE(expect_same(results[0], rest(&next.after)));
}

/// Search a copy of two segments, 1 and 2, with each choice of probes or widths in turn (0: all rows), then from the
/// middle of each answer on. held.nearest: the answer by definition. is_part(choice, query): a choice that is not 0
/// leaves rows out.
template <class Copy, size_t n_choices, class IsPart>
void
expect_choices(const Copy &held, const Rows &queries, const std::array<uint32_t, 2> (&choices)[n_choices],
	const IsPart &is_part, const std::set<RowId> &dead)
{
	std::vector<SearchQuery> batch;
	std::vector<std::array<SegmentProbes, 2>> named(queries.n());
	std::vector<Coverage> coverage(queries.n());
	std::vector<std::vector<Neighbor>> results;

	for (size_t i = 0; i < queries.n(); i++)
	{
		const std::array<uint32_t, 2> chosen = choices[i % n_choices];
		SearchQuery query = {queries.vector(i), 1 + 13 * i, false, {}};

		named[i] = {SegmentProbes{1, chosen[0]}, SegmentProbes{2, chosen[1]}};
		if (chosen[0] > 0)
			query.probes = named[i];
		query.coverage = &coverage[i];
		batch.push_back(query);
	}
	ASSERT_OK(held.engine->search(held.copy, batch, &results));
	ASSERT_EQ(results.size(), batch.size());
	for (size_t i = 0; i < batch.size(); i++)
	{
		const std::array<uint32_t, 2> chosen = choices[i % n_choices];
		const auto nearest = [&](const Neighbor *after)
		{ return held.nearest(batch[i].query, batch[i].k, chosen, after, dead); };

		SCOPED_TRACE(
			testing::Message() << metric_name(queries.spec.metric) << " dim " << queries.spec.dim << " query " << i);
		ASSERT_NO_FATAL_FAILURE(expect_same(results[i], nearest(nullptr)));
		EXPECT_EQ(coverage[i] == Coverage::kPart, chosen[0] != 0 && is_part(chosen, batch[i].query));
		EXPECT_EQ(chosen[0] == 0 ? coverage[i] : Coverage::kAll, Coverage::kAll);
		ASSERT_NO_FATAL_FAILURE(expect_rest(held.engine.get(), held.copy, batch[i], results[i], nearest));
	}
}

/// Search all queries in batches of `batch` and compare with the oracle.
inline void
expect_exact(const Loaded &loaded, const Rows &rows, const Rows &queries, size_t k, size_t batch)
{
	for (size_t first = 0; first < queries.n(); first += batch)
	{
		std::vector<SearchQuery> requests;
		std::vector<std::vector<Neighbor>> results;

		for (size_t i = first; i < std::min(first + batch, queries.n()); i++)
			requests.push_back({queries.vector(i), k, false, {}});
		ASSERT_OK(loaded.engine->search(loaded.copy, requests, &results));
		ASSERT_EQ(results.size(), requests.size());
		for (size_t i = 0; i < requests.size(); i++)
		{
			SCOPED_TRACE(testing::Message() << metric_name(rows.spec.metric) << " dim " << rows.spec.dim << " batch "
											<< batch << " k " << k << " query " << first + i);
			ASSERT_NO_FATAL_FAILURE(expect_same(results[i], rows.nearest(requests[i].query, k)));
		}
	}
}

} // namespace vectorgpu::engine::test
