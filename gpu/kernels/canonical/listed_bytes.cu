// Scores of listed rows of bytes by queries of bytes: products of four elements at a time (dp4a). All sums are whole
// numbers below 2^24, which a float holds, so the scores are the canonical ones. See README.md, "Listed rows".
#include "kernels/canonical/listed.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kTeam = 8; // threads of a row, 16 bytes each

/// A transposed butterfly over the threads of a team: each ends with the sum of its own number.
__device__ __forceinline__ int32_t
reduce_team(uint32_t (&sums)[kTeam], uint32_t lane)
{
#pragma unroll
	for (int width = kTeam / 2; width >= 1; width /= 2)
	{
		const bool upper = (lane & width) != 0;

#pragma unroll
		for (int i = 0; i < width; i++)
		{
			const uint32_t keep = upper ? sums[i + width] : sums[i];
			const uint32_t send = upper ? sums[i] : sums[i + width];

			sums[i] = keep + __shfl_xor_sync(0xFFFFFFFFu, send, width);
		}
	}
	return static_cast<int32_t>(sums[0]);
}

__device__ __forceinline__ uint32_t
dot_16(const uint4 &x, const uint4 &y, uint32_t sum)
{
	sum = __dp4a(x.x, y.x, sum);
	sum = __dp4a(x.y, y.y, sum);
	sum = __dp4a(x.z, y.z, sum);
	return __dp4a(x.w, y.w, sum);
}

/// The job's queries and rows as a warp takes them: S rows of a team at a time, for Q queries, so that S * Q sums are
/// one or two times kTeam.
template <Metric metric, int Q>
struct ListedBytes
{
	static constexpr uint32_t S = Q == 1 ? kTeam : 2;
	static constexpr uint32_t kRows = 32 / kTeam * S; // of the warp

	const ListedArgs &args;
	const ListedJob &job;
	const Rows &rows;
	uint32_t lane;

	/// sums [S][Q]: this thread's part of x · y, or, for L2, of 2 x · y − |y|². row: that of row `lane % kRows`.
	__device__ __forceinline__ void multiply(uint32_t row, uint32_t (&sums)[S * Q]) const
	{
		const uint32_t dim_pad = args.queries.dim_pad;
		const uint8_t *queries = args.bytes + static_cast<size_t>(job.first_query) * dim_pad;
		const uint8_t *block = static_cast<const uint8_t *>(rows.vectors);
		const uint8_t *own[S];
		uint32_t squares[S] = {};

#pragma unroll
		for (uint32_t i = 0; i < S * Q; i++)
			sums[i] = 0;
#pragma unroll
		for (uint32_t s = 0; s < S; s++)
			own[s] =
				block + static_cast<size_t>(__shfl_sync(0xFFFFFFFFu, row, lane / kTeam * S + s)) * rows.pitch_bytes;
		for (uint32_t at = lane % kTeam * 16; at < dim_pad; at += kTeam * 16)
		{
			uint4 values[S];

#pragma unroll
			for (uint32_t s = 0; s < S; s++)
				values[s] = __ldg(reinterpret_cast<const uint4 *>(own[s] + at));
#pragma unroll
			for (uint32_t q = 0; q < Q; q++)
			{
				const uint32_t query = Q == 1 ? 0 : min(q, job.n_queries - 1);
				const uint4 x = __ldg(reinterpret_cast<const uint4 *>(queries + query * dim_pad + at));

#pragma unroll
				for (uint32_t s = 0; s < S; s++)
					sums[s * Q + q] = dot_16(values[s], x, sums[s * Q + q]);
			}
			if constexpr (metric == Metric::kL2)
			{
#pragma unroll
				for (uint32_t s = 0; s < S; s++)
					squares[s] = dot_16(values[s], values[s], squares[s]);
			}
		}
		if constexpr (metric == Metric::kL2)
		{
#pragma unroll
			for (uint32_t i = 0; i < S * Q; i++)
				sums[i] = 2 * sums[i] - squares[i / Q]; // two's complement
		}
	}

	/// The key of a row for the job's query, from what multiply has left.
	__device__ __forceinline__ uint64_t key(int32_t sum, uint32_t query, uint32_t row) const
	{
		const uint32_t number = job.first_query + query;
		const int32_t score = metric == Metric::kL2 ? args.norms[number] - sum : sum;

		return row_is_dead(rows, row) ? kExcludedKey
									  : key_after(canonical_score<metric>(static_cast<float>(score), 0.0f, 0.0f),
											args.queries, number, rows.row_ids, row);
	}
};

/// Keys of a group of the job's rows.
template <Metric metric, int Q>
__device__ __forceinline__ void
score_bytes_group(const ListedArgs &args, const ListedJob &job, uint32_t group, uint32_t lane)
{
	using Bytes = ListedBytes<metric, Q>;
	constexpr uint32_t kSets = Bytes::S * Q / kTeam;
	const Bytes bytes{args, job, args.sources[job.source], lane};
	const uint32_t query = Q == 1 ? 0 : lane % kTeam;
	const bool is_used = query < job.n_queries;
	const ListedQuery &listed = args.listed[job.first_query + (is_used ? query : 0)];
	const uint32_t group_rows = listed.group_rows;
	const uint32_t first = group * group_rows;
	uint64_t *keys = args.keys + listed.first_key + static_cast<uint64_t>(job.group_of_query + group) * group_rows;
	uint64_t smallest = kExcludedKey;

	for (uint32_t base = 0; base < group_rows; base += Bytes::kRows)
	{
		const bool any = first + base < job.n_rows;
		const uint32_t row = any ? listed_row(job, min(first + base + lane % Bytes::kRows, job.n_rows - 1)) : 0;
		uint32_t sums[Bytes::S * Q];

		if (any)
			bytes.multiply(row, sums);
#pragma unroll
		for (uint32_t set = 0; set < kSets; set++)
		{
			// With one query a thread ends with a row of its own; else with a query of its own, and the team's rows.
			const uint32_t at = Q == 1 ? lane : lane / kTeam * Bytes::S + set;
			const uint32_t i = base + at;
			uint64_t key = kExcludedKey;

			if (any)
			{
				uint32_t own[kTeam];

#pragma unroll
				for (uint32_t j = 0; j < kTeam; j++)
					own[j] = sums[set * kTeam + j];

				const int32_t sum = reduce_team(own, lane);
				const uint32_t its_row = __shfl_sync(0xFFFFFFFFu, row, at);

				if (is_used && first + i < job.n_rows)
					key = bytes.key(sum, query, its_row);
			}
			if (is_used)
				keys[i] = key;
			smallest = min(smallest, key);
		}
	}
	put_minimum<Q>(args, job, group, smallest, lane);
}

/// As listed_scores_kernel, of byte rows.
template <Metric metric>
__global__ void __launch_bounds__(kListedThreads)
listed_bytes_kernel(const ListedArgs args)
{
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t group = blockIdx.x * kListedWarps + threadIdx.x / 32;

	let_next_start();
	wait_for_stream();
	if (group >= args.n_groups)
		return;

	const ListedJob job = args.jobs[find_job(args, group, lane)];

	if (args.sources[job.source].form != Form::kByte)
		return;
	if (job.n_queries == 1)
		score_bytes_group<metric, 1>(args, job, group - job.first_group, lane);
	else
		score_bytes_group<metric, kListedQueries>(args, job, group - job.first_group, lane);
}

static_assert(kListedQueries == kTeam);

} // namespace

cudaError_t
launch_listed_bytes(const ListedArgs &args, cudaStream_t stream)
{
	const uint32_t blocks = (args.n_groups + kListedWarps - 1) / kListedWarps;

	if (args.metric == Metric::kL2)
		return launch_after(listed_bytes_kernel<Metric::kL2>, blocks, kListedThreads, 0, stream, args);
	return launch_after(listed_bytes_kernel<Metric::kInnerProduct>, blocks, kListedThreads, 0, stream, args);
}

} // namespace vectorgpu::kernels
