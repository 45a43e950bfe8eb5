// The inverted file on the CPU, from k-means to recall. Data: the files that VECTORGPU_U8BIN and VECTORGPU_U8QUERIES
// name (uint32 n, uint32 dim, n x dim uint8); queries' neighbours are found by exact search here, on the first 200.
// Arguments: lists and threads, or lists and probes. Counters: rows_per_s, GFLOPs of assignment, GB_per_s of codes
// read, recall at 10, error as a share of the sample's variance.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/cpu/thread_pool.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/pq_scan.hpp"
#include "engine/ivf/pq_train.hpp"
#include "engine/ivf/sq8.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kQueries = 200;
constexpr size_t kNeighbors = 10;

struct Vectors
{
	uint32_t dim = 0;
	std::vector<float> values;

	size_t n() const { return dim == 0 ? 0 : values.size() / dim; }
	const float *row(size_t i) const { return &values[i * dim]; }
};

Vectors
from_file(const char *variable, size_t most)
{
	const char *path = std::getenv(variable);
	Vectors vectors;
	uint32_t header[2];
	const std::unique_ptr<FILE, int (*)(FILE *)> file(path == nullptr ? nullptr : fopen(path, "rb"), fclose);

	if (file == nullptr || fread(header, 4, 2, file.get()) != 2)
		return vectors;

	std::vector<uint8_t> bytes(std::min<size_t>(header[0], most) * header[1]);

	vectors.dim = header[1];
	if (fread(bytes.data(), 1, bytes.size(), file.get()) == bytes.size())
		vectors.values.assign(bytes.begin(), bytes.end());
	if (std::getenv("VECTORGPU_NORMALISE") != nullptr)
		normalise_rows(vectors.values.data(), vectors.n(), vectors.dim);
	return vectors;
}

const Vectors &
base()
{
	static const Vectors loaded = from_file("VECTORGPU_U8BIN", SIZE_MAX);

	return loaded;
}

const Vectors &
queries()
{
	static const Vectors loaded = from_file("VECTORGPU_U8QUERIES", kQueries);

	return loaded;
}

Call
with_threads(ThreadPool *pool)
{
	Call call;

	call.n_threads = pool->n_threads();
	call.parallel_context = pool;
	call.parallel = [](void *context, size_t n_tasks, void (*task)(void *, size_t), void *argument)
	{ static_cast<ThreadPool *>(context)->run(n_tasks, [&](size_t i) { task(argument, i); }); };
	return call;
}

std::vector<RowId>
search_exactly(const float *query)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, base().dim};
	std::vector<Neighbor> buffer(2 * kNeighbors);
	std::vector<double> scores(base().n());
	std::vector<RowId> ids(base().n());
	TopK topk;

	for (size_t i = 0; i < ids.size(); i++)
		ids[i] = i;
	compute_scores(spec, query, base().values.data(), base().dim * sizeof(float), base().n(), scores.data());
	topk_init(&topk, kNeighbors, buffer.data(), buffer.size(), nullptr);
	topk_push(&topk, scores.data(), ids.data(), ids.size(), nullptr, 0);

	std::vector<RowId> rows;

	for (size_t i = 0, n = topk_finish(&topk); i < n; i++)
		rows.push_back(buffer[i].row);
	return rows;
}

const std::vector<std::vector<RowId>> &
truth()
{
	static const std::vector<std::vector<RowId>> found = []
	{
		std::vector<std::vector<RowId>> rows;

		for (size_t q = 0; q < queries().n(); q++)
			rows.push_back(search_exactly(queries().row(q)));
		return rows;
	}();

	return found;
}

/// Trained and assigned lists, made once for each number of them.
struct Lists
{
	explicit Lists(uint32_t n) : n_lists(n)
	{
		const uint32_t dim = base().dim;
		KMeansSpec spec;

		spec.dim = dim;
		spec.n_clusters = n;
		spec.n_rows = kmeans_training_rows(base().n(), n, dim, 0);
		for (size_t i = 0; i < spec.n_rows; i++)
			sample.insert(
				sample.end(), base().row(i * base().n() / spec.n_rows), base().row(i * base().n() / spec.n_rows) + dim);
		centroids.resize(size_t{n} * dim);

		std::vector<uint8_t> work(kmeans_work_bytes(spec));

		ok = kmeans_train(spec, {sample.data(), dim}, centroids.data(), nullptr, nullptr, work.data(), work.size())
				 .is_ok();
		memory.resize(coarse_bytes(dim, n));
		ok &= coarse_init(centroids.data(), n, dim, memory.data(), memory.size(), &coarse).is_ok();
		work.resize(std::max(work.size(), coarse_assign_work_bytes(coarse, 1)));
		labels.resize(base().n());
		ok &= coarse_assign(
			coarse, base().values.data(), dim, base().n(), labels.data(), nullptr, work.data(), work.size())
				  .is_ok();
		first.assign(n + size_t{1}, 0);
		for (uint32_t label : labels)
			first[label + 1]++;
		for (size_t i = 0; i < n; i++)
			first[i + 1] += first[i];

		std::vector<size_t> at(first.begin(), first.end() - 1);

		ids.resize(base().n());
		rows.resize(base().values.size());
		list_of.resize(base().n());
		for (size_t i = 0; i < base().n(); i++)
		{
			const size_t place = at[labels[i]]++;

			ids[place] = i;
			list_of[place] = labels[i];
			std::copy_n(base().row(i), dim, &rows[place * dim]);
		}
	}

	uint32_t n_lists;
	bool ok = false;
	std::vector<float> sample;
	std::vector<float> centroids;
	std::vector<uint8_t> memory;
	Coarse coarse;
	std::vector<uint32_t> labels;
	std::vector<size_t> first;     // [n_lists + 1]
	std::vector<RowId> ids;        // by list
	std::vector<float> rows;       // by list
	std::vector<uint32_t> list_of; // by list
};

const Lists &
lists(uint32_t n)
{
	static std::map<uint32_t, std::unique_ptr<Lists>> made;

	if (made[n] == nullptr)
		made[n] = std::make_unique<Lists>(n);
	return *made[n];
}

bool
has_data(benchmark::State &state)
{
	if (base().n() > 0 && queries().dim == base().dim)
		return true;
	state.SkipWithError("VECTORGPU_U8BIN and VECTORGPU_U8QUERIES do not name files");
	return false;
}

void
kmeans(benchmark::State &state)
{
	if (!has_data(state))
		return;

	const uint32_t n = static_cast<uint32_t>(state.range(0));
	ThreadPool pool(static_cast<size_t>(state.range(1)));
	KMeansSpec spec;
	KMeansReport report;
	std::vector<float> sample;

	spec.dim = base().dim;
	spec.n_clusters = n;
	spec.n_threads = pool.n_threads();
	spec.n_rows = kmeans_training_rows(base().n(), n, base().dim, 0);
	for (size_t i = 0; i < spec.n_rows; i++)
		sample.insert(sample.end(), base().row(i * base().n() / spec.n_rows),
			base().row(i * base().n() / spec.n_rows) + spec.dim);

	std::vector<float> centroids(size_t{n} * spec.dim);
	std::vector<uint8_t> work(kmeans_work_bytes(spec));

	for (auto _ : state)
		if (!kmeans_train(spec, {sample.data(), spec.dim}, centroids.data(), nullptr, &report, work.data(), work.size(),
				with_threads(&pool))
				.is_ok())
			state.SkipWithError("training failed");
	state.counters["iterations_"] = report.n_iterations;
	state.counters["rows"] = static_cast<double>(spec.n_rows);
	state.counters["inertia_per_row"] = report.inertia / static_cast<double>(spec.n_rows);
	state.counters["largest"] = static_cast<double>(report.largest);
}

void
assign(benchmark::State &state)
{
	if (!has_data(state))
		return;

	const Lists &index = lists(static_cast<uint32_t>(state.range(0)));
	ThreadPool pool(static_cast<size_t>(state.range(1)));
	const Call call = with_threads(&pool);
	const size_t n = std::min<size_t>(base().n(), 100000);
	std::vector<uint8_t> work(coarse_assign_work_bytes(index.coarse, call.n_threads));
	std::vector<uint32_t> labels(n);

	for (auto _ : state)
		if (!coarse_assign(index.coarse, base().values.data(), base().dim, n, labels.data(), nullptr, work.data(),
				work.size(), call)
				.is_ok())
			state.SkipWithError("assignment failed");
	state.SetItemsProcessed(static_cast<int64_t>(n) * state.iterations());
	state.counters["GFLOPs"] =
		benchmark::Counter(2e-9 * static_cast<double>(n) * base().dim * static_cast<double>(state.range(0)),
			benchmark::Counter::kIsIterationInvariantRate);
}

/// Scans the probed lists of each query with `scan(query, list, list constant, first, n, scores)`, keeps as many
/// candidates as `candidates`, rescores them canonically, and counts.
template <class Prepare, class Scan>
void
search(benchmark::State &state, const Lists &index, size_t candidates, double bytes_per_row, Prepare prepare, Scan scan)
{
	const size_t n_probes = static_cast<size_t>(state.range(1));
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, base().dim};
	std::vector<uint32_t> order(index.n_lists);
	std::vector<double> coarse_scores(index.n_lists);
	std::vector<double> scores(base().n());
	std::vector<Neighbor> buffer(2 * candidates);
	double scanned = 0;
	size_t found = 0;
	size_t n_searched = 0;
	double scan_seconds = 0;

	truth();
	for (auto _ : state)
		for (size_t q = 0; q < queries().n(); q++)
		{
			TopK topk;

			topk_init(&topk, candidates, buffer.data(), buffer.size(), nullptr);
			coarse_rank(index.coarse, Metric::kL2, queries().row(q), n_probes, order.data(), coarse_scores.data());
			prepare(queries().row(q));

			const auto start = std::chrono::steady_clock::now();

			for (size_t p = 0; p < n_probes; p++)
			{
				const uint32_t list = order[p];
				const size_t first = index.first[list];
				const size_t n = index.first[list + 1] - first;

				scan(list, coarse_scores[list], first, n, scores.data());
				topk_push(&topk, scores.data(), &index.ids[first], n, nullptr, 0);
				scanned += static_cast<double>(n);
			}
			scan_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

			const size_t kept = topk_finish(&topk);

			for (size_t i = 0; i < kept && candidates > kNeighbors; i++)
				compute_scores(spec, queries().row(q), base().row(buffer[i].row), 0, 1, &buffer[i].score);
			if (candidates > kNeighbors)
				std::sort(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(kept), neighbor_less);
			for (size_t i = 0; i < std::min(kept, kNeighbors); i++)
				found += static_cast<size_t>(std::count(truth()[q].begin(), truth()[q].end(), buffer[i].row));
			n_searched++;
		}
	state.SetItemsProcessed(static_cast<int64_t>(n_searched));
	state.counters["recall"] = static_cast<double>(found) / static_cast<double>(n_searched * kNeighbors);
	state.counters["scan_GB_per_s"] = 1e-9 * scanned * bytes_per_row / scan_seconds;
	state.counters["scanned_per_query"] = scanned / static_cast<double>(n_searched);
}

void
search_flat(benchmark::State &state)
{
	if (!has_data(state))
		return;

	const Lists &index = lists(static_cast<uint32_t>(state.range(0)));
	const uint32_t dim = base().dim;
	const float *query = nullptr;

	search(
		state, index, kNeighbors, dim * 4.0, [&](const float *q) { query = q; },
		[&](uint32_t, double, size_t first, size_t n, double *scores)
		{
			compute_scores(
				{Metric::kL2, ElementType::kFloat32, dim}, query, &index.rows[first * dim], dim * 4, n, scores);
		});
}

/// Not residual, or residual (ranges of row minus centroid): to measure what that is worth.
void
search_sq8(benchmark::State &state, bool residual, size_t candidates)
{
	if (!has_data(state))
		return;

	const Lists &index = lists(static_cast<uint32_t>(state.range(0)));
	const uint32_t dim = base().dim;
	std::vector<float> rows = index.rows;
	std::vector<float> low(dim), step(dim), query_state(sq8_query_floats(dim)), shifted(dim);
	std::vector<uint8_t> codes(rows.size());
	const Sq8Ranges ranges = {low.data(), step.data()};
	const float *query = nullptr;
	Sq8Query prepared;

	for (size_t i = 0; residual && i < rows.size(); i++)
		rows[i] -= index.centroids[index.list_of[i / dim] * size_t{dim} + i % dim];
	sq8_train(rows.data(), rows.size() / dim, dim, ranges);
	sq8_encode(ranges, rows.data(), rows.size() / dim, dim, codes.data());
	search(
		state, index, candidates, dim,
		[&](const float *q)
		{
			query = q;
			prepared = sq8_prepare(ranges, Metric::kL2, q, dim, query_state.data());
		},
		[&](uint32_t list, double, size_t first, size_t n, double *scores)
		{
			if (residual)
			{
				for (size_t d = 0; d < dim; d++)
					shifted[d] = query[d] - index.centroids[list * size_t{dim} + d];
				prepared = sq8_prepare(ranges, Metric::kL2, shifted.data(), dim, query_state.data());
			}
			sq8_scores(prepared, &codes[first * dim], n, scores);
		});
}

void
search_pq(benchmark::State &state, uint32_t bits, bool opq, size_t candidates)
{
	if (!has_data(state))
		return;

	const Lists &index = lists(static_cast<uint32_t>(state.range(0)));
	const PqSpec spec = {Metric::kL2, base().dim, static_cast<uint32_t>(state.range(2)), bits, opq};
	const size_t code_bytes = pq_code_bytes(spec);
	const size_t n_sample = std::min(kPqTrainingRows, index.rows.size() / spec.dim);
	std::vector<float> codebook(pq_codebook_floats(spec)), rotation(pq_rotation_floats(spec));
	const PqModel model = {spec, codebook.data(), rotation.data()};
	std::vector<float> sample;
	std::vector<uint32_t> sample_labels;
	PqTraining training;

	for (size_t i = 0; i < n_sample; i++)
	{
		const size_t row = i * base().n() / n_sample;

		sample.insert(sample.end(), base().row(row), base().row(row) + spec.dim);
		sample_labels.push_back(index.labels[row]);
	}
	training.rows = sample.data();
	training.labels = sample_labels.data();
	training.centroids = index.centroids.data();
	training.n_rows = n_sample;

	std::vector<uint8_t> work(pq_train_work_bytes(spec, training));
	double error = 0;
	const auto start = std::chrono::steady_clock::now();
	bool ok = pq_train(model, training, &error, work.data(), work.size()).is_ok();
	const auto trained = std::chrono::steady_clock::now();
	std::vector<float> rotated(size_t{index.n_lists} * pq_padded_dim(spec));
	std::vector<uint8_t> encoder_memory(pq_encoder_bytes(spec));
	PqEncoder encoder;

	pq_rotate(model, index.centroids.data(), index.n_lists, rotated.data());
	ok &= pq_encoder_init(model, rotated.data(), encoder_memory.data(), encoder_memory.size(), &encoder).is_ok();
	work.resize(std::max(work.size(), pq_encode_work_bytes(encoder, 1)));

	std::vector<uint8_t> codes(base().n() * code_bytes);
	std::vector<float> terms(base().n());

	ok &= pq_encode(encoder, index.rows.data(), index.list_of.data(), base().n(), codes.data(), terms.data(),
		work.data(), work.size())
			  .is_ok();

	const auto encoded = std::chrono::steady_clock::now();
	std::vector<std::vector<uint8_t>> by_list(index.n_lists);

	for (size_t list = 0; list < index.n_lists; list++)
	{
		const size_t n = index.first[list + 1] - index.first[list];

		by_list[list].resize(interleaved_bytes(n, code_bytes));
		interleave_codes(&codes[index.first[list] * code_bytes], n, code_bytes, by_list[list].data());
	}

	std::vector<uint8_t> query_memory(pq_query_bytes(spec));
	PqQuery prepared;

	if (!ok)
		state.SkipWithError("building failed");
	search(
		state, index, candidates, static_cast<double>(code_bytes) + 4, [&](const float *q)
		{ ok &= pq_prepare(model, q, query_memory.data(), query_memory.size(), &prepared).is_ok(); },
		[&](uint32_t list, double coarse, size_t first, size_t n, double *scores)
		{ pq_scores(prepared, coarse, by_list[list].data(), &terms[first], n, scores); });
	state.counters["train_s"] = std::chrono::duration<double>(trained - start).count();
	state.counters["encode_rows_per_s"] =
		static_cast<double>(base().n()) / std::chrono::duration<double>(encoded - trained).count();
	state.counters["error"] = error;
}

BENCHMARK(kmeans)->ArgsProduct({{1024, 4096}, {1, 2}})->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(1);
BENCHMARK(assign)->ArgsProduct({{1024, 4096}, {1, 2}})->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(search_flat)->ArgsProduct({{1024}, {8, 32}})->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(search_sq8, plain, false, kNeighbors)->Args({1024, 32})->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(search_sq8, residual, true, kNeighbors)
	->Args({1024, 32})
	->Unit(benchmark::kMillisecond)
	->UseRealTime();
BENCHMARK_CAPTURE(search_pq, pq8, 8, false, kNeighbors)
	->Args({1024, 32, 16})
	->Unit(benchmark::kMillisecond)
	->UseRealTime();
BENCHMARK_CAPTURE(search_pq, pq8_refined, 8, false, 10 * kNeighbors)
	->Args({1024, 32, 16})
	->Unit(benchmark::kMillisecond)
	->UseRealTime();
BENCHMARK_CAPTURE(search_pq, opq8_refined, 8, true, 10 * kNeighbors)
	->Args({1024, 32, 16})
	->Unit(benchmark::kMillisecond)
	->UseRealTime();
BENCHMARK_CAPTURE(search_pq, pq4_refined, 4, false, 10 * kNeighbors)
	->Args({1024, 32, 32})
	->Unit(benchmark::kMillisecond)
	->UseRealTime();
BENCHMARK_CAPTURE(search_pq, opq4_refined, 4, true, 10 * kNeighbors)
	->Args({1024, 32, 32})
	->Unit(benchmark::kMillisecond)
	->UseRealTime();

} // namespace
} // namespace vectorgpu::engine::ivf
