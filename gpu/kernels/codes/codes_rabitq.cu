// RaBitQ on the device: the layout of its codes, and queries made ready, with the bits of engine/ivf's rabitq_prepare.
#include <cmath>

#include "common/limits.hpp"
#include "kernels/codes/codes_launch.hpp"
#include "kernels/codes/codes_rabitq.cuh"

namespace vectorgpu::kernels
{
namespace
{

constexpr uint32_t kThreads = 256;
constexpr uint32_t kWholeRounds = 3; // of the rotation, if the dimensions are a power of two (engine/ivf)
constexpr uint32_t kRounds = 6;
constexpr uint32_t kWarp = 32;

uint32_t
blocks_for(uint64_t n)
{
	return static_cast<uint32_t>(min(uint64_t{1} << 30, (n + kThreads - 1) / kThreads));
}

/// Where a word of a row's bits below the signs gets its bits from.
struct RestPart
{
	uint32_t width;
	uint32_t shift; // the lowest bit of the part
	uint32_t first; // its first word in a row
};

/// The part with word `word` of a row.
__device__ __forceinline__ RestPart
part_of_word(const RabitqShape &shape, uint32_t word)
{
	const uint32_t two = shape.part_words(4);
	const uint32_t one = two + shape.part_words(2);

	if (word < two)
		return {4, 0, 0};
	return word < one ? RestPart{2, shape.rest & 4, two} : RestPart{1, shape.rest & 6, one};
}

/// The part with bit `bit` of a number below the sign.
__device__ __forceinline__ RestPart
part_of_bit(const RabitqShape &shape, uint32_t bit)
{
	const uint32_t two = shape.part_words(4);

	if (bit < (shape.rest & 4))
		return {4, 0, 0};
	return bit < (shape.rest & 6) ? RestPart{2, shape.rest & 4, two}
								  : RestPart{1, shape.rest & 6, two + shape.part_words(2)};
}

/// Word `word` of the bits below the signs. planes: of the row, in the index's order.
__device__ uint32_t
rest_word(const RabitqShape &shape, const uint8_t *planes, uint32_t word)
{
	const RestPart part = part_of_word(shape, word);
	const uint32_t n_dims = 32 / part.width;
	const uint32_t first = (word - part.first) * n_dims;
	uint32_t bits = 0;

	for (uint32_t d = 0; d < n_dims && first + d < shape.padded_dim; d++)
		for (uint32_t x = 0; x < part.width; x++)
		{
			const uint32_t byte = planes[(part.shift + x) * shape.plane_bytes() + (first + d) / 8];

			bits |= ((byte >> ((first + d) % 8)) & 1) << (8 * (d % 4) + part.width * (d / 4) + x);
		}
	return bits;
}

/// A thread for each word of the result.
__global__ void __launch_bounds__(kThreads)
rabitq_layout_kernel(RabitqShape shape, const uint8_t *from, uint64_t first_block, uint64_t n_blocks, uint32_t *codes)
{
	const uint32_t block_words = shape.pitch_bytes() / 4 * kCodeRows;
	const uint32_t sign_words = shape.sign_bytes() / 4 * kCodeRows;
	const uint32_t factor_words = shape.n_factors() * kCodeRows;
	const uint32_t rest_words = shape.rest_words();
	const uint64_t n = n_blocks * block_words;

	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n; i += uint64_t{gridDim.x} * kThreads)
	{
		const uint8_t *block = from + i / block_words * shape.code_bytes() * kCodeRows;
		const uint8_t *factors = block + shape.plane_bytes() * kCodeRows;
		const uint32_t word = static_cast<uint32_t>(i % block_words);
		uint32_t made = 0;

		if (word < sign_words)
		{
			const uint32_t row = word / 4 % kCodeRows;
			const uint32_t byte = word / (4 * kCodeRows) * 16 + word % 4 * 4;

			for (uint32_t b = 0; b < 4 && byte + b < shape.plane_bytes(); b++)
				made |= static_cast<uint32_t>(block[(byte + b) * kCodeRows + row]) << (8 * b);
		}
		else if (word < sign_words + factor_words)
			for (uint32_t b = 0; b < 4; b++)
				made |= static_cast<uint32_t>(factors[(word - sign_words) * 4 + b]) << (8 * b);
		else
		{
			const uint32_t at = word - sign_words - factor_words;
			const uint8_t *planes = factors + factor_words * 4 + at / rest_words * shape.rest * shape.plane_bytes();

			made = rest_word(shape, planes, at % rest_words);
		}
		codes[first_block * block_words + i] = made;
	}
}

/// A byte of a block in the index's order.
__device__ uint32_t
byte_of_block(const RabitqShape &shape, const uint8_t *block, uint32_t at)
{
	const uint32_t plane_bytes = shape.plane_bytes();
	const uint8_t *factors = block + shape.sign_bytes() * kCodeRows;

	if (at < plane_bytes * kCodeRows)
	{
		const uint32_t byte = at / kCodeRows;

		return block[byte / 16 * (kCodeRows * 16) + at % kCodeRows * 16 + byte % 16];
	}
	at -= plane_bytes * kCodeRows;
	if (at < shape.n_factors() * 4 * kCodeRows)
		return factors[at];
	at -= shape.n_factors() * 4 * kCodeRows;

	const uint32_t row = at / (shape.rest * plane_bytes);
	const uint32_t bit = at / plane_bytes % shape.rest;
	const uint32_t first = at % plane_bytes * 8;
	const RestPart part = part_of_bit(shape, bit);
	const uint32_t *words =
		reinterpret_cast<const uint32_t *>(factors) + shape.n_factors() * kCodeRows + row * shape.rest_words();
	uint32_t bits = 0;

	for (uint32_t i = 0; i < 8; i++)
	{
		const uint32_t d = (first + i) % (32 / part.width);
		const uint32_t word = words[part.first + (first + i) / (32 / part.width)];

		bits |= ((word >> (8 * (d % 4) + part.width * (d / 4) + bit - part.shift)) & 1) << i;
	}
	return bits;
}

/// A thread for each byte of the result.
__global__ void __launch_bounds__(kThreads)
rabitq_layout_back_kernel(RabitqShape shape, const uint8_t *codes, uint64_t first_byte, uint64_t n_bytes, uint8_t *to)
{
	const uint32_t block_bytes = shape.code_bytes() * kCodeRows;

	for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < n_bytes; i += uint64_t{gridDim.x} * kThreads)
	{
		const uint64_t at = first_byte + i;

		to[i] = static_cast<uint8_t>(byte_of_block(shape, codes + at / block_bytes * shape.pitch_bytes() * kCodeRows,
			static_cast<uint32_t>(at % block_bytes)));
	}
}

/// 64 signs of a round of the rotation, as in engine/ivf.
__device__ __forceinline__ uint64_t
signs_of(uint64_t seed, uint32_t round, uint32_t word)
{
	uint64_t x = (seed * kRounds + round + 1) * 0x9E3779B97F4A7C15ull + word * 0xD1B54A32D192ED03ull;

	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
	return x ^ (x >> 31);
}

/// The steps of spans 1, 2 and 4 of eight elements.
__device__ __forceinline__ void
hadamard_eight(float *x, float factor)
{
	float v[8];

#pragma unroll
	for (int i = 0; i < 8; i++)
		v[i] = x[i];
#pragma unroll
	for (int half = 1; half < 8; half *= 2)
#pragma unroll
		for (int i = 0; i < 8; i++)
			if ((i & half) == 0)
			{
				const float a = v[i];
				const float b = v[i + half];

				v[i] = __fadd_rn(a, b);
				v[i + half] = __fsub_rn(a, b);
			}
#pragma unroll
	for (int i = 0; i < 8; i++)
		x[i] = __fmul_rn(v[i], factor);
}

/// x [n], n a power of two from 8 on. By all threads; ends with a barrier.
__device__ void
hadamard(float *x, uint32_t n, float factor)
{
	for (uint32_t i = threadIdx.x; i < n / 8; i += kThreads)
		hadamard_eight(x + 8 * i, factor);
	__syncthreads();
	for (uint32_t half = 8; half < n; half *= 2)
	{
		for (uint32_t i = threadIdx.x; i < n / 2; i += kThreads)
		{
			const uint32_t at = i / half * 2 * half + i % half;
			const float a = x[at];
			const float b = x[at + half];

			x[at] = __fadd_rn(a, b);
			x[at + half] = __fsub_rn(a, b);
		}
		__syncthreads();
	}
}

struct Rotation
{
	uint32_t window; // elements of a Hadamard transform
	uint32_t n_rounds;
	float factor; // of a transform
	float root;   // √½
};

/// Rotate x [n] as rotate_randomly. By all threads, after a barrier; ends with one.
__device__ void
rotate(const Rotation &rotation, uint64_t seed, float *x, uint32_t n)
{
	for (uint32_t round = 0; round < rotation.n_rounds; round++)
	{
		for (uint32_t i = threadIdx.x; i < n; i += kThreads)
			x[i] = __uint_as_float(
				__float_as_uint(x[i]) ^ (static_cast<uint32_t>(signs_of(seed, round, i / 64) >> (i % 64)) & 1u) << 31);
		__syncthreads();
		hadamard(x + (round % 2 == 0 ? 0 : n - rotation.window), rotation.window, rotation.factor);
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

/// Grid n_queries, block 256, dynamic shared memory padded_dim floats.
__global__ void __launch_bounds__(kThreads)
rabitq_queries_kernel(const Codes codes, uint32_t dim_pad, const CodeQueries prepared, Rotation rotation)
{
	extern __shared__ float rotated[];
	__shared__ Totals totals;
	const RabitqShape shape = rabitq_shape(codes);
	const uint32_t n = shape.padded_dim;
	const uint32_t query = blockIdx.x;
	const float *unit = prepared.units + static_cast<size_t>(query) * dim_pad;
	const float seed = codes.model[codes.dim];
	uint8_t *state = reinterpret_cast<uint8_t *>(prepared.states + static_cast<size_t>(query) * prepared.state_stride);
	uint4 *table = reinterpret_cast<uint4 *>(state + sizeof(RabitqState));
	int8_t *elements = reinterpret_cast<int8_t *>(state + sizeof(RabitqState) + shape.table_bytes());
	int element_sum = 0;

	for (uint32_t d = threadIdx.x; d < n; d += kThreads)
		rotated[d] = d < codes.dim ? __fsub_rn(unit[d], codes.model[d]) : 0.0f;
	__syncthreads();
	rotate(rotation, seed >= 0.0f && seed < 16777216.0f ? static_cast<uint64_t>(seed) : 0, rotated, n);
	find_totals(rotated, n, &totals);
	__syncthreads();

	const double distance = __dsqrt_rn(totals.square);
	const double table_scale = isfinite(totals.sum) ? __ddiv_rn(totals.widest, 255.0) : 0.0;
	const double element_scale = isfinite(distance) ? __ddiv_rn(static_cast<double>(totals.largest), 127.0) : 0.0;
	const double inverse = table_scale > 0.0 ? __ddiv_rn(1.0, table_scale) : 0.0;

	for (uint32_t j = threadIdx.x; j < shape.table_bytes() / 16; j += kThreads)
		table[j] = table_scale > 0.0 && j < n / 4 ? table_group(rotated + 4 * j, inverse) : make_uint4(0, 0, 0, 0);
	for (uint32_t d = threadIdx.x; d < shape.element_bytes(); d += kThreads)
	{
		const int element = element_scale > 0.0 && d < n ? element_of(rotated[d], element_scale) : 0;

		elements[d] = static_cast<int8_t>(element);
		element_sum += element;
	}
	element_sum = __reduce_add_sync(0xFFFFFFFFu, element_sum);
	if (threadIdx.x % kWarp == 0)
		atomicAdd(&totals.element_sum, element_sum);
	__syncthreads();
	if (threadIdx.x == 0)
	{
		const double slack = __dmul_rn(
			__dmul_rn(codes.deviations, table_scale), __dsqrt_rn(__ddiv_rn(static_cast<double>(n / 4), 12.0)));
		RabitqState head;

		head.element_scale = element_scale;
		head.element_sum = __dmul_rn(static_cast<double>(totals.element_sum), element_scale);
		head.table_scale = __double2float_rn(table_scale);
		head.table_base = __double2float_rn(__dmul_rn(-totals.sum, 0.5));
		head.table_slack = __double2float_rn(slack);
		head.unused = 0;
		*reinterpret_cast<RabitqState *>(state) = head;
		prepared.constants[query] = distance;
	}
}

} // namespace

uint32_t
rabitq_pitch_bytes(uint32_t dim, uint32_t bits)
{
	return rabitq_shape(dim, bits).pitch_bytes();
}

cudaError_t
launch_rabitq_layout(
	const Codes &codes, const uint8_t *from, uint64_t first_block, uint64_t n_blocks, uint8_t *to, cudaStream_t stream)
{
	if (n_blocks == 0)
		return cudaSuccess;
	rabitq_layout_kernel<<<blocks_for(n_blocks * (codes.pitch_bytes / 4) * kCodeRows), kThreads, 0, stream>>>(
		rabitq_shape(codes), from, first_block, n_blocks, reinterpret_cast<uint32_t *>(to));
	return cudaGetLastError();
}

cudaError_t
launch_rabitq_layout_back(const Codes &codes, uint64_t first_byte, uint64_t n_bytes, uint8_t *to, cudaStream_t stream)
{
	if (n_bytes == 0)
		return cudaSuccess;
	rabitq_layout_back_kernel<<<blocks_for(n_bytes), kThreads, 0, stream>>>(
		rabitq_shape(codes), codes.codes, first_byte, n_bytes, to);
	return cudaGetLastError();
}

cudaError_t
launch_rabitq_queries(
	const Codes &codes, uint32_t n_queries, uint32_t dim_pad, const CodeQueries &prepared, cudaStream_t stream)
{
	const uint32_t n = rabitq_shape(codes).padded_dim;
	Rotation rotation{};

	if (n_queries == 0)
		return cudaSuccess;
	rotation.window = 8;
	while (rotation.window * 2 <= n)
		rotation.window *= 2;
	rotation.n_rounds = rotation.window == n ? kWholeRounds : kRounds;
	rotation.factor = static_cast<float>(1 / std::sqrt(static_cast<double>(rotation.window)));
	rotation.root = static_cast<float>(std::sqrt(0.5));
	rabitq_queries_kernel<<<n_queries, kThreads, n * sizeof(float), stream>>>(codes, dim_pad, prepared, rotation);
	return cudaGetLastError();
}

cudaError_t
prepare_rabitq_queries()
{
	return cudaFuncSetAttribute(rabitq_queries_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
		static_cast<int>((kMaxDimensions + 7) / 8 * 8 * sizeof(float)));
}

} // namespace vectorgpu::kernels
