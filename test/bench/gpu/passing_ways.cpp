// See passing_ways.hpp. Two engines hold SIFT in 945 lists and as rows alone; one packs rows that pass, the other does
// not. Rows pass at random, or are those nearest to one row, or those farthest from it; the queries of the last two are
// the ones nearest to that row. Batches take turns between the engines and a search without conditions. Answers of both
// are the same, bit for bit, where neither looked at some of the lists.
#include "passing_ways.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "filled_lists.hpp"

namespace vectorgpu::bench
{
namespace
{

constexpr uint32_t kLists = 945; // as many as an index of SIFT has
constexpr uint32_t kProbes = 30; // recall .955 without conditions
constexpr size_t kNeighbors = 10;
constexpr size_t kAnchor = 7;
constexpr size_t kQueries = 256;
constexpr int kWarm = 40;            // batches that do not count, at least, ...
constexpr size_t kWarmQueries = 300; // ... with this number of queries: rows are packed after 256
constexpr int kRuns = 80;
constexpr double kThreadsMs = 100;
constexpr size_t kThreadsBatch = 7; // what 16 clients of SQL make of their searches

using Results = std::vector<std::vector<engine::Neighbor>>;

enum class Place
{
	kRandom,
	kNear,
	kFar,
};

double
distance(const Matrix &base, size_t row, const float *query)
{
	double sum = 0;

	for (uint32_t d = 0; d < base.dim; d++)
	{
		const double difference = static_cast<double>(base.values[row * base.dim + d]) - query[d];

		sum += difference * difference;
	}
	return sum;
}

/// Numbers of rows, nearest first.
std::vector<uint32_t>
by_distance(const Matrix &rows, const float *from)
{
	std::vector<double> distances(rows.n);
	std::vector<uint32_t> order(rows.n);

	for (uint32_t i = 0; i < rows.n; i++)
		distances[i] = distance(rows, i, from);
	std::iota(order.begin(), order.end(), 0);
	std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return distances[a] < distances[b]; });
	return order;
}

/// The first rows of an order.
std::unique_ptr<engine::Passing>
passing_rows(const std::vector<uint32_t> &order, size_t first, size_t n)
{
	auto made = std::make_unique<engine::Passing>();
	auto segment = std::make_shared<engine::PassingSegment>();

	segment->segment = 1;
	segment->n_rows = order.size();
	segment->n_pass = n;
	segment->listed = n <= order.size() / engine::kFewOfRows;
	if (segment->listed)
	{
		segment->rows.assign(
			order.begin() + static_cast<ptrdiff_t>(first), order.begin() + static_cast<ptrdiff_t>(first + n));
		std::sort(segment->rows.begin(), segment->rows.end());
	}
	else
	{
		segment->bits.resize((order.size() + 7) / 8);
		for (size_t i = first; i < first + n; i++)
			segment->bits[order[i] / 8] = static_cast<uint8_t>(segment->bits[order[i] / 8] | 1u << order[i] % 8);
	}
	made->n_rows = order.size();
	made->n_pass = n;
	made->segments.push_back(std::move(segment));
	return made;
}

class Comparison
{
public:
	explicit Comparison(const char *data)
		: base_(read_u8bin((std::string(data) + "/sift-bsds-128.base.u8bin").c_str())),
		  queries_(read_u8bin((std::string(data) + "/sift-bsds-128.query.u8bin").c_str()))
	{
		const float *anchor = &base_.values[kAnchor * base_.dim];
		std::mt19937 rng(3);

		near_ = by_distance(base_, anchor);
		near_queries_ = by_distance(queries_, anchor);
		random_.resize(base_.n);
		std::iota(random_.begin(), random_.end(), 0);
		std::shuffle(random_.begin(), random_.end(), rng);
	}

	int run()
	{
		const InvertedLists lists = fill(base_, train(base_, kLists), kLists);

		for (const bool in_lists : {true, false})
		{
			engine::CopyId copies[2] = {};
			std::unique_ptr<cuda::CudaEngine> engines[2];

			for (const bool packs : {false, true})
				make_engine(packs, in_lists ? &lists : nullptr, &engines[packs], &copies[packs]);
			std::printf("\nSIFT %u x %u, %s, %s: ms a batch, and searches/s by one thread (batches of 1) or two\n"
						"%7s %6s %5s | %8s | %8s %4s | %8s %4s | %6s | %8s %8s %8s\n",
				base_.n, base_.dim, in_lists ? "in lists" : "rows alone", engines[0]->description(), "place", "pass",
				"batch", "none", "masked", "way", "packed", "way", "ratio", "none/s", "masked/s", "packed/s");
			for (const Place place : {Place::kRandom, Place::kNear, Place::kFar})
				for (const double share : {.01, .1, .2, .5})
					for (const size_t batch : {size_t{1}, kThreadsBatch, size_t{16}, size_t{64}})
						measure(place, share, batch, in_lists, engines, copies);
		}
		return n_different_;
	}

private:
	void make_engine(
		bool packs, const InvertedLists *lists, std::unique_ptr<cuda::CudaEngine> *engine, engine::CopyId *copy) const
	{
		std::vector<RowId> ids(base_.n);
		cuda::CudaEngineOptions options;

		std::iota(ids.begin(), ids.end(), 0);
		options.self_test = false;
		options.packed.on = packs;
		must(cuda::make_cuda_engine(options, engine));
		if (lists != nullptr)
		{
			*copy = load(engine->get(), base_.dim, *lists, engine::CopyKind::kLists);
			return;
		}
		must((*engine)->create(engine::CopySpec(Metric::kL2, ElementType::kFloat32, base_.dim), copy));
		must((*engine)->load_segment(*copy, 1, {ids, base_.values.data(), base_.n}));
		must((*engine)->seal_segment(*copy, 1));
	}

	/// Queries of a batch, one after another of the place's.
	std::vector<engine::SearchQuery> batch_of(
		Place place, size_t first, size_t n, bool in_lists, const engine::Passing *passing) const
	{
		static const engine::SegmentProbes probes[] = {{1, kProbes}};
		std::vector<engine::SearchQuery> batch;

		for (size_t i = first; i < first + n; i++)
		{
			const size_t number = place == Place::kRandom ? i % kQueries : near_queries_[i % kQueries];
			engine::SearchQuery query = {&queries_.values[number * queries_.dim], kNeighbors, false, {}};

			if (in_lists)
				query.probes = probes;
			query.passing = passing;
			batch.push_back(query);
		}
		return batch;
	}

	std::unique_ptr<engine::Passing> passing_of(Place place, double share) const
	{
		const size_t n = static_cast<size_t>(base_.n * share); // of a tenth no more, so that it is a list

		return passing_rows(place == Place::kRandom ? random_ : near_, place == Place::kFar ? base_.n - n : 0, n);
	}

	static double search(engine::Engine *engine, engine::CopyId copy, std::vector<engine::SearchQuery> *batch,
		std::vector<engine::FilterWay> *ways, Results *results)
	{
		ways->assign(batch->size(), engine::FilterWay::kNone);
		for (size_t i = 0; i < batch->size(); i++)
			(*batch)[i].filter_way = &(*ways)[i];

		const double start = now_ms();

		must(engine->search(copy, *batch, results));
		return now_ms() - start;
	}

	/// Searches/s of some threads, in batches of n.
	double rate(engine::Engine *engine, engine::CopyId copy, Place place, size_t n_threads, size_t n, bool in_lists,
		const engine::Passing *passing) const
	{
		std::atomic<size_t> n_done{0};
		std::vector<std::thread> threads;
		const double start = now_ms();

		for (size_t t = 0; t < n_threads; t++)
			threads.emplace_back(
				[&, t]
				{
					Results results;

					for (size_t i = t * kQueries / 2; now_ms() < start + kThreadsMs; i += n)
					{
						must(engine->search(copy, batch_of(place, i, n, in_lists, passing), &results));
						n_done += n;
					}
				});
		for (std::thread &thread : threads)
			thread.join();
		return static_cast<double>(n_done) / (now_ms() - start) * 1000;
	}

	/// Queries of both engines with different answers, although neither looked at some lists only.
	static size_t count_different(const Results (&results)[2], const std::vector<engine::FilterWay> (&ways)[2])
	{
		size_t n = 0;

		for (size_t i = 0; i < results[0].size(); i++)
		{
			const bool exact = ways[0][i] != engine::FilterWay::kLists && ways[1][i] != engine::FilterWay::kLists;

			n += exact && !same(results[0][i], results[1][i]) ? 1 : 0;
		}
		return n;
	}

	void measure(Place place, double share, size_t batch, bool in_lists,
		const std::unique_ptr<cuda::CudaEngine> (&engines)[2], const engine::CopyId (&copies)[2])
	{
		constexpr const char *kPlaces[] = {"random", "near", "far"};
		const std::unique_ptr<engine::Passing> passing = passing_of(place, share);
		std::vector<double> times[3]; // none, masked, packed
		std::vector<engine::FilterWay> ways[2], no_ways;
		Results results[2], plain;
		size_t n_different = 0;

		const int n_warm = std::max(kWarm, static_cast<int>(kWarmQueries / batch));

		for (int run = -n_warm; run < kRuns; run++)
		{
			const size_t first = static_cast<size_t>(run + n_warm) * batch;
			double took[3];

			std::vector<engine::SearchQuery> all = batch_of(place, first, batch, in_lists, nullptr);

			took[0] = search(engines[0].get(), copies[0], &all, &no_ways, &plain);
			for (const size_t e : {0, 1})
			{
				std::vector<engine::SearchQuery> some = batch_of(place, first, batch, in_lists, passing.get());

				took[1 + e] = search(engines[e].get(), copies[e], &some, &ways[e], &results[e]);
			}
			n_different += count_different(results, ways);
			for (size_t i = 0; i < 3 && run >= 0; i++)
				times[i].push_back(took[i]);
		}
		for (std::vector<double> &one : times)
			std::sort(one.begin(), one.end());

		const double none = times[0][kRuns / 2];
		const double masked = times[1][kRuns / 2];
		const double packed = times[2][kRuns / 2];

		std::printf("%7s %5.0f%% %5zu | %8.4f | %8.4f %4d | %8.4f %4d | %6.2f |", kPlaces[static_cast<int>(place)],
			share * 100, batch, none, masked, static_cast<int>(ways[0][0]), packed, static_cast<int>(ways[1][0]),
			none / packed);
		if (batch == 1 || batch == kThreadsBatch)
		{
			const size_t n_threads = batch == 1 ? 1 : 2;

			std::printf(" %8.0f %8.0f %8.0f",
				rate(engines[0].get(), copies[0], place, n_threads, batch, in_lists, nullptr),
				rate(engines[0].get(), copies[0], place, n_threads, batch, in_lists, passing.get()),
				rate(engines[1].get(), copies[1], place, n_threads, batch, in_lists, passing.get()));
		}
		std::printf("%s\n", n_different == 0 ? "" : "  DIFFERENT ANSWERS");
		std::fflush(stdout);
		n_different_ += n_different == 0 ? 0 : 1;
	}

	const Matrix base_;
	const Matrix queries_;
	std::vector<uint32_t> near_;
	std::vector<uint32_t> near_queries_;
	std::vector<uint32_t> random_;
	int n_different_ = 0;
};

} // namespace

int
compare_packed(const char *data)
{
	return Comparison(data).run();
}

} // namespace vectorgpu::bench
