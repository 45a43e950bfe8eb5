// Scan of RaBitQ's codes. A thread takes a row: its signs by look-ups in the query's byte table [groups of four, 16],
// four banks a group, so that look-ups never collide; their sum is a whole number. Rows whose bound by the signs is not
// after the threshold get their score by all bits, a warp to a row: a product of its other bits with the query's int8
// elements, a whole number too. So scores have the bits of engine/ivf's rabitq_scores, whatever the threshold.
#include "common/limits.hpp"
#include "kernels/codes/codes_rabitq.cuh"
#include "kernels/codes/codes_scan.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr int kRabitqThreads = 512;
constexpr int kRowsBeside = 4; // rows that a warp refines at a time: their reads overlap

/// Dynamic shared memory: the query's state (RabitqShape::state_bytes).
template <bool Refines>
struct Rabitq
{
	static constexpr int kThreads = kRabitqThreads;
	static constexpr int kBlocks = 2;
	static constexpr bool kRefines = Refines;

	float base;           // of the sums by signs, with the slack of a bound
	float scale;          // of them
	uint32_t sum = 0;     // of the lane's row
	float distance = 0.f; // Codes::deviations of the list

	__device__ __forceinline__ void prepare(const CodedScanArgs &args, uint32_t query, uint8_t *tables)
	{
		const float *from = args.prepared.states + static_cast<size_t>(query) * args.prepared.state_stride;
		const uint32_t n = rabitq_shape(args.codes).state_bytes() / 16;

		for (uint32_t i = threadIdx.x; i < n; i += kThreads)
			reinterpret_cast<uint4 *>(tables)[i] = __ldg(reinterpret_cast<const uint4 *>(from) + i);
		__syncthreads();

		const RabitqState &state = *reinterpret_cast<const RabitqState *>(tables);

		base = __fadd_rn(state.table_base, kRefines ? state.table_slack : 0.0f);
		scale = state.table_scale;
	}

	static __device__ __forceinline__ uint32_t add_word(const uint8_t *table, uint32_t word, uint32_t sum)
	{
		const uint32_t even = word & 0x0F0F0F0Fu;
		const uint32_t odd = (word >> 4) & 0x0F0F0F0Fu;

#pragma unroll
		for (uint32_t i = 0; i < 4; i++) // a byte is brought out in one instruction, four bits are not
			sum +=
				table[i * 32 + __byte_perm(even, 0, 0x4440 + i)] + table[i * 32 + 16 + __byte_perm(odd, 0, 0x4440 + i)];
		return sum;
	}

	/// The block with a place.
	static __device__ __forceinline__ const uint8_t *block_of(const Codes &codes, uint32_t place)
	{
		return codes.codes + static_cast<size_t>(place / kCodeRows) * kCodeRows * codes.pitch_bytes;
	}

	static __device__ __forceinline__ const float *factors_of(const Codes &codes, uint32_t place)
	{
		return reinterpret_cast<const float *>(block_of(codes, place) + rabitq_shape(codes).sign_bytes() * kCodeRows) +
			place % kCodeRows;
	}

	/// As rabitq_bounds, less the list's constant.
	__device__ __forceinline__ double estimate(
		const CodedScanArgs &args, uint32_t, const uint8_t *tables, uint32_t first, uint32_t end, uint32_t lane)
	{
		const uint32_t place = min(first + lane, end - 1);
		const uint32_t n_words = rabitq_shape(args.codes).sign_words();
		const uint4 *signs = reinterpret_cast<const uint4 *>(block_of(args.codes, place)) + place % kCodeRows;
		const float *factors = factors_of(args.codes, place);

		sum = 0;
		tables += sizeof(RabitqState);
		for (uint32_t w = 0; w < n_words; w += 4, signs += kCodeRows, tables += 512)
		{
			const uint4 four = __ldg(signs);

			sum = add_word(tables, four.x, sum);
			if (w + 1 < n_words)
				sum = add_word(tables + 128, four.y, sum);
			if (w + 2 < n_words)
				sum = add_word(tables + 256, four.z, sum);
			if (w + 3 < n_words)
				sum = add_word(tables + 384, four.w, sum);
		}

		const float product = __fadd_rn(base, __fmul_rn(scale, __int2float_rn(static_cast<int>(sum))));
		float bound = __fadd_rn(__ldg(factors), __fmul_rn(__ldg(factors + kCodeRows), product));

		if constexpr (kRefines)
			bound = __fsub_rn(bound, __fmul_rn(__ldg(factors + 2 * kCodeRows), distance));
		return static_cast<double>(bound);
	}

	/// The numbers below the signs of dimensions 4 g ... 4 g + 3, as bytes. rest: of a row.
	static __device__ __forceinline__ int four_numbers(const RabitqShape &shape, const uint32_t *rest, uint32_t g)
	{
		uint32_t numbers = 0;

		if ((shape.rest & 4) != 0)
			numbers = (__ldg(rest + g / 2) >> (g % 2 * 4)) & 0x0F0F0F0Fu;
		rest += shape.part_words(4);
		if ((shape.rest & 2) != 0)
			numbers |= ((__ldg(rest + g / 4) >> (g % 4 * 2)) & 0x03030303u) << (shape.rest & 4);
		rest += shape.part_words(2);
		if ((shape.rest & 1) != 0)
			numbers |= ((__ldg(rest + g / 8) >> (g % 8)) & 0x01010101u) << (shape.rest & 6);
		return static_cast<int>(numbers);
	}

	/// Products of the first N rows of `near` with the query's elements; the lane of such a row has its own.
	template <int N>
	static __device__ __forceinline__ void multiply(
		const Codes &codes, const int *elements, uint32_t first, uint32_t &near, uint32_t lane, int &product)
	{
		const RabitqShape shape = rabitq_shape(codes);
		const uint32_t *rest[N];
		uint32_t rows[N];
		int sums[N];

#pragma unroll
		for (int i = 0; i < N; i++, near &= near - 1)
		{
			const uint32_t row = static_cast<uint32_t>(__ffs(static_cast<int>(near)) - 1);
			const uint32_t place = first + row;
			const uint8_t *block = block_of(codes, place) + shape.sign_bytes() * kCodeRows;

			rows[i] = row;
			sums[i] = 0;
			rest[i] = reinterpret_cast<const uint32_t *>(block) + shape.n_factors() * kCodeRows +
				place % kCodeRows * shape.rest_words();
		}
		for (uint32_t g = lane; g < shape.padded_dim / 4; g += 32)
		{
			const int four = elements[g];

#pragma unroll
			for (int i = 0; i < N; i++)
				sums[i] = __dp4a(four_numbers(shape, rest[i], g), four, sums[i]);
		}
#pragma unroll
		for (int i = 0; i < N; i++)
		{
			const int sum = __reduce_add_sync(0xFFFFFFFFu, sums[i]);

			product = lane == rows[i] ? sum : product;
		}
	}

	/// The scores of the lanes with `near`: the larger of bound and full estimate, as rabitq_scores. By all lanes of a
	/// warp.
	__device__ __forceinline__ double refine(const CodedScanArgs &args, const uint8_t *tables, uint32_t first,
		bool near, double bound, double constant, uint32_t lane)
	{
		const RabitqState &state = *reinterpret_cast<const RabitqState *>(tables);
		const int *elements =
			reinterpret_cast<const int *>(tables + sizeof(state) + rabitq_shape(args.codes).table_bytes());
		uint32_t left = __ballot_sync(0xFFFFFFFFu, near);
		int product = 0;

		while (__popc(left) >= kRowsBeside)
			multiply<kRowsBeside>(args.codes, elements, first, left, lane, product);
		while (left != 0)
			multiply<1>(args.codes, elements, first, left, lane, product);
		if (!near)
			return bound;

		const float *factors = factors_of(args.codes, first + lane);
		const double half = static_cast<double>(1u << (args.codes.bits - 1)) / 2.0;
		const double by_signs = __dadd_rn(static_cast<double>(state.table_base),
			__dmul_rn(static_cast<double>(state.table_scale), static_cast<double>(sum)));
		const double u = __dsub_rn(
			__dadd_rn(__dmul_rn(2.0 * half, by_signs), __dmul_rn(static_cast<double>(product), state.element_scale)),
			__dmul_rn(half - 0.5, state.element_sum));
		const double own = __dadd_rn(static_cast<double>(__ldg(factors + 3 * kCodeRows)),
			__dmul_rn(static_cast<double>(__ldg(factors + 4 * kCodeRows)), u));
		const double full = __dadd_rn(constant, own);

		return bound > full ? bound : full; // NaN if `full` is
	}
};

} // namespace

size_t
rabitq_table_bytes(const Codes &codes)
{
	return rabitq_shape(codes).state_bytes();
}

// Whatever the dimensions: beside the candidates of a pass there is room for the tables of a query.
static_assert(
	(kMaxDimensions + 31) / 32 * (128 + 32) + sizeof(RabitqState) + 4096 * sizeof(Entry) + sizeof(CodeSlots) + 1024 <=
	kCodeSharedBytes);

cudaError_t
launch_rabitq_scan(const CodedScanArgs &args, cudaStream_t stream)
{
	return args.codes.bits > 1 ? launch_code_estimator<Rabitq<true>, true>(args, stream)
							   : launch_code_estimator<Rabitq<false>, true>(args, stream);
}

cudaError_t
prepare_rabitq_scan()
{
	const cudaError_t error = prepare_code_estimator<Rabitq<true>, true>();

	return error != cudaSuccess ? error : prepare_code_estimator<Rabitq<false>, true>();
}

} // namespace vectorgpu::kernels
