// A search runs on any graph of fixed degree (SONG, section 8.6): the base layer of a graph that hnswlib has built.
#include "graph/graph_data.hpp"

#include <hnswlib/hnswlib.h>

namespace vectorgpu::engine::graph::test
{

namespace
{

constexpr size_t kDim = 24;
constexpr size_t kRows = 5000;
constexpr size_t kQueries = 200;
constexpr size_t kNeighbors = 10;

TEST(HnswImport, base_layer_is_searched_with_the_recall_of_hnswlib)
{
	const Floats all = overlapping_rows(kRows + kQueries, kDim, 30);
	const Floats floats(all.begin(), all.begin() + kRows * kDim);
	const Floats queries(all.begin() + kRows * kDim, all.end());
	hnswlib::L2Space space(kDim);
	hnswlib::HierarchicalNSW<float> theirs(&space, kRows, 12, 100, 7);
	Built ours;

	for (size_t i = 0; i < kRows; i++)
		theirs.addPoint(&floats[i * kDim], i);
	ours.rows = rows_of(floats, kDim);
	ours.degree = static_cast<uint32_t>(theirs.maxM0_);
	ours.edges.assign(kRows * ours.degree, kNoNode);
	ours.entries = {static_cast<uint32_t>(theirs.getExternalLabel(theirs.enterpoint_node_))};
	for (uint32_t node = 0; node < kRows; node++)
	{
		hnswlib::linklistsizeint *list = theirs.get_linklist0(node);
		const hnswlib::tableint *links = reinterpret_cast<hnswlib::tableint *>(list + 1);
		const size_t u = theirs.getExternalLabel(node);

		for (size_t i = 0; i < theirs.getListCount(list); i++)
			ours.edges[u * ours.degree + i] = static_cast<uint32_t>(theirs.getExternalLabel(links[i]));
	}
	EXPECT_EQ(ours.n_reachable(), kRows);
	// Their search begins where its upper layers lead; ours at the nearest of some rows.
	for (uint32_t row = 0; row < kRows; row += 100)
		ours.entries.push_back(row);

	for (uint32_t width : {20u, 50u, 100u})
	{
		size_t their_hits = 0;

		theirs.setEf(width);
		for (size_t q = 0; q < kQueries; q++)
		{
			const std::vector<Candidate> truth = all_ranked(ours.rows, &queries[q * kDim], kNoNode, kNeighbors);
			auto found = theirs.searchKnn(&queries[q * kDim], kNeighbors);

			for (; !found.empty(); found.pop())
				their_hits += std::any_of(truth.begin(), truth.begin() + kNeighbors,
					[&](const Candidate &candidate) { return candidate.node == found.top().second; });
		}
		const double their_recall = static_cast<double>(their_hits) / (kQueries * kNeighbors);
		const double our_recall = ours.recall(queries, width);

		EXPECT_GE(our_recall, their_recall - 0.002) << "width " << width; // 4 of the 2,000
		EXPECT_GE(our_recall, width >= 50 ? 0.95 : 0.85);
		RecordProperty(
			"width_" + std::to_string(width), std::to_string(our_recall) + " " + std::to_string(their_recall));
	}
}

} // namespace

} // namespace vectorgpu::engine::graph::test
