// Rows in one piece of device memory.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/device/budget.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// Return the form that holds an element type unchanged.
kernels::Form own_form(ElementType element);

/// Return the bytes of a padded row.
uint32_t form_pitch(kernels::Form form, uint32_t dim);

/// True if the filter has kernels for such rows. Blocks have values then.
bool filter_serves(const engine::DistanceSpec &spec);

/// Sizes that queries and rows share.
struct Shape
{
	explicit Shape(const engine::DistanceSpec &spec);

	Metric metric;
	uint32_t row_bytes;   // of the caller's rows
	uint32_t dim_pad;     // elements; bits: bytes
	uint32_t query_bytes; // of a query on the device: float32 padded, or bits padded
};

/// Write a query to `to` [shape.query_bytes] in the device's form: halves widened, padded with zeros.
void put_query(const engine::DistanceSpec &spec, const Shape &shape, const void *query, uint8_t *to);

/// Room for rows, padded. A writer fills it from the front; readers read only the rows of their snapshot. In host
/// memory (make_block_on_host) both vectors and row ids are, and there are no values.
struct Block
{
	kernels::Form form = kernels::Form::kFloat32;
	uint32_t pitch_bytes = 0; // 0: row ids alone
	uint32_t capacity = 0;
	Held vectors; // [capacity, pitch_bytes]
	Held row_ids; // [capacity]
	Held values;  // [capacity] float, for the filter; if make_block was asked for them

	bool on_host() const { return vectors.on_host(); }
};

Status make_block(Budget *budget, kernels::Form form, uint32_t dim, uint32_t capacity, bool with_values,
	std::shared_ptr<const Block> *block);

/// The same for row ids alone.
Status make_block_of_ids(Budget *budget, kernels::Form form, uint32_t capacity, std::shared_ptr<const Block> *block);

/// Make a block with vectors and without values in host memory, filled with zeros. capacity > 0. The device must not
/// read it before pin_block().
Status make_block_on_host(
	const Device *device, kernels::Form form, uint32_t dim, uint32_t capacity, std::shared_ptr<Block> *block);

/// Let the device read a block in host memory. *block becomes another block with the same rows where memory cannot be
/// pinned where it is. After a failure it is as before.
Status pin_block(const Device *device, std::shared_ptr<Block> *block);

/// Copy the first n rows of a block to another one of the same form, between host and device. Waits for the stream.
Status copy_block(const Device *device, const Stream &stream, const Block &from, uint32_t n, const Block &to);

/// Write rows [first, first + n) of a block in host memory, in the element type, as read_block does.
void read_host_block(
	const engine::DistanceSpec &spec, const Block &block, uint32_t first, uint32_t n, RowId *row_ids, uint8_t *vectors);

/// A block's float32 rows rounded to a narrower form, which the filter reads instead of them.
struct RoundedRows
{
	kernels::Form form = kernels::Form::kFloat16; // or kScaled
	uint32_t pitch_bytes = 0;
	Held vectors;   // [n_rows, pitch_bytes]
	Held values;    // kScaled: [n_rows] kernels::ScaledValue
	double off = 0; // kScaled: kernels::RowScaling
};

/// The rounded copies that a block has. The filter of a search reads one of them (Source::filter_form).
struct RoundedForms
{
	std::shared_ptr<const RoundedRows> scaled; // null: none
	std::shared_ptr<const RoundedRows> halves; // the same
	bool is_long = false; // as many bytes as `scaled` needs to be the first form; else that is `halves`

	bool any() const { return scaled != nullptr || halves != nullptr; }
};

/// The first rows of a block, with the properties that the filter needs.
struct Filled
{
	std::shared_ptr<const Block> block;
	uint32_t n_rows = 0;
	double max_norm = 0;    // an upper bound over trusted rows
	double max_inverse = 0; // the same of 1 / |row|; cosine
	uint32_t n_untrusted = 0;
	bool filterable = false; // the block's values and the members above are valid
	RoundedForms rounded;
};

/// Read rows [first, first + n) of a block in the element type, exactly: row_ids [n] and, if the block has vectors,
/// vectors [n, row_bytes]. pinned: room for at least one row. Waits for the stream.
Status read_block(const Device *device, const Stream &stream, const PinnedBuffer &pinned,
	const engine::DistanceSpec &spec, const Block &block, uint32_t first, uint32_t n, RowId *row_ids, uint8_t *vectors);

} // namespace vectorgpu::cuda
