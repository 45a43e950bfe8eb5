// Scan of RaBitQ's codes, a block (or several) to a query; codes_rabitq_scan.cuh has the work of a block.
#include "kernels/codes/codes_rabitq_scan.cuh"

namespace vectorgpu::kernels
{
namespace
{

/// Grid n_queries * n_splits. Dynamic shared memory: the query's state from kStateAt on, then entries [n_entries].
template <bool kRefines, int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
rabitq_scan_kernel(const CodedScanArgs args, uint32_t n_entries, uint32_t state_bytes)
{
	extern __shared__ __align__(16) uint8_t dynamic[];
	__shared__ RabitqShared<kThreads> held;
	const uint32_t query = blockIdx.x / args.n_splits;
	const uint32_t split = blockIdx.x % args.n_splits;
	Entry *entries = reinterpret_cast<Entry *>(dynamic + kStateAt + state_bytes);
	uint32_t fill = 0;

	let_next_start();
	wait_for_stream();

	const uint32_t k = args.wanted[query];
	const uint32_t n_probes = args.probes.counts[query];

	if (k > 0 && n_probes > 0)
	{
		constexpr uint32_t kWarps = kThreads / 32;
		RabitqScan<kRefines, kThreads> scan = {args, dynamic, &held, entries, threadIdx.x % 32};

		scan.set_most_fill(false, k, n_entries);
		if (threadIdx.x == 0)
		{
			held.slots.fill = 0;
			held.threshold = {kExcludedKey, 0};
			if (args.after != nullptr)
				held.after = args.after[query];
		}
		scan.read_state(
			args.prepared.states + static_cast<size_t>(query) * args.prepared.state_stride, dynamic, state_bytes);
		for (uint32_t probe = 0; probe < n_probes; probe += kCodeSlots)
		{
			const uint32_t n_chunks = load_code_slots(args, query, probe, &held.slots);

			scan.take_state();
			scan.scan_slots(k, n_entries, split * kWarps + threadIdx.x / 32, args.n_splits * kWarps, n_chunks);
		}
		fill = held.slots.fill;
		if (!scan.kSelects || fill != scan.n_sorted)
			fill = scan.sort_first(fill, k);
	}
	put_entries(args, query, split, entries, fill);
}

/// A power of two with room for `stride` candidates, as many new ones, and 32 of each warp besides.
uint32_t
rabitq_entries(uint32_t stride, uint32_t threads)
{
	const uint32_t most = stride + min(max(stride, kLeastGathered), threads) + threads;
	uint32_t n = threads;

	while (n < most)
		n *= 2;
	return n;
}

template <bool kRefines, int kThreads, int kBlocks>
cudaError_t
launch(const CodedScanArgs &args, cudaStream_t stream)
{
	const uint32_t n_entries = rabitq_entries(args.stride, kThreads);
	const uint32_t state_bytes = rabitq_shape(args.codes).state_bytes();

	return launch_after(rabitq_scan_kernel<kRefines, kThreads, kBlocks>, args.n_queries * args.n_splits, kThreads,
		kStateAt + state_bytes + n_entries * sizeof(Entry), stream, args, n_entries, state_bytes);
}

/// Few queries have few blocks, so these are large.
template <bool kRefines>
cudaError_t
launch_blocks(const CodedScanArgs &args, cudaStream_t stream)
{
	return args.n_splits > 1 ? launch<kRefines, kMostThreads, 2>(args, stream) : launch<kRefines, 256, 5>(args, stream);
}

template <bool kRefines, int kThreads, int kBlocks>
cudaError_t
prepare()
{
	return cudaFuncSetAttribute(rabitq_scan_kernel<kRefines, kThreads, kBlocks>,
		cudaFuncAttributeMaxDynamicSharedMemorySize,
		static_cast<int>(kCodeSharedBytes - sizeof(RabitqShared<kThreads>)));
}

} // namespace

size_t
rabitq_table_bytes(const Codes &codes)
{
	return rabitq_shape(codes).state_bytes();
}

// Whatever the dimensions: beside the candidates of a pass there is room for the tables of a query.
static_assert((kMaxDimensions + 31) / 32 * (128 + 32) + kTableAt + 4096 * sizeof(Entry) +
		sizeof(RabitqShared<kMostThreads>) + 1024 <=
	kCodeSharedBytes);

cudaError_t
launch_rabitq_scan(const CodedScanArgs &args, cudaStream_t stream)
{
	return args.codes.bits > 1 ? launch_blocks<true>(args, stream) : launch_blocks<false>(args, stream);
}

cudaError_t
prepare_rabitq_scan()
{
	cudaError_t error = prepare<true, 256, 5>();

	if (error == cudaSuccess)
		error = prepare<true, kMostThreads, 2>();
	if (error == cudaSuccess)
		error = prepare<false, 256, 5>();
	return error != cudaSuccess ? error : prepare<false, kMostThreads, 2>();
}

} // namespace vectorgpu::kernels
