// Searches right after an append, while its rows are still copied to the device: every way of a search that looks at
// the delta must wait for them, whatever it did before. The queries are the last rows that were appended.
#include "engine/graph_rows.hpp"
#include "engine/list_rows.hpp"
#include "engines.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using engine::CopyKind;
using engine::SegmentProbes;

constexpr uint32_t kDim = 512;
constexpr size_t kEach = 450; // rows of an append: nearly a slot of float32 rows (cuda/resident/append_lane.hpp), which
							  // takes longer than launching a search
constexpr size_t kAppends = 6;

Rows
make_rows(unsigned most, size_t n, std::mt19937 &rng, RowId first_id)
{
	Rows rows({Metric::kL2, ElementType::kFloat32, kDim});

	if (most == 0)
		rows.add_random(n, Data::kGaussian, rng, first_id);
	else
		add_whole_numbers(&rows, n, most, rng, first_id);
	return rows;
}

/// Append `rows` part by part, first to the CPU engine, whose answer is known before the GPU has the rows. The batch
/// that make_batch gives for the number of rows held is then the GPU's next work.
template <class MakeBatch>
void
expect_right_behind(Both *both, const Rows &rows, MakeBatch make_batch)
{
	for (size_t at = 0; at < kAppends * kEach; at += kEach)
	{
		const std::vector<SearchQuery> batch = make_batch(at + kEach);
		const engine::RowBlock block = rows.block(at, kEach);
		std::vector<std::vector<Neighbor>> expected;
		std::vector<std::vector<Neighbor>> found;

		ASSERT_OK(both->cpu()->append_delta(both->cpu_copy(), at, block));
		ASSERT_OK(both->cpu()->search(both->cpu_copy(), batch, &expected, nullptr));
		ASSERT_OK(both->cuda()->append_delta(both->cuda_copy(), at, block));
		ASSERT_OK(both->cuda()->search(both->cuda_copy(), batch, &found, nullptr));
		ASSERT_EQ(found.size(), expected.size());
		for (size_t i = 0; i < batch.size(); i++)
		{
			SCOPED_TRACE(testing::Message()
				<< at + kEach << " rows, query " << i << " of " << batch.size() << ", k " << batch[i].k);
			ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[i]));
		}
	}
}

/// n queries, each one of the last rows held.
std::vector<SearchQuery>
last_rows(const Rows &rows, size_t held, size_t n, size_t k)
{
	std::vector<SearchQuery> batch;

	for (size_t i = 0; i < n; i++)
		batch.push_back({rows.vector(held - 1 - i), k, false, {}});
	return batch;
}

TEST(BehindAppend, RowsByEveryWay)
{
	constexpr size_t kLarge = 3000; // beyond the selection's k

	for (unsigned most : {0u, 255u})
		for (size_t n_segment : {0, 700, 18000}) // none; a small one; one that is filtered and searched in one pass
		{
			std::mt19937 rng(most + static_cast<unsigned>(n_segment));
			const Rows segment = make_rows(most, n_segment, rng, 1);
			const Rows rows = make_rows(most, kAppends * kEach, rng, 1000001);

			for (const auto &[n, k] :
				{std::pair<size_t, size_t>{1, 1}, {1, 10}, {2, 10}, {9, 10}, {40, 100}, {1, kLarge}})
			{
				SCOPED_TRACE(testing::Message() << "values to " << most << ", segment of " << n_segment << " rows");

				Both both(rows.spec);

				if (n_segment > 0)
				{
					ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, n_segment));
				}
				ASSERT_NO_FATAL_FAILURE(expect_right_behind(
					&both, rows, [&, n = n, k = k](size_t held) { return last_rows(rows, held, n, k); }));
			}
		}
}

TEST(BehindAppend, ContinuingAfterARow)
{
	std::mt19937 rng(3);
	const Rows segment = make_rows(0, 700, rng, 1);
	const Rows rows = make_rows(0, kAppends * kEach, rng, 1000001);
	Both both(rows.spec);

	ASSERT_NO_FATAL_FAILURE(both.load(1, segment, 0, segment.n()));
	ASSERT_NO_FATAL_FAILURE(expect_right_behind(&both, rows,
		[&](size_t held)
		{
			std::vector<SearchQuery> batch = last_rows(rows, held, 3, 20);

			for (SearchQuery &query : batch)
			{
				query.has_after = true;
				query.after = {0, 0}; // before every row of that distance
			}
			return batch;
		}));
}

TEST(BehindAppend, ListsAndGraphs)
{
	for (const bool graph : {false, true})
		for (unsigned most : {0u, 255u})
			for (const auto &[n, k] : {std::pair<size_t, size_t>{1, 10}, {9, 10}, {40, 100}})
			{
				SCOPED_TRACE(testing::Message() << (graph ? "a graph" : "lists") << ", values to " << most);

				std::mt19937 rng(most);
				const SegmentProbes some[] = {{1, graph ? 100u : 3u}}; // the width of a graph's search
				const Rows segment = make_rows(most, 2000, rng, 1);
				const Rows rows = make_rows(most, kAppends * kEach, rng, 1000001);
				const auto make_batch = [&, n = n, k = k](size_t held)
				{
					std::vector<SearchQuery> batch = last_rows(rows, held, n, k);

					for (size_t i = 0; i < batch.size(); i++)
						if (i % 4 != 3) // some look at all rows
							batch[i].probes = some;
					return batch;
				};
				Both both(engine::CopySpec(rows.spec, graph ? CopyKind::kGraph : CopyKind::kLists));

				if (graph)
				{
					const GraphedRows graphed(segment, 16, 1, Edges::kBuilt);

					ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return graphed.load(&e, c, 1); }));
				}
				else
				{
					const ListRows lists(segment, 20, rng);

					ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return lists.load(&e, c, 1); }));
				}
				ASSERT_NO_FATAL_FAILURE(expect_right_behind(&both, rows, make_batch));
			}
}

/// Slots are used again though no search has waited for any.
TEST(BehindAppend, ManyAppendsBeforeOneSearch)
{
	std::mt19937 rng(4);
	const Rows rows = make_rows(0, 3000, rng, 1);
	Both both(rows.spec);
	Status status;

	ASSERT_OK(both.cpu()->append_delta(both.cpu_copy(), 0, rows.block()));
	ASSERT_OK(both.cuda()->append_delta(both.cuda_copy(), 0, rows.block(0, 100)));
	for (size_t at = 100; at < rows.n(); at++)
	{
		if (!both.cuda()->try_append_delta(both.cuda_copy(), at, rows.block(at, 1), &status))
			status = both.cuda()->append_delta(both.cuda_copy(), at, rows.block(at, 1));
		ASSERT_OK(status);
	}
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(last_rows(rows, rows.n(), 9, 10)));
	ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(last_rows(rows, 40, 9, 10)));
}

} // namespace
} // namespace vectorgpu::cuda::test
