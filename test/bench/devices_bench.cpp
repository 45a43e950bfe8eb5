// Several devices in one worker against one of them: batches of searches without a structure, in lists and in a graph,
// the parts of builds that devices do, and a copy that is larger than a device. Batches are made one after the other,
// and by several callers at a time. Answers are compared bit by bit.
//   devices_bench [--cpus N] [--rows N] [--dims N] [--queries N] [--pieces N] [--shard-pieces N]
// Without --cpus: all GPUs of the machine. One line each: what, milliseconds with one, with all, the quotient; then
// where the time of a batch on all went: of each device's calls, and of all threads for copying, merging and waiting.
// --pieces, --shard-pieces: into how many pieces a batch is cut for a device, or for shards, if no other one runs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/device_engine.hpp"
#include "engine/interface/graph_builder.hpp"
#include "engine/interface/graph_layout.hpp"
#include "engine/interface/list_builder.hpp"
#include "engine/interface/lists_layout.hpp"
#include "support/must.hpp"
#include "support/same_answers.hpp"
#include "worker/devices/spread_engine.hpp"

namespace
{

using namespace vectorgpu;
using engine::CopyId;
using engine::CopyKind;
using engine::Engine;
using engine::SearchQuery;
using test::must;
using test::same;

constexpr size_t kBlockRows = 65536;
constexpr size_t kK = 10;
constexpr int kRuns = 5;
constexpr int kCallers = 4;

struct Options
{
	size_t n_cpus = 0; // 0: GPUs
	size_t n_rows = 1000000;
	size_t n_queries = 10000;
	uint32_t dim = 128;
	worker::SpreadCuts cuts;
};

Options options;

/// Rows in groups, as real data have them.
std::vector<float>
make_rows(size_t n, unsigned seed)
{
	constexpr size_t kGroups = 1000;
	std::vector<float> centres(kGroups * options.dim);
	std::vector<float> rows(n * options.dim);
	std::normal_distribution<float> normal;
	std::mt19937 rng(7);

	for (float &x : centres)
		x = normal(rng);
	rng.seed(seed);
	for (size_t i = 0; i < n; i++)
	{
		const float *centre = centres.data() + rng() % kGroups * options.dim;

		for (uint32_t d = 0; d < options.dim; d++)
			rows[i * options.dim + d] = centre[d] + .4F * normal(rng);
	}
	return rows;
}

/// The first n devices as one engine. bytes: of copies on each; 0: all that there is.
std::unique_ptr<worker::SpreadEngine>
open_devices(size_t n, uint64_t bytes)
{
	worker::SpreadOptions spread;
	std::unique_ptr<worker::SpreadEngine> made;

	for (size_t i = 0; i < n; i++)
		spread.devices.names.push_back(std::to_string(i));
	spread.devices.device_bytes = options.n_cpus > 0 ? bytes : 0;
	spread.devices.open = [bytes](size_t device, bool, std::function<void()> on_lost,
							  std::unique_ptr<Engine> *engine) -> Status
	{
		if (options.n_cpus == 0)
		{
			engine::DeviceEngineOptions gpu;

			gpu.device = static_cast<int>(device);
			gpu.memory_bytes = bytes;
			gpu.on_lost = std::move(on_lost);
			return engine::make_device_engine(gpu, engine);
		}
		*engine = engine::make_cpu_engine({});
		return Status::ok();
	};
	spread.cuts = options.cuts;
	spread.devices.log = [](const char *line) { fprintf(stderr, "%s\n", line); };
	must(worker::make_spread_engine(spread, &made));
	return made;
}

double
milliseconds(const std::function<void()> &work)
{
	const auto begin = std::chrono::steady_clock::now();

	work();
	return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

struct Segment
{
	CopyKind kind;
	const std::vector<float> *rows; // in the order of load_segment
	std::vector<uint8_t> structure;
	uint32_t parameter = 0;
	uint32_t probes = 0; // of its searches
};

CopyId
load(Engine *engine, const Segment &segment)
{
	const size_t n = segment.rows->size() / options.dim;
	std::vector<RowId> ids(n);
	CopyId copy = 0;

	for (size_t i = 0; i < n; i++)
		ids[i] = i + 1;
	must(engine->create({{Metric::kL2, ElementType::kFloat32, options.dim}, segment.kind}, &copy));
	const size_t block = std::clamp<size_t>(n / 32, 1, kBlockRows); // blocks are not cut between devices

	for (size_t first = 0; first < n; first += block)
	{
		const size_t here = std::min(block, n - first);

		must(engine->load_segment(
			copy, 1, {std::span(ids).subspan(first, here), segment.rows->data() + first * options.dim, here}));
	}
	if (!segment.structure.empty())
		must(engine->load_structure(copy, 1, segment.parameter, segment.structure));
	must(engine->seal_segment(copy, 1));
	return copy;
}

/// A batch of searches.
struct Batch
{
	Batch(const Segment &segment, const std::vector<float> &asked)
		: probes{{1, segment.probes}}, queries(options.n_queries)
	{
		for (size_t i = 0; i < queries.size(); i++)
		{
			queries[i].query = asked.data() + i * options.dim;
			queries[i].k = kK;
			if (segment.probes > 0)
				queries[i].probes = probes;
		}
	}

	const engine::SegmentProbes probes[1];
	std::vector<SearchQuery> queries;
};

/// The best time of a batch, and its answers.
double
search(Engine *engine, CopyId copy, const Batch &batch, std::vector<std::vector<engine::Neighbor>> *results)
{
	double best = 1e30;

	for (int run = 0; run < kRuns; run++)
		best = std::min(best, milliseconds([&] { must(engine->search(copy, batch.queries, results)); }));
	return best;
}

/// Say where the time of n batches went since `before`. n_devices: with the copy.
void
report_parts(const worker::SpreadEngine &engine, const worker::SpreadTimes &before, double n, size_t n_devices)
{
	const worker::SpreadTimes now = engine.times();
	const auto ms = [n](uint64_t from, uint64_t to) { return static_cast<double>(to - from) / 1e6 / n; };

	printf("%-34s whole %.2f ms: calls of a device %.2f, copying %.2f, merging %.2f, waiting %.2f\n",
		n_devices == 1 ? "  a batch, one" : "  a batch, all", ms(before.whole, now.whole),
		ms(before.in_devices, now.in_devices) / static_cast<double>(n_devices), ms(before.copying, now.copying),
		ms(before.merging, now.merging), ms(before.waiting, now.waiting));
}

/// The time of a batch where callers make one after the other.
double
search_by_callers(Engine *engine, CopyId copy, const Batch &batch)
{
	constexpr int kBatches = 8; // of each
	const double ms = milliseconds(
		[&]
		{
			std::vector<std::thread> callers;

			for (int i = 0; i < kCallers; i++)
				callers.emplace_back(
					[&]
					{
						std::vector<std::vector<engine::Neighbor>> results;

						for (int run = 0; run < kBatches; run++)
							must(engine->search(copy, batch.queries, &results));
					});
			for (std::thread &caller : callers)
				caller.join();
		});

	return ms / (kCallers * kBatches);
}

bool
report(const char *what, double one, double all, bool is_same)
{
	printf("%-34s %10.1f %10.1f %8.2f %s\n", what, one, all, one / all, is_same ? "same" : "DIFFERENT");
	fflush(stdout);
	return is_same;
}

bool
compare(const char *what, worker::SpreadEngine *one, worker::SpreadEngine *all, const Segment &segment,
	const std::vector<float> &asked)
{
	std::vector<std::vector<engine::Neighbor>> results[2];
	const CopyId copies[] = {load(one, segment), load(all, segment)};
	const Batch batch(segment, asked);
	const double first = search(one, copies[0], batch, &results[0]);
	const worker::SpreadTimes before[] = {one->times(), all->times()};
	const double ms[] = {
		std::min(first, search(one, copies[0], batch, &results[0])), search(all, copies[1], batch, &results[1])};
	const bool is_same = same(results[0], results[1]);

	report(what, ms[0], ms[1], is_same);
	report_parts(*one, before[0], kRuns, 1);
	report_parts(*all, before[1], kRuns, all->n_places(copies[1]));

	const double by_callers[] = {search_by_callers(one, copies[0], batch), search_by_callers(all, copies[1], batch)};

	must(one->drop(copies[0]));
	must(all->drop(copies[1]));
	return report((std::string(what) + ", " + std::to_string(kCallers) + " callers").c_str(), by_callers[0],
		by_callers[1], is_same);
}

/// Train and assign; set *segment to the rows in lists. Return the time of the assignment.
double
build_lists(Engine *engine, const std::vector<float> &rows, std::vector<float> *ordered, Segment *segment)
{
	const size_t n = rows.size() / options.dim;
	const uint32_t n_lists = static_cast<uint32_t>(std::max<size_t>(16, n / 1000));
	const size_t n_sample = std::min<size_t>(n, size_t{n_lists} * 50);
	engine::ListBuildSpec spec;
	engine::SearchControl control;
	std::unique_ptr<engine::ListBuilder> builder;
	std::vector<uint32_t> labels(n);
	std::vector<float> scores(n);

	spec.rows = {Metric::kL2, ElementType::kFloat32, options.dim};
	spec.n_clusters = n_lists;
	spec.n_training = static_cast<uint32_t>(n_sample);
	spec.n_queries = 100;
	spec.k = kK;
	must(engine->make_list_builder(spec, &control, &builder));
	must(builder->add_training(rows.data(), n_sample));
	must(builder->train());
	must(builder->add_queries(rows.data(), spec.n_queries));

	const double ms = milliseconds(
		[&]
		{
			for (size_t first = 0; first < n; first += kBlockRows)
				must(builder->assign(first, rows.data() + first * options.dim, std::min(kBlockRows, n - first),
					labels.data() + first, scores.data() + first));
		});
	const uint32_t n_used = static_cast<uint32_t>(builder->centroids().size() / options.dim);
	const engine::ListsLayout layout = {n_used, options.dim, n};
	std::vector<uint64_t> offsets(n_used + 1);
	std::vector<uint32_t> numbers(n);

	for (const uint32_t label : labels)
		offsets[label + 1]++;
	for (uint32_t list = 0; list < n_used; list++)
		offsets[list + 1] += offsets[list];

	std::vector<uint64_t> next(offsets.begin(), offsets.end() - 1);

	ordered->resize(rows.size());
	for (size_t i = 0; i < n; i++)
	{
		const uint64_t place = next[labels[i]]++;

		numbers[place] = static_cast<uint32_t>(i);
		std::copy_n(rows.data() + i * options.dim, options.dim, ordered->data() + place * options.dim);
	}
	segment->kind = CopyKind::kLists;
	segment->rows = ordered;
	segment->parameter = n_used;
	segment->probes = 16;
	segment->structure.assign(layout.bytes(), 0);
	memcpy(segment->structure.data(), offsets.data(), offsets.size() * sizeof(uint64_t));
	memcpy(segment->structure.data() + layout.centroids_at(), builder->centroids().data(),
		builder->centroids().size() * sizeof(float));
	memcpy(segment->structure.data() + layout.numbers_at(), numbers.data(), n * sizeof(uint32_t));
	return ms;
}

/// Return the time until the nearest rows of all are known, the devices' part; set *segment to the graph.
double
build_graph(Engine *engine, Engine *host, const std::vector<float> &rows, Segment *segment)
{
	const size_t n = rows.size() / options.dim;
	engine::GraphBuildSpec spec;
	engine::SearchControl control;
	std::unique_ptr<engine::GraphBuilder> builder;

	spec.rows = {Metric::kL2, ElementType::kFloat32, options.dim};
	spec.n_rows = static_cast<uint32_t>(n);
	spec.degree = 16;
	must(host->make_graph_builder(spec, &control, engine, &builder));
	must(builder->add_rows(rows.data(), n));

	const auto begin = std::chrono::steady_clock::now();
	std::atomic<double> nearest_ms{0};
	std::thread watch(
		[&]
		{
			while (builder->progress().stage < engine::GraphStage::kEdges)
				std::this_thread::sleep_for(std::chrono::microseconds(200));
			nearest_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
		});

	must(builder->build());
	watch.join();

	const engine::GraphHeader header = {spec.degree, 1, static_cast<uint32_t>(builder->entries().size()), 0};
	const engine::GraphPartLayout part = {0, static_cast<uint32_t>(n), 0, header.n_entries};
	const auto put = [segment](const void *data, size_t bytes)
	{
		const uint8_t *from = static_cast<const uint8_t *>(data);

		segment->structure.insert(segment->structure.end(), from, from + bytes);
	};

	segment->kind = CopyKind::kGraph;
	segment->rows = &rows;
	segment->parameter = spec.degree;
	segment->probes = 64;
	put(&header, sizeof(header));
	put(&part, sizeof(part));
	put(builder->entries().data(), builder->entries().size() * sizeof(uint32_t));
	put(builder->edges().data(), builder->edges().size() * sizeof(uint32_t));
	return nearest_ms;
}

bool
take_argument(const char *name, const char *value)
{
	const unsigned long long n = value != nullptr ? strtoull(value, nullptr, 10) : 0;

	if (strcmp(name, "--cpus") == 0)
		options.n_cpus = n;
	else if (strcmp(name, "--rows") == 0)
		options.n_rows = n;
	else if (strcmp(name, "--dims") == 0)
		options.dim = static_cast<uint32_t>(n);
	else if (strcmp(name, "--queries") == 0)
		options.n_queries = n;
	else if (strcmp(name, "--pieces") == 0)
		options.cuts.pieces_of_device = n;
	else if (strcmp(name, "--shard-pieces") == 0)
		options.cuts.pieces_of_shards = n;
	else
		return false;
	return n > 0;
}

} // namespace

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2)
		if (!take_argument(argv[i], i + 1 < argc ? argv[i + 1] : nullptr))
		{
			fprintf(stderr,
				"usage: devices_bench [--cpus N] [--rows N] [--dims N] [--queries N] [--pieces N]\n"
				"                     [--shard-pieces N]\n");
			return 2;
		}

	const size_t n = options.n_cpus > 0 ? options.n_cpus : static_cast<size_t>(engine::count_device_engines());

	if (n < 2)
	{
		printf("skipped: this machine has %zu GPUs, and several are compared\n", n);
		return 0;
	}

	const std::vector<float> rows = make_rows(options.n_rows, 1);
	const std::vector<float> asked = make_rows(options.n_queries, 2);
	const std::unique_ptr<Engine> host = engine::make_cpu_engine({});
	const uint64_t bytes = options.n_rows * (options.dim * sizeof(float) + 16);
	bool good = true;

	printf("%-34s %10s %10s %8s\n", "", "one, ms", "all, ms", "times");
	{
		const std::unique_ptr<worker::SpreadEngine> one = open_devices(1, 0);
		const std::unique_ptr<worker::SpreadEngine> all = open_devices(n, 0);
		Segment lists[2];
		Segment graph[2];
		std::vector<float> ordered[2];

		good &= compare("exact", one.get(), all.get(), {CopyKind::kRows, &rows, {}}, asked);

		const double assigned[] = {
			build_lists(one.get(), rows, &ordered[0], &lists[0]), build_lists(all.get(), rows, &ordered[1], &lists[1])};

		good &= report("assignment of rows to lists", assigned[0], assigned[1],
			lists[0].structure == lists[1].structure && ordered[0] == ordered[1]);
		good &= compare("lists", one.get(), all.get(), lists[0], asked);

		const double nearest[] = {
			build_graph(one.get(), host.get(), rows, &graph[0]), build_graph(all.get(), host.get(), rows, &graph[1])};

		good &= report("nearest rows of a graph's", nearest[0], nearest[1], graph[0].structure == graph[1].structure);
		good &= compare("graph", one.get(), all.get(), graph[0], asked);
	}
	{
		// One device has room for it, of several each only for two thirds.
		const std::unique_ptr<worker::SpreadEngine> one = open_devices(1, 4 * bytes);
		const std::unique_ptr<worker::SpreadEngine> all = open_devices(n, bytes * 2 / 3);

		good &= compare("exact, 1.5 times a device", one.get(), all.get(), {CopyKind::kRows, &rows, {}}, asked);
	}
	return good ? 0 : 1;
}
