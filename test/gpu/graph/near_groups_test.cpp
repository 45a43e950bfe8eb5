// Nearest rows looked for among those of near clusters: clusters, candidates and lists are those that the CPU engine
// gives, bit for bit, and the device searches packed rows.
#include "engines.hpp"

#include "engine/cpu/near_groups.hpp"
#include "engine/cpu/nearest_rows.hpp"
#include "engine/cpu/pool_call.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr uint32_t kRows = 120000;
constexpr uint32_t kNearest = 24;

/// Groups of 300 rows, in which each row lies at a place of its own.
Rows
grouped(const DistanceSpec &spec)
{
	std::mt19937 rng(5);
	std::normal_distribution<float> normal(0, 1);
	std::vector<float> centres(kRows / 300 * spec.dim);
	std::vector<float> vector(spec.dim);
	Rows rows(spec);

	for (float &x : centres)
		x = normal(rng);
	for (uint32_t i = 0; i < kRows; i++)
	{
		const size_t group = rng() % (kRows / 300);

		for (uint32_t d = 0; d < spec.dim; d++)
			vector[d] = centres[group * spec.dim + d] + 0.3f * normal(rng);
		rows.add(i, reinterpret_cast<const unsigned char *>(vector.data()));
	}
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
	std::mt19937 rng(6);
	std::normal_distribution<float> normal(0, 1);
	std::vector<float> centres(kOddRows / 100 * spec.dim);
	std::vector<float> vector(spec.dim);
	std::vector<uint16_t> halves(spec.dim);
	Rows rows(spec);

	for (float &x : centres)
		x = normal(rng);
	for (uint32_t i = 0; i < kOddRows; i++)
	{
		const size_t group = rng() % (kOddRows / 100);

		for (uint32_t d = 0; d < spec.dim; d++)
		{
			const float x = centres[group * spec.dim + d] + (odd == Odd::kCopies ? 0 : 0.2f * normal(rng));

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
	engine::ThreadPool pool(4);
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
	EXPECT_TRUE(groups.make(engine, of, tuning, &control, engine::pool_call(&pool, &control)).is_ok());
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
		const Lists got = find_near(rows, cuda_engine(), tuning);

		EXPECT_TRUE(want.near && got.near) << metric_name(metric);

		EXPECT_GT(cuda_engine()->n_packed(), n_packed) << metric_name(metric);

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

} // namespace
} // namespace vectorgpu::cuda::test
