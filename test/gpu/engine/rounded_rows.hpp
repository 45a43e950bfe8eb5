// Shared by the tests of rounded rows: engines, rows by a rule, what the filter passed on.
#pragma once

#include "engines.hpp"

namespace vectorgpu::cuda::test
{

constexpr double kMostRescored = 500; // far below the room for candidates, beyond which queries go another way
constexpr Metric kRoundedMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

/// An engine whose filter takes batches of any size. scaled, both: as in CudaEngineOptions.
inline CudaEngine *
rounded_engine(bool scaled, bool both = false)
{
	static std::unique_ptr<CudaEngine> engines[2][2];
	std::unique_ptr<CudaEngine> &engine = engines[scaled][both];

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.self_test = false;
		options.workspace_bytes = size_t{512} << 20;
		options.scaled = scaled;
		options.both_roundings = both;
		options.scaled_least_bytes = 1; // tests have few rows

		make_or_throw(options, &engine);
	}
	return engine.get();
}

/// Adds n rows of element(row, e).
template <class Element>
void
add_rows(Rows *rows, size_t n, Element element)
{
	std::vector<float> vector(rows->spec.dim);

	for (size_t i = 0; i < n; i++)
	{
		for (size_t e = 0; e < vector.size(); e++)
			vector[e] = element(i, e);
		rows->add(rows->n(), reinterpret_cast<const uint8_t *>(vector.data()));
	}
}

inline uint64_t
resident_bytes(Engine *engine)
{
	return engine->stats().resident_bytes;
}

/// The bytes of a sealed segment of float32 rows on the device, with norms and row ids.
inline uint64_t
bytes_alone(const Rows &rows)
{
	return rows.n() * ((rows.spec.dim + 31) / 32 * 32 * sizeof(float) + sizeof(float) + sizeof(RowId));
}

/// The same with rows in binary16.
inline uint64_t
bytes_with_halves(const Rows &rows)
{
	return bytes_alone(rows) + rows.n() * ((rows.spec.dim + 31) / 32 * 32 * 2);
}

/// The same with scaled rows.
inline uint64_t
bytes_with_scaled(const Rows &rows)
{
	return bytes_alone(rows) + rows.n() * ((rows.spec.dim + 31) / 32 * 32 + 8);
}

/// The same with both.
inline uint64_t
bytes_with_both(const Rows &rows)
{
	return bytes_with_halves(rows) + bytes_with_scaled(rows) - bytes_alone(rows);
}

/// Loads rows as segment 1 and expects that they take this many bytes on the device.
inline void
load_into(Both *both, const Rows &rows, uint64_t bytes)
{
	const uint64_t before = resident_bytes(both->cuda());

	ASSERT_NO_FATAL_FAILURE(both->load(1, rows, 0, rows.n()));
	ASSERT_EQ(resident_bytes(both->cuda()) - before, bytes);
}

/// The rows that the filter passed on to each of the first n queries in one batch, whose answers must be the same.
inline void
count_rescored(Both *both, const Rows &queries, size_t n, size_t k, double *rescored)
{
	const uint64_t before = both->cuda()->stats().n_rescored;

	ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, n, k));
	*rescored = static_cast<double>(both->cuda()->stats().n_rescored - before) / static_cast<double>(n);
}

/// Expects that PartialReduce finds, for the first queries in one batch, nine of ten of the nearest rows, with their
/// scores.
inline void
expect_most_by_bins(Both *both, const Rows &rows, const Rows &queries)
{
	constexpr size_t kMost = 40; // the expected rows are found by one thread
	const size_t n = std::min(queries.n(), kMost);
	std::vector<SearchQuery> batch;
	std::vector<std::vector<Neighbor>> found;
	size_t n_right = 0;

	for (size_t i = 0; i < n; i++)
		batch.push_back({queries.vector(i), 10, false, {}, 0.9f});
	ASSERT_OK(both->cuda()->search(both->cuda_copy(), batch, &found, nullptr));
	for (size_t i = 0; i < n; i++)
	{
		const std::vector<Neighbor> nearest = rows.nearest(queries.vector(i), 10);

		ASSERT_EQ(found[i].size(), 10u);
		for (const Neighbor &neighbor : found[i])
		{
			EXPECT_EQ(neighbor.score, oracle_score(rows.spec, queries.vector(i), rows.vector(neighbor.row)));
			n_right += neighbor.score <= nearest.back().score;
		}
	}
	EXPECT_GE(n_right, n * 9);
}

/// Expects that derived data of segment 1 are as they were made, read as a whole and in parts.
inline void
expect_undamaged(const Both &both, size_t n_rows)
{
	for (const auto &[first, n] : {std::pair<uint64_t, size_t>{0, n_rows}, {1, 1}, {n_rows / 4, n_rows / 2}})
	{
		uint64_t n_different = 1;

		ASSERT_OK(both.cuda()->check_derived(both.cuda_copy(), 1, first, n, &n_different));
		EXPECT_EQ(n_different, 0u);
	}
}

/// Expects the same answers in batches of several sizes; returns the rows that the filter passed on to each query that
/// wants 10, 0 for one that went another way.
inline void
search_in_batches(Both *both, const Rows &queries, double *rescored)
{
	size_t n_queries = 0;
	const uint64_t before = both->cuda()->stats().n_rescored;

	for (size_t batch : {2, 9, 33, 70})
	{
		ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, batch, 10));
		n_queries += batch;
	}
	*rescored = static_cast<double>(both->cuda()->stats().n_rescored - before) / static_cast<double>(n_queries);
	ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, 20, 150));
}

} // namespace vectorgpu::cuda::test
