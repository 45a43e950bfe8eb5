// Codes of rows that searches of a graph compare instead of the rows: sizes and scores. One number tells the kind:
//   32 … 512  bits of a row by random projections (hash.hpp), compared by Hamming distance with the query's
//   1, 2, 4   bits of a dimension by RaBitQ (rabitq_codes.hpp), multiplied by the query's elements
//   0         no codes
// codes.hpp makes them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::graph
{

constexpr uint32_t kMinHashBits = 32;
constexpr uint32_t kMaxHashBits = 512;
constexpr uint32_t kMaxRabitqCodeBits = 4; // beside vectors for the rows found, more find no more
constexpr size_t kRabitqUnit = 16;         // bytes of a row's numbers are a multiple of this
constexpr size_t kRabitqSlack = 16;        // bytes behind a query's elements, so that registers of 32 can be read

constexpr bool
hash_bits_valid(uint32_t bits)
{
	return bits >= kMinHashBits && bits <= kMaxHashBits && (bits & (bits - 1)) == 0;
}

/// Whether codes of this many bits, not 0, are RaBitQ's.
constexpr bool
codes_are_rabitq(uint32_t bits)
{
	return bits == 1 || bits == 2 || bits == 4;
}

constexpr bool
code_bits_valid(uint32_t bits)
{
	return hash_bits_valid(bits) || codes_are_rabitq(bits);
}

/// A row's factors: score = add + scale * u·q (ivf/rabitq/rabitq.hpp).
struct RabitqFactors
{
	float add;
	float scale;
};

/// The beginning of a query's code of RaBitQ. int8 [8 / bits, rabitq_number_bytes] elements follow, then slack.
struct RabitqQueryHead
{
	float scale; // of half an element
	int32_t sum; // of the elements, times 2^bits - 1
	uint32_t zero[2];
};
static_assert(sizeof(RabitqQueryHead) == 16);

/// Bytes of a row's numbers, `bits` for each dimension.
constexpr size_t
rabitq_number_bytes(uint32_t bits, uint32_t dim)
{
	const size_t padded = (size_t{dim} + 7) / 8 * 8;

	return (padded * bits / 8 + kRabitqUnit - 1) / kRabitqUnit * kRabitqUnit;
}

/// Bytes of a row's code, a multiple of 4. Of projections bit b is 1 << (7 - b % 8) of byte b / 8, as in
/// ElementType::kBit. Of RaBitQ RabitqFactors, then numbers: dimension i is the part i / n of byte i % n, where n is
/// the number of bytes, and the lowest bits are part 0.
constexpr size_t
code_bytes(uint32_t bits, uint32_t dim)
{
	return codes_are_rabitq(bits) ? sizeof(RabitqFactors) + rabitq_number_bytes(bits, dim) : bits / 8;
}

/// Bytes of a query's code, a multiple of 16 for RaBitQ.
constexpr size_t
code_query_bytes(uint32_t bits, uint32_t dim)
{
	return codes_are_rabitq(bits) ? sizeof(RabitqQueryHead) + rabitq_number_bytes(bits, dim) * (8 / bits) + kRabitqSlack
								  : bits / 8;
}

/// Floats of the parameters that depend on the rows: thresholds of the projections, or RaBitQ's centre.
constexpr size_t
code_model_floats(uint32_t bits, uint32_t dim)
{
	return codes_are_rabitq(bits) ? dim : bits;
}

/// scores [n] of codes [n], `stride` bytes apart, to the query's code. They order rows as the metric does, up to the
/// codes' error; they are finite or -infinity, float32 numbers of the
/// same bits at every level, never -0.
void compute_code_scores(
	uint32_t bits, uint32_t dim, const void *query_code, const void *codes, size_t stride, size_t n, double *scores);

} // namespace vectorgpu::engine::graph
