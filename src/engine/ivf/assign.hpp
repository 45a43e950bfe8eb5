// Assignment of rows to packed centroids, shared by coarse_assign, k-means and the product quantiser's encoder.
// Internal to the folder.
#pragma once

#include "engine/ivf/coarse.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::ivf
{

/// Row i is rows[indices[i] * row_stride], or rows[i * row_stride] without indices.
struct RowSource
{
	const float *rows = nullptr;
	size_t row_stride = 0; // floats
	const uint32_t *indices = nullptr;

	const float *row(size_t i) const { return rows + (indices != nullptr ? indices[i] : i) * row_stride; }
};

/// Rows of a block: half of a second-level cache, and a multiple of a tile.
constexpr size_t
assign_block_rows(size_t dim)
{
	const size_t rows = (size_t{1} << 16) / (dim == 0 ? 1 : dim) / 12 * 12;

	return rows < 12 ? 12 : rows > 240 ? 240 : rows;
}

/// Scratch of one thread.
struct AssignScratch
{
	float *rows = nullptr; // [block, dim], for indices
	float *best = nullptr; // the kernel's state
	uint32_t *group = nullptr;
	float *second = nullptr;
};

AssignScratch take_assign_scratch(Arena *arena, size_t dim);

/// Assign one block, n_rows <= assign_block_rows(dim), from row `first` of the source on. labels, scores (or null): of
/// the block's rows.
void assign_block(const Coarse &coarse, const RowSource &source, size_t first, size_t n_rows,
	const AssignScratch &scratch, uint32_t *labels, float *scores);

/// Assign all rows, in the caller's threads; scratch [call.n_threads]. False: stopped.
bool assign_rows(const Coarse &coarse, const RowSource &source, size_t n_rows, uint32_t *labels, float *scores,
	const AssignScratch *scratch, const Call &call, Progress progress);

/// The number of threads to use: the caller's, at most those with scratch.
constexpr size_t
usable_threads(const Call &call, size_t prepared)
{
	const size_t n = call.parallel == nullptr || call.n_threads == 0 ? 1 : call.n_threads;

	return n < prepared ? n : prepared == 0 ? 1 : prepared;
}

constexpr size_t kMaxThreads = 256;

} // namespace vectorgpu::engine::ivf
