// What follows the scan of codes if blocks share queries: the parts of a query's candidates joined. For few queries, in
// the same launch, canonical scores of the candidates and the merge into the results.
#include "kernels/canonical/finish.cuh"
#include "kernels/codes/codes_join.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kFinishThreads = 512;

// Bytes of candidates that one block reads in the time that the launches of more blocks take.
constexpr uint64_t kFinishBytes = uint64_t{512} << 10;

/// Dynamic shared memory of the kernels that join: two buffers, then the candidates' places if they are scored.
struct JoinRoom
{
	uint32_t lists;
	uint32_t even; // entries
	uint32_t odd;

	__host__ __device__ size_t bytes(uint32_t n_places) const
	{
		return (size_t{even} + odd) * sizeof(Entry) + n_places * sizeof(uint32_t);
	}
};

/// least: entries of the first buffer, whose size is a power of two, for a sort.
JoinRoom
join_room(const CodedScanArgs &args, uint32_t least)
{
	JoinRoom room{};

	room.lists = joined_lists(args.n_splits, args.stride);
	room.even = kRankedFirst;
	while (room.even < max(room.lists * args.stride, least))
		room.even *= 2;
	room.odd = (room.lists + 1) / 2 * args.stride;
	return room;
}

/// Grid n_queries, block 512: joins the candidates of all blocks of a query in order.
__global__ void __launch_bounds__(kFinishThreads)
join_parts_kernel(const CodedScanArgs args, JoinRoom room)
{
	extern __shared__ __align__(16) uint8_t dynamic[];
	__shared__ JoinScratch scratch;
	const uint32_t query = blockIdx.x;
	Entry *even = reinterpret_cast<Entry *>(dynamic);
	const Entry *entries = nullptr;

	wait_for_stream();

	const uint32_t n =
		join_parts(args, query, room.lists, true, {{even, even + room.even}, room.even, &scratch}, &entries);

	for (uint32_t i = threadIdx.x; i < n; i += kFinishThreads)
		put_candidate(args.found, query, i, entries[i]);
	if (threadIdx.x == 0)
	{
		args.found.counts[query] = n;
		if (n > 0)
			args.last[query] = entries[n - 1];
	}
}

/// How coded_finish_kernel makes entries of the candidates: canonical scores.
template <Metric metric, class FormT>
struct ScoredCandidates
{
	/// Set entries [n] of shared memory, excluded ones too, and add the others to *n_valid. By all threads, after a
	/// barrier.
	static __device__ __forceinline__ void put(const RescoreArgs &args, uint32_t query, const Entry *,
		const uint32_t *places, uint32_t n, Entry *entries, uint32_t *n_valid)
	{
		const uint32_t lane = threadIdx.x % 32;
		const uint32_t warp = threadIdx.x / 32;
		constexpr uint32_t kWarps = kFinishThreads / 32;
		const uint32_t dim_pad = args.queries.dim_pad;
		const float *vector = static_cast<const float *>(args.queries.vectors) + static_cast<size_t>(query) * dim_pad;
		const float aa = metric == Metric::kCosine ? query_square_sum(vector, dim_pad, lane) : 0.0f;
		const auto place_of = [&](uint32_t place, const Rows **of)
		{
			*of = &args.rows;
			return place;
		};
		const auto query_at = [&](uint32_t e) { return __ldg(vector + e); };
		const auto key_of = [&](double score, const Rows &rows, uint32_t place)
		{
			const uint64_t key = key_after(score, args.queries, query, rows.row_ids, place);

			return key == kNanKey || row_is_dead(rows, place) ? kExcludedKey : key;
		};

		auto score = [&]<int kRows>() // that a warp scores together: as few as let all have a turn at once
		{
			score_rows<metric, FormT, kRows>(
				places, n, warp, kWarps, dim_pad, aa, place_of, query_at, key_of, entries, n_valid);
		};

		if (n <= 2 * kWarps)
			score.template operator()<2>();
		else if (n <= 4 * kWarps)
			score.template operator()<4>();
		else
			score.template operator()<8>();
	}
};

/// Their estimates, as code_keep_kernel.
struct KeptCandidates
{
	static __device__ __forceinline__ void put(const RescoreArgs &args, uint32_t query, const Entry *joined,
		const uint32_t *, uint32_t n, Entry *entries, uint32_t *n_valid)
	{
		for (uint32_t i = threadIdx.x; i < n; i += kFinishThreads)
		{
			const Entry entry = joined[i];
			const uint32_t place = static_cast<uint32_t>(entry.row);
			const uint64_t key = entry.key == kNanEstimateKey ? kNanKey : entry.key;
			const bool counts = is_after(args, query, key, place) && !row_is_dead(args.rows, place);

			entries[i] = counts ? Entry{key, args.rows.row_ids[place]} : Entry{kExcludedKey, kExcludedKey};
			if (counts)
				atomicAdd(n_valid, 1u);
		}
	}
};

/// Grid n_queries, block 512. See CodedFinishArgs.
template <class Candidates>
__global__ void __launch_bounds__(kFinishThreads)
coded_finish_kernel(const CodedFinishArgs args, JoinRoom room)
{
	extern __shared__ __align__(16) uint8_t dynamic[];
	__shared__ JoinScratch scratch;
	__shared__ uint32_t n_valid;
	const uint32_t query = blockIdx.x;
	Entry *entries = reinterpret_cast<Entry *>(dynamic);
	uint32_t *places = reinterpret_cast<uint32_t *>(entries + room.even + room.odd);
	const Entry *joined = nullptr;

	let_next_start();
	wait_for_stream();

	const uint32_t k = args.refine.queries.k[query];
	const uint32_t n_best = args.best.counts[query];
	Entry *best = args.best.entries + static_cast<size_t>(query) * args.best.stride;
	const uint32_t n =
		join_parts(args.scan, query, room.lists, false, {{entries, entries + room.even}, room.even, &scratch}, &joined);

	if (args.scores)
		for (uint32_t i = threadIdx.x; i < n; i += kFinishThreads)
			places[i] = static_cast<uint32_t>(joined[i].row);
	if (threadIdx.x == 0)
		n_valid = 0;
	__syncthreads(); // the joined entries may be overwritten from here on, each by its own thread
	Candidates::put(args.refine, query, joined, places, n, entries, &n_valid);
	for (uint32_t i = threadIdx.x; i < n_best; i += kFinishThreads)
		entries[n + i] = best[i];
	if (n + n_best <= kRankedFirst)
	{
		rank_entries<WholeBlock>(entries, n + n_best); // begins with a barrier, as flush_entries
		__syncthreads();
	}
	else
		(void) flush_entries(entries, n + n_best, k);

	const uint32_t n_found = min(k, n_valid + n_best);

	for (uint32_t i = threadIdx.x; i < n_found; i += kFinishThreads)
		best[i] = entries[i];
	if (threadIdx.x == 0)
	{
		args.best.counts[query] = n_found;
		if (args.n_scored != nullptr)
			args.n_scored[query] += n;
	}
	if (args.answers.heads != nullptr)
		give_answer<WholeBlock>(
			args.answers, query, entries, n_found, args.n_scored != nullptr ? args.n_scored[query] : 0, false);
}

template <class Candidates>
cudaError_t
finish(const CodedFinishArgs &args, cudaStream_t stream)
{
	const JoinRoom room = join_room(args.scan, args.scan.stride + args.max_k);

	return launch_after(coded_finish_kernel<Candidates>, args.scan.n_queries, kFinishThreads,
		room.bytes(args.scores ? args.scan.stride : 0), stream, args, room);
}

template <Metric metric>
cudaError_t
finish_metric(const CodedFinishArgs &args, cudaStream_t stream)
{
	switch (args.refine.rows.form)
	{
		case Form::kFloat32:
			return finish<ScoredCandidates<metric, Float32Form>>(args, stream);
		case Form::kFloat16:
			return finish<ScoredCandidates<metric, Float16Form>>(args, stream);
		case Form::kByte:
			return finish<ScoredCandidates<metric, ByteForm>>(args, stream);
		case Form::kBit:
		case Form::kScaled:
			break;
	}
	return cudaErrorInvalidValue;
}

template <class Kernel>
cudaError_t
prepare_join(Kernel kernel)
{
	return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		static_cast<int>(kCodeSharedBytes - sizeof(JoinScratch) - 1024));
}

template <Metric metric>
cudaError_t
prepare_finish_metric()
{
	cudaError_t error = prepare_join(coded_finish_kernel<ScoredCandidates<metric, Float32Form>>);

	if (error == cudaSuccess)
		error = prepare_join(coded_finish_kernel<ScoredCandidates<metric, Float16Form>>);
	return error != cudaSuccess ? error : prepare_join(coded_finish_kernel<ScoredCandidates<metric, ByteForm>>);
}

// Whatever the candidates: the lists held at a time, the merges of these, and the places fit; so do the candidates and
// what was found before.
static_assert((kJoinedEntries + kJoinedEntries / 2 + kMostPassCandidates) * sizeof(Entry) +
		kMostPassCandidates * sizeof(uint32_t) + sizeof(JoinScratch) + 1024 <=
	kCodeSharedBytes);
static_assert(kJoinedEntries >= 2 * kMostPassCandidates && kMaxSelectK == kMostPassCandidates);

} // namespace

cudaError_t
launch_join_parts(const CodedScanArgs &args, cudaStream_t stream)
{
	const JoinRoom room = join_room(args, 1);

	if (args.n_queries == 0)
		return cudaSuccess;
	return launch_after(join_parts_kernel, args.n_queries, kFinishThreads, room.bytes(0), stream, args, room);
}

bool
coded_finish_pays(const Rows &rows, uint32_t stride, uint32_t max_k)
{
	return max_k <= kMaxSelectK && uint64_t{stride} * rows.pitch_bytes <= kFinishBytes;
}

cudaError_t
launch_coded_finish(const CodedFinishArgs &args, cudaStream_t stream)
{
	if (args.scan.n_queries == 0)
		return cudaSuccess;
	if (!args.scores)
		return finish<KeptCandidates>(args, stream);
	switch (args.scan.metric)
	{
		case Metric::kL2:
			return finish_metric<Metric::kL2>(args, stream);
		case Metric::kInnerProduct:
			return finish_metric<Metric::kInnerProduct>(args, stream);
		case Metric::kCosine:
			return finish_metric<Metric::kCosine>(args, stream);
		case Metric::kL1:
			return finish_metric<Metric::kL1>(args, stream);
		default:
			return cudaErrorInvalidValue;
	}
}

cudaError_t
prepare_code_finish()
{
	cudaError_t error = prepare_join(join_parts_kernel);

	if (error == cudaSuccess)
		error = prepare_join(coded_finish_kernel<KeptCandidates>);
	if (error == cudaSuccess)
		error = prepare_finish_metric<Metric::kL2>();
	if (error == cudaSuccess)
		error = prepare_finish_metric<Metric::kInnerProduct>();
	if (error == cudaSuccess)
		error = prepare_finish_metric<Metric::kCosine>();
	return error != cudaSuccess ? error : prepare_finish_metric<Metric::kL1>();
}

} // namespace vectorgpu::kernels
