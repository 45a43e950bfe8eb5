// Searches of the CPU engine with conditions beside the same without, one thread, one query at a time, k = 10. Data:
// 150,000 x 256 float32 rows in clusters of 24 dimensions. The first argument is the share of the rows that pass in
// per cent (100: no conditions), the second where they lie: 0 at random, 1 nearest to the query, 2 farthest. Counters:
// time_per_query, recall, first_ms (of the first search with conditions that are new, which derives from them).
// Lists are probed, and graphs as wide, as recall .95 without conditions asks for. VECTORGPU_ROWS: fewer rows.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/graph_builder.hpp"
#include "engine/interface/graph_layout.hpp"
#include "engine/interface/list_builder.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint32_t kDim = 256;
constexpr uint32_t kLatent = 24;
constexpr uint32_t kClusters = 300;
constexpr uint32_t kLists = 390;
constexpr uint32_t kDegree = 32;
constexpr uint32_t kHashBits = 512;
constexpr size_t kQueries = 40;
constexpr size_t kNearest = 10;
constexpr double kRecall = .95;
constexpr DistanceSpec kSpec = {Metric::kL2, ElementType::kFloat32, kDim};

void
check(const Status &status)
{
	if (status.is_ok())
		return;
	fprintf(stderr, "%s\n", status.message.c_str());
	std::exit(1);
}

double
milliseconds()
{
	timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

/// Rows [n, kDim] and the queries behind them, with the scores of all rows to each query.
struct Data
{
	size_t n = 0;
	std::vector<float> values;
	std::vector<std::vector<double>> scores; // [kQueries][n]

	Data()
	{
		const char *rows = std::getenv("VECTORGPU_ROWS");
		std::mt19937 rng(1);
		std::normal_distribution<float> normal;
		std::vector<float> map(kLatent * kDim);
		std::vector<float> centres(kClusters * kLatent);

		n = rows != nullptr ? std::stoul(rows) : 150000;
		for (float &x : map)
			x = normal(rng);
		for (float &x : centres)
			x = normal(rng);
		values.resize((n + kQueries) * kDim);
		for (size_t i = 0; i < n + kQueries; i++)
		{
			const float *centre = &centres[rng() % kClusters * kLatent];

			for (uint32_t d = 0; d < kDim; d++)
				values[i * kDim + d] = .2f * normal(rng);
			for (uint32_t j = 0; j < kLatent; j++)
			{
				const float latent = centre[j] + 1.3f * normal(rng);

				for (uint32_t d = 0; d < kDim; d++)
					values[i * kDim + d] += latent * map[j * kDim + d];
			}
		}
		scores.resize(kQueries, std::vector<double>(n));
		for (size_t q = 0; q < kQueries; q++)
			compute_scores(kSpec, query(q), values.data(), kDim * sizeof(float), n, scores[q].data());
	}

	const float *query(size_t q) const { return &values[(n + q) * kDim]; }
};

const Data &
data()
{
	static const Data made;

	return made;
}

/// A copy with all rows, and the effort that recall .95 asks for.
struct Held
{
	std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 1});
	CopyId copy = 0;
	SegmentProbes probes = {1, 0, 0}; // probes 0: all rows

	explicit Held(CopyKind kind)
	{
		check(engine->create({kSpec, kind}, &copy));
		if (kind == CopyKind::kLists)
			load_lists();
		else
			load_rows();
		if (kind == CopyKind::kGraph || kind == CopyKind::kHashedGraph)
			load_graph(kind == CopyKind::kHashedGraph ? kHashBits : 0);
		check(engine->seal_segment(copy, 1));
		if (kind == CopyKind::kRows)
			return;
		for (probes.probes = kind == CopyKind::kLists ? 1 : kNearest; recall({}, nullptr) < kRecall;)
			probes.probes += probes.probes / 16 + 1;
		fprintf(stderr, "%s: probes or width %u, recall %.3f\n", kind == CopyKind::kLists ? "lists" : "graph",
			probes.probes, recall({}, nullptr));
	}

	std::vector<Neighbor> search(size_t q, const Passing *passing, FilterWay *way = nullptr) const
	{
		SearchQuery query = {data().query(q), kNearest, false, {}};
		std::vector<std::vector<Neighbor>> results;

		if (probes.probes > 0)
			query.probes = {&probes, 1};
		query.passing = passing;
		query.filter_way = way;
		check(engine->search(copy, {&query, 1}, &results));
		return results[0];
	}

	/// passing [kQueries], or empty; pass [kQueries, n], null: all.
	double recall(const std::vector<Passing> &passing, const std::vector<std::vector<bool>> *pass) const
	{
		size_t n_hits = 0;

		for (size_t q = 0; q < kQueries; q++)
		{
			std::vector<double> scores;

			for (size_t i = 0; i < data().n; i++)
				if (pass == nullptr || (*pass)[q][i])
					scores.push_back(data().scores[q][i]);
			std::nth_element(scores.begin(), scores.begin() + kNearest - 1, scores.end());
			for (const Neighbor &found : search(q, passing.empty() ? nullptr : &passing[q]))
				n_hits += found.score <= scores[kNearest - 1] ? 1 : 0;
		}
		return static_cast<double>(n_hits) / (kQueries * kNearest);
	}

private:
	void load(const float *vectors)
	{
		std::vector<RowId> ids(data().n);

		std::iota(ids.begin(), ids.end(), 0);
		check(engine->load_segment(copy, 1, {ids, vectors, data().n}));
	}

	void load_rows() { load(data().values.data()); }

	void load_lists()
	{
		const std::unique_ptr<Engine> trainer = make_cpu_engine({.n_threads = 2});
		SearchControl control;
		std::unique_ptr<ListBuilder> builder;
		ListBuildSpec spec;

		spec.rows = kSpec;
		spec.n_clusters = kLists;
		spec.n_training = static_cast<uint32_t>(std::min<size_t>(data().n, 25000));
		check(trainer->make_list_builder(spec, &control, &builder));
		check(builder->add_training(data().values.data(), spec.n_training));
		check(builder->train());
		load_assigned(builder->centroids());
	}

	void load_assigned(const std::vector<float> &centroids)
	{
		const uint32_t n_lists = static_cast<uint32_t>(centroids.size() / kDim);
		std::vector<std::vector<uint32_t>> lists(n_lists);
		std::vector<double> scores(n_lists);
		std::vector<uint64_t> offsets(n_lists + 1);
		std::vector<uint32_t> numbers;
		std::vector<float> vectors;
		const auto give = [&](const void *from, size_t n_bytes)
		{ check(engine->load_structure(copy, 1, n_lists, {static_cast<const uint8_t *>(from), n_bytes})); };

		for (uint32_t i = 0; i < data().n; i++)
		{
			compute_scores(kSpec, &data().values[size_t{i} * kDim], centroids.data(), kDim * sizeof(float), n_lists,
				scores.data());
			lists[static_cast<size_t>(std::min_element(scores.begin(), scores.end()) - scores.begin())].push_back(i);
		}
		for (uint32_t list = 0; list < n_lists; list++)
		{
			numbers.insert(numbers.end(), lists[list].begin(), lists[list].end());
			offsets[list + 1] = numbers.size();
		}
		for (const uint32_t number : numbers)
			vectors.insert(vectors.end(), data().values.begin() + ptrdiff_t{number} * kDim,
				data().values.begin() + (ptrdiff_t{number} + 1) * kDim);
		load(vectors.data());
		give(offsets.data(), offsets.size() * sizeof(uint64_t));
		give(centroids.data(), centroids.size() * sizeof(float));
		give(numbers.data(), numbers.size() * sizeof(uint32_t));
	}

	void load_graph(uint32_t code_bits)
	{
		const std::unique_ptr<Engine> builder_engine = make_cpu_engine({.n_threads = 2});
		SearchControl control;
		std::unique_ptr<GraphBuilder> builder;
		GraphBuildSpec spec;
		const auto give = [&](const void *from, size_t n_bytes)
		{ check(engine->load_structure(copy, 1, kDegree, {static_cast<const uint8_t *>(from), n_bytes})); };

		spec.rows = kSpec;
		spec.n_rows = static_cast<uint32_t>(data().n);
		spec.degree = kDegree;
		spec.code_bits = code_bits;
		check(builder_engine->make_graph_builder(spec, &control, nullptr, &builder));
		check(builder->add_rows(data().values.data(), data().n));
		check(builder->build());

		const uint32_t n_entries = static_cast<uint32_t>(builder->entries().size());
		const GraphHeader header = {kDegree, 1, n_entries, code_bits};
		const GraphPartLayout part = {0, spec.n_rows, 0, n_entries};

		give(&header, sizeof(header));
		give(&part, sizeof(part));
		give(builder->entries().data(), n_entries * sizeof(uint32_t));
		give(builder->edges().data(), builder->edges().size() * sizeof(uint32_t));
		give(builder->hash().data(), builder->hash().size());
		give(builder->codes().data(), builder->codes().size());
	}
};

/// The nearest or farthest rows to a query, or random ones.
std::vector<bool>
choose(size_t q, double share, int64_t region)
{
	const size_t n_pass = static_cast<size_t>(share * static_cast<double>(data().n));
	std::vector<uint32_t> order(data().n);
	std::vector<bool> pass(data().n);
	std::mt19937 rng(static_cast<uint32_t>(q));

	std::iota(order.begin(), order.end(), 0);
	if (region == 0)
		std::shuffle(order.begin(), order.end(), rng);
	else
		std::sort(order.begin(), order.end(),
			[&](uint32_t a, uint32_t b)
			{
				return region == 1 ? data().scores[q][a] < data().scores[q][b]
								   : data().scores[q][a] > data().scores[q][b];
			});
	for (size_t i = 0; i < n_pass; i++)
		pass[order[i]] = true;
	return pass;
}

Passing
passing_of(const std::vector<bool> &pass)
{
	auto segment = std::make_shared<PassingSegment>();
	Passing passing;

	segment->segment = 1;
	segment->n_rows = pass.size();
	segment->n_pass = static_cast<uint64_t>(std::count(pass.begin(), pass.end(), true));
	segment->listed = segment->n_pass <= segment->n_rows / kFewOfRows;
	segment->bits.assign(segment->listed ? 0 : (pass.size() + 7) / 8, 0);
	for (uint32_t i = 0; i < pass.size(); i++)
		if (pass[i] && segment->listed)
			segment->rows.push_back(i);
		else if (pass[i])
			segment->bits[i / 8] = static_cast<uint8_t>(segment->bits[i / 8] | 1 << (i % 8));
	passing.segments.push_back(segment);
	return passing;
}

void
search(benchmark::State &state, CopyKind kind)
{
	static Held *held = nullptr;
	static CopyKind held_kind = CopyKind::kCodes;
	const double share = static_cast<double>(state.range(0)) / 100;
	std::vector<std::vector<bool>> pass;
	std::vector<Passing> passing;
	double first_ms = 0;
	double n_graph = 0;

	if (held_kind != kind)
	{
		delete held;
		held = new Held(kind);
		held_kind = kind;
	}
	for (size_t q = 0; q < kQueries && share < 1; q++)
	{
		pass.push_back(choose(q, share, state.range(1)));
		passing.push_back(passing_of(pass.back()));

		const double begin = milliseconds();
		FilterWay way;

		(void) held->search(q, &passing.back(), &way);
		first_ms += milliseconds() - begin;
		n_graph += way > FilterWay::kMask ? 1 : 0;
	}
	for (auto _ : state)
		for (size_t q = 0; q < kQueries; q++)
			(void) held->search(q, passing.empty() ? nullptr : &passing[q]);
	state.counters["time_per_query"] = benchmark::Counter(
		static_cast<double>(state.iterations() * kQueries), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
	state.counters["recall"] = held->recall(passing, passing.empty() ? nullptr : &pass);
	state.counters["first_ms"] = first_ms / kQueries;
	state.counters["by_structure"] = n_graph / kQueries;
}

void
shares(benchmark::internal::Benchmark *benchmark)
{
	benchmark->ArgNames({"share", "region"})->Args({100, 0});
	for (const int64_t region : {0, 1, 2})
		for (const int64_t share : {1, 11, 30, 50})
			benchmark->Args({share, region});
	benchmark->Unit(benchmark::kMillisecond)->Iterations(3);
}

BENCHMARK_CAPTURE(search, rows, CopyKind::kRows)->Apply(shares);
BENCHMARK_CAPTURE(search, lists, CopyKind::kLists)->Apply(shares);
BENCHMARK_CAPTURE(search, graph, CopyKind::kGraph)->Apply(shares);
BENCHMARK_CAPTURE(search, hashed_graph, CopyKind::kHashedGraph)->Apply(shares);

} // namespace
} // namespace vectorgpu::engine
