// Sizes beyond 2^31 and 2^32: places of rows, bytes of layouts and of work memory. Each is compared with arithmetic of
// more bits, or bounded by it.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "common/limits.hpp"
#include "engine/interface/codes_layout.hpp"
#include "engine/graph/smooth_path.hpp"
#include "engine/interface/graph_builder.hpp"
#include "engine/interface/graph_layout.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/list_coder.hpp"
#include "engine/interface/lists_layout.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine
{
namespace
{

__extension__ using Wide = unsigned __int128;

constexpr uint64_t k2To31 = uint64_t{1} << 31;
constexpr uint64_t k2To32 = uint64_t{1} << 32;

/// Rows of `row_bytes` that together pass 2^31 and 2^32 bytes, and as many as there can be in a segment.
std::vector<uint64_t>
row_counts(uint64_t row_bytes)
{
	std::vector<uint64_t> counts;

	for (const uint64_t n_bytes : {k2To31, k2To32, uint64_t{1} << 33})
		for (const uint64_t n : {n_bytes / row_bytes - 1, n_bytes / row_bytes, n_bytes / row_bytes + 1})
			counts.push_back(std::min(n, k2To32 - 2));
	counts.push_back(k2To31 - 1);
	counts.push_back(k2To31);
	counts.push_back(k2To32 - 2);
	return counts;
}

TEST(LargeSizes, row_ids_hold_the_last_block_and_the_last_offset)
{
	const RowId last = make_row_id(0xFFFFFFFE, 2047);

	static_assert(make_row_id(0xFFFFFFFE, 2047) == 0xFFFFFFFE07FF);
	EXPECT_EQ(row_id_block(last), 0xFFFFFFFEu);
	EXPECT_EQ(row_id_offset(last), 2047);
	for (const uint32_t block : {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFDu, 0xFFFFFFFEu})
		for (const uint16_t offset : {uint16_t{1}, uint16_t{291}, uint16_t{2047}, uint16_t{0xFFFF}})
		{
			const RowId row = make_row_id(block, offset);

			EXPECT_EQ(row_id_block(row), block);
			EXPECT_EQ(row_id_offset(row), offset);
			EXPECT_LT(row, uint64_t{1} << 48);
			EXPECT_GT(make_row_id(block + 1, 1), row) << "rows of a later block come later";
		}
}

TEST(LargeSizes, the_last_rows_of_a_table_come_in_their_order)
{
	const RowId rows[] = {make_row_id(0xFFFFFFFE, 2047), make_row_id(0x7FFFFFFF, 2047), make_row_id(0xFFFFFFFE, 1),
		make_row_id(0x80000000, 1), make_row_id(0, 1)};
	const double scores[] = {1, 1, 1, 1, 2};
	std::vector<Neighbor> buffer(topk_buffer_bytes(3) / sizeof(Neighbor));
	const Neighbor after = {1, make_row_id(0x80000000, 1)};
	TopK topk;

	topk_init(&topk, 3, buffer.data(), buffer.size(), nullptr);
	topk_push(&topk, scores, rows, std::size(rows), nullptr, 0);
	ASSERT_EQ(topk_finish(&topk), 3u);
	EXPECT_EQ(buffer[0].row, make_row_id(0x7FFFFFFF, 2047));
	EXPECT_EQ(buffer[1].row, make_row_id(0x80000000, 1));
	EXPECT_EQ(buffer[2].row, make_row_id(0xFFFFFFFE, 1));

	topk_init(&topk, 3, buffer.data(), buffer.size(), &after);
	topk_push(&topk, scores, rows, std::size(rows), nullptr, 0);
	ASSERT_EQ(topk_finish(&topk), 3u);
	EXPECT_EQ(buffer[0].row, make_row_id(0xFFFFFFFE, 1));
	EXPECT_EQ(buffer[1].row, make_row_id(0xFFFFFFFE, 2047));
	EXPECT_EQ(buffer[2].row, make_row_id(0, 1));
}

TEST(LargeSizes, bytes_of_a_candidate_buffer_are_exact_or_saturate)
{
	constexpr size_t kMost = std::numeric_limits<size_t>::max();

	for (const uint64_t k : {k2To31 / sizeof(Neighbor), k2To32 / sizeof(Neighbor), k2To31 - 1, k2To31, k2To32 - 1,
			 k2To32, k2To32 + 1, uint64_t{1} << 48})
		EXPECT_EQ(topk_buffer_bytes(k), 2 * k * sizeof(Neighbor)) << k;
	for (const uint64_t k : {uint64_t{1} << 57, uint64_t{1} << 58, uint64_t{1} << 59, uint64_t{1} << 60,
			 uint64_t{1} << 62, uint64_t{1} << 63, kMost - 1, kMost})
	{
		const Wide wanted = Wide{2} * k * sizeof(Neighbor);

		EXPECT_TRUE(Wide{topk_buffer_bytes(k)} == wanted || topk_buffer_bytes(k) == kMost) << k;
		EXPECT_TRUE(wanted <= kMost || topk_buffer_bytes(k) == kMost) << k;
	}
}

TEST(LargeSizes, bytes_of_lists_do_not_wrap)
{
	for (const uint32_t dim :
		{1u, 128u, 2000u, static_cast<uint32_t>(kMaxDimensions), static_cast<uint32_t>(kMaxBitDimensions)})
		for (const uint32_t n_lists : {1u, 1000u, kMostLists})
			for (const uint64_t n_rows : row_counts(sizeof(uint32_t)))
			{
				const ListsLayout layout = {n_lists, dim, n_rows};
				const Wide centroids = (Wide{n_lists} + 1) * 8;
				const Wide numbers = centroids + Wide{n_lists} * dim * 4;

				EXPECT_TRUE(layout.centroids_at() == centroids && layout.numbers_at() == numbers &&
					layout.bytes() == numbers + Wide{n_rows} * 4)
					<< n_lists << " lists of " << dim << " dimensions, " << n_rows << " rows";
			}
	static_assert(uint64_t{kMostLists} * kMaxBitDimensions * sizeof(float) > uint64_t{1} << 33);
}

TEST(LargeSizes, bytes_of_graphs_do_not_wrap)
{
	for (const uint32_t degree : {graph::kMinDegree, 32u, graph::kMaxDegree})
		for (const uint32_t bits : {0u, 32u, graph::kMaxHashBits})
			for (const uint64_t n_rows : row_counts(degree * sizeof(uint32_t)))
			{
				const GraphLayout layout = {{degree, 1, graph::kMaxEntries, bits}, n_rows, 0};
				const Wide edges = 16 + 16 + Wide{graph::kMaxEntries} * 4;
				const Wide hash = edges + Wide{n_rows} * degree * 4;
				const Wide codes = hash + (bits > 0 ? 16 + Wide{bits} * 4 : 0);

				EXPECT_TRUE(layout.edges_at() == edges && layout.hash_at() == hash && layout.codes_at() == codes &&
					layout.bytes() == codes + Wide{n_rows} * (bits / 8))
					<< "degree " << degree << ", " << bits << " bits, " << n_rows << " rows";
			}
}

TEST(LargeSizes, bytes_of_codes_do_not_wrap)
{
	for (const uint32_t dim : {64u, 2000u, static_cast<uint32_t>(kMaxDimensions)})
		for (const uint64_t n_rows : row_counts(dim))
		{
			CodesLayout layout = {{ivf::CodeKind::kSq8, Metric::kL2, dim, {}}, n_rows};
			const Wide blocks = (Wide{n_rows} + 31) / 32 * 32;
			const Wide model = 16 + Wide{dim} * 2 * 4;

			EXPECT_TRUE(layout.codes_at() == model && layout.bytes() == model + Wide{n_rows} * dim)
				<< dim << " dimensions, " << n_rows << " rows";
			layout.spec.kind = ivf::CodeKind::kHalves;
			EXPECT_TRUE(layout.bytes() == 16 + Wide{n_rows} * dim * 2) << dim << " dimensions, " << n_rows << " rows";
			layout.spec.kind = ivf::CodeKind::kPq;
			layout.spec.pq = {Metric::kL2, dim, dim, 8, false};
			EXPECT_TRUE(layout.terms_at() == 16 + Wide{256} * dim * 4 &&
				layout.codes_at() == layout.terms_at() + Wide{n_rows} * 4 &&
				layout.bytes() == layout.codes_at() + blocks * dim)
				<< dim << " dimensions, " << n_rows << " rows";
		}
}

/// Expect more bytes than the necessary arrays, and less than several times as many.
void
expect_between(uint64_t bytes, Wide least, Wide times, const char *what, uint64_t n_rows)
{
	EXPECT_TRUE(Wide{bytes} >= least && Wide{bytes} <= least * times + (1 << 24))
		<< what << " of " << n_rows << " rows: " << bytes;
}

TEST(LargeSizes, memory_of_graph_builds_does_not_wrap)
{
	for (const uint32_t dim : {1u, 128u, 2000u, static_cast<uint32_t>(kMaxDimensions)})
		for (const uint64_t n_rows : row_counts(dim * sizeof(float)))
		{
			GraphBuildSpec spec;

			// Up to here the number of clusters is right; it is computed in 32 bits.
			spec.n_rows = static_cast<uint32_t>(std::min(n_rows, k2To32 - 256));
			spec.rows = {Metric::kL2, ElementType::kFloat32, dim};
			// The vectors, a list of 48 (ids, scores), chosen edges and those of the result.
			expect_between(graph_build_host_bytes(spec, 1), Wide{spec.n_rows} * (Wide{dim} * 4 + 48 * 8 + 32 * 8), 3,
				"a build", spec.n_rows);
			spec.n_base = spec.n_rows;
			spec.n_kept = spec.n_rows / 2;
			expect_between(graph_build_host_bytes(spec, 64),
				Wide{spec.n_rows} * (Wide{dim} * 4 + 33 * 4 + 32 * 8) + Wide{spec.n_rows - spec.n_kept} * 48 * 8, 6,
				"an insertion", spec.n_rows);
		}
}

TEST(LargeSizes, memory_of_training_does_not_wrap)
{
	for (const uint32_t dim : {1u, 128u, 2000u, static_cast<uint32_t>(kMaxDimensions)})
		for (const uint32_t n_clusters : {1u, kMostLists, ivf::kMaxClusters})
		{
			const Wide centroids = Wide{n_clusters} * dim * 4;

			expect_between(ivf::coarse_bytes(dim, n_clusters), centroids, 32, "centroids", n_clusters);
			for (const uint64_t n_rows : {uint64_t{0}, k2To31 / 12, k2To32 / 12 + 1, k2To31, k2To32 - 1})
			{
				ivf::KMeansSpec spec;

				spec.dim = dim;
				spec.n_clusters = n_clusters;
				spec.n_rows = n_rows;
				expect_between(ivf::kmeans_work_bytes(spec), Wide{n_rows} * 12 + centroids, 40, "a training", n_rows);
			}
		}
	for (const size_t budget : {size_t{1} << 31, size_t{1} << 32, size_t{1} << 40})
	{
		const uint64_t n = ivf::kmeans_training_rows(uint64_t{1} << 40, ivf::kMaxClusters, 16, budget);

		EXPECT_LE(n, ivf::kTrainingRowsPerCluster * ivf::kMaxClusters);
		EXPECT_TRUE(Wide{n} * (16 * 4 + 16) <= budget || n == 1) << budget;
	}
	EXPECT_EQ(ivf::kmeans_training_rows(uint64_t{1} << 40, ivf::kMaxClusters, 1, 0),
		ivf::kTrainingRowsPerCluster * ivf::kMaxClusters);
}

TEST(LargeSizes, memory_of_codes_does_not_wrap)
{
	for (const uint32_t dim : {1u, 2000u, static_cast<uint32_t>(kMaxDimensions)})
		for (const uint64_t n_rows : row_counts(dim * sizeof(float)))
		{
			ListCodeSpec spec;

			spec.codes = {ivf::CodeKind::kSq8, Metric::kL2, dim, {}};
			spec.n_training = static_cast<uint32_t>(n_rows);
			EXPECT_TRUE(list_code_bytes(spec, kMostLists, 64) == Wide{n_rows} * (dim + Wide{1}) * 4 + Wide{dim} * 8)
				<< dim << " dimensions, " << n_rows << " rows";
			spec.codes.kind = ivf::CodeKind::kPq;
			spec.codes.pq = {Metric::kL2, dim, dim, 8, false};

			// The sample and its labels; what each of 64 threads has of one part, and labels of that.
			const Wide floats = Wide{dim} + 1 + 2 * std::min<Wide>(dim, 64);

			expect_between(list_code_bytes(spec, kMostLists, 64), Wide{n_rows} * floats * 4, 40, "codes", n_rows);
		}
}

TEST(LargeSizes, memory_of_a_path_does_not_wrap)
{
	for (const uint32_t n : {0x10000000u, 0x7FFFFFFFu})
		expect_between(graph::SmoothPath::bytes(n), Wide{n} * 48, 3, "a path", n);
}

} // namespace
} // namespace vectorgpu::engine
