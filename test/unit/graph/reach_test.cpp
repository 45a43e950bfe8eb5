// Rows in groups apart from each other, as embeddings are: a search finds every group, and the queries' law is that of
// the rows. Without the entry points that add_unreached adds, .4 to .8 of the nearest rows were found here at any
// width.
#include "graph/graph_data.hpp"

#include <numeric>

#include "engine/graph/calibrate/hold_out.hpp"
#include "engine/graph/reach.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph::test
{

namespace
{

constexpr size_t kDim = 24;

/// Groups of these sizes; a row is its group's centre and noise of deviation `noise` times that of a centre.
struct Groups
{
	std::vector<size_t> sizes;
	float noise = 0.35f;

	/// Rows group by group (`scattered`: in random order), and as many queries of the same law.
	std::pair<Floats, Floats> draw(size_t n_queries, bool scattered) const
	{
		std::mt19937 rng(7);
		std::normal_distribution<float> normal(0, 1);
		std::vector<size_t> group_of;
		Floats centres(sizes.size() * kDim);
		Floats rows;
		Floats queries;

		for (float &x : centres)
			x = normal(rng);
		for (size_t g = 0; g < sizes.size(); g++)
			group_of.insert(group_of.end(), sizes[g], g);
		if (scattered)
			std::shuffle(group_of.begin(), group_of.end(), rng);
		for (const size_t g : group_of)
			for (size_t d = 0; d < kDim; d++)
				rows.push_back(centres[g * kDim + d] + noise * normal(rng));
		for (size_t q = 0; q < n_queries; q++)
			for (size_t d = 0, g = group_of[rng() % group_of.size()]; d < kDim; d++)
				queries.push_back(centres[g * kDim + d] + noise * normal(rng));
		return {rows, queries};
	}
};

std::vector<size_t>
sizes_between(size_t n_groups, size_t least, size_t most)
{
	std::vector<size_t> sizes;

	// Uneven: the logarithm of sizes is even.
	for (size_t g = 0; g < n_groups; g++)
		sizes.push_back(static_cast<size_t>(static_cast<double>(least) *
			std::pow(static_cast<double>(most) / static_cast<double>(least),
				static_cast<double>(g) / static_cast<double>(n_groups - 1))));
	return sizes;
}

BuildSpec
default_spec()
{
	BuildSpec spec;

	spec.degree = 16;
	spec.knn.k = 0;
	return spec;
}

struct Case
{
	const char *name;
	Groups groups;
	bool scattered;
};

class Reach : public testing::TestWithParam<Case>
{
};

TEST_P(Reach, every_group_is_found)
{
	const auto [rows, queries] = GetParam().groups.draw(300, GetParam().scattered);
	const Built built = build(rows_of(rows, kDim), default_spec());

	EXPECT_GE(built.recall(queries, 64), 0.97)
		<< built.entries.size() << " entry points, " << built.report.n_unreached << " added";
	EXPECT_EQ(built.n_reachable(), built.rows.n_rows);
	EXPECT_TRUE(std::is_sorted(built.entries.begin(), built.entries.end()));
	EXPECT_EQ(std::adjacent_find(built.entries.begin(), built.entries.end()), built.entries.end());
}

std::vector<Case>
cases()
{
	std::vector<size_t> with_giant = sizes_between(60, 40, 80);
	std::vector<size_t> with_singletons(1000, 1);

	with_giant.push_back(6000);
	for (const size_t size : sizes_between(30, 100, 400))
		with_singletons.push_back(size);
	return {
		{"even", {std::vector<size_t>(120, 80)}, false},
		{"even_scattered", {std::vector<size_t>(120, 80)}, true},
		{"from_2_to_5000", {sizes_between(60, 2, 5000)}, true},
		{"of_lists_size", {std::vector<size_t>(250, 40)}, true},
		{"one_giant", {with_giant}, true},
		{"singletons", {with_singletons}, true},
		{"copies", {std::vector<size_t>(100, 90), 0.0f}, true},
	};
}

INSTANTIATE_TEST_SUITE_P(
	Groups, Reach, testing::ValuesIn(cases()), [](const auto &test) { return std::string(test.param.name); });

TEST(Reach, adds_nothing_where_searches_find_their_way)
{
	const Floats rows = overlapping_rows(6000, kDim, 3);

	EXPECT_LE(build(rows_of(rows, kDim), default_spec()).report.n_unreached, 2u);
}

TEST(Reach, is_the_same_by_any_number_of_threads)
{
	const Floats rows = Groups{std::vector<size_t>(120, 80)}.draw(0, true).first;
	const GraphRows graph_rows = rows_of(rows, kDim);
	const Built one = build(graph_rows, default_spec());
	std::vector<uint32_t> edges(one.edges.size());
	std::vector<uint32_t> entries(entry_count(graph_rows.n_rows, default_spec()));
	BuildReport report;
	Call call;

	call.n_threads = 5;
	call.parallel = in_threads;
	Bytes work(graph_build_bytes(graph_rows, default_spec(), call.n_threads));
	ASSERT_TRUE(
		graph_build(graph_rows, default_spec(), edges.data(), entries.data(), &report, work.data(), work.size(), call)
			.is_ok());
	entries.resize(report.n_entries);
	EXPECT_EQ(edges, one.edges);
	EXPECT_EQ(entries, one.entries);
	EXPECT_GT(report.n_unreached, 20u);
}

TEST(Reach, keeps_to_the_room_and_to_entry_points_that_are_given)
{
	const Floats rows = Groups{std::vector<size_t>(120, 80)}.draw(0, true).first;
	const GraphRows graph_rows = rows_of(rows, kDim);
	BuildSpec spec = default_spec();

	spec.n_entries = 30;
	const Built few = build(graph_rows, spec);

	EXPECT_EQ(few.report.n_unreached, 0u);

	std::vector<uint32_t> entries(33, kNoNode);
	uint32_t n_entries = few.report.n_entries;
	uint32_t n_added = 0;

	std::copy_n(few.entries.begin(), n_entries, entries.begin());
	Bytes work(add_unreached_bytes(graph_rows, spec.degree, 33, 1));
	ASSERT_TRUE(add_unreached(
		graph_rows, spec.degree, few.edges.data(), entries.data(), &n_entries, 33, &n_added, work.data(), work.size())
			.is_ok());
	EXPECT_EQ(n_entries, 33u);
	EXPECT_EQ(n_added, 33u - few.report.n_entries);
}

TEST(Reach, entry_points_are_no_rows_that_calibration_holds_out)
{
	const Floats rows = Groups{std::vector<size_t>(300, 70)}.draw(0, false).first;
	const GraphRows graph_rows = rows_of(rows, kDim);
	const Built built = build(graph_rows, default_spec());
	uint32_t n_held = 0;
	const uint32_t n_rows = graph_rows.n_rows;

	ASSERT_GT(built.report.n_unreached, 50u);
	for (const uint32_t entry : built.entries)
		n_held += is_stratified_row(entry, query_rows(n_rows), n_rows);
	EXPECT_LE(n_held, built.report.n_entries - built.report.n_unreached) << "those that clusters chose may be";
}

TEST(Reach, is_stratified_row_names_the_rows)
{
	for (const auto &[n, n_rows] : {std::pair<uint64_t, uint64_t>{7, 100}, {1, 5}, {5, 5}, {333, 1000}, {0, 10}})
	{
		std::set<uint64_t> named;

		for (uint64_t i = 0; i < n; i++)
			named.insert(stratified_row(i, n, n_rows));
		for (uint64_t row = 0; row < n_rows; row++)
			EXPECT_EQ(is_stratified_row(row, n, n_rows), named.count(row) == 1) << row << " of " << n_rows << ", " << n;
	}
}

} // namespace

} // namespace vectorgpu::engine::graph::test
