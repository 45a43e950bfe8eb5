// See pass_rows.hpp. What a step says of a row is written once, for the host too (engine/predicate/judge.hpp).
#include "kernels/select/pass_rows.hpp"

#include "engine/predicate/judge.hpp"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

namespace predicate = engine::predicate;

constexpr uint32_t kThreads = 256;
constexpr uint32_t kRowsPerThread = kPassBlockRows / kThreads;
constexpr uint32_t kSumThreads = 1024;
constexpr uint32_t kWordsPerBlock = kPassBlockRows / 32;
static_assert(kWordsPerBlock == 32);        // a warp lists a block, a word each thread
static_assert(predicate::kMostDepth <= 32); // results that wait are the bits of a word, the last one lowest

__device__ __forceinline__ uint64_t
load_code(const predicate::ColumnCodes &column, uint32_t row)
{
	switch (column.width)
	{
		case 1:
			return __ldg(static_cast<const uint8_t *>(column.codes) + row);
		case 2:
			return __ldg(static_cast<const uint16_t *>(column.codes) + row);
		case 4:
			return __ldg(static_cast<const uint32_t *>(column.codes) + row);
		default:
			return __ldg(static_cast<const unsigned long long *>(column.codes) + row);
	}
}

__device__ __forceinline__ bool
is_null(const predicate::ColumnCodes &column, uint32_t row)
{
	return column.nulls != nullptr && (__ldg(column.nulls + row / 8) >> (row % 8) & 1) != 0;
}

/// Replace the two results on top by their joint.
__device__ __forceinline__ uint32_t
join_results(predicate::Op op, uint32_t results)
{
	const uint32_t right = results & 1;

	return op == predicate::Op::kAnd ? results >> 1 & (~1u | right) : results >> 1 | right;
}

/// The results of all steps for the thread's rows: bit 0 of pass and sure.
__device__ void
evaluate_rows(const PassRows &args, uint32_t first, uint32_t *pass, uint32_t *sure)
{
	for (uint32_t i = 0; i < args.n_steps; i++)
	{
		const predicate::Step &step = args.steps[i];

		if (predicate::is_joint(step.op))
		{
#pragma unroll
			for (uint32_t r = 0; r < kRowsPerThread; r++)
			{
				pass[r] = join_results(step.op, pass[r]);
				sure[r] = join_results(step.op, sure[r]);
			}
			continue;
		}
#pragma unroll
		for (uint32_t r = 0; r < kRowsPerThread; r++)
		{
			predicate::Zone zone = predicate::row_zone(false, 0);

			if (predicate::has_stream(step.op))
			{
				const predicate::ColumnCodes &column = args.columns[step.stream];
				const uint32_t row = min(first + r * kThreads, args.n_rows - 1);

				zone = predicate::row_zone(is_null(column, row), load_code(column, row));
			}

			const predicate::Verdict verdict = predicate::judge_zone(step, zone);

			pass[r] = pass[r] << 1 | (verdict.pass == predicate::Share::kEvery ? 1 : 0);
			sure[r] = sure[r] << 1 | (verdict.sure == predicate::Share::kEvery ? 1 : 0);
		}
	}
}

/// Grid: blocks of rows, block 256. A block that its zones decide is not read. Writes pass, maybe, and in counts the
/// rows that pass and, 16 bits above, those that do certainly.
__global__ void __launch_bounds__(kThreads)
decide_rows_kernel(const PassRows args)
{
	__shared__ predicate::Verdict whole;
	__shared__ uint32_t count;
	const uint32_t first = blockIdx.x * kPassBlockRows + threadIdx.x;
	uint32_t pass[kRowsPerThread] = {};
	uint32_t sure[kRowsPerThread] = {};

	let_next_start();
	if (threadIdx.x == 0)
	{
		whole =
			predicate::judge_block({args.steps, args.n_steps, args.n_streams, false, false}, args.columns, blockIdx.x);
		count = 0;
	}
	__syncthreads();
	if (whole.pass == predicate::Share::kSome || whole.sure == predicate::Share::kSome)
		evaluate_rows(args, first, pass, sure);
	else
#pragma unroll
		for (uint32_t r = 0; r < kRowsPerThread; r++)
		{
			pass[r] = whole.pass == predicate::Share::kEvery ? 1 : 0;
			sure[r] = whole.sure == predicate::Share::kEvery ? 1 : 0;
		}
#pragma unroll
	for (uint32_t r = 0; r < kRowsPerThread; r++)
	{
		const bool is_row = first + r * kThreads < args.n_rows;
		const uint32_t passing = __ballot_sync(0xFFFFFFFFu, is_row && (pass[r] & 1) != 0);
		const uint32_t certain = __ballot_sync(0xFFFFFFFFu, is_row && (sure[r] & 1) != 0);
		const uint32_t word = (first + r * kThreads) / 32;

		if (threadIdx.x % 32 == 0)
		{
			args.pass[word] = passing;
			if (args.maybe != nullptr)
				args.maybe[word] = passing & ~certain;
			atomicAdd(&count, static_cast<uint32_t>(__popc(passing)) | static_cast<uint32_t>(__popc(certain)) << 16);
		}
	}
	__syncthreads();
	if (threadIdx.x == 0)
		args.counts[blockIdx.x] = count;
}

/// The sum of the numbers of the threads before this one in its block, of kSumThreads; *total: of all.
__device__ uint32_t
sum_before(uint32_t number, uint32_t *warps, uint32_t *total)
{
	const uint32_t lane = threadIdx.x % 32;
	uint32_t sum = number;

	for (uint32_t width = 1; width < 32; width *= 2)
	{
		const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, sum, width);

		sum += lane >= width ? other : 0;
	}
	if (lane == 31)
		warps[threadIdx.x / 32] = sum;
	__syncthreads();

	uint32_t before = 0;

	*total = 0;
	for (uint32_t w = 0; w < kSumThreads / 32; w++)
	{
		before += w < threadIdx.x / 32 ? warps[w] : 0;
		*total += warps[w];
	}
	__syncthreads(); // warps may be written again
	return before + sum - number;
}

/// One block of 1024. Replaces counts by the rows that pass in the blocks before, and writes the head.
__global__ void __launch_bounds__(kSumThreads)
sum_rows_kernel(const PassRows args, uint32_t n_blocks)
{
	__shared__ uint32_t warps[kSumThreads / 32];
	uint32_t n_pass = 0;
	uint32_t n_sure = 0;

	let_next_start();
	wait_for_stream();
	for (uint32_t first = 0; first < n_blocks; first += kSumThreads)
	{
		const uint32_t block = first + threadIdx.x;
		const uint32_t count = block < n_blocks ? args.counts[block] : 0;
		uint32_t total;
		const uint32_t before = sum_before(count & 0xFFFF, warps, &total);
		uint32_t certain;

		(void) sum_before(count >> 16, warps, &certain);
		if (block < n_blocks)
			args.counts[block] = n_pass + before;
		n_pass += total;
		n_sure += certain;
	}
	if (threadIdx.x == 0)
		*args.head = {n_pass, n_sure};
}

/// Grid ceil(blocks of rows / 8), block 256: a warp lists a block.
__global__ void __launch_bounds__(kThreads)
list_rows_kernel(const PassRows args, uint32_t n_blocks)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t block = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;

	wait_for_stream();
	if (block >= n_blocks || args.head->n_pass > args.n_most)
		return;

	uint32_t word = args.pass[block * kWordsPerBlock + lane];
	uint32_t at = __popc(word);
	const uint32_t own = at;

	for (uint32_t width = 1; width < 32; width *= 2)
	{
		const uint32_t other = __shfl_up_sync(0xFFFFFFFFu, at, width);

		at += lane >= width ? other : 0;
	}
	at += args.counts[block] - own;
	for (; word != 0; word &= word - 1)
		args.rows[at++] = block * kPassBlockRows + lane * 32 + __ffs(static_cast<int>(word)) - 1;
}

} // namespace

cudaError_t
launch_pass_rows(const PassRows &args, cudaStream_t stream)
{
	constexpr uint32_t kListed = kThreads / 32;
	const uint32_t n_blocks = (args.n_rows + kPassBlockRows - 1) / kPassBlockRows;

	if (n_blocks == 0)
		return cudaMemsetAsync(args.head, 0, sizeof(*args.head), stream); // an empty grid is an error
	decide_rows_kernel<<<n_blocks, kThreads, 0, stream>>>(args);
	if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
		return error;
	if (const cudaError_t error = launch_after(sum_rows_kernel, 1, kSumThreads, 0, stream, args, n_blocks);
		error != cudaSuccess)
		return error;
	return launch_after(list_rows_kernel, (n_blocks + kListed - 1) / kListed, kThreads, 0, stream, args, n_blocks);
}

} // namespace vectorgpu::kernels
