// The gain of a graph search that finds the codes of a node's neighbours beside its edges instead of by their
// numbers: only the steps' memory traffic and the nearest of 32 codes, each step after the one before, as in a
// search. So the difference is the most that a search could gain per step; the memory that it takes is printed too.
//   gpu_inline_codes_bench [--steps N]
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "support/splitmix.hpp"

namespace
{

constexpr uint32_t kDegree = 32;
constexpr uint32_t kThreads = 128;
constexpr int kRuns = 9;

struct Graph
{
	const uint32_t *edges;   // [n_nodes][32]
	const uint32_t *codes;   // [n_nodes][words]
	const uint32_t *inlined; // [n_nodes][32][words]
	const uint32_t *entries; // [n_queries]
	const uint32_t *queries; // [n_queries][words]
	uint32_t n_nodes;
	uint32_t n_queries;
	uint32_t n_steps;
	uint32_t *sums; // [n_queries]
};

void
must(cudaError_t status, const char *what)
{
	if (status == cudaSuccess)
		return;
	std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
	std::exit(1);
}

/// 32 random bits of number z.
__host__ __device__ uint32_t
bits_of(uint64_t z)
{
	return static_cast<uint32_t>(vectorgpu::test::splitmix64(z) >> 16);
}

/// Codes [n][words] at random; any grid.
__global__ void
make_codes_kernel(uint32_t *codes, uint64_t n_words, uint64_t seed)
{
	for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n_words;
		i += static_cast<uint64_t>(gridDim.x) * blockDim.x)
		codes[i] = bits_of(seed + i);
}

/// Edges to random nodes, and beside each its node's code; any grid.
__global__ void
make_edges_kernel(uint32_t *edges, uint32_t *inlined, const uint32_t *codes, uint32_t words, uint32_t n_nodes)
{
	const uint64_t n_edges = static_cast<uint64_t>(n_nodes) * kDegree;

	for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n_edges;
		i += static_cast<uint64_t>(gridDim.x) * blockDim.x)
	{
		const uint32_t to = bits_of(~i) % n_nodes;

		edges[i] = to;
		for (uint32_t w = 0; w < words; w++)
			inlined[i * words + w] = codes[static_cast<uint64_t>(to) * words + w];
	}
}

template <uint32_t words>
__device__ __forceinline__ uint32_t
distance(const uint32_t *query, const uint32_t *code)
{
	uint32_t sum = 0;

	if constexpr (words % 4 == 0)
	{
#pragma unroll
		for (uint32_t w = 0; w < words; w += 4)
		{
			const uint4 four = __ldg(reinterpret_cast<const uint4 *>(code + w));

			sum += __popc(four.x ^ query[w]) + __popc(four.y ^ query[w + 1]) + __popc(four.z ^ query[w + 2]) +
				__popc(four.w ^ query[w + 3]);
		}
	}
	else
	{
#pragma unroll
		for (uint32_t w = 0; w < words; w++)
			sum += __popc(__ldg(code + w) ^ query[w]);
	}
	return sum;
}

/// A warp for each query: grid n_queries / 4, rounded up, block 128. The codes of the last step decide the next node.
template <uint32_t words, bool in_line>
__global__ void __launch_bounds__(kThreads)
walk_kernel(const Graph graph)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t q = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
	uint32_t query[words];
	uint32_t node;
	uint32_t sum = 0;

	if (q >= graph.n_queries)
		return;
	node = graph.entries[q];
	for (uint32_t w = 0; w < words; w++)
		query[w] = graph.queries[static_cast<uint64_t>(q) * words + w];
	for (uint32_t step = 0; step < graph.n_steps; step++)
	{
		const uint64_t at = static_cast<uint64_t>(node) * kDegree + lane;
		const uint32_t to = __ldg(graph.edges + at);
		const uint32_t *code = in_line ? graph.inlined + at * words : graph.codes + static_cast<uint64_t>(to) * words;
		const uint32_t least = __reduce_min_sync(0xFFFFFFFFu, distance<words>(query, code) << 5 | lane);

		sum += least >> 5;
		// Avoid a cycle if two nodes lead to each other.
		node = (__shfl_sync(0xFFFFFFFFu, to, least & 31) + step) % graph.n_nodes;
	}
	if (lane == 0)
		graph.sums[q] = sum + node;
}

template <typename T>
T *
room(uint64_t n)
{
	void *memory = nullptr;

	must(cudaMalloc(&memory, n * sizeof(T)), "cudaMalloc");
	return static_cast<T *>(memory);
}

template <uint32_t words, bool in_line>
float
median_ms(const Graph &graph, std::vector<uint32_t> *sums)
{
	cudaEvent_t from;
	cudaEvent_t to;
	std::vector<float> times(kRuns);

	must(cudaEventCreate(&from), "cudaEventCreate");
	must(cudaEventCreate(&to), "cudaEventCreate");
	for (float &ms : times)
	{
		must(cudaEventRecord(from), "cudaEventRecord");
		walk_kernel<words, in_line><<<(graph.n_queries + kThreads / 32 - 1) / (kThreads / 32), kThreads>>>(graph);
		must(cudaGetLastError(), "walk");
		must(cudaEventRecord(to), "cudaEventRecord");
		must(cudaEventSynchronize(to), "cudaEventSynchronize");
		must(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
	}
	must(cudaEventDestroy(from), "cudaEventDestroy");
	must(cudaEventDestroy(to), "cudaEventDestroy");
	sums->resize(graph.n_queries);
	must(
		cudaMemcpy(sums->data(), graph.sums, graph.n_queries * sizeof(uint32_t), cudaMemcpyDeviceToHost), "cudaMemcpy");
	std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
	return times[kRuns / 2];
}

template <uint32_t words>
bool
measure(uint32_t n_nodes, uint32_t n_steps)
{
	constexpr uint32_t kMostQueries = 10000;
	uint32_t *edges = room<uint32_t>(static_cast<uint64_t>(n_nodes) * kDegree);
	uint32_t *codes = room<uint32_t>(static_cast<uint64_t>(n_nodes) * words);
	uint32_t *inlined = room<uint32_t>(static_cast<uint64_t>(n_nodes) * kDegree * words);
	uint32_t *queries = room<uint32_t>(static_cast<uint64_t>(kMostQueries) * words);
	uint32_t *entries = room<uint32_t>(kMostQueries);
	uint32_t *sums = room<uint32_t>(kMostQueries);
	std::vector<uint32_t> first(kMostQueries);
	bool alike = true;

	for (uint32_t q = 0; q < kMostQueries; q++)
		first[q] = bits_of(q * 77777u) % n_nodes;
	must(cudaMemcpy(entries, first.data(), first.size() * sizeof(uint32_t), cudaMemcpyHostToDevice), "cudaMemcpy");
	make_codes_kernel<<<1024, 256>>>(codes, static_cast<uint64_t>(n_nodes) * words, 1);
	make_codes_kernel<<<1024, 256>>>(queries, static_cast<uint64_t>(kMostQueries) * words, 1ull << 40);
	make_edges_kernel<<<1024, 256>>>(edges, inlined, codes, words, n_nodes);
	must(cudaGetLastError(), "make");
	must(cudaDeviceSynchronize(), "make");
	for (const uint32_t n_queries : {1u, 64u, kMostQueries})
	{
		const Graph graph = {edges, codes, inlined, entries, queries, n_nodes, n_queries, n_steps, sums};
		std::vector<uint32_t> expected;
		std::vector<uint32_t> found;
		const float by_number = median_ms<words, false>(graph, &expected);
		const float in_line = median_ms<words, true>(graph, &found);

		alike &= expected == found;
		std::printf("%10u %6u %8u %14.1f %14.1f %12.1f %12.1f %8s\n", n_nodes, words * 32, n_queries,
			by_number * 1e6f / n_steps, in_line * 1e6f / n_steps,
			static_cast<double>(n_nodes) * (kDegree + words) * 4 / 1e6,
			static_cast<double>(n_nodes) * kDegree * (1 + words) * 4 / 1e6, expected == found ? "yes" : "NO");
		std::fflush(stdout);
	}
	for (uint32_t *memory : {edges, codes, inlined, queries, entries, sums})
		must(cudaFree(memory), "cudaFree");
	return alike;
}

} // namespace

int
main(int argc, char **argv)
{
	uint32_t n_steps = 256;
	bool alike = true;
	cudaDeviceProp device;

	if (argc == 3 && std::strcmp(argv[1], "--steps") == 0)
		n_steps = static_cast<uint32_t>(std::max(1, std::atoi(argv[2])));
	else if (argc != 1)
	{
		std::fprintf(stderr, "usage: gpu_inline_codes_bench [--steps N]\n");
		return 2;
	}
	must(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
	std::printf("# %s; %u steps of %u edges behind each other, a warp for each query, median of %d\n", device.name,
		n_steps, kDegree, kRuns);
	std::printf("%10s %6s %8s %14s %14s %12s %12s %8s\n", "nodes", "bits", "queries", "by number ns", "in line ns",
		"MB", "MB in line", "alike");
	for (const uint32_t n_nodes : {60000u, 894717u, 10000000u})
	{
		alike &= measure<2>(n_nodes, n_steps);
		alike &= measure<8>(n_nodes, n_steps);
		alike &= measure<16>(n_nodes, n_steps);
	}
	return alike ? 0 : 1;
}
