// Kernels of canonical scores, instantiated per metric by scores_<metric>.cu: all rows, and a filter's candidates.
#pragma once

#include "kernels/canonical/finish_many.cuh"
#include "kernels/canonical/rescore.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{

constexpr int kScoreThreads = 256;
constexpr int kScoreWarps = kScoreThreads / 32;

/// Grid (ceil(groups / 8), ceil(n_queries / Q)), block 256: a warp takes one group of rows and Q queries.
/// Writes keys of its rows and queries and the smallest key of the group. Reproducible.
template <Metric metric, class FormT, int Q>
__global__ void __launch_bounds__(kScoreThreads)
scores_kernel(const ScoreArgs args)
{
	constexpr int R = 32 / Q;
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t group = blockIdx.x * kScoreWarps + threadIdx.x / 32;
	const uint64_t first = static_cast<uint64_t>(group) * args.group_rows;
	const uint32_t first_query = blockIdx.y * Q;
	const Rows &rows = args.rows;

	let_next_start();
	wait_for_stream();
	if (first >= rows.n_rows)
		return;

	const uint32_t end = static_cast<uint32_t>(min(static_cast<uint64_t>(rows.n_rows), first + args.group_rows));
	const uint32_t n_queries = min(static_cast<uint32_t>(Q), args.queries.n_queries - first_query);
	const uint32_t dim_pad = args.queries.dim_pad;
	const float *queries =
		static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(first_query) * dim_pad;
	const uint32_t query = lane % Q;
	const bool query_used = query < n_queries;
	float aa = 0.0f;
	uint64_t smallest = kExcludedKey;

	if constexpr (metric == Metric::kCosine)
	{
		for (uint32_t q = 0; q < n_queries; q++)
		{
			const float sum = query_square_sum(queries + static_cast<size_t>(q) * dim_pad, dim_pad, lane);

			aa = q == query ? sum : aa;
		}
	}

	for (uint32_t base = static_cast<uint32_t>(first); base < end; base += R)
	{
		const char *block = static_cast<const char *>(rows.vectors);
		const double score = score_pairs<metric, FormT, R, Q>([&](int r)
			{ return block + static_cast<size_t>(min(base + r, end - 1)) * rows.pitch_bytes; }, queries, n_queries,
			dim_pad, aa, lane);
		const uint32_t row = base + lane / Q;

		if (query_used && row < end)
		{
			const uint64_t key = row_is_dead(rows, row)
				? kExcludedKey
				: key_after(score, args.queries, first_query + query, rows.row_ids, row);

			args.keys[(first_query + query) * args.key_stride + row] = key;
			smallest = min(smallest, key);
		}
	}
	if (args.minima == nullptr)
		return;
#pragma unroll
	for (int width = 16; width >= Q; width /= 2)
		smallest = min(smallest,
			static_cast<uint64_t>(__shfl_xor_sync(0xFFFFFFFFu, static_cast<unsigned long long>(smallest), width)));
	if (lane < n_queries)
		args.minima[static_cast<size_t>(first_query + lane) * kMaxGroups + group] = smallest;
}

/// Canonical keys of a query's candidates: warp `warp` of `n_warps`.
template <Metric metric, class FormT>
__device__ __forceinline__ void
rescore_candidates(const RescoreArgs &args, uint32_t query, uint32_t warp, uint32_t n_warps)
{
	rescore_candidates<metric, FormT>(args, query, warp, n_warps,
		[&](double score, uint32_t row) { return key_after(score, args.queries, query, args.rows.row_ids, row); });
}

/// Grid (n_queries, blocks of a query), block 128.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(128)
rescore_kernel(const RescoreArgs args)
{
	rescore_candidates<metric, FormT>(args, blockIdx.x, blockIdx.y * 4 + threadIdx.x / 32, gridDim.y * 4);
}

/// Finish a query with few candidates. False, and nothing has changed, if there are too many.
template <Metric metric, class FormT>
__device__ __forceinline__ bool
finish_query(const FilterSelect &select, const Rows &rows, uint32_t query, FinishScratch *scratch, FewFound *found)
{
	const float *vector =
		static_cast<const float *>(select.queries.vectors) + static_cast<size_t>(query) * select.queries.dim_pad;
	Entry *best = select.best.entries + static_cast<size_t>(query) * select.best.stride;
	FewCandidates candidates;
	const auto square_sum = [&]
	{ return metric == Metric::kCosine ? query_square_sum(vector, select.queries.dim_pad, threadIdx.x % 32) : 0.0f; };

	candidates.k = select.queries.k[query];
	candidates.count = select.candidates.counts[query];
	candidates.rows = select.candidates.rows + static_cast<size_t>(query) * select.candidates.capacity;
	candidates.estimates = select.candidates.estimates + static_cast<size_t>(query) * select.candidates.capacity;
	candidates.threshold = select.thresholds[query];
	candidates.size = query_size(select.prepared, query);
	candidates.best = best;
	candidates.n_best = select.best.counts[query];
	if (select.prepared.redo[query] != 0 || candidates.count > select.candidates.capacity ||
		candidates.count > kFewCandidates)
		return false;
	if (!finish_few<metric, FormT, WholeBlock>(
			select.bound, candidates, select.queries.dim_pad, square_sum,
			[&](uint32_t number, const Rows **of)
			{
				*of = &rows;
				return number;
			},
			[&](uint32_t e) { return __ldg(vector + e); }, [&](double score, const Rows &of, uint32_t row)
			{ return key_after(score, select.queries, query, of.row_ids, row); }, scratch, found))
		return false;
	for (uint32_t i = threadIdx.x; i < found->n_found; i += kMergeThreads)
		best[i] = scratch->entries[i];
	if (threadIdx.x == 0)
	{
		select.best.counts[query] = found->n_found;
		set_cut(select, query, found->n_kept, found->cut);
	}
	return true;
}

/// Finish a query by a block. True: scratch->entries has the result, too, and *found its numbers.
template <Metric metric, class FormT>
__device__ __forceinline__ bool
finish_by_block(
	const FilterSelect &select, const RescoreArgs &rescore, uint32_t query, FinishScratch *scratch, FewFound *found)
{
	if (finish_query<metric, FormT>(select, rescore.rows, query, scratch, found))
		return true;
	__syncthreads();
	tighten_block(select, query);
	rescore_candidates<metric, FormT>(rescore, query, threadIdx.x / 32, kMergeThreads / 32);
	__syncthreads();
	merge_block(
		rescore.queries, rescore.candidates, rescore.rows.row_ids, select.best, query, scratch->entries, kMergeLeast);
	return false;
}

/// Grid ceil(n_queries / 8), block 256: the steps after the filter in one launch, for small k and many queries. Those
/// with many candidates are left to the whole block.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kMergeThreads)
finish_many_kernel(const FilterSelect select, const RescoreArgs rescore)
{
	constexpr uint32_t kWarps = kMergeThreads / 32;
	__shared__ union
	{
		FinishScratch block;
		WarpFinishScratch warps[kWarps];
	} scratch;
	__shared__ bool left[kWarps];
	const uint32_t first = blockIdx.x * kWarps;
	const uint32_t warp = threadIdx.x / 32;

	let_next_start();
	wait_for_stream();

	const bool is_query = first + warp < select.queries.n_queries;
	const bool done =
		!is_query || finish_by_warp<metric, FormT>(select, rescore.rows, first + warp, &scratch.warps[warp]);

	if (threadIdx.x % 32 == 0)
		left[warp] = !done;
	__syncthreads();
	for (uint32_t i = 0; i < kWarps; i++)
		if (left[i])
		{
			FewFound found;

			(void) finish_by_block<metric, FormT>(select, rescore, first + i, &scratch.block, &found);
			__syncthreads(); // before the next uses the same memory
		}
}

/// Grid n_queries, block 256: the same with a block for each query.
template <Metric metric, class FormT>
__global__ void __launch_bounds__(kMergeThreads)
finish_kernel(const FilterSelect select, const RescoreArgs rescore, const Answers answers)
{
	__shared__ FinishScratch scratch;
	const uint32_t query = blockIdx.x;

	static_assert(kMergeThreads == kSelectThreads);
	let_next_start();
	wait_for_stream();

	FewFound found;
	const bool few = finish_by_block<metric, FormT>(select, rescore, query, &scratch, &found);

	if (answers.heads == nullptr)
		return;
	if (few)
	{
		give_answer<WholeBlock>(answers, query, scratch.entries, found.n_found, found.n_kept, false);
		return;
	}
	__syncthreads(); // counts are complete
	give_answer<WholeBlock>(answers, query, select.best.entries + static_cast<size_t>(query) * select.best.stride,
		select.best.counts[query], select.candidates.counts[query], select.prepared.redo[query] != 0);
}

template <Metric metric, class FormT>
cudaError_t
launch_scores_form(const ScoreArgs &args, cudaStream_t stream)
{
	const uint32_t n_groups = (args.rows.n_rows + args.group_rows - 1) / args.group_rows;
	const uint32_t blocks = (n_groups + kScoreWarps - 1) / kScoreWarps;
	const uint32_t n = args.queries.n_queries;

	// Queries per pass over the rows: more queries share loads, fewer waste less.
	if (n == 1)
		return launch_after(scores_kernel<metric, FormT, 1>, blocks, kScoreThreads, 0, stream, args);
	if (n == 2)
		return launch_after(scores_kernel<metric, FormT, 2>, blocks, kScoreThreads, 0, stream, args);
	if (n <= 4)
		return launch_after(scores_kernel<metric, FormT, 4>, blocks, kScoreThreads, 0, stream, args);
	return launch_after(scores_kernel<metric, FormT, 8>, dim3(blocks, (n + 7) / 8), kScoreThreads, 0, stream, args);
}

template <Metric metric>
cudaError_t
launch_scores_metric(const ScoreArgs &args, cudaStream_t stream)
{
	switch (args.rows.form)
	{
		case Form::kFloat32:
			return launch_scores_form<metric, Float32Form>(args, stream);
		case Form::kFloat16:
			return launch_scores_form<metric, Float16Form>(args, stream);
		case Form::kByte:
			return launch_scores_form<metric, ByteForm>(args, stream);
		case Form::kBit:
		case Form::kScaled:
			break;
	}
	return cudaErrorInvalidValue;
}

template <Metric metric>
cudaError_t
launch_rescore_metric(const RescoreArgs &args, cudaStream_t stream)
{
	// A block of a query handles 128 candidates a round; if there are many queries, one block each fills the device.
	const uint32_t blocks = args.queries.n_queries >= 512 ? 1 : 8;
	const dim3 grid(args.queries.n_queries, blocks);

	switch (args.rows.form)
	{
		case Form::kFloat32:
			rescore_kernel<metric, Float32Form><<<grid, 128, 0, stream>>>(args);
			break;
		case Form::kFloat16:
			rescore_kernel<metric, Float16Form><<<grid, 128, 0, stream>>>(args);
			break;
		case Form::kByte:
			rescore_kernel<metric, ByteForm><<<grid, 128, 0, stream>>>(args);
			break;
		case Form::kBit:
		case Form::kScaled:
			return cudaErrorInvalidValue;
	}
	return cudaGetLastError();
}

template <Metric metric>
cudaError_t
launch_finish_metric(const FilterSelect &select, const RescoreArgs &args, const Answers &answers, cudaStream_t stream)
{
	const uint32_t n = args.queries.n_queries;
	auto launch = [&]<class FormT>(FormT)
	{
		if (takes_many(select) && select.best.stride <= kManyMostK && answers.heads == nullptr)
			return launch_after(finish_many_kernel<metric, FormT>, (n + kMergeThreads / 32 - 1) / (kMergeThreads / 32),
				kMergeThreads, 0, stream, select, args);
		return launch_after(finish_kernel<metric, FormT>, n, kMergeThreads, 0, stream, select, args, answers);
	};

	switch (args.rows.form)
	{
		case Form::kFloat32:
			return launch(Float32Form{});
		case Form::kFloat16:
			return launch(Float16Form{});
		case Form::kByte:
			return launch(ByteForm{});
		case Form::kBit:
		case Form::kScaled:
			break;
	}
	return cudaErrorInvalidValue;
}

} // namespace vectorgpu::kernels
