// See rabitq_scan.hpp.
#include "engine/ivf/rabitq/rabitq_scan.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/ivf/ivf_kernels.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kElementUnit = 64; // of rows of elements: the widest register

struct QueryMemory
{
	float *rotated;   // [padded_dim]
	uint8_t *table;   // [plane_bytes, 2, 16]
	int8_t *elements; // [padded_dim rounded up]
};

size_t
padded_elements(const RabitqSpec &spec)
{
	return (rabitq_padded_dim(spec) + kElementUnit - 1) / kElementUnit * kElementUnit;
}

QueryMemory
take_query_memory(Arena *arena, const RabitqSpec &spec)
{
	QueryMemory memory;

	memory.rotated = arena->take<float>(rabitq_padded_dim(spec));
	memory.table = arena->take<uint8_t>(rabitq_plane_bytes(spec) * 32);
	memory.elements = arena->take<int8_t>(padded_elements(spec));
	return memory;
}

/// A sum in double in an order that many lanes can follow: term i goes to lane i % 32, and the lanes are joined by
/// halves.
class LaneSum
{
public:
	void add(size_t i, double term) { lanes_[i % kLanes] += term; }

	double total() const
	{
		double sums[kLanes];

		std::copy_n(lanes_, kLanes, sums);
		for (size_t half = kLanes / 2; half > 0; half /= 2)
			for (size_t i = 0; i < half; i++)
				sums[i] += sums[i + half];
		return sums[0];
	}

private:
	static constexpr size_t kLanes = 32;

	double lanes_[kLanes] = {};
};

/// Make the byte table of the first pass: an entry's excess over the smallest of its four elements' entries is the sum
/// of the magnitudes whose sign the bit has. One scale: the widest range spans 0 .. 255.
void
make_table(const RabitqSpec &spec, const float *rotated, uint8_t *table, RabitqQuery *query)
{
	const size_t n_groups = rabitq_padded_dim(spec) / 4;
	double widest = 0;
	double sum, scale;
	LaneSum ranges;

	for (size_t j = 0; j < n_groups; j++)
	{
		double range = 0;

		for (size_t d = 0; d < 4; d++)
			range += std::fabs(static_cast<double>(rotated[4 * j + d]));
		widest = std::max(widest, range);
		ranges.add(j, range);
	}
	sum = ranges.total();
	scale = std::isfinite(sum) ? widest / 255 : 0;
	std::fill_n(table, n_groups * 16, uint8_t{0});
	for (size_t j = 0; scale > 0 && j < n_groups; j++)
	{
		const float *x = rotated + 4 * j;
		double excess[16];

		excess[0] = 0;
		for (size_t d = 0; d < 4; d++)
			excess[0] += std::max(-static_cast<double>(x[d]), 0.0);
		for (size_t d = 0; d < 4; d++)
			for (size_t i = 0; i < size_t{1} << d; i++)
				excess[i + (size_t{1} << d)] = excess[i] + static_cast<double>(x[d]);
		for (size_t i = 0; i < 16; i++) // rounding may bring the smallest below 0, by far less than half a step
			table[j * 16 + i] = static_cast<uint8_t>(std::min(255, static_cast<int>(excess[i] * (1 / scale) + 0.5)));
	}
	query->table_scale = static_cast<float>(scale);
	query->table_base = static_cast<float>(-sum / 2); // NaN, infinity: so are all estimates
	query->table_slack = static_cast<float>(kRabitqDeviations * scale * std::sqrt(static_cast<double>(n_groups) / 12));
}

void
make_elements(const RabitqSpec &spec, const float *rotated, int8_t *elements, RabitqQuery *query)
{
	const size_t n = rabitq_padded_dim(spec);
	float largest = 0;
	int64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		largest = std::max(largest, std::fabs(rotated[i]));
	std::fill_n(elements, padded_elements(spec), int8_t{0});
	query->element_scale = std::isfinite(query->distance) ? static_cast<double>(largest) / 127 : 0;
	for (size_t i = 0; query->element_scale > 0 && i < n; i++)
	{
		const double x = static_cast<double>(rotated[i]) / query->element_scale;

		elements[i] = static_cast<int8_t>(x < 0 ? std::max(x - 0.5, -127.0) : std::min(x + 0.5, 127.0));
		sum += elements[i];
	}
	query->element_sum = static_cast<double>(sum) * query->element_scale;
}

/// |q - c| of a list, from its constant.
double
distance_of(const RabitqQuery &query, double constant)
{
	switch (query.model->spec.metric)
	{
		case Metric::kL2:
			return std::sqrt(std::max(constant, 0.0));
		case Metric::kCosine: // of vectors of length 1
			return std::sqrt(std::max(2 * (1 + constant), 0.0));
		default:
			return query.distance;
	}
}

/// A block of codes, taken apart.
struct Block
{
	const uint8_t *signs;
	const uint8_t *factors;
	const uint8_t *planes;
	size_t row_plane_bytes;
};

Block
block_at(const RabitqSpec &spec, const uint8_t *block)
{
	const size_t plane_bytes = rabitq_plane_bytes(spec);
	const uint8_t *factors = block + kCodeBlockRows * plane_bytes;

	return {block, factors, factors + kCodeBlockRows * rabitq_n_factors(spec) * sizeof(float),
		(spec.bits - 1) * plane_bytes};
}

float
factor_of(const Block &block, RabitqFactor factor, size_t row)
{
	float value;

	std::memcpy(&value, block.factors + (factor * kCodeBlockRows + row) * sizeof(float), sizeof(value));
	return value;
}

/// The estimate by all bits, less the list's constant. sum: of the row's bytes in the first pass.
double
full_estimate(const RabitqQuery &query, const Block &block, size_t row, uint32_t sum)
{
	const RabitqSpec &spec = query.model->spec;
	const double half = (1u << (spec.bits - 1)) / 2.0;
	const int32_t product = ivf_kernels().plane_dot(
		block.planes + row * block.row_plane_bytes, spec.bits - 1, rabitq_plane_bytes(spec), query.elements);
	const double first =
		static_cast<double>(query.table_base) + static_cast<double>(query.table_scale) * static_cast<double>(sum);
	// u_i = 2^(b-1) * (±1/2) + number below the sign - (2^(b-1) - 1) / 2
	const double u = 2 * half * first + product * query.element_scale - (half - 0.5) * query.element_sum;

	return static_cast<double>(factor_of(block, kRabitqFullAdd, row)) +
		static_cast<double>(factor_of(block, kRabitqFullScale, row)) * u;
}

} // namespace

size_t
rabitq_query_bytes(const RabitqSpec &spec)
{
	Arena arena;

	take_query_memory(&arena, spec);
	return arena.bytes_needed();
}

Outcome
rabitq_prepare(const RabitqModel &model, const float *query, void *memory, size_t memory_bytes, RabitqQuery *prepared)
{
	const RabitqSpec &spec = model.spec;
	Arena arena(memory, memory_bytes);
	const QueryMemory taken = take_query_memory(&arena, spec);
	LaneSum square;

	if (arena.is_short())
		return work_memory_short();
	*prepared = {};
	prepared->model = &model;
	prepared->table = taken.table;
	prepared->elements = taken.elements;
	rabitq_rotate(model, query, model.centre, 1, taken.rotated);
	for (size_t i = 0; i < rabitq_padded_dim(spec); i++)
		square.add(i, static_cast<double>(taken.rotated[i]) * static_cast<double>(taken.rotated[i]));
	prepared->distance = std::sqrt(square.total());
	make_table(spec, taken.rotated, taken.table, prepared);
	make_elements(spec, taken.rotated, taken.elements, prepared);
	return {};
}

namespace
{

/// Fetch what the first pass reads of a block: blocks lie too far apart for the processor to guess.
void
prefetch_block(const RabitqSpec &spec, const uint8_t *block)
{
	const size_t n_bytes = kCodeBlockRows * (rabitq_plane_bytes(spec) + (spec.bits == 1 ? 2 : 3) * sizeof(float));

	for (size_t at = 0; at < n_bytes; at += 64)
		__builtin_prefetch(block + at);
}

/// Set distances [n] to kRabitqDeviations of the rows' lists. constants: nearly always one for all.
void
set_distances(const RabitqQuery &query, const double *constants, size_t n, float *distances)
{
	for (size_t i = 0; i < n; i++)
		distances[i] = i > 0 && constants[i] == constants[i - 1]
			? distances[i - 1]
			: static_cast<float>(kRabitqDeviations * distance_of(query, constants[i]));
}

} // namespace

void
rabitq_scores(const RabitqQuery &query, const double *constants, const uint8_t *blocks, size_t n_rows, double limit,
	double *scores)
{
	const RabitqSpec &spec = query.model->spec;
	const IvfKernels &kernels = ivf_kernels();
	const size_t block_bytes = kCodeBlockRows * rabitq_code_bytes(spec);
	const bool refines = spec.bits > 1;
	double block_constants[kCodeBlockRows] = {};
	float distances[kCodeBlockRows] = {};

	for (size_t first = 0; first < n_rows; first += kCodeBlockRows, blocks += block_bytes)
	{
		const size_t n = std::min(kCodeBlockRows, n_rows - first);
		const Block block = block_at(spec, blocks);
		uint32_t sums[kCodeBlockRows];
		double found[kCodeBlockRows];

		if (first + kCodeBlockRows < n_rows)
			prefetch_block(spec, blocks + block_bytes);
		if (first == 0 || std::memcmp(block_constants, constants + first, n * sizeof(double)) != 0)
		{
			std::copy_n(constants + first, n, block_constants);
			if (refines)
				set_distances(query, block_constants, kCodeBlockRows, distances);
		}
		kernels.pq4(block.signs, rabitq_plane_bytes(spec), query.table, sums);

		uint32_t near = kernels.rabitq_bounds({block.factors, sums, block_constants, refines ? distances : nullptr,
			query.table_base + (refines ? query.table_slack : 0), query.table_scale, limit, found});

		if (n < kCodeBlockRows)
			near &= (1u << n) - 1;
		for (; near != 0; near &= near - 1)
		{
			const size_t i = static_cast<size_t>(std::countr_zero(near));
			const double full = block_constants[i] + full_estimate(query, block, i, sums[i]);

			found[i] = found[i] > full ? found[i] : full; // NaN if `full` is
		}
		std::copy_n(found, n, scores + first);
	}
}

} // namespace vectorgpu::engine::ivf
