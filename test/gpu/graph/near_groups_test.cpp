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

struct Lists
{
	std::vector<uint32_t> ids = std::vector<uint32_t>(size_t{kRows} * kNearest);
	std::vector<float> scores = std::vector<float>(size_t{kRows} * kNearest);
};

Lists
find_near(const Rows &rows, Engine *engine)
{
	engine::graph::GraphRows of;
	engine::NearGroupsTuning tuning;
	engine::SearchControl control;
	engine::ThreadPool pool(4);
	engine::NearGroups groups;
	engine::graph::KnnLists lists;
	Lists found;
	bool near = false;

	of.spec = rows.spec;
	of.rows = rows.vectors.data();
	of.row_stride = rows.row_bytes;
	of.n_rows = kRows;
	tuning.least_products = 0;
	tuning.most_pairs = 0.9; // groups of few rows would not be packed
	lists.ids = found.ids.data();
	lists.scores = found.scores.data();
	lists.k = kNearest;

	engine::SearcherRows held(engine, of, &control, [](uint64_t) { return true; });

	EXPECT_EQ(held.load(), engine::graph::Found::kYes);
	EXPECT_TRUE(groups.make(engine, of, tuning, &control, engine::pool_call(&pool, &control)).is_ok());
	EXPECT_EQ(held.find_near(&groups, lists, &near), engine::graph::Found::kYes);
	EXPECT_TRUE(near) << "pairs: " << groups.pairs();
	return found;
}

TEST(NearGroups, AreThoseOfTheCpu)
{
	for (const Metric metric : {Metric::kL2, Metric::kCosine})
	{
		const Rows rows = grouped({metric, ElementType::kFloat32, 256}); // fewer would not be packed
		const Lists want = find_near(rows, cpu_engine());
		const uint64_t n_packed = cuda_engine()->n_packed();
		const Lists got = find_near(rows, cuda_engine());

		EXPECT_GT(cuda_engine()->n_packed(), n_packed) << metric_name(metric);

		EXPECT_TRUE(got.ids == want.ids) << metric_name(metric);
		EXPECT_TRUE(got.scores == want.scores) << metric_name(metric);
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
