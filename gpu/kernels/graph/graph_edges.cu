// See graph_edges.hpp. Forward edges: a warp keeps a row's list in a hash table in shared memory and counts detours by
// atomics there, whose order does not matter. Edges back: all edges are sorted by the row that they lead to, by a
// stable sort of edges in the order (rank, row), so that each row's come in that order.
#include <bit>

#include <cub/device/device_radix_sort.cuh>

#include "kernels/graph/graph_edges.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kWarps = 4; // of a block, a row each
constexpr uint32_t kThreads = kWarps * 32;
constexpr uint32_t kWideThreads = 256;
constexpr uint32_t kNone = 0xFFFFFFFFu;
constexpr unsigned kFull = 0xFFFFFFFFu;

/// Slots of the table of a list of k rows: at most half of them are taken.
__host__ __device__ constexpr uint32_t
table_slots(uint32_t k)
{
	uint32_t slots = 32;

	while (slots < 2 * k)
		slots *= 2;
	return slots;
}

/// Numbers of 4 bytes in shared memory of a warp: nodes and ranks of the table, the list and its detours.
__host__ __device__ constexpr uint32_t
warp_words(uint32_t k)
{
	return 2 * table_slots(k) + 2 * k;
}

static_assert(kWarps * warp_words(kEdgeMostList) * 4 <= 48 * 1024);

__device__ __forceinline__ uint32_t
slot_of(uint32_t node, uint32_t mask)
{
	return (node * 2654435769u >> 16) & mask;
}

/// Copy the row's list [k] to `list` and return its length. By a warp.
__device__ __forceinline__ uint32_t
read_list(const uint32_t *ids, uint32_t k, uint32_t lane, uint32_t *list)
{
	for (uint32_t base = 0; base < k; base += 32)
	{
		const uint32_t i = base + lane;
		const uint32_t node = i < k ? __ldg(ids + i) : kNone;
		const unsigned ends = __ballot_sync(kFull, node == kNone);

		if (i < k)
			list[i] = node;
		if (ends != 0)
			return base + __ffs(static_cast<int>(ends)) - 1;
	}
	return k;
}

/// A detour of the edge u → w is u → v → w with both edges of a better rank than u → w.
__global__ void __launch_bounds__(kThreads)
forward_edges_kernel(const EdgeArgs args)
{
	extern __shared__ uint32_t shared[];
	const uint32_t lane = threadIdx.x % 32;
	const uint64_t u = static_cast<uint64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
	const uint32_t slots = table_slots(args.k);
	const uint32_t mask = slots - 1;
	uint32_t *nodes = shared + threadIdx.x / 32 * warp_words(args.k);
	uint32_t *ranks = nodes + slots;
	uint32_t *list = ranks + slots;
	uint32_t *detours = list + args.k;

	if (u >= args.n_rows || (args.chosen != nullptr && args.chosen[u] == 0)) // alike in a warp, and no block waits
		return;

	uint32_t *forward = args.forward + u * args.degree;
	const uint32_t n = read_list(args.lists + u * args.k, args.k, lane, list);

	for (uint32_t i = lane; i < slots; i += 32)
	{
		nodes[i] = kNone;
		ranks[i] = kNone;
	}
	for (uint32_t i = lane; i < n; i += 32)
		detours[i] = 0;
	__syncwarp();
	for (uint32_t i = lane; i < n; i += 32)
	{
		const uint32_t node = list[i];
		uint32_t slot = slot_of(node, mask);

		for (;; slot = (slot + 1) & mask)
		{
			const uint32_t held = atomicCAS(&nodes[slot], kNone, node);

			if (held == kNone || held == node)
				break;
		}
		atomicMin(&ranks[slot], i);
	}
	__syncwarp();
	for (uint32_t i = 0; i < n; i++)
	{
		if (list[i] >= args.n_rows)
			continue;

		const uint32_t *theirs = args.lists + static_cast<size_t>(list[i]) * args.k;

		for (uint32_t j = lane; j < n; j += 32)
		{
			const uint32_t node = __ldg(theirs + j);
			uint32_t slot = slot_of(node, mask);

			if (node == kNone)
				continue;
			while (nodes[slot] != kNone && nodes[slot] != node)
				slot = (slot + 1) & mask;
			if (nodes[slot] == node && ranks[slot] > i && ranks[slot] > j)
				atomicAdd(&detours[ranks[slot]], 1u);
		}
	}
	__syncwarp();
	for (uint32_t i = lane; i < n; i += 32)
	{
		const uint32_t own = detours[i];
		uint32_t place = 0;

		for (uint32_t j = 0; j < n; j++)
			place += detours[j] < own || (detours[j] == own && j < i) ? 1 : 0;
		if (place < args.degree)
			forward[place] = list[i];
	}
	for (uint32_t i = n + lane; i < args.degree; i += 32)
		forward[i] = kNone;
}

/// Grid (ceil(n_rows / 256), degree), block 256: the edges by rank, then by row.
__global__ void __launch_bounds__(kWideThreads)
list_edges_kernel(const ReverseArgs args)
{
	const uint32_t u = blockIdx.x * kWideThreads + threadIdx.x;
	const uint32_t rank = blockIdx.y;

	if (u >= args.n_rows)
		return;

	const uint32_t end = __ldg(args.forward + static_cast<size_t>(u) * args.degree + rank);
	const size_t at = static_cast<size_t>(rank) * args.n_rows + u;

	args.ends[at] = end < args.n_rows ? end : kNone;
	args.begins[at] = u;
}

/// Grid ceil((n_edges + 1) / 256), block 256: the thread that sees a new end notes where it begins, also for ends
/// before it without edges. Absent edges, which come last, belong to none.
__global__ void __launch_bounds__(kWideThreads)
first_edges_kernel(const ReverseArgs args, uint32_t n_edges)
{
	const uint64_t i = static_cast<uint64_t>(blockIdx.x) * kWideThreads + threadIdx.x;

	if (i > n_edges)
		return;

	const uint64_t begin = i == 0 ? 0 : static_cast<uint64_t>(min(args.sorted_ends[i - 1], args.n_rows)) + 1;
	const uint32_t end = i == n_edges ? args.n_rows : min(args.sorted_ends[i], args.n_rows);

	for (uint64_t v = begin; v <= end; v++)
		args.first[v] = static_cast<uint32_t>(i);
}

/// Whether node is among out [n]. By a warp.
__device__ __forceinline__ bool
warp_has(const uint32_t *out, uint32_t n, uint32_t node, uint32_t lane)
{
	bool here = false;

	for (uint32_t i = lane; i < n; i += 32)
		here = here || out[i] == node;
	return __any_sync(kFull, here) != 0;
}

/// Append node to out [n] unless it is there. By a warp; returns the new n.
__device__ __forceinline__ uint32_t
warp_append(uint32_t *out, uint32_t n, uint32_t node, uint32_t lane)
{
	if (warp_has(out, n, node, lane))
		return n;
	if (lane == 0)
		out[n] = node;
	__syncwarp();
	return n + 1;
}

/// Grid ceil(n_rows / 4), block 128: a warp a row.
__global__ void __launch_bounds__(kThreads)
join_edges_kernel(const ReverseArgs args)
{
	__shared__ uint32_t shared[kWarps * kEdgeMostDegree];
	const uint32_t lane = threadIdx.x % 32;
	const uint64_t u = static_cast<uint64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
	uint32_t *out = shared + threadIdx.x / 32 * kEdgeMostDegree;

	if (u >= args.n_rows) // alike in a warp, and no block waits
		return;

	const uint32_t *own = args.forward + u * args.degree;
	const uint32_t half = (args.degree + 1) / 2;
	uint32_t n = read_list(own, half, lane, out);
	const uint32_t begin = args.first[u];
	const uint32_t n_back = min(args.first[u + 1] - begin, args.degree);

	__syncwarp();
	for (uint32_t base = 0; base < n_back && n < args.degree; base += 32)
	{
		const uint32_t back = base + lane < n_back ? args.sorted_begins[begin + base + lane] : kNone;

		for (uint32_t i = 0; i < 32 && base + i < n_back && n < args.degree; i++)
			n = warp_append(out, n, __shfl_sync(kFull, back, static_cast<int>(i)), lane);
	}
	for (uint32_t i = half; i < args.degree && n < args.degree; i++)
	{
		const uint32_t node = __ldg(own + i);

		if (node == kNone)
			break;
		n = warp_append(out, n, node, lane);
	}
	for (uint32_t i = lane; i < args.degree; i += 32)
		args.edges[u * args.degree + i] = i < n ? out[i] : kNone;
}

} // namespace

cudaError_t
launch_forward_edges(const EdgeArgs &args, cudaStream_t stream)
{
	if (args.k > kEdgeMostList || args.degree > kEdgeMostDegree)
		return cudaErrorInvalidValue;
	if (args.n_rows == 0)
		return cudaSuccess;
	forward_edges_kernel<<<(args.n_rows + kWarps - 1) / kWarps, kThreads,
		kWarps * warp_words(args.k) * sizeof(uint32_t), stream>>>(args);
	return cudaGetLastError();
}

cudaError_t
launch_reverse_edges(ReverseArgs *args, cudaStream_t stream)
{
	const uint64_t n_edges = static_cast<uint64_t>(args->n_rows) * args->degree;
	// Of absent edges these bits are all ones: more than any row has.
	const int n_bits = static_cast<int>(std::bit_width(args->n_rows));

	if (n_edges >= uint64_t{1} << 31 || args->degree > kEdgeMostDegree)
		return cudaErrorInvalidValue;
	if (n_edges == 0)
		return cudaSuccess;
	if (args->temp != nullptr)
		list_edges_kernel<<<dim3((args->n_rows + kWideThreads - 1) / kWideThreads, args->degree), kWideThreads, 0,
			stream>>>(*args);

	const cudaError_t error = cub::DeviceRadixSort::SortPairs(args->temp, args->temp_bytes, args->ends,
		args->sorted_ends, args->begins, args->sorted_begins, static_cast<uint32_t>(n_edges), 0, n_bits, stream);

	if (error != cudaSuccess || args->temp == nullptr)
		return error;
	first_edges_kernel<<<static_cast<uint32_t>((n_edges + kWideThreads) / kWideThreads), kWideThreads, 0, stream>>>(
		*args, static_cast<uint32_t>(n_edges));
	join_edges_kernel<<<(args->n_rows + kWarps - 1) / kWarps, kThreads, 0, stream>>>(*args);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
