// Searches beside a delta that grows, at the engine's interface: searches a second by one thread in batches of --batch
// (as the worker's engine thread does), alone and beside appends of one row at --rate a second, by the size of the
// delta.
//   gpu_append_bench BASE.u8bin QUERY.u8bin [--batch N] [--rate N] [--real] [--ms N] [--rows A,B,...] [--chain]
//   [--behind]
// --chain: no search in one pass. --behind: instead, the time of a search right after an append of one row, as the
// worker does it (try_append_delta, then the search in another thread), and of one with nothing before it. The delta's
// rows are the base's, each element moved by up to 3, so they are as near to the queries as the base's. --real
// makes all vectors real numbers (no narrow form). After each measurement the nearest row of some queries is
// compared with a plain computation.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr size_t kLimit = 10;

struct Data
{
	Matrix base;
	Matrix queries;
	std::vector<float> delta; // [n, dim], goes round
	size_t n_delta = 0;

	const float *delta_row(size_t i) const { return delta.data() + i % n_delta * base.dim; }
};

/// Of at least one value.
double
median(std::vector<double> *values)
{
	const auto middle = values->begin() + static_cast<long>(values->size() / 2);

	std::nth_element(values->begin(), middle, values->end());
	return *middle;
}

class Bench
{
public:
	Bench(engine::Engine *engine, const Data &data, size_t batch) : engine_(engine), data_(data), batch_(batch)
	{
		std::vector<RowId> ids(data.base.n);

		for (uint32_t i = 0; i < data.base.n; i++)
			ids[i] = i;
		must(engine_->create({Metric::kL2, ElementType::kFloat32, data.base.dim}, &copy_));
		must(engine_->load_segment(copy_, 1, {ids, data.base.values.data(), data.base.n}));
		must(engine_->seal_segment(copy_, 1));
	}

	void append(size_t n)
	{
		std::vector<RowId> ids(n);
		std::vector<float> vectors(n * data_.base.dim);

		for (size_t i = 0; i < n; i++)
		{
			ids[i] = data_.base.n + n_appended_ + i;
			std::memcpy(
				vectors.data() + i * data_.base.dim, data_.delta_row(n_appended_ + i), data_.base.dim * sizeof(float));
		}
		must(engine_->append_delta(copy_, n_appended_, {ids, vectors.data(), n}));
		n_appended_ += n;
	}

	void grow_to(size_t n)
	{
		while (n_appended_ < n)
			append(std::min<size_t>(4096, n - n_appended_));
	}

	/// Searches a second over ms; *batch_ms: the median batch.
	double search(double ms, double *batch_ms)
	{
		std::vector<std::vector<engine::Neighbor>> results;
		std::vector<engine::SearchQuery> requests(batch_);
		std::vector<double> times;
		const double start = now_ms();
		double now = start;

		while (now - start < ms)
		{
			for (engine::SearchQuery &request : requests)
				request = {data_.queries.values.data() + (next_query_++ % data_.queries.n) * data_.base.dim, kLimit,
					false, {}};
			must(engine_->search(copy_, requests, &results));

			const double end = now_ms();

			times.push_back(end - now);
			now = end;
		}
		*batch_ms = median(&times);
		return 1000.0 * static_cast<double>(times.size() * batch_) / (now - start);
	}

	/// The same while another thread appends. *latency_us: median and 99 % of an append.
	double search_beside(double ms, double rate, double *batch_ms, double *appended, double latency_us[2])
	{
		std::atomic<bool> done{false};
		std::vector<double> took;
		const size_t before = n_appended_;
		const double start = now_ms();
		std::thread writer(
			[&]
			{
				while (!done)
				{
					const double due = start + 1000.0 * static_cast<double>(n_appended_ - before) / rate;
					const double now = now_ms();

					if (now < due)
					{
						std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(due - now));
						continue;
					}
					append(1);
					took.push_back(1000 * (now_ms() - now));
				}
			});
		const double found = search(ms, batch_ms);

		done = true;
		writer.join();
		*appended = 1000.0 * static_cast<double>(n_appended_ - before) / (now_ms() - start);
		std::sort(took.begin(), took.end());
		latency_us[0] = took[took.size() / 2];
		latency_us[1] = took[took.size() * 99 / 100];
		return found;
	}

	/// Medians in us, of searches and appends in turn, each after a pause as in a session.
	struct Behind
	{
		double alone;    // a search with nothing before it
		double append;   // an append of one row
		double behind;   // the search right after it
		double together; // both
		size_t refused;  // appends that would have had to wait: not counted
		size_t n;
	};

	Behind behind(double ms)
	{
		std::vector<std::vector<engine::Neighbor>> results;
		std::vector<engine::SearchQuery> requests(batch_);
		std::vector<double> alone, appends, searches, both;
		std::atomic<int> turn{0}; // 1: the searching thread's
		std::atomic<bool> done{false};
		Behind figures = {};
		std::thread searcher(
			[&]
			{
				while (!done)
				{
					if (turn.load(std::memory_order_acquire) != 1)
						continue;
					for (engine::SearchQuery &request : requests)
						request = {data_.queries.values.data() + (next_query_++ % data_.queries.n) * data_.base.dim,
							kLimit, false, {}};
					must(engine_->search(copy_, requests, &results));
					turn.store(0, std::memory_order_release);
				}
			});
		const auto search = [&]
		{
			turn.store(1, std::memory_order_release);
			while (turn.load(std::memory_order_acquire) != 0)
				;
		};
		const auto pause = []
		{
			constexpr double kPauseMs = 0.05;

			for (const double start = now_ms(); now_ms() - start < kPauseMs;)
				;
		};

		if (n_appended_ == 0)
			append(1); // a piece with room
		for (const double start = now_ms(); now_ms() - start < ms;)
		{
			const RowId id = data_.base.n + n_appended_;
			Status status;

			pause();

			const double first = now_ms();

			search();
			alone.push_back(1000 * (now_ms() - first));
			pause();

			const double second = now_ms();

			if (!engine_->try_append_delta(copy_, n_appended_, {{&id, 1}, data_.delta_row(n_appended_), 1}, &status))
			{
				figures.refused++;
				append(1);
				continue;
			}
			must(status);
			n_appended_++;

			const double third = now_ms();

			search();

			const double fourth = now_ms();

			appends.push_back(1000 * (third - second));
			searches.push_back(1000 * (fourth - third));
			both.push_back(1000 * (fourth - second));
		}
		done = true;
		searcher.join();
		figures.n = both.size();
		if (figures.n > 0)
		{
			figures.alone = median(&alone);
			figures.append = median(&appends);
			figures.behind = median(&searches);
			figures.together = median(&both);
		}
		return figures;
	}

	/// True if the nearest rows of some queries are those of a plain computation, up to its rounding.
	bool right() const
	{
		bool all = true;

		for (size_t q = 0; q < 4; q++)
		{
			const float *query = data_.queries.values.data() + q * 97 % data_.queries.n * data_.base.dim;
			std::vector<std::vector<engine::Neighbor>> found;
			const engine::SearchQuery request = {query, 1, false, {}};
			double nearest = INFINITY;

			must(engine_->search(copy_, {&request, 1}, &found));
			for (size_t i = 0; i < data_.base.n + n_appended_; i++)
			{
				const float *row = i < data_.base.n ? data_.base.values.data() + i * data_.base.dim
													: data_.delta_row(i - data_.base.n);
				double sum = 0;

				for (uint32_t e = 0; e < data_.base.dim; e++)
					sum += static_cast<double>(query[e] - row[e]) * (query[e] - row[e]);
				nearest = std::min(nearest, sum);
			}
			all = all && found[0].size() == 1 && std::abs(found[0][0].score - nearest) <= 1e-4 * nearest;
		}
		return all;
	}

	size_t n_appended() const { return n_appended_; }

private:
	engine::Engine *engine_;
	const Data &data_;
	const size_t batch_;
	engine::CopyId copy_ = 0;
	size_t n_appended_ = 0;
	size_t next_query_ = 0;
};

struct Options
{
	size_t batch = 8;
	double rate = 5000;
	double ms = 300;
	bool real = false;
	bool behind = false;
	bool chain = false;
	std::vector<size_t> sizes = {0, 100, 1000, 10000, 20000, 50000, 100000};
};

Options
parse(int argc, char **argv)
{
	Options options;

	for (int i = 3; i < argc; i++)
	{
		if (std::strcmp(argv[i], "--real") == 0)
			options.real = true;
		else if (std::strcmp(argv[i], "--chain") == 0)
			options.chain = true;
		else if (std::strcmp(argv[i], "--behind") == 0)
			options.behind = true;
		else if (std::strcmp(argv[i], "--batch") == 0 && i + 1 < argc)
			options.batch = static_cast<size_t>(std::atoi(argv[++i]));
		else if (std::strcmp(argv[i], "--rate") == 0 && i + 1 < argc)
			options.rate = std::atof(argv[++i]);
		else if (std::strcmp(argv[i], "--ms") == 0 && i + 1 < argc)
			options.ms = std::atof(argv[++i]);
		else if (std::strcmp(argv[i], "--rows") == 0 && i + 1 < argc)
		{
			options.sizes.clear();
			for (char *at = argv[++i]; *at != '\0'; at += *at == ',')
				options.sizes.push_back(std::strtoul(at, &at, 10));
		}
	}
	return options;
}

void
read_data(const char *base, const char *queries, bool real, Data *data)
{
	std::mt19937 rng(1);

	data->base = read_u8bin(base);
	data->queries = read_u8bin(queries);
	data->n_delta = std::min<size_t>(data->base.n, 20000);
	data->delta.resize(data->n_delta * data->base.dim);
	for (size_t i = 0; i < data->delta.size(); i++)
		data->delta[i] =
			std::clamp(data->base.values[i] + static_cast<float>(static_cast<int>(rng() % 7) - 3), 0.0f, 255.0f);
	if (real)
	{
		for (std::vector<float> *values : {&data->base.values, &data->queries.values, &data->delta})
			for (float &value : *values)
				value = value / 256 + 0.001f;
	}
}

/// Searches right after appends. True if all answers were right.
bool
measure_behind(Bench *bench, const Options &options)
{
	bool right = true;

	std::printf("%8s %10s %10s %10s %10s %10s %8s %8s %6s\n", "delta", "alone us", "append us", "behind us", "both us",
		"more us", "n", "refused", "right");
	for (const size_t size : options.sizes)
	{
		bench->grow_to(size);

		const size_t at = bench->n_appended();
		const Bench::Behind figures = bench->behind(options.ms);
		const bool is_right = bench->right();

		right = right && is_right;
		std::printf("%8zu %10.1f %10.1f %10.1f %10.1f %10.1f %8zu %8zu %6s\n", at, figures.alone, figures.append,
			figures.behind, figures.together, figures.together - figures.alone, figures.n, figures.refused,
			is_right ? "yes" : "NO");
		std::fflush(stdout);
	}
	return right;
}

/// Searches alone and beside appends. True if all answers were right.
bool
measure_beside(Bench *bench, const Options &options)
{
	double batch_ms = 0;
	double alone = 0;
	bool right = true;

	std::printf("%8s %12s %10s %7s | %12s %10s %7s %9s %8s %8s %6s\n", "delta", "searches/s", "batch ms", "cost",
		"beside", "batch ms", "cost", "appends/s", "p50 us", "p99 us", "right");
	for (const size_t size : options.sizes)
	{
		double beside_ms = 0;
		double appended = 0;
		double latency[2];

		bench->grow_to(size);

		const size_t at = bench->n_appended();
		const double still = bench->search(options.ms, &batch_ms);

		alone = alone == 0 ? still : alone;

		const double beside = bench->search_beside(options.ms, options.rate, &beside_ms, &appended, latency);
		const bool is_right = bench->right();

		right = right && is_right;
		std::printf("%8zu %12.0f %10.4f %6.1f%% | %12.0f %10.4f %6.1f%% %9.0f %8.1f %8.1f %6s\n", at, still, batch_ms,
			100 * (1 - still / alone), beside, beside_ms, 100 * (1 - beside / alone), appended, latency[0], latency[1],
			is_right ? "yes" : "NO");
		std::fflush(stdout);
	}
	return right;
}

} // namespace

int
main(int argc, char **argv)
{
	if (argc < 3)
	{
		std::fprintf(stderr,
			"usage: %s BASE QUERY [--batch N] [--rate N] [--real] [--ms N] [--rows A,B,...] [--chain] [--behind]\n",
			argv[0]);
		return 2;
	}

	const Options options = parse(argc, argv);
	Data data;
	cuda::CudaEngineOptions engine_options;
	std::unique_ptr<cuda::CudaEngine> engine;

	engine_options.one_pass = !options.chain;
	read_data(argv[1], argv[2], options.real, &data);
	must(cuda::make_cuda_engine(engine_options, &engine));

	Bench bench(engine.get(), data, options.batch);
	double batch_ms = 0;

	bench.search(100, &batch_ms); // warm
	std::printf("# %s; %u x %u, %s; batches of %zu, k = %zu; %.0f appends of one row a second asked for\n",
		engine->description(), data.base.n, data.base.dim, options.real ? "real numbers" : "bytes", options.batch,
		kLimit, options.rate);

	const bool right = options.behind ? measure_behind(&bench, options) : measure_beside(&bench, options);

	return right ? 0 : 1;
}
