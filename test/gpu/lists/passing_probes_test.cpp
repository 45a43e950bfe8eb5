// Inverted lists for queries with conditions: the lists are chosen by the rows in them that pass, alike in two launches
// and in the chain; recall where rows that pass lie at random, near a query and away from it, where all of them are
// looked at.
#include <numeric>

#include "../engine/passing_world.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr size_t kRows = 16000;
constexpr size_t kQueries = 60;
constexpr uint32_t kLists = 120;
constexpr uint32_t kProbes = 10;

enum class Place
{
	kRandom,
	kNear,
	kFar,
};

/// As soon as two queries of a batch look at all rows that pass.
constexpr PackedTuning kNotInsteadOfLists = {true, 1, 1, 1, 2, 1e9};

std::unique_ptr<CudaEngine>
make_engine(bool few, const PackedTuning &packed)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.exact_elements = 1;
	options.workspace_bytes = size_t{256} << 20;
	options.self_test = options.list_choice = false;
	options.few_lists = few;
	options.few_real_lists = few;
	options.few_real_pairs = 1e9;
	options.packed = packed;

	make_or_throw(options, &engine);
	return engine;
}

/// Rows around 300 centres: reals, or whole numbers 0 ... 255.
Rows
grouped(const DistanceSpec &spec, bool bytes, size_t n, std::mt19937 &rng)
{
	std::mt19937 centre_rng(7);
	std::normal_distribution<float> normal;
	std::vector<float> centres(300 * spec.dim);
	std::vector<float> row(spec.dim);
	Rows rows(spec);

	for (float &centre : centres)
		centre = bytes ? 128 + 35 * normal(centre_rng) : normal(centre_rng);
	for (size_t i = 0; i < n; i++)
	{
		const float *const centre = &centres[rng() % 300 * spec.dim];

		for (uint32_t d = 0; d < spec.dim; d++)
			row[d] = bytes ? std::clamp(std::round(centre[d] + 20 * normal(rng)), 0.0f, 255.0f) + 0.0f // -0 is no byte
						   : centre[d] + .6f * normal(rng);
		rows.add(i + 1, reinterpret_cast<const uint8_t *>(row.data()));
	}
	return rows;
}

/// ListRows whose rows all lie in the nearest list.
engine::test::ListRows
nearest_lists(const Rows &rows, std::mt19937 &rng)
{
	engine::test::ListRows made(rows, kLists, rng);
	std::vector<uint32_t> list_of(rows.n());

	for (size_t i = 0; i < rows.n(); i++)
		list_of[i] = made.ranked(rows.vector(i)).front();
	std::stable_sort(made.numbers.begin(), made.numbers.end(),
		[&](uint32_t a, uint32_t b) { return std::pair(list_of[a], a) < std::pair(list_of[b], b); });
	std::fill(made.offsets.begin(), made.offsets.end(), 0);
	for (const uint32_t list : list_of)
		made.offsets[list + 1]++;
	std::partial_sum(made.offsets.begin(), made.offsets.end(), made.offsets.begin());
	return made;
}

/// The same segment in an engine that takes two launches and in one that does not.
class TwoEngines
{
public:
	TwoEngines(const DistanceSpec &spec, bool bytes, const PackedTuning &packed = kNotInsteadOfLists)
		: rng_(spec.dim), rows_(grouped(spec, bytes, kRows, rng_)), queries_(grouped(spec, bytes, kQueries, rng_))
	{
		const engine::test::ListRows lists = nearest_lists(rows_, rng_);

		for (const bool few : {true, false})
		{
			engines_.push_back(make_engine(few, packed));

			Engine *const engine = engines_.back().get();

			EXPECT_TRUE(engine->create(engine::CopySpec(spec, CopyKind::kLists), &copy_).is_ok());
			EXPECT_TRUE(lists.load(engine, copy_, 1).is_ok());
		}
	}

	/// Rows by their distance from `anchor`, nearest first.
	std::vector<uint32_t> by_distance(const void *anchor) const
	{
		std::vector<Neighbor> all = scores(anchor, nullptr);
		std::vector<uint32_t> numbers;

		for (const Neighbor &one : all)
			numbers.push_back(static_cast<uint32_t>(one.row - 1));
		return numbers;
	}

	Passing passing(double share, Place place, const void *anchor) const
	{
		const std::vector<uint32_t> order = place == Place::kRandom ? std::vector<uint32_t>() : by_distance(anchor);
		const Condition random = random_condition(share, 3);
		const size_t n = static_cast<size_t>(share * kRows);
		auto segment = std::make_shared<PassingSegment>();
		Passing made;

		segment->segment = 1;
		segment->n_rows = kRows;
		segment->bits.resize((kRows + 7) / 8);
		for (size_t i = 0; i < kRows; i++)
			if (place == Place::kRandom ? random(i) : place == Place::kNear ? i < n : i >= kRows - n)
			{
				set_bit(&segment->bits, place == Place::kRandom ? i : order[i]);
				segment->n_pass++;
			}
		made.n_rows = kRows;
		made.n_pass = segment->n_pass;
		made.segments.push_back(std::move(segment));
		return made;
	}

	/// All rows that pass, in the order of a query.
	std::vector<Neighbor> scores(const void *query, const Passing *passing) const
	{
		std::vector<Neighbor> all;

		for (size_t i = 0; i < kRows; i++)
		{
			Neighbor one = {0, rows_.ids[i]};

			if (passing != nullptr && (passing->segments[0]->bits[i / 8] >> i % 8 & 1) == 0)
				continue;
			engine::compute_scores(rows_.spec, query, rows_.vector(i), rows_.row_bytes, 1, &one.score, 0);
			all.push_back(one);
		}
		std::sort(all.begin(), all.end(), engine::neighbor_less);
		return all;
	}

	struct Found
	{
		std::vector<std::vector<Neighbor>> results;
		std::vector<FilterWay> ways;
		std::vector<Coverage> coverage;
		double recall = 0;
	};

	/// Queries [first, first + n).
	Found search(size_t e, const Passing *passing, size_t first, size_t n, size_t k)
	{
		std::vector<size_t> numbers(n);

		std::iota(numbers.begin(), numbers.end(), first);
		return search(e, passing, numbers, k);
	}

	Found search(size_t e, const Passing *passing, const std::vector<size_t> &numbers, size_t k)
	{
		const size_t n = numbers.size();
		const SegmentProbes probes[] = {{1, kProbes}};
		std::vector<SearchQuery> batch;
		Found found;
		size_t n_hits = 0;

		found.ways.assign(n, FilterWay::kNone);
		found.coverage.assign(n, Coverage::kScored);
		for (size_t i = 0; i < n; i++)
		{
			SearchQuery query = {queries_.vector(numbers[i]), k, false, {}};

			query.probes = probes;
			query.passing = passing;
			query.filter_way = &found.ways[i];
			query.coverage = &found.coverage[i];
			batch.push_back(query);
		}
		EXPECT_TRUE(engines_[e]->search(copy_, batch, &found.results, nullptr).is_ok());
		for (size_t i = 0; i < n; i++)
		{
			const std::vector<Neighbor> truth = scores(batch[i].query, passing);

			EXPECT_EQ(found.results[i].size(), k);
			if (found.ways[i] == FilterWay::kMask)
			{
				EXPECT_EQ(found.coverage[i], Coverage::kAll);
				expect_same(found.results[i], {truth.begin(), truth.begin() + static_cast<ptrdiff_t>(k)});
			}
			for (const Neighbor &one : found.results[i])
			{
				const auto at = std::lower_bound(truth.begin(), truth.end(), one, engine::neighbor_less);

				EXPECT_TRUE(at != truth.end() && at->row == one.row && bits_of(at->score) == bits_of(one.score));
				n_hits += one.score <= truth[k - 1].score ? 1 : 0;
			}
		}
		found.recall = static_cast<double>(n_hits) / static_cast<double>(n * k);
		return found;
	}

	CudaEngine *engine(size_t e) const { return engines_[e].get(); }

	/// Queries in two launches, over rows that the engine keeps as bytes or over others.
	uint64_t n_few(bool bytes) const { return bytes ? engine(0)->n_few_lists() : engine(0)->n_few_real_lists(); }

	const void *query(size_t i) const { return queries_.vector(i); }

private:
	std::mt19937 rng_;
	const Rows rows_;
	const Rows queries_;
	std::vector<std::unique_ptr<CudaEngine>> engines_;
	engine::CopyId copy_ = 0;
};

TEST(PassingProbes, RecallAndTheSameListsInEveryWay)
{
	for (const auto &[spec, bytes] : {std::pair{DistanceSpec{Metric::kL2, ElementType::kFloat32, 24}, false},
			 {DistanceSpec{Metric::kCosine, ElementType::kFloat32, 100}, false},
			 {DistanceSpec{Metric::kL2, ElementType::kFloat32, 32}, true}})
	{
		TwoEngines two(spec, bytes);
		const double plain = two.search(0, nullptr, 0, kQueries, 10).recall;

		ASSERT_GE(plain, .8);
		for (const double share : {.2, .5})
			for (const Place place : {Place::kRandom, Place::kNear, Place::kFar})
			{
				SCOPED_TRACE(testing::Message() << metric_name(spec.metric) << ", dim " << spec.dim << ", share "
												<< share << ", place " << static_cast<int>(place));
				const Passing one = two.passing(share, place, two.query(0));
				const Passing other = two.passing(share, place, two.query(0)); // of it nothing is known
				const uint64_t before = two.n_few(bytes);
				const TwoEngines::Found few = two.search(0, &one, 0, kQueries, 10);
				const TwoEngines::Found chain = two.search(1, &other, 0, kQueries, 10);

				EXPECT_GE(few.recall, plain - (place == Place::kRandom ? .02 : .08)); // as on the CPU
				EXPECT_EQ(few.ways, chain.ways);
				for (size_t i = 0; i < kQueries; i++)
					ASSERT_NO_FATAL_FAILURE(expect_same(few.results[i], chain.results[i]));
				EXPECT_GT(two.n_few(bytes), before);
				if (place != Place::kRandom)
					continue;
				EXPECT_GT(std::count(few.ways.begin(), few.ways.end(), FilterWay::kLists), kQueries / 2);
				for (size_t i = 0; i < kQueries; i++)
					EXPECT_EQ(few.coverage[i], few.ways[i] == FilterWay::kLists ? Coverage::kPart : Coverage::kAll);
			}
	}
}

/// Queries over lists of bytes go over packed rows as soon as there are any, since that takes less time; each of them
/// asks for it. Queries over lists of reals search these: what their lists take is not known well enough.
TEST(PassingProbes, PackedRowsInsteadOfLists)
{
	constexpr uint32_t kLeast = 20;
	constexpr PackedTuning kPacked = {true, 1, 1, kLeast, 2, 1.1};

	for (const bool bytes : {true, false})
	{
		TwoEngines two({Metric::kL2, ElementType::kFloat32, 32}, bytes, kPacked);

		for (const Place place : {Place::kRandom, Place::kNear})
			for (const size_t e : {0, 1})
			{
				SCOPED_TRACE(testing::Message() << "bytes " << bytes << ", place " << static_cast<int>(place));
				const Passing passing = two.passing(.5, place, two.query(0));
				const uint64_t before = two.engine(e)->n_packed();
				size_t n_lists = 0;

				for (uint32_t i = 0; i < kLeast + 5; i++)
				{
					const TwoEngines::Found found = two.search(e, &passing, 0, 1, 10);
					const bool packed = bytes && i + 1 >= kLeast;

					n_lists += found.ways[0] == FilterWay::kLists ? 1 : 0;
					if (packed)
					{
						EXPECT_EQ(found.ways[0], FilterWay::kMask);
					}
					EXPECT_EQ(two.engine(e)->n_packed() - before, packed ? i + 2 - kLeast : 0);
				}
				EXPECT_EQ(n_lists, bytes ? kLeast - 1 : kLeast + 5);

				const TwoEngines::Found batch = two.search(e, &passing, 0, 8, 10);

				if (bytes)
				{
					EXPECT_EQ(std::count(batch.ways.begin(), batch.ways.end(), FilterWay::kMask), 8);
					EXPECT_EQ(batch.recall, 1);
				}
			}
	}
}

/// Queries that found no lists with enough rows go over all of them, and so do some that follow them.
TEST(PassingProbes, RowsThatLieAway)
{
	TwoEngines two({Metric::kL2, ElementType::kFloat32, 24}, false);
	const Passing far = two.passing(.2, Place::kFar, two.query(5));

	for (size_t round = 0; round < 3; round++)
	{
		const uint64_t before = two.engine(0)->n_few_real_lists();
		const TwoEngines::Found found = two.search(0, &far, 5, 1, 20);

		EXPECT_EQ(found.ways[0], FilterWay::kMask);
		EXPECT_EQ(two.engine(0)->n_few_real_lists() - before, round == 0 ? 1 : 0);
	}
}

/// Where rows are packed, a batch with few queries that lie away has the next ones go over all rows that pass, each
/// time for twice as long.
TEST(PassingProbes, FewQueriesWhoseRowsLieAway)
{
	TwoEngines two({Metric::kL2, ElementType::kFloat32, 24}, false);
	const auto passing = [&] { return two.passing(.7, Place::kFar, two.query(5)); };
	std::vector<size_t> batch;
	size_t n_away = 0;

	for (size_t i = 0; i < kQueries && batch.size() < 8; i++)
	{
		const Passing one = passing();
		const bool away = two.search(0, &one, i, 1, 10).ways[0] == FilterWay::kMask;

		if (away && n_away == 1)
			continue;
		if (!away && batch.size() - n_away == 7)
			continue;
		n_away += away ? 1 : 0;
		batch.push_back(i);
	}
	ASSERT_EQ(batch.size(), 8u);
	ASSERT_EQ(n_away, 1u);

	const Passing few = passing();
	const auto tries = [&](uint64_t n_packed)
	{
		const uint64_t before = two.engine(0)->n_packed();
		const TwoEngines::Found found = two.search(0, &few, batch, 10);
		const bool tried = std::count(found.ways.begin(), found.ways.end(), FilterWay::kLists) == 7;

		EXPECT_EQ(std::count(found.ways.begin(), found.ways.end(), FilterWay::kMask), tried ? 1 : 8);
		EXPECT_EQ(two.engine(0)->n_packed() - before, n_packed);
		return tried;
	};

	EXPECT_TRUE(tries(1)); // and packs
	for (const int n_resting : {64, 128, 256, 256})
	{
		EXPECT_TRUE(tries(1));
		for (int i = 0; i < n_resting / 8; i++)
			ASSERT_FALSE(tries(8)) << i;
	}
	EXPECT_TRUE(tries(1));
}

} // namespace
} // namespace vectorgpu::cuda::test
