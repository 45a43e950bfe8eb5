// RaBitQ's queries made ready on the device, with the bits of engine/ivf's rabitq_prepare.
#include <cmath>

#include "common/limits.hpp"
#include "kernels/codes/codes_queries.cuh"
#include "kernels/codes/codes_rabitq.cuh"
#include "kernels/warp_block/launch.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWholeRounds = 3; // of the rotation, if the dimensions are a power of two (engine/ivf)
constexpr uint32_t kRounds = 6;
constexpr uint32_t kWarp = 32;

/// 64 signs of a round of the rotation, as in engine/ivf.
__device__ __forceinline__ uint64_t
signs_of(uint64_t seed, uint32_t round, uint32_t word)
{
	uint64_t x = (seed * kRounds + round + 1) * 0x9E3779B97F4A7C15ull + word * 0xD1B54A32D192ED03ull;

	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
	return x ^ (x >> 31);
}

/// The steps of the spans 1 ... kEach / 2 of kEach numbers.
template <int kEach>
__device__ __forceinline__ void
hadamard_steps(float (&v)[kEach])
{
#pragma unroll
	for (int half = 1; half < kEach; half *= 2)
#pragma unroll
		for (int i = 0; i < kEach; i++)
			if ((i & half) == 0)
			{
				const float a = v[i];
				const float b = v[i + half];

				v[i] = __fadd_rn(a, b);
				v[i + half] = __fsub_rn(a, b);
			}
}

/// The steps of the spans half ... kEach / 2 * half of x [n], in registers. By all threads; ends with a barrier.
template <int kEach>
__device__ __forceinline__ void
hadamard_spans(float *x, uint32_t n, uint32_t half)
{
	for (uint32_t i = threadIdx.x; i < n / kEach; i += kThreads)
	{
		float *at = x + i / half * (kEach * half) + i % half;
		float v[kEach];

#pragma unroll
		for (int j = 0; j < kEach; j++)
			v[j] = at[j * half];
		hadamard_steps(v);
#pragma unroll
		for (int j = 0; j < kEach; j++)
			at[j * half] = v[j];
	}
	__syncthreads();
}

/// The steps of x [n], n a power of two, from span 8 on: three of them between two barriers.
__device__ __forceinline__ void
hadamard_beyond_eight(float *x, uint32_t n)
{
	for (uint32_t half = 8; half < n; half *= 8)
		if (n / half >= 8)
			hadamard_spans<8>(x, n, half);
		else if (n / half == 4)
			hadamard_spans<4>(x, n, half);
		else
			hadamard_spans<2>(x, n, half);
}

/// Eight elements with the signs of `bits`; within a window also the steps of spans 1, 2 and 4, and the factor.
__device__ __forceinline__ void
begin_eight(float *x, uint32_t bits, bool in_window, float factor)
{
	float4 *halves = reinterpret_cast<float4 *>(x);
	const float4 low = halves[0];
	const float4 high = halves[1];
	float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};

#pragma unroll
	for (int i = 0; i < 8; i++)
		v[i] = __uint_as_float(__float_as_uint(v[i]) ^ ((bits >> i) & 1u) << 31);
	if (in_window)
	{
		hadamard_steps(v);
#pragma unroll
		for (int i = 0; i < 8; i++)
			v[i] = __fmul_rn(v[i], factor);
	}
	halves[0] = {v[0], v[1], v[2], v[3]};
	halves[1] = {v[4], v[5], v[6], v[7]};
}

struct Rotation
{
	uint32_t window; // elements of a Hadamard transform
	uint32_t n_rounds;
	float factor; // of a transform
	float root;   // √½
};

/// Rotate x [n], aligned to 16 bytes, as rotate_randomly. By all threads, after a barrier; ends with one.
__device__ void
rotate(const Rotation &rotation, uint64_t seed, float *x, uint32_t n)
{
	for (uint32_t round = 0; round < rotation.n_rounds; round++)
	{
		const uint32_t first = round % 2 == 0 ? 0 : n - rotation.window; // of the window

		for (uint32_t i = 8 * threadIdx.x; i < n; i += 8 * kThreads)
			begin_eight(x + i, static_cast<uint32_t>(signs_of(seed, round, i / 64) >> (i % 64)) & 0xFF,
				i - first < rotation.window, rotation.factor);
		__syncthreads();
		hadamard_beyond_eight(x + first, rotation.window);
		if (rotation.window == n)
			continue;
		for (uint32_t i = threadIdx.x; i < n / 2; i += kThreads)
		{
			const float a = x[i];
			const float b = x[n / 2 + i];

			x[i] = __fmul_rn(__fadd_rn(a, b), rotation.root);
			x[n / 2 + i] = __fmul_rn(__fsub_rn(a, b), rotation.root);
		}
		__syncthreads();
	}
}

/// Join the sums of a warp's lanes as engine/ivf's LaneSum. Lane 0 gets the sum.
__device__ __forceinline__ double
join_lanes(double sum)
{
#pragma unroll
	for (int half = kWarp / 2; half > 0; half /= 2)
		sum = __dadd_rn(sum, __shfl_down_sync(0xFFFFFFFFu, sum, half));
	return sum;
}

/// Σ of the magnitudes of four elements.
__device__ __forceinline__ double
range_of(const float *x)
{
	double range = 0.0;

#pragma unroll
	for (int d = 0; d < 4; d++)
		range = __dadd_rn(range, fabs(static_cast<double>(x[d])));
	return range;
}

/// What all threads need of a query.
struct Totals
{
	double square; // of its length
	double sum;    // of the ranges of groups of four
	double widest; // of them
	float largest; // magnitude
	int element_sum;
};

/// Between the query and the centre.
__device__ __forceinline__ double
distance_of(const Totals &totals)
{
	return __dsqrt_rn(totals.square);
}

/// By the first three warps.
__device__ void
find_totals(const float *x, uint32_t n, Totals *totals)
{
	const uint32_t lane = threadIdx.x % kWarp;

	if (threadIdx.x < kWarp)
	{
		double square = 0.0;

		for (uint32_t i = lane; i < n; i += kWarp)
			square = __dadd_rn(square, __dmul_rn(static_cast<double>(x[i]), static_cast<double>(x[i])));
		square = join_lanes(square);
		if (lane == 0)
			totals->square = square;
	}
	else if (threadIdx.x < 2 * kWarp)
	{
		double sum = 0.0;
		double widest = 0.0;

		for (uint32_t j = lane; j < n / 4; j += kWarp)
		{
			const double range = range_of(x + 4 * j);

			sum = __dadd_rn(sum, range);
			widest = widest < range ? range : widest;
		}
		sum = join_lanes(sum);
#pragma unroll
		for (int half = kWarp / 2; half > 0; half /= 2)
		{
			const double other = __shfl_down_sync(0xFFFFFFFFu, widest, half);

			widest = widest < other ? other : widest;
		}
		if (lane == 0)
		{
			totals->sum = sum;
			totals->widest = widest;
		}
	}
	else if (threadIdx.x < 3 * kWarp)
	{
		float largest = 0.0f;

		for (uint32_t i = lane; i < n; i += kWarp)
			largest = largest < fabsf(x[i]) ? fabsf(x[i]) : largest;
#pragma unroll
		for (int half = kWarp / 2; half > 0; half /= 2)
		{
			const float other = __shfl_down_sync(0xFFFFFFFFu, largest, half);

			largest = largest < other ? other : largest;
		}
		if (lane == 0)
		{
			totals->largest = largest;
			totals->element_sum = 0;
		}
	}
}

/// The 16 bytes of a group of four elements, as make_table.
__device__ __forceinline__ uint4
table_group(const float *x, double inverse)
{
	double excess[16];
	uint32_t words[4] = {};

	excess[0] = 0.0;
#pragma unroll
	for (int d = 0; d < 4; d++)
	{
		const double opposite = -static_cast<double>(x[d]);

		excess[0] = __dadd_rn(excess[0], opposite < 0.0 ? 0.0 : opposite);
	}
#pragma unroll
	for (int d = 0; d < 4; d++)
#pragma unroll
		for (int i = 0; i < 1 << d; i++)
			excess[i + (1 << d)] = __dadd_rn(excess[i], static_cast<double>(x[d]));
#pragma unroll
	for (int i = 0; i < 16; i++)
		words[i / 4] |=
			static_cast<uint32_t>(min(255, __double2int_rz(__dadd_rn(__dmul_rn(excess[i], inverse), 0.5))) & 0xFF)
			<< (i % 4 * 8);
	return make_uint4(words[0], words[1], words[2], words[3]);
}

/// An element as int8, as make_elements.
__device__ __forceinline__ int
element_of(float x, double scale)
{
	const double level = __ddiv_rn(static_cast<double>(x), scale);
	const double rounded = level < 0.0 ? __dsub_rn(level, 0.5) : __dadd_rn(level, 0.5);

	return __double2int_rz(rounded < -127.0 ? -127.0 : rounded > 127.0 ? 127.0 : rounded);
}

/// The query's state from its rotated elements x: head, table and elements, to shared memory. By all threads, after
/// find_totals and a barrier; ends with one.
__device__ void
make_state(const Codes &codes, const RabitqShape &shape, const float *x, Totals *totals, uint8_t *state)
{
	uint4 *table = reinterpret_cast<uint4 *>(state + sizeof(RabitqState));
	int8_t *elements = reinterpret_cast<int8_t *>(state + sizeof(RabitqState) + shape.table_bytes());
	const uint32_t n = shape.padded_dim;
	const double table_scale = isfinite(totals->sum) ? __ddiv_rn(totals->widest, 255.0) : 0.0;
	const double element_scale =
		isfinite(distance_of(*totals)) ? __ddiv_rn(static_cast<double>(totals->largest), 127.0) : 0.0;
	const double inverse = table_scale > 0.0 ? __ddiv_rn(1.0, table_scale) : 0.0;
	int element_sum = 0;

	for (uint32_t j = threadIdx.x; j < shape.table_bytes() / 16; j += kThreads)
		table[j] = table_scale > 0.0 && j < n / 4 ? table_group(x + 4 * j, inverse) : make_uint4(0, 0, 0, 0);
	for (uint32_t d = threadIdx.x; d < shape.element_bytes(); d += kThreads)
	{
		const int element = element_scale > 0.0 && d < n ? element_of(x[d], element_scale) : 0;

		elements[d] = static_cast<int8_t>(element);
		element_sum += element;
	}
	element_sum = __reduce_add_sync(0xFFFFFFFFu, element_sum);
	if (threadIdx.x % kWarp == 0)
		atomicAdd(&totals->element_sum, element_sum);
	__syncthreads();
	if (threadIdx.x == 0)
	{
		const double slack = __dmul_rn(
			__dmul_rn(codes.deviations, table_scale), __dsqrt_rn(__ddiv_rn(static_cast<double>(n / 4), 12.0)));
		RabitqState head;

		head.element_scale = element_scale;
		head.element_sum = __dmul_rn(static_cast<double>(totals->element_sum), element_scale);
		head.table_scale = __double2float_rn(table_scale);
		head.table_base = __double2float_rn(__dmul_rn(-totals->sum, 0.5));
		head.table_slack = __double2float_rn(slack);
		head.unused = 0;
		*reinterpret_cast<RabitqState *>(state) = head;
	}
	__syncthreads();
}

/// Grid n_queries, block 256, dynamic shared memory: padded_dim floats, then the query's state.
__global__ void __launch_bounds__(kThreads)
rabitq_queries_kernel(Metric metric, const Codes codes, const Queries queries, const CodePasses passes,
	const CodeQueries prepared, Rotation rotation, bool after_select)
{
	extern __shared__ __align__(16) float rotated[];
	__shared__ Totals totals;
	__shared__ double shared_scale;
	const RabitqShape shape = rabitq_shape(codes);
	const uint32_t n = shape.padded_dim;
	const uint32_t query = blockIdx.x;
	const float *vector = static_cast<const float *>(queries.vectors) + static_cast<size_t>(query) * queries.dim_pad;
	const float seed = codes.model[codes.dim];
	uint4 *state = reinterpret_cast<uint4 *>(rotated + n); // n is a multiple of 8
	uint4 *to = reinterpret_cast<uint4 *>(prepared.states + static_cast<size_t>(query) * prepared.state_stride);

	let_next_start();
	if (!after_select)
		wait_for_stream();

	// Up to the next wait only the query and the model are read, and nothing is written.
	const double scale = unit_scale(metric, vector, codes.dim, &shared_scale);

	for (uint32_t d = threadIdx.x; d < n; d += kThreads)
		rotated[d] = d < codes.dim ? __fsub_rn(unit_of(vector[d], scale), codes.model[d]) : 0.0f;
	__syncthreads();
	rotate(rotation, seed >= 0.0f && seed < 16777216.0f ? static_cast<uint64_t>(seed) : 0, rotated, n);
	find_totals(rotated, n, &totals);
	__syncthreads();
	make_state(codes, shape, rotated, &totals, reinterpret_cast<uint8_t *>(state));
	wait_for_stream();
	for (uint32_t i = threadIdx.x; i < shape.state_bytes() / 16; i += kThreads)
		to[i] = state[i];
	if (threadIdx.x == 0)
	{
		begin_passes(passes, query);
		prepared.constants[query] = distance_of(totals);
	}
}

} // namespace

cudaError_t
launch_rabitq_queries(Metric metric, const Codes &codes, const Queries &queries, const CodePasses &passes,
	const CodeQueries &prepared, bool after_select, cudaStream_t stream)
{
	const uint32_t n = rabitq_shape(codes).padded_dim;
	Rotation rotation{};

	rotation.window = 8;
	while (rotation.window * 2 <= n)
		rotation.window *= 2;
	rotation.n_rounds = rotation.window == n ? kWholeRounds : kRounds;
	rotation.factor = static_cast<float>(1 / std::sqrt(static_cast<double>(rotation.window)));
	rotation.root = static_cast<float>(std::sqrt(0.5));

	const size_t shared = n * sizeof(float) + rabitq_shape(codes).state_bytes();

	return launch_after(rabitq_queries_kernel, queries.n_queries, kThreads, shared, stream, metric, codes, queries,
		passes, prepared, rotation, after_select);
}

cudaError_t
prepare_rabitq_queries()
{
	const RabitqShape shape = rabitq_shape(kMaxDimensions, 1);

	return cudaFuncSetAttribute(rabitq_queries_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		static_cast<int>(shape.padded_dim * sizeof(float) + shape.state_bytes()));
}

} // namespace vectorgpu::kernels
