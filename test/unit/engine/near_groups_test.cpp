// Nearest rows looked for among those of near clusters: nearly all true ones are found, and the graph is as good.
#include <algorithm>
#include <cmath>
#include <functional>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/near_groups.hpp"
#include "engine/cpu/nearest_rows.hpp"
#include "engine/helped_build.hpp"
#include "engine/helping_engine.hpp"

namespace vectorgpu::engine::test
{
namespace
{

constexpr uint32_t kNearest = 12;

NearGroupsTuning
small_groups()
{
	NearGroupsTuning tuning;

	tuning.least_products = 0;
	tuning.group_rows = 400;
	tuning.cluster_rows = 15;
	tuning.sampled = 4;
	return tuning;
}

struct Lists
{
	std::vector<uint32_t> ids;
	std::vector<float> scores;
	graph::Found found = graph::Found::kNo;
	bool made = false; // groups
	bool near = false;
	double pairs = 0; // compared, of all

	graph::KnnLists view()
	{
		graph::KnnLists lists;

		lists.ids = ids.data();
		lists.scores = scores.data();
		lists.k = kNearest;
		return lists;
	}
};

graph::GraphRows
rows_of(const Rows &rows)
{
	graph::GraphRows of;

	of.spec = rows.spec;
	of.rows = rows.vectors.data();
	of.row_stride = rows.row_bytes;
	of.n_rows = static_cast<uint32_t>(rows.n());
	return of;
}

/// tuning: null: by all rows.
Lists
find(
	Engine *engine, const Rows &rows, const NearGroupsTuning *tuning,
	const std::function<bool(uint64_t)> &go_on = [](uint64_t) { return true; })
{
	const graph::GraphRows of = rows_of(rows);
	SearchControl control;
	SearcherRows held(engine, of, &control, go_on);
	NearGroups groups;
	Lists lists;

	lists.ids.resize(rows.n() * kNearest);
	lists.scores.resize(rows.n() * kNearest);
	EXPECT_EQ(held.load(), graph::Found::kYes);
	if (tuning == nullptr)
		lists.found = held.find(lists.view());
	else
	{
		const Status made = groups.train(engine, of, *tuning, &control);

		lists.made = made.is_ok();
		lists.found = lists.made ? held.find_near(&groups, lists.view(), &lists.near) : held.find(lists.view());
		lists.pairs = lists.near ? groups.pairs() : 1;
	}
	return lists;
}

Lists
find(const Rows &rows, const NearGroupsTuning *tuning, size_t n_threads = 1)
{
	return find(make_cpu_engine({.n_threads = n_threads}).get(), rows, tuning);
}

/// Of the true nearest rows, those in the lists; what else is in them is not nearer, in order, and no row is its own.
double
share_found(const Lists &got, const Lists &want)
{
	size_t n = 0;

	for (size_t i = 0; i < want.ids.size(); i += kNearest)
	{
		EXPECT_TRUE(std::is_sorted(
			got.scores.begin() + static_cast<ptrdiff_t>(i), got.scores.begin() + static_cast<ptrdiff_t>(i + kNearest)));
		for (size_t j = i; j < i + kNearest; j++)
		{
			EXPECT_NE(got.ids[j], i / kNearest);
			EXPECT_GE(got.scores[j], want.scores[j]);
			n += std::find(want.ids.begin() + static_cast<ptrdiff_t>(i),
					 want.ids.begin() + static_cast<ptrdiff_t>(i + kNearest),
					 got.ids[j]) != want.ids.begin() + static_cast<ptrdiff_t>(i + kNearest)
				? 1
				: 0;
		}
	}
	return static_cast<double>(n) / static_cast<double>(want.ids.size());
}

TEST(NearGroups, have_nearly_all_nearest_rows_among_few)
{
	const NearGroupsTuning tuning = small_groups();

	for (const Metric metric : {Metric::kL2, Metric::kCosine, Metric::kL1})
	{
		const Rows rows = grouped_rows({metric, ElementType::kFloat32, 24}, 6000);
		const Lists want = find(rows, nullptr);
		const Lists got = find(rows, &tuning);

		ASSERT_EQ(got.found, graph::Found::kYes);
		EXPECT_TRUE(got.made && got.near);
		EXPECT_GE(share_found(got, want), tuning.share - 0.01) << static_cast<int>(metric);
		EXPECT_LE(got.pairs, tuning.most_pairs);

		const Lists again = find(rows, &tuning, 3);

		EXPECT_EQ(again.ids, got.ids) << "by three threads";
		EXPECT_EQ(again.scores, got.scores);
	}
}

/// Each row is searched for once. Every search says which row its query is, and finds the same where the engine
/// searches for that row.
TEST(NearGroups, search_for_rows_of_the_copy)
{
	const NearGroupsTuning tuning = small_groups();
	const Rows rows = grouped_rows({Metric::kCosine, ElementType::kFloat32, 24}, 6000);

	for (const NearGroupsTuning *how : {static_cast<const NearGroupsTuning *>(nullptr), &tuning})
	{
		HelpingEngine engine;
		const Lists got = find(&engine, rows, how);

		EXPECT_EQ(got.near, how != nullptr);
		EXPECT_EQ(got.ids, find(rows, how).ids);
		EXPECT_EQ(engine.n_exact, 6000 + (how != nullptr ? 6000 / 15 : 0)); // and the clusters near each
		EXPECT_EQ(engine.n_own_rows, engine.n_exact);
	}
}

/// The sample's rows count, and count once.
TEST(NearGroups, say_how_many_rows_are_searched_for)
{
	const NearGroupsTuning tuning = small_groups();
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 24}, 6000);
	const uint64_t n_sampled = 6000 / tuning.sampled;
	std::mutex mutex;
	std::vector<uint64_t> before; // each batch
	const Lists got = find(make_cpu_engine({}).get(), rows, &tuning,
		[&](uint64_t n)
		{
			const std::lock_guard lock(mutex);

			before.push_back(n);
			return true;
		});

	std::sort(before.begin(), before.end());
	EXPECT_TRUE(got.near);
	ASSERT_GT(before.size(), 4U);
	EXPECT_EQ(before[1], 0U); // the rows are loaded, and the sample's are searched for
	EXPECT_EQ(before[2], n_sampled);
	EXPECT_GT(before[3], n_sampled);
	EXPECT_LT(before.back(), rows.n());
}

TEST(NearGroups, that_would_need_many_rows_search_all)
{
	const NearGroupsTuning tuning = small_groups();
	Rows rows({Metric::kL2, ElementType::kFloat32, 24});
	std::mt19937 rng(3);

	rows.add_random(3000, Data::kGaussian, rng, 0);

	const Lists got = find(rows, &tuning);

	EXPECT_EQ(got.found, graph::Found::kYes);
	EXPECT_TRUE(got.made && !got.near);
	EXPECT_EQ(got.ids, find(rows, nullptr).ids);
}

/// group_rows: on average. *n_listed: groups with few candidates, which are listed.
void
expect_candidates(const Rows &rows, uint32_t group_rows, uint32_t *n_listed, uint32_t *n_groups)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	NearGroupsTuning tuning = small_groups();
	SearchControl control;
	NearGroups groups;

	tuning.group_rows = group_rows;
	ASSERT_TRUE(groups.train(engine.get(), rows_of(rows), tuning, &control).is_ok());
	ASSERT_TRUE(groups.group(engine.get(), rows_of(rows), 0, 0, &control).is_ok());

	// The nearest rows of each are said to be the next ones: in other groups.
	std::vector<uint32_t> nearest;
	std::vector<uint32_t> times(rows.n());

	for (const uint32_t node : groups.sample())
		nearest.push_back((node + 1) % static_cast<uint32_t>(rows.n()));
	(void) groups.choose(nearest.data(), 1);
	*n_groups = groups.n_groups();
	*n_listed = 0;
	for (uint32_t g = 0; g < groups.n_groups(); g++)
	{
		const std::shared_ptr<const Passing> passing = groups.candidates(g, 7);
		const PassingSegment &segment = *passing->segments[0];
		std::vector<uint8_t> passes(rows.n());
		size_t n = 0;

		for (size_t i = 0; i < rows.n(); i++)
			passes[i] = segment.listed ? 0 : segment.bits[i / 8] >> i % 8 & 1;
		for (const uint32_t row : segment.rows)
			passes[row] = 1;
		for (const uint32_t row : groups.rows(g))
		{
			times[row]++;
			EXPECT_EQ(passes[row], 1);
		}
		for (const uint8_t one : passes)
			n += one;
		EXPECT_TRUE(std::is_sorted(segment.rows.begin(), segment.rows.end()));
		EXPECT_EQ(segment.segment, 7U);
		EXPECT_EQ(segment.n_rows, rows.n());
		EXPECT_EQ(segment.n_pass, n);
		EXPECT_EQ(passing->n_pass, n);
		EXPECT_EQ(segment.listed, n <= rows.n() / kFewOfRows);
		EXPECT_EQ(segment.rows.size(), segment.listed ? n : 0);
		EXPECT_LE(n, groups.most_candidates());
		*n_listed += segment.listed ? 1 : 0;
	}
	EXPECT_EQ(times, std::vector<uint32_t>(rows.n(), 1));
}

TEST(NearGroups, have_every_row_once_and_among_its_candidates)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat16, 24}, 9000);
	uint32_t n_listed = 0;
	uint32_t n_groups = 0;

	ASSERT_NO_FATAL_FAILURE(expect_candidates(rows, 400, &n_listed, &n_groups));
	EXPECT_GT(n_groups, 3U);
	EXPECT_LT(n_listed, n_groups);
	ASSERT_NO_FATAL_FAILURE(expect_candidates(rows, 60, &n_listed, &n_groups));
	EXPECT_GT(n_listed, 0U);
}

constexpr int kNoNumbers = 5;

/// Rows of a kind that clusters do badly with.
Rows
odd_rows(const DistanceSpec &spec, int kind, uint32_t n)
{
	Rows rows(spec);
	std::mt19937 rng(static_cast<uint32_t>(kind));
	std::normal_distribution<float> normal(0, 1);
	std::vector<float> vector(spec.dim);

	for (uint32_t i = 0; i < n; i++)
	{
		for (float &x : vector)
			switch (kind)
			{
				case 0: // all the same
					x = 1;
					break;
				case 1: // zeros and two others
					x = static_cast<float>(i % 3);
					break;
				case 2: // distances overflow
					x = 3e38f * std::clamp(normal(rng), -1.0f, 1.0f);
					break;
				case 3: // ... of some
					x = i % 10 == 0 ? 3e38f * std::clamp(normal(rng), -1.0f, 1.0f) : normal(rng);
					break;
				case 4: // most are the same
					x = i % 10 == 0 ? normal(rng) : 0;
					break;
				case kNoNumbers: // some
					x = i % 7 == 0 ? NAN : i % 11 == 0 ? HUGE_VALF : normal(rng);
					break;
				default: // tiny
					x = 1e-42f * normal(rng);
			}
		rows.add(i, reinterpret_cast<const uint8_t *>(vector.data()));
	}
	return rows;
}

/// What lists have, whatever the groups: other rows, none twice, ascending; all of them where all rows were searched.
TEST(NearGroups, of_odd_rows_lose_no_list)
{
	uint32_t n_near = 0;

	for (const Metric metric : {Metric::kL2, Metric::kCosine, Metric::kL1, Metric::kInnerProduct})
		for (int kind = 0; kind < 7; kind++)
			for (const uint32_t n : {1u, 5u, 40u, 2000u})
				for (const double most_pairs : {0.3, 1.0})
				{
					SCOPED_TRACE(std::to_string(static_cast<int>(metric)) + ", kind " + std::to_string(kind));

					const Rows rows = odd_rows({metric, ElementType::kFloat32, 6}, kind, n);
					NearGroupsTuning tuning = small_groups();

					tuning.most_pairs = most_pairs;

					const Lists want = find(rows, nullptr);
					const Lists got = find(rows, &tuning);

					ASSERT_EQ(got.found, want.found) << static_cast<int>(metric) << ", kind " << kind << ", " << n;
					EXPECT_TRUE(got.made || kind == kNoNumbers); // whose centroids are none
					EXPECT_TRUE(got.near || got.ids == want.ids);
					n_near += got.near ? 1 : 0;
					for (size_t i = 0; i < got.ids.size(); i++)
					{
						const size_t first = i / kNearest * kNearest;

						if (got.ids[i] == graph::kNoNode)
							continue;
						EXPECT_LT(got.ids[i], n);
						EXPECT_NE(got.ids[i], i / kNearest);
						EXPECT_TRUE(i == first || got.scores[i - 1] <= got.scores[i]);
						EXPECT_EQ(std::count(got.ids.begin() + static_cast<ptrdiff_t>(first),
									  got.ids.begin() + static_cast<ptrdiff_t>(i), got.ids[i]),
							0);
					}
				}
	EXPECT_GT(n_near, 0u) << "all rows were searched";
}

/// Also of clusters that are all about equally far from each other.
TEST(NearGroups, have_about_as_many_rows_each)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 96}, 12000);
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	const NearGroupsTuning tuning = small_groups();
	SearchControl control;
	NearGroups groups;

	ASSERT_TRUE(groups.train(engine.get(), rows_of(rows), tuning, &control).is_ok());
	ASSERT_TRUE(groups.group(engine.get(), rows_of(rows), 0, 0, &control).is_ok());
	EXPECT_EQ(groups.n_groups(), 12000 / tuning.group_rows);
	for (uint32_t g = 0; g < groups.n_groups(); g++)
	{
		EXPECT_GT(groups.rows(g).size(), tuning.group_rows / 2);
		EXPECT_LT(groups.rows(g).size(), tuning.group_rows * 3 / 2);
	}
}

TEST(NearGroups, stop)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 24}, 3000);
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	SearchControl control;
	NearGroups groups;

	control.stop = true;
	EXPECT_EQ(groups.train(engine.get(), rows_of(rows), small_groups(), &control).code, StatusCode::kCancelled);
}

/// The queries held out are measured by exact searches then.
TEST(NearGroups, make_graphs_that_are_as_good)
{
	const Rows rows = grouped_rows({Metric::kL2, ElementType::kFloat32, 24}, 24000, 0.3f);
	const std::unique_ptr<Engine> searcher = make_cpu_engine({.n_threads = 2});
	const HelpedBuild want = build_helped(rows, searcher.get());
	const HelpedBuild got = build_helped(rows, searcher.get(), 8, small_groups());

	ASSERT_TRUE(got.status.is_ok()) << got.status.message;
	EXPECT_NE(got.edges, want.edges) << "all rows were searched";
	uint32_t n_compared = 0;

	for (uint32_t i = 0, j = 0; i < got.calibration.n_points && j < want.calibration.n_points;)
	{
		const uint32_t width = got.calibration.probes[i];

		if (width == want.calibration.probes[j])
		{
			EXPECT_NEAR(got.calibration.recall[i], want.calibration.recall[j], 0.01f) << "width " << width;
			n_compared++;
		}
		i += width <= want.calibration.probes[j] ? 1 : 0;
		j += width >= want.calibration.probes[j] ? 1 : 0;
	}
	EXPECT_GT(n_compared, 5U);
	expect_same_build(build_helped(rows, searcher.get(), 8, small_groups(), 1), got);
}

} // namespace
} // namespace vectorgpu::engine::test
