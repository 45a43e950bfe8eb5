// Rows, and checks of answers, that several tests of this folder share.
#pragma once

#include <algorithm>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "engines.hpp"

namespace vectorgpu::cuda::test
{

enum class Values
{
	kReal,
	kBytes,       // whole numbers, few enough for ties
	kExtremes,    // also NaN and infinities
	kFewExtremes, // one of 100 rows
};

/// No graph can be built of such rows.
inline bool
has_extremes(Values values)
{
	return values == Values::kExtremes || values == Values::kFewExtremes;
}

/// most: the largest whole number.
inline void
add_values(Rows *rows, Values values, unsigned most, size_t n, std::mt19937 &rng, RowId first_id)
{
	if (values == Values::kBytes)
		add_whole_numbers(rows, n, most, rng, first_id);
	else if (values == Values::kFewExtremes)
		for (size_t i = 0; i < n; i++)
			rows->add_random(1, i % 100 == 50 ? Data::kExtremes : Data::kGaussian, rng, first_id + i);
	else
		rows->add_random(n, values == Values::kReal ? Data::kGaussian : Data::kExtremes, rng, first_id);
}

/// For graphs whose nodes are told apart by rounded scores (cosine): no row twice, at most k rows, scores canonical and
/// in order, and at least `share` of the rows those of the CPU. score_of(query, row): the canonical score.
template <class ScoreOf>
void
expect_nearly_same_answers(
	const Both &both, const std::vector<SearchQuery> &requests, double share, const ScoreOf &score_of)
{
	std::vector<std::vector<Neighbor>> on_gpu;
	std::vector<std::vector<Neighbor>> on_cpu;
	size_t shared = 0;
	size_t all = 0;

	ASSERT_OK(both.cuda()->search(both.cuda_copy(), requests, &on_gpu, nullptr));
	ASSERT_OK(both.cpu()->search(both.cpu_copy(), requests, &on_cpu, nullptr));
	for (size_t i = 0; i < requests.size(); i++)
	{
		std::set<RowId> ids;

		ASSERT_TRUE(std::is_sorted(on_gpu[i].begin(), on_gpu[i].end(), engine::neighbor_less));
		ASSERT_LE(on_gpu[i].size(), requests[i].k);
		for (const Neighbor &found : on_gpu[i])
		{
			ASSERT_TRUE(ids.insert(found.row).second) << "row " << found.row << " twice";
			ASSERT_EQ(bits_of(found.score), bits_of(score_of(requests[i].query, found.row)));
		}
		for (const Neighbor &found : on_cpu[i])
			shared += ids.count(found.row);
		all += on_cpu[i].size();
	}
	EXPECT_GE(static_cast<double>(shared), share * static_cast<double>(all));
}

/// A part of an array of requests.
struct Part
{
	size_t first;
	size_t n;
};

/// n_threads threads search parts of the requests at the same time, n_rounds each; every answer must be the expected
/// one. engine_of(thread): engine and copy; part_of(thread, round): the requests.
template <class EngineOf, class PartOf>
void
expect_answers_side_by_side(size_t n_threads, size_t n_rounds, std::span<const SearchQuery> requests,
	const std::vector<std::vector<Neighbor>> &expected, const EngineOf &engine_of, const PartOf &part_of)
{
	std::vector<std::thread> threads;

	for (size_t t = 0; t < n_threads; t++)
		threads.emplace_back(
			[&, t]
			{
				for (size_t round = 0; round < n_rounds; round++)
				{
					const auto [engine, copy] = engine_of(t);
					const Part part = part_of(t, round);
					std::vector<std::vector<Neighbor>> found;

					ASSERT_OK(engine->search(copy, requests.subspan(part.first, part.n), &found, nullptr));
					ASSERT_EQ(found.size(), part.n);
					for (size_t i = 0; i < part.n; i++)
						ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[part.first + i]));
				}
			});
	for (std::thread &thread : threads)
		thread.join();
}

/// The same with one engine's copy.
template <class PartOf>
void
expect_answers_side_by_side(
	size_t n_threads, size_t n_rounds, const Both &both, std::span<const SearchQuery> requests, const PartOf &part_of)
{
	std::vector<std::vector<Neighbor>> expected;

	ASSERT_OK(both.cpu()->search(both.cpu_copy(), requests, &expected, nullptr));
	expect_answers_side_by_side(
		n_threads, n_rounds, requests, expected,
		[&](size_t) { return std::pair<Engine *, CopyId>{both.cuda(), both.cuda_copy()}; }, part_of);
}

} // namespace vectorgpu::cuda::test
