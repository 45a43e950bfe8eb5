// Canonical scores of random rows of a source, without ranking and scan: how fast the memory, or the bus, gives rows.
#pragma once

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include "cuda/resident/snapshot.hpp"
#include "cuda/search/search_context.hpp"
#include "kernels/codes/codes.hpp"
#include "u8bin.hpp"

namespace vectorgpu::bench
{

template <class T>
void
send_values(const cuda::Device &device, cuda::DeviceBuffer *buffer, const std::vector<T> &values)
{
	must(buffer->allocate(&device, values.size() * sizeof(T), "candidates"));
	must(device.check(cudaMemcpy(buffer->get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
		"send candidates"));
}

/// Return the median of milliseconds that the scores of n_candidates random rows take for each of n queries [n,
/// dim_pad]. bytes: of these rows.
inline double
time_random_scores(const cuda::Device &device, const cuda::SearchContext &context, const cuda::Source &source,
	const std::vector<float> &queries, uint32_t dim_pad, uint32_t n_candidates, double *bytes)
{
	constexpr size_t kRuns = 15;
	const uint32_t n_queries = static_cast<uint32_t>(queries.size() / dim_pad);
	const size_t n = size_t{n_queries} * n_candidates;
	std::mt19937_64 rng(3);
	std::vector<uint32_t> rows(kRuns * n); // others in each run, so that no cache has them
	std::vector<double> times;
	cuda::DeviceBuffer vectors, places, keys, sizes;
	kernels::RescoreArgs args;

	for (uint32_t &row : rows)
		row = static_cast<uint32_t>(rng() % source.n_rows);
	send_values(device, &vectors, queries);
	send_values(device, &places, rows);
	send_values(device, &sizes, std::vector<uint32_t>(n_queries, n_candidates));
	must(keys.allocate(&device, n * sizeof(uint64_t), "keys"));
	args.metric = Metric::kL2;
	args.rows = source.rows();
	args.queries.vectors = vectors.get();
	args.queries.n_queries = n_queries;
	args.queries.dim_pad = dim_pad;
	args.candidates.capacity = n_candidates;
	args.candidates.keys = keys.as<uint64_t>();
	args.candidates.counts = sizes.as<uint32_t>();
	for (size_t run = 0; run < kRuns; run++)
	{
		args.candidates.rows = places.as<uint32_t>() + run * n;

		const double start = now_ms();

		must(device.check(kernels::launch_code_refine(args, context.stream.get()), "score candidates"));
		must(context.stream.synchronize());
		times.push_back(now_ms() - start);
	}
	std::sort(times.begin(), times.end());
	*bytes = static_cast<double>(n) * args.rows.pitch_bytes;
	return times[times.size() / 2];
}

} // namespace vectorgpu::bench
