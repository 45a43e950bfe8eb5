// Edges chosen by rank, against a count of all detours.
#include "engine/graph/prune.hpp"

#include "graph/graph_data.hpp"

namespace vectorgpu::engine::graph::test
{
namespace
{

struct Lists
{
	uint32_t n_rows;
	uint32_t k;
	std::vector<uint32_t> ids; // [n_rows, k]

	const uint32_t *of(uint32_t u) const { return &ids[size_t{u} * k]; }

	uint32_t size(uint32_t u) const { return static_cast<uint32_t>(std::find(of(u), of(u) + k, kNoNode) - of(u)); }
};

/// Lists of different rows each, some short and some empty. near: members are close to the row, so that lists have many
/// in common.
Lists
random_lists(uint32_t n_rows, uint32_t k, uint32_t near, unsigned seed)
{
	std::mt19937 rng(seed);
	Lists lists = {n_rows, k, std::vector<uint32_t>(size_t{n_rows} * k, kNoNode)};

	for (uint32_t u = 0; u < n_rows; u++)
	{
		const uint32_t n = rng() % 4 == 0 ? rng() % (k + 1) : k;
		std::set<uint32_t> seen = {u};

		for (uint32_t i = 0; i < n;)
			if (const uint32_t v = (u + n_rows + static_cast<uint32_t>(rng() % (2 * near + 1)) - near) % n_rows;
				seen.insert(v).second)
				lists.ids[size_t{u} * k + i++] = v;
	}
	return lists;
}

/// The number of v that lead from u by ranks i, j < rank to its neighbour of that rank.
uint32_t
detours_of(const Lists &lists, uint32_t u, uint32_t rank)
{
	const uint32_t *own = lists.of(u);
	uint32_t n = 0;

	for (uint32_t i = 0; i < rank; i++)
		for (uint32_t j = 0; j < rank; j++)
			n += lists.of(own[i])[j] == own[rank];
	return n;
}

std::vector<uint32_t>
fewest_detours(const Lists &lists, uint32_t u, uint32_t degree)
{
	std::vector<std::pair<uint32_t, uint32_t>> order; // detours, rank
	std::vector<uint32_t> forward(degree, kNoNode);

	for (uint32_t rank = 0; rank < lists.size(u); rank++)
		order.emplace_back(detours_of(lists, u, rank), rank);
	std::sort(order.begin(), order.end());
	for (uint32_t i = 0; i < std::min<size_t>(degree, order.size()); i++)
		forward[i] = lists.of(u)[order[i].second];
	return forward;
}

TEST(Prune, by_rank_counts_every_detour)
{
	for (const uint32_t k : {1u, 2u, 7u, 48u, 65u, 300u})
		for (const uint32_t near : {k + 1, 4 * k})
			for (const uint32_t degree : {1u, k / 2 + 1, k})
			{
				Lists lists = random_lists(4 * k + 50, k, near, k + near);

				for (const size_t n_threads : {1u, 3u})
				{
					const KnnLists knn = {lists.ids.data(), nullptr, k};
					std::vector<uint32_t> forward(size_t{lists.n_rows} * degree, 12345);
					Bytes work(prune_bytes(knn, n_threads));
					GraphRows rows;
					Call call;

					rows.n_rows = lists.n_rows;
					call.n_threads = n_threads;
					call.parallel = n_threads > 1 ? in_threads : nullptr;
					ASSERT_TRUE(
						prune(rows, knn, PruneKind::kRank, degree, forward.data(), work.data(), work.size(), call)
							.is_ok());
					for (uint32_t u = 0; u < lists.n_rows; u += 1 + k / 4)
						ASSERT_EQ(
							std::vector<uint32_t>(&forward[size_t{u} * degree], &forward[size_t{u} * degree] + degree),
							fewest_detours(lists, u, degree))
							<< "row " << u << ", k " << k << ", near " << near << ", degree " << degree;
				}
			}
}

TEST(Prune, keeps_edges_of_rows_that_are_not_chosen)
{
	constexpr uint32_t kDegree = 5;
	Lists lists = random_lists(200, 12, 20, 3);
	const KnnLists knn = {lists.ids.data(), nullptr, lists.k};
	std::vector<uint32_t> forward(lists.n_rows * kDegree, 12345);
	std::vector<uint8_t> chosen(lists.n_rows);
	Bytes work(prune_bytes(knn));
	GraphRows rows;

	rows.n_rows = lists.n_rows;
	for (uint32_t u = 0; u < lists.n_rows; u += 3)
		chosen[u] = 1;
	ASSERT_TRUE(prune(rows, knn, PruneKind::kRank, kDegree, forward.data(), work.data(), work.size(), {}, chosen.data())
			.is_ok());
	for (uint32_t u = 0; u < lists.n_rows; u++)
		EXPECT_EQ(std::vector<uint32_t>(&forward[u * kDegree], &forward[u * kDegree] + kDegree),
			chosen[u] != 0 ? fewest_detours(lists, u, kDegree) : std::vector<uint32_t>(kDegree, 12345))
			<< "row " << u;
}

} // namespace
} // namespace vectorgpu::engine::graph::test
