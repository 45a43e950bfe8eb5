// Nearest rows looked for among those of near clusters: clusters, candidates and lists are those that the CPU engine
// gives, bit for bit, and the device searches packed rows.
#include "engines.hpp"

#include "engine/cpu/near_groups.hpp"
#include "engine/cpu/nearest_rows.hpp"
#include "engine/interface/list_builder.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr uint32_t kRows = 120000;
constexpr uint32_t kNearest = 24;

/// n vectors in groups of about n_each, `spread` from the group's centre in each dimension.
std::vector<float>
in_groups(uint32_t n, uint32_t n_each, uint32_t dim, float spread, unsigned seed)
{
	std::mt19937 rng(seed);
	std::normal_distribution<float> normal(0, 1);
	std::vector<float> centres(size_t{n / n_each} * dim);
	std::vector<float> vectors(size_t{n} * dim);

	for (float &x : centres)
		x = normal(rng);
	for (uint32_t i = 0; i < n; i++)
	{
		const size_t group = rng() % (n / n_each);

		for (uint32_t d = 0; d < dim; d++)
			vectors[size_t{i} * dim + d] = centres[group * dim + d] + spread * normal(rng);
	}
	return vectors;
}

/// Groups of 300 rows, in which each row lies at a place of its own.
Rows
grouped(const DistanceSpec &spec)
{
	const std::vector<float> vectors = in_groups(kRows, 300, spec.dim, 0.3f, 5);
	Rows rows(spec);

	for (uint32_t i = 0; i < kRows; i++)
		rows.add(i, reinterpret_cast<const unsigned char *>(&vectors[size_t{i} * spec.dim]));
	return rows;
}

/// What clusters do badly with.
enum class Odd
{
	kCopies,   // groups are copies of one row
	kZeros,    // every third row
	kOverflow, // distances
	kHalves,   // nothing odd, in binary16
};

Rows
odd_rows(Odd odd, const DistanceSpec &spec)
{
	constexpr uint32_t kOddRows = 20000;
	const std::vector<float> vectors = in_groups(kOddRows, 100, spec.dim, odd == Odd::kCopies ? 0 : 0.2f, 6);
	std::vector<float> vector(spec.dim);
	std::vector<uint16_t> halves(spec.dim);
	Rows rows(spec);

	for (uint32_t i = 0; i < kOddRows; i++)
	{
		for (uint32_t d = 0; d < spec.dim; d++)
		{
			const float x = vectors[size_t{i} * spec.dim + d];

			vector[d] = odd == Odd::kZeros && i % 3 == 0 ? 0
				: odd == Odd::kOverflow                  ? std::clamp(x, -1.0f, 1.0f) * 3e38f
														 : x;
			halves[d] = float_to_half(x);
		}
		rows.add(i,
			spec.element == ElementType::kFloat16 ? reinterpret_cast<const unsigned char *>(halves.data())
												  : reinterpret_cast<const unsigned char *>(vector.data()));
	}
	return rows;
}

struct Lists
{
	std::vector<uint32_t> ids;
	std::vector<float> scores;
	bool near = false;
};

Lists
find_near(const Rows &rows, Engine *engine, const engine::NearGroupsTuning &tuning)
{
	engine::graph::GraphRows of;
	engine::SearchControl control;
	engine::NearGroups groups;
	engine::graph::KnnLists lists;
	Lists found;

	of.spec = rows.spec;
	of.rows = rows.vectors.data();
	of.row_stride = rows.row_bytes;
	of.n_rows = static_cast<uint32_t>(rows.n());
	found.ids.resize(rows.n() * kNearest);
	found.scores.resize(rows.n() * kNearest);
	lists.ids = found.ids.data();
	lists.scores = found.scores.data();
	lists.k = kNearest;

	engine::SearcherRows held(engine, of, &control, [](uint64_t) { return true; });

	EXPECT_EQ(held.load(), engine::graph::Found::kYes);
	EXPECT_TRUE(groups.train(engine, of, tuning, &control).is_ok());
	EXPECT_EQ(held.find_near(&groups, lists, &found.near), engine::graph::Found::kYes);
	return found;
}

TEST(NearGroups, AreThoseOfTheCpu)
{
	for (const Metric metric : {Metric::kL2, Metric::kCosine})
	{
		const Rows rows = grouped({metric, ElementType::kFloat32, 256}); // fewer would not be packed
		engine::NearGroupsTuning tuning;

		tuning.least_products = 0;
		tuning.most_pairs = 0.9; // groups of few rows would not be packed

		const Lists want = find_near(rows, cpu_engine(), tuning);
		const uint64_t n_packed = cuda_engine()->n_packed();
		const uint64_t n_own_rows = cuda_engine()->n_own_rows();
		const Lists got = find_near(rows, cuda_engine(), tuning);

		EXPECT_TRUE(want.near && got.near) << metric_name(metric);

		EXPECT_GT(cuda_engine()->n_packed(), n_packed) << metric_name(metric);
		EXPECT_GT(cuda_engine()->n_own_rows(), n_own_rows + rows.n() / 2) << metric_name(metric);

		EXPECT_TRUE(got.ids == want.ids) << metric_name(metric);
		EXPECT_TRUE(got.scores == want.scores) << metric_name(metric);
	}
}

TEST(NearGroups, OfOddRowsToo)
{
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
		for (const Odd odd : {Odd::kCopies, Odd::kZeros, Odd::kOverflow, Odd::kHalves})
		{
			const Rows rows =
				odd_rows(odd, {metric, odd == Odd::kHalves ? ElementType::kFloat16 : ElementType::kFloat32, 64});
			engine::NearGroupsTuning tuning;

			tuning.least_products = 0;
			tuning.most_pairs = 1;
			tuning.group_rows = 1000;
			tuning.cluster_rows = 64;

			const Lists want = find_near(rows, cpu_engine(), tuning);
			const Lists got = find_near(rows, cuda_engine(), tuning);

			EXPECT_EQ(got.near, want.near) << metric_name(metric) << ", kind " << static_cast<int>(odd);
			EXPECT_TRUE(got.ids == want.ids) << metric_name(metric) << ", kind " << static_cast<int>(odd);
			EXPECT_TRUE(got.scores == want.scores) << metric_name(metric) << ", kind " << static_cast<int>(odd);
		}
}

/// Labels of rows that a copy holds are those of a list builder, which is sent the rows; more rows than go at a time,
/// and dimensions that are padded.
TEST(NearGroups, LabelsOfACopyAreThoseOfAListBuilder)
{
	constexpr uint32_t kCentroids = 300;
	constexpr uint32_t kDim = 77;
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, kDim};
	const Rows rows = grouped(spec);
	const float *floats = reinterpret_cast<const float *>(rows.vectors.data());
	const std::span<const float> centroids(floats, size_t{kCentroids} * kDim);
	std::vector<uint32_t> want(kRows);
	std::vector<uint32_t> got(kRows);
	std::vector<float> scores(kRows);
	std::unique_ptr<engine::ListBuilder> builder;
	engine::SearchControl control;
	engine::ListBuildSpec lists;
	CopyId copy = 0;
	CopyId halves = 0;

	lists.rows = spec;
	lists.n_clusters = kCentroids;
	ASSERT_OK(cpu_engine()->make_list_builder(lists, &control, &builder));
	ASSERT_OK(builder->add_centroids(centroids.data(), kCentroids));
	ASSERT_OK(builder->assign(0, floats, kRows, want.data(), scores.data()));

	ASSERT_OK(cuda_engine()->create({spec, engine::CopyKind::kRows}, &copy));
	ASSERT_OK(cuda_engine()->load_segment(copy, 1, rows.block()));
	EXPECT_EQ(cuda_engine()->label_rows(copy, 1, centroids, got.data(), nullptr).code, StatusCode::kUnsupported);
	ASSERT_OK(cuda_engine()->seal_segment(copy, 1));
	ASSERT_OK(cuda_engine()->label_rows(copy, 1, centroids, got.data(), nullptr));
	EXPECT_TRUE(got == want);
	EXPECT_FALSE(cuda_engine()->label_rows(copy, 2, centroids, got.data(), nullptr).is_ok());

	const Rows narrow = [&]
	{
		Rows made({Metric::kL2, ElementType::kFloat16, kDim});
		std::mt19937 rng(7);

		made.add_random(100, Data::kGaussian, rng, 0);
		return made;
	}();

	ASSERT_OK(cuda_engine()->create({narrow.spec, engine::CopyKind::kRows}, &halves));
	ASSERT_OK(cuda_engine()->load_segment(halves, 1, narrow.block()));
	ASSERT_OK(cuda_engine()->seal_segment(halves, 1));
	EXPECT_EQ(cuda_engine()->label_rows(halves, 1, centroids, got.data(), nullptr).code, StatusCode::kUnsupported);
	ASSERT_OK(cuda_engine()->drop(copy));
	ASSERT_OK(cuda_engine()->drop(halves));
}

} // namespace
} // namespace vectorgpu::cuda::test
