// See large_search.hpp.
#include "large_search.hpp"

#include "engine/distance/distance.hpp"

namespace vectorgpu::bench
{
namespace
{

constexpr size_t kTruthBatch = 500;     // queries of an exact search: a call takes far less than an engine's patience
constexpr size_t kInlineRows = 2000;    // that the caller's thread compares by itself
constexpr size_t kLeastRuns = 3;        // of a point
constexpr size_t kMostSingles = 200000; // calls of one query, of a point

engine::DistanceSpec
spec_of(uint32_t dim)
{
	return {Metric::kL2, ElementType::kFloat16, dim};
}

/// A batch of queries with the same effort.
class Searcher
{
public:
	Searcher(const SearchedCopy &copy, const Queries &queries, const Options &options)
		: copy_(copy), queries_(queries), options_(options)
	{
	}

	/// Answers of queries [first, first + n), with the rows compared.
	void search(size_t first, size_t n, const engine::SegmentProbes &probes, Answers *answers)
	{
		const bool compares = copy_.kind == engine::CopyKind::kCodes;

		requests_.resize(n);
		for (size_t i = 0; i < n; i++)
		{
			requests_[i] = {queries_.at(first + i), compares ? probes.candidates : kNeighbors, false, {}};
			requests_[i].probes = {&probes, 1};
		}
		must(copy_.engine->search(copy_.copy, requests_, answers), "search");
		if (compares)
			compare(first, answers);
	}

private:
	/// Replace candidates by the nearest rows among them.
	void compare(size_t first, Answers *answers) const
	{
		const size_t n = answers->size();
		const size_t n_rows = n * std::max<size_t>(answers->front().size(), 1);
		const auto work = [&](uint64_t begin, uint64_t end, size_t)
		{
			std::vector<uint32_t> numbers;
			std::vector<uint16_t> rows;
			std::vector<double> scores;

			for (uint64_t i = begin; i < end; i++)
			{
				std::vector<engine::Neighbor> &found = (*answers)[i];

				numbers.clear();
				for (const engine::Neighbor &candidate : found)
					numbers.push_back(static_cast<uint32_t>(candidate.row));
				rows.resize(numbers.size() * queries_.dim);
				scores.resize(numbers.size());
				copy_.store.fetch(numbers.data(), numbers.size(), rows.data());
				engine::compute_scores(spec_of(queries_.dim), queries_.at(first + i), rows.data(),
					queries_.dim * sizeof(uint16_t), numbers.size(), scores.data());
				for (size_t j = 0; j < found.size(); j++)
					found[j].score = scores[j];
				std::sort(found.begin(), found.end(), engine::neighbor_less);
				found.resize(std::min(found.size(), kNeighbors));
			}
		};

		if (n_rows <= kInlineRows)
			work(0, n, 0);
		else
			in_parts(options_.n_threads, n, std::max<size_t>(1, n / options_.n_threads / 4), work);
	}

	const SearchedCopy &copy_;
	const Queries &queries_;
	const Options &options_;
	std::vector<engine::SearchQuery> requests_;
};

struct Point
{
	double rate;   // queries/s
	double median; // ms of a batch
	double last;   // ms that 99 of 100 batches take at most
};

Point
time_batches(Searcher *searcher, const Queries &queries, size_t batch, const engine::SegmentProbes &probes,
	const Options &options)
{
	Answers answers;
	std::vector<double> times;
	const double start = now_s();

	for (size_t run = 0; run < kMostSingles; run++)
	{
		const size_t first = run * batch % (queries.n() - batch + 1);
		const double before = now_s();

		searcher->search(first, batch, probes, &answers);
		times.push_back((now_s() - before) * 1000);
		if (run == 0) // the first is not counted
		{
			times.clear();
			continue;
		}
		if (times.size() >= kLeastRuns && now_s() - start > options.seconds)
			break;
	}
	std::sort(times.begin(), times.end());

	const double median = times[times.size() / 2];

	return {static_cast<double>(batch) * 1000 / median, median, times[times.size() * 99 / 100]};
}

double
recall_of(Searcher *searcher, const Answers &truth, const engine::SegmentProbes &probes)
{
	Answers found;
	size_t n_found = 0;
	size_t n_wanted = 0;

	searcher->search(0, truth.size(), probes, &found);
	for (size_t i = 0; i < truth.size(); i++)
	{
		n_wanted += truth[i].size();
		for (const engine::Neighbor &neighbor : found[i])
			n_found += neighbor.score <= truth[i].back().score ? 1 : 0;
	}
	return static_cast<double>(n_found) / static_cast<double>(std::max<size_t>(n_wanted, 1));
}

} // namespace

Answers
find_truth(engine::Engine *engine, const RowStore &store, const Queries &queries, const Options &options)
{
	Answers truth;
	engine::CopyId copy = 0;

	must(load_copy(engine, engine::CopyKind::kRows, store, {}, {}, options, &copy), "rows for the truth");
	for (size_t first = 0; first < options.n_judged; first += kTruthBatch)
	{
		std::vector<engine::SearchQuery> requests;
		Answers found;

		for (size_t i = first; i < std::min<size_t>(options.n_judged, first + kTruthBatch); i++)
			requests.push_back({queries.at(i), kNeighbors, false, {}});
		must(engine->search(copy, requests, &found), "exact search");
		for (std::vector<engine::Neighbor> &neighbors : found)
			truth.push_back(std::move(neighbors));
	}
	must(engine->drop(copy), "rows for the truth");
	return truth;
}

bool
measure_curve(
	const SearchedCopy &copy, const Queries &queries, const Answers &truth, const Options &options, Report *report)
{
	Searcher searcher(copy, queries, options);
	const char *name = copy.storage.text.c_str();
	const uint32_t n_lists = options.n_lists;
	double most = 0;

	std::printf("%8s %8s %10s %12s %14s %10s %12s %14s %12s\n", "batch", "probes", "candidates", "median ms",
		"queries/s", "recall@10", "p99 ms", "rows a query", "storage");
	for (const uint32_t batch : options.batches)
	{
		Point best{};
		double best_recall = 0;
		uint32_t best_probes = 0;
		uint32_t best_candidates = 0;

		for (const uint32_t n_candidates : options.candidates)
			for (const uint32_t n_probes : options.probes)
			{
				const engine::SegmentProbes probes = {1, n_probes, n_candidates};

				if (n_probes >= n_lists || batch > queries.n() || report->is_late())
					break;

				const double recall = recall_of(&searcher, truth, probes);
				const Point point = time_batches(&searcher, queries, batch, probes, options);

				most = std::max(most, recall);
				std::printf("%8u %8u %10u %12.4f %14.0f %10.4f %12.4f %14.0f %12s\n", batch, n_probes, n_candidates,
					point.median, point.rate, recall, point.last,
					static_cast<double>(options.n_rows) * n_probes / n_lists, name);
				std::fflush(stdout);
				if (recall >= options.wanted && point.rate > best.rate)
				{
					best = point;
					best_recall = recall;
					best_probes = n_probes;
					best_candidates = n_candidates;
				}
				if (recall >= options.enough)
					break;
			}
		if (best.rate > 0)
		{
			std::printf("# %s, batch %u: %.0f queries/s at recall %.4f with %u probes and %u candidates\n", name, batch,
				best.rate, best_recall, best_probes, best_candidates);
			report->figure(copy.storage.text + ", batch " + std::to_string(batch), best.rate, "/s", best_recall);
		}
		else
			std::printf(
				"# %s, batch %u: no point has recall %.2f; the best of all %.4f\n", name, batch, options.wanted, most);
	}
	return most >= options.least_recall;
}

} // namespace vectorgpu::bench
