// Rows in one piece of device memory, and how many of them are there.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/device/budget.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// The form that holds an element type as it comes.
kernels::Form own_form(ElementType element);

/// Bytes of a padded row.
uint32_t form_pitch(kernels::Form form, uint32_t dim);

/// True if the filter has kernels for such rows: then blocks have values.
bool filter_serves(const engine::DistanceSpec &spec);

/// Elements of a row as queries and rows share them.
struct Shape
{
	explicit Shape(const engine::DistanceSpec &spec);

	Metric metric;
	uint32_t row_bytes;   // as the caller has them
	uint32_t dim_pad;     // elements; bits: bytes
	uint32_t query_bytes; // of a query on the device: float32 padded, or bits padded
};

/// A query as it lies on the device: to [shape.query_bytes]; halves widened, zeros behind.
void put_query(const engine::DistanceSpec &spec, const Shape &shape, const void *query, uint8_t *to);

/// Room for rows, padded. A writer fills it from the front; readers look at rows they were told of.
struct Block
{
	kernels::Form form = kernels::Form::kFloat32;
	uint32_t pitch_bytes = 0; // 0: row ids alone
	uint32_t capacity = 0;
	Held vectors; // [capacity, pitch_bytes]
	Held row_ids; // [capacity]
	Held values;  // [capacity] float, for the filter; where make_block was asked for them
};

Status make_block(Budget *budget, kernels::Form form, uint32_t dim, uint32_t capacity, bool with_values,
	std::shared_ptr<const Block> *block);

/// The same for row ids alone.
Status make_block_of_ids(Budget *budget, kernels::Form form, uint32_t capacity, std::shared_ptr<const Block> *block);

/// The first rows of a block, and what the filter must know of them.
struct Filled
{
	std::shared_ptr<const Block> block;
	uint32_t n_rows = 0;
	double max_norm = 0; // of trusted rows, or more
	uint32_t n_untrusted = 0;
	bool filterable = false; // the block's values and the two above hold
};

/// Writes rows [first, first + n) of a block back in the element type, exactly: row_ids [n], and where it has vectors,
/// vectors [n, row_bytes]. pinned: room for at least one row. Waits for the stream.
Status read_block(const Device *device, const Stream &stream, const PinnedBuffer &pinned,
	const engine::DistanceSpec &spec, const Block &block, uint32_t first, uint32_t n, RowId *row_ids, uint8_t *vectors);

} // namespace vectorgpu::cuda
