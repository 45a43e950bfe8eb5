// See hash.hpp.
#include "engine/graph/codes/hash.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/match/hash_family.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kRounds = 3;       // of signs and Hadamard matrix: with fewer, sparse vectors stay in few dimensions
constexpr uint32_t kLeastPadded = 64; // signs of a smaller space repeat themselves
constexpr uint32_t kTrainingRows = 65536;
constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint64_t kPieceFloats = uint64_t{1} << 20; // rotated in some milliseconds

// May alias an array of floats.
using Four = float __attribute__((vector_size(16), may_alias));
using FourBits = uint32_t __attribute__((vector_size(16), may_alias));

/// Dimensions of the space that vectors are rotated in; one more for the inner product's extra coordinate.
uint32_t
padded_dim(const CodeSpec &spec)
{
	return std::max(kLeastPadded, std::bit_ceil(spec.rows.dim + (spec.rows.metric == Metric::kInnerProduct ? 1u : 0u)));
}

/// x [n] = H x, n a power of two from 8.
void
hadamard(float *x, uint32_t n)
{
	Four *pieces = reinterpret_cast<Four *>(x);
	const uint32_t n_pieces = n / 4;

	for (uint32_t i = 0; i < n_pieces; i++)
	{
		const Four a = pieces[i];
		const Four once = __builtin_shufflevector(a, a, 0, 0, 2, 2) +
			reinterpret_cast<Four>(reinterpret_cast<FourBits>(__builtin_shufflevector(a, a, 1, 1, 3, 3)) ^
				FourBits{0, kSignBit, 0, kSignBit});

		pieces[i] = __builtin_shufflevector(once, once, 0, 1, 0, 1) +
			reinterpret_cast<Four>(reinterpret_cast<FourBits>(__builtin_shufflevector(once, once, 2, 3, 2, 3)) ^
				FourBits{0, 0, kSignBit, kSignBit});
	}
	for (uint32_t step = 1; step < n_pieces; step *= 2)
		for (uint32_t begin = 0; begin < n_pieces; begin += 2 * step)
			for (uint32_t i = begin; i < begin + step; i++)
			{
				const Four a = pieces[i];
				const Four b = pieces[i + step];

				pieces[i] = a + b;
				pieces[i + step] = a - b;
			}
}

/// Flip the signs of a round, by bits of a random stream: number (round, place / 64).
void
flip_signs(uint64_t seed, uint32_t round, float *x, uint32_t n)
{
	FourBits *pieces = reinterpret_cast<FourBits *>(x);

	for (uint32_t i = 0; i < n; i += 64)
	{
		uint64_t signs = stream64(seed, uint64_t{round} * (n / 64) + i / 64);

		for (uint32_t j = 0; j < 64; j += 4, signs >>= 4)
		{
			const uint32_t four = static_cast<uint32_t>(signs & 15);

			pieces[(i + j) / 4] ^= FourBits{four << 31, (four >> 1) << 31, (four >> 2) << 31, (four >> 3) << 31};
		}
	}
}

/// turned [bits] = the first coordinates of the rotations of padded [n].
void
turn(const CodeSpec &spec, const float *padded, float *scratch, float *turned)
{
	const uint32_t n = padded_dim(spec);

	for (uint32_t first = 0, round = 0; first < spec.bits; first += n)
	{
		memcpy(scratch, padded, n * sizeof(float));
		for (uint32_t i = 0; i < kRounds; i++, round++)
		{
			flip_signs(spec.seed, round, scratch, n);
			hadamard(scratch, n);
		}
		memcpy(turned + first, scratch, std::min(n, spec.bits - first) * sizeof(float));
	}
}

/// The arrays of work memory, aligned for Four.
struct Work
{
	float *padded;  // [padded_dim]
	float *scratch; // [padded_dim]
	float *turned;  // [bits]

	Work(const CodeSpec &spec, float *memory)
	{
		const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
		const uint32_t n = padded_dim(spec);

		padded = reinterpret_cast<float *>((address + 63) / 64 * 64);
		scratch = padded + n;
		turned = scratch + n;
	}
};

/// padded: a row or query as it is rotated, without the inner product's extra coordinate.
void
pad(const CodeSpec &spec, const void *vector, float *padded)
{
	const uint32_t n = padded_dim(spec);

	if (spec.rows.element == ElementType::kFloat16)
		widen_halves(vector, spec.rows.dim, padded);
	else
		memcpy(padded, vector, spec.rows.dim * sizeof(float));
	std::fill(padded + spec.rows.dim, padded + n, 0.0f);
}

/// |x|^2, rounded once. padded [padded_dim].
float
square_norm(const CodeSpec &spec, const float *padded)
{
	double score;

	compute_scores({Metric::kInnerProduct, ElementType::kFloat32, spec.rows.dim}, padded, padded,
		spec.rows.dim * sizeof(float), 1, &score, 0);
	return static_cast<float>(-score);
}

void
write_code(const CodeModel &model, const Work &work, uint8_t *code)
{
	turn(model.spec, work.padded, work.scratch, work.turned);
	for (uint32_t byte = 0; byte < model.spec.bits / 8; byte++)
	{
		uint32_t bits = 0;

		for (uint32_t i = 0; i < 8; i++)
			bits = bits << 1 | (work.turned[byte * 8 + i] > model.floats[byte * 8 + i] ? 1u : 0u);
		code[byte] = static_cast<uint8_t>(bits);
	}
}

} // namespace

size_t
hash_work_floats(const CodeSpec &spec)
{
	return size_t{padded_dim(spec)} * 2 + spec.bits + 16;
}

uint32_t
hash_piece_rows(const CodeSpec &spec)
{
	const uint64_t n = padded_dim(spec);

	return static_cast<uint32_t>(std::max<uint64_t>(1, kPieceFloats / (n * ((spec.bits + n - 1) / n))));
}

bool
hash_train(
	const CodeSpec &spec, const GraphRows &rows, float *bound, float *thresholds, float *work_memory, const Call &call)
{
	const Work work(spec, work_memory);
	const uint32_t n = padded_dim(spec);
	const uint32_t n_rows = std::min(rows.n_rows, kTrainingRows);
	const uint32_t piece = hash_piece_rows(spec);

	*bound = 0;
	std::fill_n(thresholds, spec.bits, 0.0f);
	if (spec.rows.metric == Metric::kCosine || n_rows == 0)
		return true;
	std::fill_n(work.scratch, n, 0.0f);
	for (uint32_t i = 0; i < n_rows; i++)
	{
		// A running mean, so that nothing grows with the number of rows.
		const float share = 1.0f / static_cast<float>(i + 1);

		if (i % piece == 0 && call.progress != nullptr && !call.progress(call.progress_context, 0, rows.n_rows))
			return false;
		pad(spec, rows.row(static_cast<uint32_t>(stratified_row(i, n_rows, rows.n_rows))), work.padded);
		if (spec.rows.metric == Metric::kInnerProduct)
		{
			const float norm = square_norm(spec, work.padded);

			if (norm > *bound && std::isfinite(norm))
				*bound = norm;
			continue;
		}
		for (uint32_t j = 0; j < spec.rows.dim; j++)
		{
			const float step = (work.padded[j] - work.scratch[j]) * share;

			if (std::isfinite(step))
				work.scratch[j] = work.scratch[j] + step;
		}
	}
	if (spec.rows.metric != Metric::kL2)
		return true;
	memcpy(work.padded, work.scratch, n * sizeof(float));
	turn(spec, work.padded, work.scratch, thresholds);
	return true;
}

void
hash_rows(const CodeModel &model, const GraphRows &rows, uint8_t *codes, float *work_memory)
{
	const Work work(model.spec, work_memory);
	const size_t code_bytes = model.spec.bits / 8;

	for (uint32_t i = 0; i < rows.n_rows; i++)
	{
		pad(model.spec, rows.row(i), work.padded);
		if (model.spec.rows.metric == Metric::kInnerProduct)
			work.padded[model.spec.rows.dim] =
				std::sqrt(std::max(0.0f, model.bound - square_norm(model.spec, work.padded)));
		write_code(model, work, codes + i * code_bytes);
	}
}

void
hash_query(const CodeModel &model, const void *query, uint8_t *code, float *work_memory)
{
	const Work work(model.spec, work_memory);

	pad(model.spec, query, work.padded);
	write_code(model, work, code);
}

} // namespace vectorgpu::engine::graph
