// Which inverted lists a search with conditions takes, by how the rows that pass are spread over them.
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/passing_lists.hpp"

namespace vectorgpu::engine::test
{
namespace
{

constexpr uint32_t kLists = 200;
constexpr uint32_t kListRows = 200;
constexpr uint32_t kProbes = 18; // of a search without conditions

/// A segment of kLists lists of kListRows rows; n_in_list [kLists]: how many pass.
RowsView
view_of(std::vector<uint32_t> n_in_list)
{
	auto segment = std::make_shared<PassingSegment>();
	auto places = std::make_shared<PassingPlaces>();
	auto passing = std::make_shared<PassingRows>();
	auto lists = std::make_shared<Lists>();
	std::vector<uint64_t> offsets(kLists + 1);
	std::vector<uint8_t> bytes(offsets.size() * sizeof(uint64_t));
	RowsView view;

	for (uint32_t i = 0; i <= kLists; i++)
		offsets[i] = uint64_t{i} * kListRows;
	memcpy(bytes.data(), offsets.data(), bytes.size());
	EXPECT_TRUE(lists->append(kLists, bytes).is_ok());
	segment->n_pass = std::accumulate(n_in_list.begin(), n_in_list.end(), uint64_t{0});
	places->n_in_list = std::move(n_in_list);
	passing->segment = std::move(segment);
	passing->places = std::move(places);
	view.rows.last = offsets.back();
	view.lists = std::move(lists);
	view.passing = std::move(passing);
	return view;
}

/// The lists in their order, list i as the i-th nearest.
uint32_t
chosen(const std::vector<uint32_t> &n_in_list, std::vector<uint32_t> *marks, uint32_t n_probes = kProbes)
{
	const RowsView view = view_of(n_in_list);
	std::vector<Neighbor> ranked(kLists);

	for (uint32_t i = 0; i < kLists; i++)
		ranked[i] = {static_cast<double>(i), i};
	return choose_lists(view, n_probes, ranked, marks);
}

TEST(PassingLists, of_rows_spread_evenly_hold_as_many_as_lists_without_conditions)
{
	std::vector<uint32_t> marks;

	EXPECT_EQ(chosen(std::vector<uint32_t>(kLists, 30), &marks), 42u); // 18 x (1 / .15) ^ .44 = 41.5 lists
	EXPECT_TRUE(marks.empty());
}

// Rows of three clusters pass, none of the query's own. The order of the ten lists of a cluster says little about where
// its nearest rows are.
TEST(PassingLists, filled_by_rows_that_pass_are_counted_as_lists)
{
	std::vector<uint32_t> n_in_list(kLists, 0);
	std::vector<uint32_t> marks;

	for (const uint32_t first : {10u, 30u, 100u})
		std::fill_n(n_in_list.begin() + first, 10, kListRows);
	EXPECT_EQ(chosen(n_in_list, &marks), 38u); // the eighteenth that holds any
	EXPECT_TRUE(marks.empty());
}

TEST(PassingLists, far_away_are_taken_in_stages)
{
	std::vector<uint32_t> n_in_list(kLists, 0);
	std::vector<uint32_t> marks;

	std::fill_n(n_in_list.begin() + 60, 60, 100);
	EXPECT_EQ(chosen(n_in_list, &marks, 5), kLists);
	EXPECT_GT(marks.size(), 1u);
	EXPECT_GT(marks.front(), 60u);
	EXPECT_EQ(chosen(n_in_list, &marks), 0u); // more than half of the rows would come before the first mark
}

} // namespace
} // namespace vectorgpu::engine::test
