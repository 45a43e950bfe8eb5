// Canonical Hamming and Jaccard scores: counts of bits, exact in any order.
#include "kernels/canonical/bits.cuh"
#include "kernels/canonical/canonical.cuh"
#include "kernels/canonical/scores_dispatch.hpp"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kThreads = 256;
constexpr uint32_t kTeam = 8; // threads of a row: 128 bytes at a time

/// Grid (ceil(groups / 8), n_queries), block 256: a warp takes one group, 4 rows at a time, 8 threads to a row.
template <Metric metric>
__global__ void __launch_bounds__(kThreads)
bit_scores_kernel(const ScoreArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t group = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
	const uint64_t first_row = static_cast<uint64_t>(group) * args.group_rows;
	const uint32_t query = blockIdx.y;
	const Rows &rows = args.rows;

	if (first_row >= rows.n_rows)
		return;

	const uint32_t end = static_cast<uint32_t>(min(static_cast<uint64_t>(rows.n_rows), first_row + args.group_rows));
	const uint32_t n_vectors = rows.pitch_bytes / 16;
	const uint4 *x = reinterpret_cast<const uint4 *>(
		static_cast<const char *>(args.queries.vectors) + static_cast<size_t>(query) * rows.pitch_bytes);
	uint64_t smallest = kExcludedKey;

	for (uint32_t base = static_cast<uint32_t>(first_row); base < end; base += 32 / kTeam)
	{
		const uint32_t row = base + lane / kTeam;
		const uint4 *y = reinterpret_cast<const uint4 *>(
			static_cast<const char *>(rows.vectors) + static_cast<size_t>(min(row, end - 1)) * rows.pitch_bytes);
		uint32_t first = 0;
		uint32_t second = 0;

		for (uint32_t i = lane % kTeam; i < n_vectors; i += kTeam)
		{
			const uint4 a = __ldg(x + i);
			const uint4 b = __ldg(y + i);

			count_bits<metric>(a, b, first, second);
		}
#pragma unroll
		for (int width = kTeam / 2; width >= 1; width /= 2)
		{
			first += __shfl_xor_sync(0xFFFFFFFFu, first, width);
			second += __shfl_xor_sync(0xFFFFFFFFu, second, width);
		}
		if (lane % kTeam == 0 && row < end)
		{
			const uint64_t key = row_is_dead(rows, row)
				? kExcludedKey
				: key_after(bits_score<metric>(first, second), args.queries, query, rows.row_ids, row);

			args.keys[query * args.key_stride + row] = key;
			smallest = min(smallest, key);
		}
	}
	if (args.minima == nullptr)
		return;
#pragma unroll
	for (int width = 16; width >= 1; width /= 2)
		smallest = min(smallest,
			static_cast<uint64_t>(__shfl_xor_sync(0xFFFFFFFFu, static_cast<unsigned long long>(smallest), width)));
	if (lane == 0)
		args.minima[static_cast<size_t>(query) * kMaxGroups + group] = smallest;
}

} // namespace

cudaError_t
launch_bit_scores(const ScoreArgs &args, cudaStream_t stream)
{
	const uint32_t n_groups = (args.rows.n_rows + args.group_rows - 1) / args.group_rows;
	const dim3 grid((n_groups + kThreads / 32 - 1) / (kThreads / 32), args.queries.n_queries);

	if (args.metric == Metric::kHamming)
		bit_scores_kernel<Metric::kHamming><<<grid, kThreads, 0, stream>>>(args);
	else
		bit_scores_kernel<Metric::kJaccard><<<grid, kThreads, 0, stream>>>(args);
	return cudaGetLastError();
}

} // namespace vectorgpu::kernels
