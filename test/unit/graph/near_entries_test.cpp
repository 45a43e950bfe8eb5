// The entry points that a matrix product chooses are those of the canonical distance.
#include "graph/graph_data.hpp"

#include "engine/graph/near_entries.hpp"

namespace vectorgpu::engine::graph::test
{

namespace
{

constexpr size_t kDim = 40;
constexpr uint32_t kRows = 9000;

struct Matrix
{
	EntryMatrix matrix;
	EntryMatrix::NearMemory memory;
	Bytes bytes;

	Matrix(const GraphRows &rows, uint32_t most_entries)
	{
		ivf::Arena counted;

		matrix.take(&counted, rows, most_entries, &memory, 1);
		bytes.resize(counted.bytes_needed());

		ivf::Arena arena(bytes.data(), bytes.size());

		matrix.take(&arena, rows, most_entries, &memory, 1);
	}
};

/// Entries, added in two parts, for the first rows: those chosen have the nearest ones by canonical scores wherever
/// these are below the bound, as nearly all are.
void
expect_nearest(const GraphRows &rows, uint32_t n_entries, uint32_t least_sure = 69)
{
	constexpr uint32_t kChecked = 70;
	constexpr uint32_t kChosen = EntryMatrix::kNearChosen;
	uint32_t n_sure = 0;
	std::vector<uint32_t> entries;
	Matrix made(rows, n_entries);

	for (uint32_t i = 0; i < n_entries; i++)
		entries.push_back(i * (kRows / n_entries));
	ASSERT_TRUE(made.matrix.is_usable());
	made.matrix.add(rows, entries.data(), n_entries / 3, made.memory);
	made.matrix.add(rows, entries.data(), n_entries, made.memory);
	EXPECT_EQ(made.matrix.n_columns(), n_entries);
	for (uint32_t first = 0; first < kChecked; first += EntryMatrix::kNearRows)
	{
		const uint32_t n = std::min(EntryMatrix::kNearRows, kChecked - first);
		uint32_t nodes[EntryMatrix::kNearRows];
		uint32_t near[EntryMatrix::kNearRows * kChosen];
		double least[EntryMatrix::kNearRows];

		for (uint32_t i = 0; i < n; i++)
			nodes[i] = 3 * (first + i) + 1;
		made.matrix.choose(rows, nodes, n, near, least, made.memory);
		for (uint32_t i = 0; i < n; i++)
		{
			std::vector<double> scores(n_entries);
			std::set<uint32_t> found;
			std::set<uint32_t> wanted;
			std::vector<Candidate> all;

			score_rows(rows, rows.row(nodes[i]), entries.data(), n_entries, scores.data());
			for (uint32_t e = 0; e < n_entries; e++)
				all.push_back({scores[e], entries[e]});
			first_candidates(all.data(), all.size(), kSearchEntries);
			for (uint32_t j = 0; j < std::min(kChosen, n_entries); j++)
			{
				ASSERT_LT(near[i * kChosen + j], n_entries);
				found.insert(entries[near[i * kChosen + j]]);
			}
			for (uint32_t j = 0; j < kSearchEntries; j++)
				wanted.insert(all[j].node);
			n_sure += all[kSearchEntries - 1].score < least[i];
			for (uint32_t e = 0; e < n_entries; e++)
				if (!found.contains(entries[e]))
				{
					ASSERT_GE(scores[e], least[i]);
				}
			EXPECT_TRUE(std::includes(found.begin(), found.end(), wanted.begin(), wanted.end())) << "row " << nodes[i];
		}
	}
	EXPECT_GE(n_sure, least_sure);
}

TEST(NearEntries, are_those_of_the_canonical_distance)
{
	const Floats floats = overlapping_rows(kRows, kDim, 5);

	for (const uint32_t n_entries : {8u, 31u, 33u, 512u, 1111u})
	{
		expect_nearest(rows_of(floats, kDim), n_entries);
		expect_nearest(rows_of(floats, kDim, Metric::kCosine), n_entries);
	}
}

TEST(NearEntries, are_found_far_from_zero)
{
	Floats floats = overlapping_rows(kRows, kDim, 6);

	for (float &x : floats)
		x += 1000;
	expect_nearest(rows_of(floats, kDim), 300, 0);
}

TEST(NearEntries, products_that_overflow_name_none)
{
	Floats floats(kRows * kDim);

	for (size_t i = 0; i < floats.size(); i++)
		floats[i] = (i / kDim % 2 == 0 ? 1.0f : -1.0f) * 3e30f * static_cast<float>(1 + i % 3);

	const GraphRows rows = rows_of(floats, kDim);
	Matrix made(rows, 64);
	std::vector<uint32_t> entries(64);
	uint32_t near[EntryMatrix::kNearChosen];
	double least;
	const uint32_t node = 17;

	for (uint32_t i = 0; i < 64; i++)
		entries[i] = i;
	made.matrix.add(rows, entries.data(), 64, made.memory);
	made.matrix.choose(rows, &node, 1, near, &least, made.memory);
	for (const uint32_t column : near)
		EXPECT_EQ(column, kNoNode);
	EXPECT_EQ(least, -HUGE_VAL);
}

TEST(NearEntries, needs_the_order_of_L2_and_room)
{
	const Floats floats = overlapping_rows(kRows, kDim, 5);
	const auto usable = [](const GraphRows &rows, uint32_t most) { return Matrix(rows, most).matrix.is_usable(); };

	EXPECT_TRUE(usable(rows_of(floats, kDim), 1000));
	EXPECT_FALSE(usable(rows_of(floats, kDim, Metric::kL1), 1000));
	EXPECT_FALSE(usable(rows_of(floats, kDim, Metric::kInnerProduct), 1000));
	EXPECT_FALSE(usable(rows_of(floats, kDim), 7)) << "fewer than a search begins at";
	EXPECT_FALSE(usable({{Metric::kL2, ElementType::kFloat32, 2000}, nullptr, 8000, 1000}, 1000)) << "too large";
}

} // namespace

} // namespace vectorgpu::engine::graph::test
