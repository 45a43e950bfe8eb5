// See rabitq.hpp.
#include "engine/ivf/rabitq/rabitq.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/limits.hpp"
#include "engine/ivf/ivf_kernels.hpp"
#include "engine/ivf/rabitq/rabitq_rotation.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kProgressRows = 256;
constexpr double kLeastSquare = 1e-60; // of a row whose levels are chosen: below, their scale could overflow

// Step of the best uniform quantiser of a normal distribution with 2^bits levels, in deviations (Max, "Quantizing for
// minimum distortion", 1960, table II; beyond 5 bits by the same optimisation), and cos² of the angle between such a
// code and its vector: 1 less the quantiser's mean squared error.
constexpr double kStep[kMaxRabitqBits + 1] = {0, 0, 0.9957, 0.5860, 0.3352, 0.1881, 0.1041, 0.0569, 0.0308};
constexpr double kCosSquared[] = {0, 0.6366, 0.8812};

constexpr uint32_t kFewBits = 2; // of L2: whose decoded rows are at cos²

// Multiples of that step tried for each row; the best angle wins.
constexpr double kTries[] = {1.2, 1.12, 1.06, 1.0, 0.94, 0.88, 0.8};

uint64_t
seed_of(const RabitqModel &model)
{
	const float seed = model.seed[0];

	return seed >= 0 && seed < 0x1p24f ? static_cast<uint64_t>(seed) : 0; // else the index is damaged
}

struct EncodeMemory
{
	float *residual;   // [padded_dim], the first dim of them in use
	float *rotated;    // [padded_dim]
	float *magnitudes; // [padded_dim]
	uint8_t *levels;   // [padded_dim]
	uint8_t *best;     // [padded_dim]
};

EncodeMemory
take_encode_memory(Arena *arena, const RabitqSpec &spec)
{
	const size_t n = rabitq_padded_dim(spec);
	EncodeMemory memory;

	memory.residual = arena->take<float>(n);
	memory.rotated = arena->take<float>(n);
	memory.magnitudes = arena->take<float>(n);
	memory.levels = arena->take<uint8_t>(n);
	memory.best = arena->take<uint8_t>(n);
	return memory;
}

double
dot(const float *a, const float *b, size_t n)
{
	double sums[4] = {};
	size_t i = 0;

	for (; i + 4 <= n; i += 4)
		for (size_t j = 0; j < 4; j++)
			sums[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
	for (; i < n; i++)
		sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Products of the vector that a code stands for.
struct CodeProducts
{
	double with_residual; // > 0 unless the residual is 0
	double with_list;     // u·(c - g)
};

CodeProducts
products_of(const float *rotated, const float *list, const uint8_t *levels, size_t n)
{
	double products[2];

	ivf_kernels().rabitq_products(rotated, list, levels, n, products);
	return {products[0], products[1]};
}

/// A row beside its rotated residual.
struct Row
{
	double square; // |r|²
	double offset; // r·c for cosine, r·g for the inner product
};

/// Factors of the code with these products.
void
set_factors(const RabitqSpec &spec, const Row &row, const CodeProducts &products, float *add, float *scale)
{
	const double f = products.with_residual > 0 ? row.square / products.with_residual : 0;

	switch (spec.metric)
	{
		case Metric::kL2:
			*add = static_cast<float>(row.square + 2 * f * products.with_list);
			*scale = static_cast<float>(-2 * f);
			break;
		case Metric::kCosine:
			*add = static_cast<float>(f * products.with_list - row.offset);
			*scale = static_cast<float>(-f);
			break;
		default:
			*add = static_cast<float>(-row.offset);
			*scale = static_cast<float>(-f);
			break;
	}
}

/// The deviation of the first estimate for |q - c| = 1.
double
first_error(const RabitqSpec &spec, double square, double with_residual)
{
	const double n = rabitq_padded_dim(spec);
	const double tangent = n / 4 * square / (with_residual * with_residual) - 1; // tan² of the angle between u and r

	if (!(square > 0))
		return 0;
	return (spec.metric == Metric::kL2 ? 2 : 1) * std::sqrt(square * std::max(tangent, 0.0) / (n - 1));
}

/// Set memory.best to the levels of the code of `bits` - 1 bits beside the sign that has the best angle with the row.
void
choose_levels(const RabitqSpec &spec, double square, const EncodeMemory &memory)
{
	const size_t n = rabitq_padded_dim(spec);
	const uint32_t most = (1u << (spec.bits - 1)) - 1;
	const double deviation = std::sqrt(square / static_cast<double>(n));
	double best = -1;

	for (const double step : kTries)
	{
		const float inverse = static_cast<float>(1 / (step * kStep[spec.bits] * deviation));
		float with_residual = 0;
		float norm = 0;

		ivf_kernels().rabitq_levels(
			{memory.magnitudes, n, inverse, static_cast<int32_t>(most), memory.levels, &with_residual, &norm});

		const double angle = static_cast<double>(with_residual) * static_cast<double>(with_residual) /
			static_cast<double>(norm); // cos², times the square of the row's length

		if (angle > best)
		{
			best = angle;
			std::memcpy(memory.best, memory.levels, n);
		}
	}
}

/// Set plane [n / 8] to a bit of the numbers [n].
void
pack_plane(const uint8_t *numbers, size_t n, uint32_t bit, uint8_t *plane)
{
	for (size_t i = 0; i < n; i += 8)
	{
		uint64_t eight;

		std::memcpy(&eight, numbers + i, sizeof(eight));
		// The product brings bit 8 j of the factor to bit 56 + j; no two of its summands meet in a bit below.
		plane[i / 8] =
			static_cast<uint8_t>(((eight >> bit) & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56);
	}
}

/// The numbers' bits below the sign: of a negative element the largest magnitude has number 0.
void
pack_levels(const RabitqSpec &spec, const EncodeMemory &memory, uint8_t *planes)
{
	const size_t n = rabitq_padded_dim(spec);
	const uint8_t most = static_cast<uint8_t>((1u << (spec.bits - 1)) - 1);

	for (size_t i = 0; i < n; i++)
		memory.levels[i] = static_cast<uint8_t>(memory.best[i] ^ (std::signbit(memory.rotated[i]) ? most : 0));
	for (uint32_t bit = 0; bit + 1 < spec.bits; bit++)
		pack_plane(memory.levels, n, bit, planes + bit * rabitq_plane_bytes(spec));
}

void
encode_row(const RabitqEncoder &encoder, const float *row, uint32_t label, const EncodeMemory &memory, uint8_t *code)
{
	const RabitqSpec &spec = encoder.model->spec;
	const size_t n = rabitq_padded_dim(spec);
	const float *centroid = encoder.centroids + size_t{label} * spec.dim;
	const float *list = encoder.rotated + size_t{label} * n;
	float factors[kMaxRabitqFactors] = {};
	Row described = {};

	for (size_t d = 0; d < spec.dim; d++)
		memory.residual[d] = row[d] - centroid[d];
	rabitq_rotate(*encoder.model, memory.residual, nullptr, 1, memory.rotated);
	for (size_t i = 0; i < n; i++)
	{
		if (std::isnan(memory.rotated[i])) // its sign differs between compilers
			memory.rotated[i] = HUGE_VALF;
		memory.magnitudes[i] = std::fabs(memory.rotated[i]);
		memory.levels[i] = std::signbit(memory.rotated[i]) ? 0 : 1;
		memory.best[i] = 0;
	}
	described.square = dot(memory.rotated, memory.rotated, n);
	if (spec.metric != Metric::kL2)
		described.offset =
			dot(memory.residual, spec.metric == Metric::kCosine ? centroid : encoder.model->centre, spec.dim);
	pack_plane(memory.levels, n, 0, code);

	const CodeProducts first = products_of(memory.rotated, list, memory.best, n);

	set_factors(spec, described, first, &factors[kRabitqAdd], &factors[kRabitqScale]);
	if (spec.bits > 1)
	{
		factors[kRabitqError] = static_cast<float>(first_error(spec, described.square, first.with_residual));
		if (described.square > kLeastSquare && std::isfinite(described.square))
			choose_levels(spec, described.square, memory);
		set_factors(spec, described, products_of(memory.rotated, list, memory.best, n), &factors[kRabitqFullAdd],
			&factors[kRabitqFullScale]);
		pack_levels(spec, memory, code + rabitq_plane_bytes(spec) + sizeof(factors));
	}
	for (float &factor : factors)
		if (std::isnan(factor))
			factor = std::numeric_limits<float>::quiet_NaN();
	std::memcpy(code + rabitq_plane_bytes(spec), factors, rabitq_n_factors(spec) * sizeof(float));
}

} // namespace

Outcome
rabitq_check(const RabitqSpec &spec)
{
	if (spec.metric != Metric::kL2 && spec.metric != Metric::kInnerProduct && spec.metric != Metric::kCosine)
		return {StatusCode::kUnsupported, "RaBitQ does not support this distance"};
	if (spec.dim == 0 || spec.dim > static_cast<uint32_t>(kMaxDimensions))
		return {StatusCode::kInvalidArgument, "number of dimensions is out of range"};
	if (spec.bits == 0 || spec.bits > kMaxRabitqBits)
		return {StatusCode::kInvalidArgument, "bits of a dimension must be between 1 and 8"};
	return {};
}

void
rabitq_make_block(const RabitqSpec &spec, const uint8_t *codes, size_t n, uint8_t *block)
{
	const size_t plane_bytes = rabitq_plane_bytes(spec);
	const size_t code_bytes = rabitq_code_bytes(spec);
	const size_t factor_bytes = rabitq_n_factors(spec) * sizeof(float);
	const size_t rest_bytes = code_bytes - plane_bytes - factor_bytes;
	uint8_t *const factors = block + kCodeBlockRows * plane_bytes;
	uint8_t *const rest = factors + kCodeBlockRows * factor_bytes;

	if (n < kCodeBlockRows)
		std::memset(block, 0, kCodeBlockRows * code_bytes);
	for (size_t i = 0; i < n; i++)
	{
		const uint8_t *code = codes + i * code_bytes;

		for (size_t j = 0; j < plane_bytes; j++)
			block[j * kCodeBlockRows + i] = code[j];
		for (size_t j = 0; j < factor_bytes; j += sizeof(float))
			std::memcpy(factors + j * kCodeBlockRows + i * sizeof(float), code + plane_bytes + j, sizeof(float));
		std::memcpy(rest + i * rest_bytes, code + plane_bytes + factor_bytes, rest_bytes);
	}
}

void
rabitq_read_block(const RabitqSpec &spec, const uint8_t *block, size_t i, uint8_t *code)
{
	const size_t plane_bytes = rabitq_plane_bytes(spec);
	const size_t factor_bytes = rabitq_n_factors(spec) * sizeof(float);
	const size_t rest_bytes = rabitq_code_bytes(spec) - plane_bytes - factor_bytes;
	const uint8_t *const factors = block + kCodeBlockRows * plane_bytes;
	const uint8_t *const rest = factors + kCodeBlockRows * factor_bytes;

	for (size_t j = 0; j < plane_bytes; j++)
		code[j] = block[j * kCodeBlockRows + i];
	for (size_t j = 0; j < factor_bytes; j += sizeof(float))
		std::memcpy(code + plane_bytes + j, factors + j * kCodeBlockRows + i * sizeof(float), sizeof(float));
	std::memcpy(code + plane_bytes + factor_bytes, rest + i * rest_bytes, rest_bytes);
}

void
rabitq_train(const RabitqModel &model, const float *rows, size_t n_rows, uint64_t seed)
{
	constexpr size_t kColumns = 64; // of a row read at a time: a cache line holds sixteen
	const size_t dim = model.spec.dim;

	for (size_t first = 0; first < dim; first += kColumns)
	{
		const size_t n = std::min(dim - first, kColumns);
		double sums[kColumns] = {};

		for (size_t i = 0; i < n_rows; i++)
			for (size_t d = 0; d < n; d++)
				sums[d] += static_cast<double>(rows[i * dim + first + d]);
		for (size_t d = 0; d < n; d++)
			model.centre[first + d] = n_rows > 0 ? static_cast<float>(sums[d] / static_cast<double>(n_rows)) : 0;
	}
	model.seed[0] = static_cast<float>(seed % (1u << 24));
}

void
rabitq_rotate(const RabitqModel &model, const float *rows, const float *origin, size_t n_rows, float *rotated)
{
	const size_t dim = model.spec.dim;
	const size_t n = rabitq_padded_dim(model.spec);

	for (size_t i = 0; i < n_rows; i++)
	{
		const float *row = rows + i * dim;
		float *to = rotated + i * n;

		for (size_t d = 0; d < dim; d++)
			to[d] = origin != nullptr ? row[d] - origin[d] : row[d];
		std::fill(to + dim, to + n, 0.0f);
		rotate_randomly(seed_of(model), to, n);
	}
}

size_t
rabitq_encode_work_bytes(const RabitqSpec &spec)
{
	Arena arena;

	take_encode_memory(&arena, spec);
	return arena.bytes_needed();
}

Outcome
rabitq_encode(const RabitqEncoder &encoder, const float *rows, const uint32_t *labels, size_t n_rows, uint8_t *codes,
	void *work, size_t work_bytes, const Call &call)
{
	const RabitqSpec &spec = encoder.model->spec;
	Arena arena(work, work_bytes);
	const EncodeMemory memory = take_encode_memory(&arena, spec);

	if (arena.is_short())
		return work_memory_short();
	for (size_t i = 0; i < n_rows; i++)
	{
		if (i % kProgressRows == 0 && call.progress != nullptr && !call.progress(call.progress_context, i, n_rows))
			return cancelled();
		encode_row(encoder, rows + i * spec.dim, labels[i], memory, codes + i * rabitq_code_bytes(spec));
	}
	return {};
}

void
rabitq_decode(const RabitqModel &model, const float *centroids, const uint8_t *codes, const uint32_t *labels,
	size_t n_rows, float *rows, float *scratch)
{
	const RabitqSpec &spec = model.spec;
	const size_t n = rabitq_padded_dim(spec);
	const size_t plane_bytes = rabitq_plane_bytes(spec);
	const uint32_t full = spec.bits == 1 ? kRabitqScale : kRabitqFullScale;

	for (size_t row = 0; row < n_rows; row++)
	{
		const uint8_t *code = codes + row * rabitq_code_bytes(spec);
		const uint8_t *planes = code + plane_bytes + rabitq_n_factors(spec) * sizeof(float);
		const float *centroid = centroids + size_t{labels[row]} * spec.dim;
		float scale;

		std::memcpy(&scale, code + plane_bytes + full * sizeof(float), sizeof(scale));

		// The estimate's scale makes products unbiased, and coding the point at that length gives nearly the same code
		// and scale again, however often rows are merged. The point of the code's line nearest to the row is at cos² of
		// it: for L2, where the square of the length counts as well, few bits are better there.
		const double nearest = spec.metric == Metric::kL2 && spec.bits <= kFewBits ? kCosSquared[spec.bits] : 1;
		const double length = static_cast<double>(scale) * (spec.metric == Metric::kL2 ? -0.5 : -1) * nearest;

		for (size_t i = 0; i < n; i++)
		{
			uint32_t number = (code[i / 8] >> (i % 8)) & 1u;

			for (uint32_t bit = spec.bits - 1; bit-- > 0;)
				number = 2 * number + ((planes[bit * plane_bytes + i / 8] >> (i % 8)) & 1u);
			scratch[i] = static_cast<float>(length * (number - ((1u << spec.bits) - 1) / 2.0));
		}
		rotate_back(seed_of(model), scratch, n);
		for (size_t d = 0; d < spec.dim; d++)
			rows[row * spec.dim + d] = centroid[d] + scratch[d];
	}
}

} // namespace vectorgpu::engine::ivf
