// The loops of the canonical distance, shared by distance_scalar.cpp, distance_avx2.cpp and distance_avx512.cpp, so
// that the order of operations is written once. Included by those files only, each after it has defined, in the
// anonymous namespace of vectorgpu::engine:
//
//   struct Lanes      the 32 fp32 accumulator lanes, with
//     zero()                       all lanes +0
//     load_float(p), load_half(p)  32 elements from p, any alignment, halves converted exactly
//     load_float_tail(p, n), load_half_tail(p, n)  n < 32 elements, the other lanes +0; reads no byte beyond them
//     store(p)                     the 32 lanes to floats at p
//     subtract(a, b), multiply_add(a, b, c) = fma(a, b, c), add_absolute(sum, d) = sum + |d|
//     reduce(sum)                  the tree: lane j += lane j + 16, then 8, 4, 2, 1
//
// Everything here is in an anonymous namespace and uses no standard library template: the compiler's copies stay inside
// the file that has the right ISA flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/distance/score_kernels.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kLanes = 32;

/// Prefetch the n bytes that lie `ahead` from p. They need not exist: a prefetch never faults. The hardware's own
/// prefetcher stops at page borders.
static VECTORGPU_INLINE void
prefetch(const unsigned char *p, ptrdiff_t ahead, size_t n)
{
	const uintptr_t target = reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(ahead);

	for (size_t line = 0; line < n; line += 64)
		__builtin_prefetch(reinterpret_cast<const void *>(target + line));
}

struct Float32Element
{
	static constexpr size_t kBytes = 4;

	static VECTORGPU_INLINE Lanes load(const unsigned char *p) { return Lanes::load_float(p); }
	static VECTORGPU_INLINE Lanes load_tail(const unsigned char *p, size_t n) { return Lanes::load_float_tail(p, n); }
};

struct Float16Element
{
	static constexpr size_t kBytes = 2;

	static VECTORGPU_INLINE Lanes load(const unsigned char *p) { return Lanes::load_half(p); }
	static VECTORGPU_INLINE Lanes load_tail(const unsigned char *p, size_t n) { return Lanes::load_half_tail(p, n); }
};

/// NaN becomes the quiet positive NaN, -0 becomes +0.
static VECTORGPU_INLINE double
normalise(double score)
{
	return score != score ? __builtin_nan("") : score + 0.0;
}

/// Σ (a - b)²
struct L2Op
{
	Lanes sum;

	VECTORGPU_INLINE void start() { sum = Lanes::zero(); }

	template <class Element>
	static VECTORGPU_INLINE float query_state(const ScoreCall &)
	{
		return 0;
	}

	VECTORGPU_INLINE void step(Lanes a, Lanes b)
	{
		const Lanes d = Lanes::subtract(a, b);

		sum = Lanes::multiply_add(d, d, sum);
	}

	VECTORGPU_INLINE double score(float) const { return Lanes::reduce(sum); }
};

/// -Σ a b
struct InnerProductOp
{
	Lanes sum;

	VECTORGPU_INLINE void start() { sum = Lanes::zero(); }

	template <class Element>
	static VECTORGPU_INLINE float query_state(const ScoreCall &)
	{
		return 0;
	}

	VECTORGPU_INLINE void step(Lanes a, Lanes b) { sum = Lanes::multiply_add(a, b, sum); }

	VECTORGPU_INLINE double score(float) const { return -static_cast<double>(Lanes::reduce(sum)); }
};

/// Σ |a - b|
struct L1Op
{
	Lanes sum;

	VECTORGPU_INLINE void start() { sum = Lanes::zero(); }

	template <class Element>
	static VECTORGPU_INLINE float query_state(const ScoreCall &)
	{
		return 0;
	}

	VECTORGPU_INLINE void step(Lanes a, Lanes b) { sum = Lanes::add_absolute(sum, Lanes::subtract(a, b)); }

	VECTORGPU_INLINE double score(float) const { return Lanes::reduce(sum); }
};

/// 1 - Σ a b / √(Σ a² Σ b²). The query's Σ a² does not depend on the row: it is computed once per call.
struct CosineOp
{
	Lanes ab;
	Lanes bb;

	VECTORGPU_INLINE void start() { ab = bb = Lanes::zero(); }

	template <class Element>
	static VECTORGPU_INLINE float query_state(const ScoreCall &call)
	{
		const unsigned char *q = call.query;
		Lanes aa = Lanes::zero();
		size_t left = call.dim;

		for (; left >= kLanes; left -= kLanes, q += kLanes * Element::kBytes)
		{
			const Lanes a = Element::load(q);

			aa = Lanes::multiply_add(a, a, aa);
		}
		if (left > 0)
		{
			const Lanes a = Element::load_tail(q, left);

			aa = Lanes::multiply_add(a, a, aa);
		}
		return Lanes::reduce(aa);
	}

	VECTORGPU_INLINE void step(Lanes a, Lanes b)
	{
		ab = Lanes::multiply_add(a, b, ab);
		bb = Lanes::multiply_add(b, b, bb);
	}

	VECTORGPU_INLINE double score(float aa) const
	{
		const float row_norm = Lanes::reduce(bb);

		if (aa == 0 || row_norm == 0)
			return __builtin_nan("");

		// The product of two floats is exact in double and can neither overflow nor underflow there.
		const double norms = static_cast<double>(aa) * static_cast<double>(row_norm);
		const double similarity = static_cast<double>(Lanes::reduce(ab)) / __builtin_sqrt(norms);

		if (similarity > 1)
			return 0;
		if (similarity < -1)
			return 2;
		return 1 - similarity;
	}
};

/// Score one row. Its few independent chains of additions, and those of the next row, which the CPU starts early, wait
/// for memory only; two rows side by side are no faster from memory and slower when rows are long (README.md,
/// "Decisions").
template <class Op, class Element>
static VECTORGPU_INLINE double
score_row(const unsigned char *q, const unsigned char *row, size_t dim, ptrdiff_t ahead, float query_state)
{
	Op op;

	op.start();
	for (; dim >= kLanes; dim -= kLanes)
	{
		prefetch(row, ahead, kLanes * Element::kBytes);
		op.step(Element::load(q), Element::load(row));
		q += kLanes * Element::kBytes;
		row += kLanes * Element::kBytes;
	}
	if (dim > 0)
	{
		prefetch(row, ahead, dim * Element::kBytes);
		op.step(Element::load_tail(q, dim), Element::load_tail(row, dim));
	}
	return normalise(op.score(query_state));
}

template <class Op, class Element>
static void
score_block(const ScoreCall &call)
{
	const float query_state = Op::template query_state<Element>(call);

	for (size_t i = 0; i < call.n_rows; i++)
		call.scores[i] =
			score_row<Op, Element>(call.query, call.rows + i * call.row_stride, call.dim, call.read_ahead, query_state);
}

/// Up to 8 bytes of a packed bit string, the missing ones zero.
static VECTORGPU_INLINE uint64_t
load_bits(const unsigned char *p, size_t n_bytes)
{
	uint64_t word = 0;

	memcpy(&word, p, n_bytes);
	return word;
}

/// Number of differing bits.
struct HammingOp
{
	uint64_t differing = 0;

	VECTORGPU_INLINE void step(uint64_t a, uint64_t b)
	{
		differing += static_cast<uint64_t>(__builtin_popcountll(a ^ b));
	}

	VECTORGPU_INLINE double score() const { return static_cast<double>(differing); }
};

/// 1 - |a and b| / |a or b|; 1 if no bit is common (also for two empty sets).
struct JaccardOp
{
	uint64_t common = 0;
	uint64_t any = 0;

	VECTORGPU_INLINE void step(uint64_t a, uint64_t b)
	{
		common += static_cast<uint64_t>(__builtin_popcountll(a & b));
		any += static_cast<uint64_t>(__builtin_popcountll(a | b));
	}

	VECTORGPU_INLINE double score() const
	{
		return common == 0 ? 1 : 1 - static_cast<double>(common) / static_cast<double>(any);
	}
};

template <class Op>
static void
score_bits(const ScoreCall &call)
{
	const size_t n_bytes = (call.dim + 7) / 8;

	for (size_t i = 0; i < call.n_rows; i++)
	{
		const unsigned char *row = call.rows + i * call.row_stride;
		Op op;
		size_t byte = 0;

		prefetch(row, call.read_ahead, n_bytes);
#pragma GCC unroll 4
		for (; byte + 8 <= n_bytes; byte += 8)
			op.step(load_bits(call.query + byte, 8), load_bits(row + byte, 8));
		if (byte < n_bytes)
			op.step(load_bits(call.query + byte, n_bytes - byte), load_bits(row + byte, n_bytes - byte));
		call.scores[i] = op.score();
	}
}

/// floats[i] = halves[i], exactly.
static void
widen_halves_block(const unsigned char *halves, size_t n, float *floats)
{
	size_t i = 0;

	for (; i + kLanes <= n; i += kLanes)
		Lanes::load_half(halves + i * 2).store(floats + i);
	if (i < n)
	{
		float tail[kLanes];

		Lanes::load_half_tail(halves + i * 2, n - i).store(tail);
		memcpy(floats + i, tail, (n - i) * sizeof(float));
	}
}

/// The table of the including file.
constexpr ScoreKernels kKernels = {
	{score_block<L2Op, Float32Element>, score_block<L2Op, Float16Element>},
	{score_block<InnerProductOp, Float32Element>, score_block<InnerProductOp, Float16Element>},
	{score_block<CosineOp, Float32Element>, score_block<CosineOp, Float16Element>},
	{score_block<L1Op, Float32Element>, score_block<L1Op, Float16Element>},
	score_bits<HammingOp>,
	score_bits<JaccardOp>,
	widen_halves_block,
};

} // namespace
} // namespace vectorgpu::engine
