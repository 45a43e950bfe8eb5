// Rows of float32 kept beside in bytes, a quarter of their size, by which a search skips rows that cannot be among the
// nearest (README.md, "Rounded rows"). Internal to the CPU engine and to the copies in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/filter/filter_bounds.hpp"
#include "engine/filter/rounded_kernels.hpp"
#include "engine/distance/distance.hpp"

namespace vectorgpu::engine
{

/// True if rows of the specification can be rounded: float32, a metric of the GEMM filter, enough dimensions to pay.
bool rounds(const DistanceSpec &spec);

/// Bytes of a rounded row.
inline size_t
rounded_bytes(const DistanceSpec &spec)
{
	return (spec.dim + kRoundedStep - 1) / kRoundedStep * kRoundedStep;
}

/// What a rounded row c stands for: |x - scale * c| <= error. The error is infinite for rows that no filter is trusted
/// with.
struct Rounding
{
	float scale;
	float error;
	int32_t squares; // Σ c²
};

/// Bytes that a rounded row takes beside the row.
inline size_t
rounded_slot_bytes(const DistanceSpec &spec)
{
	return rounded_bytes(spec) + sizeof(Rounding);
}

/// Write to c [rounded_bytes] the rounded row of x [dim], with zeros behind it. square_norm: of x.
Rounding round_row(const DistanceSpec &spec, const float *x, double square_norm, int8_t *c);

/// The same of a row that no filter may be trusted with; then its error says nothing.
Rounding round_any(const DistanceSpec &spec, const float *x, int8_t *c);

/// Rounded rows of a block: at most kMost of any chunks.
struct RoundedBlock
{
	static constexpr size_t kMost = 256;

	size_t n = 0;
	const int8_t *rows[kMost];
	Rounding roundings[kMost];
	double square_norms[kMost];

	void add(const int8_t *row, Rounding rounding, double square_norm)
	{
		rows[n] = row;
		roundings[n] = rounding;
		square_norms[n++] = square_norm;
	}
};

/// A query, rounded. Throws bad_alloc.
class RoundedQuery
{
public:
	RoundedQuery(const DistanceSpec &spec, const void *query);

	/// False for queries that no filter is trusted with.
	bool is_trusted() const { return is_trusted_; }

	float scale() const { return rounding_.scale; }

	/// products [n]: exact inner products of the rounded query and rows.
	void products(const int8_t *const *rows, size_t n, int32_t *products) const
	{
		kernel_(rows, n, query_.size(), query_.data(), products);
	}

	/// Write to survivors [block.n] the ascending numbers of the rows whose canonical score may be at most `threshold`;
	/// return how many. No other row's is.
	size_t survivors(const RoundedBlock &block, double threshold, uint32_t *survivors) const;

private:
	FilterBounds bounds_;
	RoundedKernel kernel_;
	std::vector<int8_t> query_; // [rounded_bytes]
	Rounding rounding_;
	double norm_;
	double square_norm_;
	bool is_trusted_;
};

} // namespace vectorgpu::engine
