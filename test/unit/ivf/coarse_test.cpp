// Assignment gives the labels of the definition, however the data affects the matrix product's rounding.
#include "engine/ivf/coarse.hpp"

#include <limits>

#include "engine/distance/topk.hpp"
#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

struct Assigned
{
	std::vector<uint32_t> labels;
	Floats scores;
};

Assigned
assign(const Floats &rows, const Floats &centroids, size_t dim, const Call &call = {})
{
	const size_t n = rows.size() / dim;
	const uint32_t n_lists = static_cast<uint32_t>(centroids.size() / dim);
	Buffer memory(coarse_bytes(static_cast<uint32_t>(dim), n_lists));
	Coarse coarse;
	Assigned assigned{std::vector<uint32_t>(n, 77), Floats(n, 77)};

	EXPECT_TRUE(
		coarse_init(centroids.data(), n_lists, static_cast<uint32_t>(dim), memory.data(), memory.size(), &coarse)
			.is_ok());

	Buffer work(coarse_assign_work_bytes(coarse, call.n_threads));

	EXPECT_TRUE(coarse_assign(
		coarse, rows.data(), dim, n, assigned.labels.data(), assigned.scores.data(), work.data(), work.size(), call)
			.is_ok());
	return assigned;
}

void
expect_definition(const Floats &rows, const Floats &centroids, size_t dim, const char *what)
{
	const std::vector<uint32_t> expected = oracle_labels(rows, centroids, dim);

	for (SimdLevel level : supported_levels())
	{
		AtLevel at(level);
		const Assigned found = assign(rows, centroids, dim);

		ASSERT_EQ(found.labels, expected) << what << ", dim " << dim << ", level " << static_cast<int>(level);
		for (size_t i = 0; i < expected.size(); i++)
			ASSERT_EQ(
				static_cast<double>(found.scores[i]), l2_score(&rows[i * dim], &centroids[expected[i] * dim], dim))
				<< what << ", row " << i;
	}
}

TEST(Coarse, LabelsAreThoseOfTheDefinitionForEveryShape)
{
	for (size_t dim : {1, 2, 3, 7, 31, 32, 33, 128, 257})
		for (size_t n_lists : {1, 2, 15, 16, 17, 31, 32, 33, 100})
			expect_definition(normal_rows(53, dim, 1), normal_rows(n_lists, dim, 2), dim, "normal");
}

TEST(Coarse, ShortRowsAreComparedWithAllLists)
{
	for (size_t dim = 1; dim <= 9; dim++)
		for (size_t n_lists : {16, 32, 48, 256, 260})
		{
			Floats rows = normal_rows(67, dim, 1);
			Floats centroids = normal_rows(n_lists, dim, 2);

			expect_definition(rows, centroids, dim, "short");
			expect_definition(integer_rows(300, dim, 3, 2), integer_rows(n_lists, dim, 4, 2), dim, "short integers");
			rows[5 * dim] = std::numeric_limits<float>::quiet_NaN();
			rows[6 * dim + dim - 1] = std::numeric_limits<float>::infinity();
			rows[7 * dim] = 3e38f;
			for (size_t i = 1; i < n_lists; i += 3) // the first has a score, which the oracle needs
				centroids[i * dim] = i % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : -3e38f;
			for (SimdLevel level : supported_levels())
			{
				AtLevel at(level);

				ASSERT_EQ(assign(rows, centroids, dim).labels, oracle_labels(rows, centroids, dim)) << dim;
			}
		}
}

TEST(Coarse, ManyRowsPassThroughSeveralBlocks)
{
	expect_definition(normal_rows(1000, 24, 1), normal_rows(70, 24, 2), 24, "normal");
}

TEST(Coarse, TiesGoToTheFirstList)
{
	for (size_t dim : {1, 2, 4, 16})
		expect_definition(integer_rows(500, dim, 3, 2), integer_rows(90, dim, 4, 2), dim, "integers");
}

TEST(Coarse, EqualCentroidsGoToTheFirstList)
{
	const Floats rows = normal_rows(40, 20, 1);
	Floats centroids;

	for (size_t i = 0; i < 100; i++)
		centroids.insert(centroids.end(), rows.begin(), rows.begin() + 20);
	expect_definition(rows, centroids, 20, "equal centroids");
}

TEST(Coarse, NearTiesAreDecidedByTheCanonicalScore)
{
	// Centroids that differ in the last bits, far from the origin: the matrix product cannot tell them apart.
	std::mt19937 rng(5);
	const size_t dim = 48;
	const Floats base = normal_rows(1, dim, 6, 1000);
	Floats centroids;
	Floats rows;

	for (size_t i = 0; i < 64; i++)
		for (size_t d = 0; d < dim; d++)
			centroids.push_back(base[d] * (1 + static_cast<float>(rng() % 16) * 0x1p-23f));
	for (size_t i = 0; i < 200; i++)
		for (size_t d = 0; d < dim; d++)
			rows.push_back(base[d] * (1 + static_cast<float>(rng() % 16) * 0x1p-22f));
	expect_definition(rows, centroids, dim, "near ties");
}

TEST(Coarse, ACommonOffsetDoesNotShow)
{
	Floats rows = normal_rows(200, 40, 7);
	Floats centroids = normal_rows(50, 40, 8);

	for (float &x : rows)
		x += 5000;
	for (float &x : centroids)
		x += 5000;
	expect_definition(rows, centroids, 40, "offset");
}

TEST(Coarse, HugeAndTinyValuesAreDefined)
{
	for (float scale : {1e-42f, 1e-30f, 1e18f, 1e25f, 3e37f})
		expect_definition(normal_rows(60, 17, 9, scale), normal_rows(40, 17, 10, scale), 17, "scale");
}

TEST(Coarse, ARowOfNaNGoesToTheFirstListWithoutAScore)
{
	Floats rows = normal_rows(20, 8, 11);
	const Floats centroids = normal_rows(33, 8, 12);

	rows[3 * 8 + 2] = std::numeric_limits<float>::quiet_NaN();
	for (SimdLevel level : supported_levels())
	{
		AtLevel at(level);
		const Assigned found = assign(rows, centroids, 8);

		EXPECT_EQ(found.labels[3], 0u);
		EXPECT_TRUE(std::isnan(found.scores[3]));
		EXPECT_EQ(found.labels[4], oracle_labels(rows, centroids, 8)[4]);
	}
}

TEST(Coarse, ThreadsGiveTheSameLabels)
{
	const Floats rows = normal_rows(3000, 16, 13);
	const Floats centroids = normal_rows(64, 16, 14);
	Threads threads(4);

	EXPECT_EQ(assign(rows, centroids, 16, threads.call()).labels, assign(rows, centroids, 16).labels);
}

TEST(Coarse, RowsMayBeFartherApartThanTheirLength)
{
	const size_t stride = 21;
	const size_t dim = 5;
	const Floats wide = normal_rows(300, stride, 15);
	const Floats centroids = normal_rows(40, dim, 16);
	Floats narrow;
	Buffer memory(coarse_bytes(dim, 40));
	Coarse coarse;
	std::vector<uint32_t> labels(300);

	for (size_t i = 0; i < 300; i++)
		narrow.insert(narrow.end(), wide.begin() + static_cast<ptrdiff_t>(i * stride),
			wide.begin() + static_cast<ptrdiff_t>(i * stride + dim));
	ASSERT_TRUE(coarse_init(centroids.data(), 40, dim, memory.data(), memory.size(), &coarse).is_ok());

	Buffer work(coarse_assign_work_bytes(coarse, 1));

	ASSERT_TRUE(
		coarse_assign(coarse, wide.data(), stride, 300, labels.data(), nullptr, work.data(), work.size()).is_ok());
	EXPECT_EQ(labels, oracle_labels(narrow, centroids, dim));
}

TEST(Coarse, StopsWhenToldTo)
{
	const Floats rows = normal_rows(3000, 16, 17);
	const Floats centroids = normal_rows(8, 16, 18);
	Buffer memory(coarse_bytes(16, 8));
	Coarse coarse;
	std::vector<uint32_t> labels(3000);
	int calls = 0;
	Call call;

	call.progress_context = &calls;
	call.progress = [](void *context, uint64_t done, uint64_t total)
	{
		EXPECT_LE(done, total);
		return ++*static_cast<int *>(context) < 3;
	};
	ASSERT_TRUE(coarse_init(centroids.data(), 8, 16, memory.data(), memory.size(), &coarse).is_ok());

	Buffer work(coarse_assign_work_bytes(coarse, 1));
	const Outcome outcome =
		coarse_assign(coarse, rows.data(), 16, 3000, labels.data(), nullptr, work.data(), work.size(), call);

	EXPECT_EQ(outcome.code, StatusCode::kCancelled);
	EXPECT_EQ(calls, 3);
}

TEST(Coarse, RefusesTooLittleMemory)
{
	const Floats centroids = normal_rows(8, 16, 18);
	Buffer memory(coarse_bytes(16, 8));
	Coarse coarse;

	EXPECT_EQ(coarse_init(centroids.data(), 8, 16, memory.data(), memory.size() - 128, &coarse).code,
		StatusCode::kInvalidArgument);
}

TEST(Coarse, RanksListsByTheMetric)
{
	const size_t dim = 20;
	const Floats centroids = integer_rows(50, dim, 19, 3);
	const Floats query = normal_rows(1, dim, 20);
	Buffer memory(coarse_bytes(dim, 50));
	Coarse coarse;
	std::vector<uint32_t> lists(50);
	std::vector<double> scores(50);

	ASSERT_TRUE(coarse_init(centroids.data(), 50, dim, memory.data(), memory.size(), &coarse).is_ok());
	for (Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
		for (size_t n_probes : {1, 7, 50, 60})
		{
			const DistanceSpec spec = {metric, ElementType::kFloat32, dim};
			std::vector<Neighbor> expected;

			coarse_rank(coarse, metric, query.data(), n_probes, lists.data(), scores.data());
			for (uint32_t list = 0; list < 50; list++)
			{
				double score;

				compute_scores(spec, query.data(), &centroids[list * dim], 0, 1, &score);
				expected.push_back({score, list});
				EXPECT_EQ(scores[list], score);
			}
			std::sort(expected.begin(), expected.end(), neighbor_less);
			for (size_t i = 0; i < std::min<size_t>(n_probes, 50); i++)
				EXPECT_EQ(lists[i], expected[i].row) << "place " << i;
		}
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
