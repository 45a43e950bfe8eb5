// Rows in memory, an engine that holds the same, and the comparison of both. Shared by the tests of the CPU engine.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <set>
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
