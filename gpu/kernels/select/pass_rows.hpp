// The rows that meet a predicate program (src/engine/predicate), from codes on the device: bitmaps, counts, a list.
#pragma once

#include "engine/predicate/zone.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kPassBlockRows = engine::predicate::kBlockRows; // a block of threads decides those of a zone

struct PassHead
{
	uint64_t n_pass;
	uint64_t n_sure; // of these, those that pass certainly
};

/// Blocks of rows: ceil(n_rows / kPassBlockRows). A bitmap has kPassBlockRows bits for each.
struct PassRows
{
	const engine::predicate::Step *steps = nullptr;          // [n_steps], a checked program; codes aligned to 8 bytes
	const engine::predicate::ColumnCodes *columns = nullptr; // by stream; codes aligned to their width
	uint32_t n_steps = 0;
	uint32_t n_streams = 0;
	uint32_t n_rows = 0;        // up to 2^31
	uint32_t n_most = 0;        // rows are listed if no more than these pass
	uint32_t *pass = nullptr;   // out, bitmap: row i is bit i % 32 of word i / 32, zero behind the last row
	uint32_t *maybe = nullptr;  // out, the same, of rows that pass, but not certainly; null: not wanted
	uint32_t *counts = nullptr; // scratch, [blocks]
	PassHead *head = nullptr;   // out
	uint32_t *rows = nullptr;   // out, [n_most]: the rows that pass, ascending; unspecified if more pass
};

/// Three launches: decide, sum, list. Reproducible.
[[nodiscard]] cudaError_t launch_pass_rows(const PassRows &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
