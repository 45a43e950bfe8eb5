// Rounded rows of a segment: a copy of its float32 rows for the filter, in binary16 or in signed bytes with a factor of
// each row. README.md says when which is made, kernels/filter/README.md what the filter does with them.
#pragma once

#include <memory>

#include "cuda/device/block.hpp"
#include "cuda/device/uploader.hpp"
#include "kernels/filter/scaled.hpp"

namespace vectorgpu::cuda
{

/// Where rounded rows are made. Callers hold the uploader.
struct RoundedPlace
{
	const engine::DistanceSpec &spec;
	const Shape &shape;
	Budget *budget;
	Uploader *uploader;
};

/// Compute the values of a block of rows, and what the filter needs to know of them all, into its Filled. Waits for the
/// stream.
Status find_row_values(const RoundedPlace &place, Filled *filled);

/// Make the bytes, alone or beside the binary16 rows that `filled` has, unless the filter cannot use them, memory
/// lacks, or they would leave many candidates to queries like the rows: then *made is null. Waits for the stream.
Status make_scaled_rows(const RoundedPlace &place, const Filled &filled, std::shared_ptr<const RoundedRows> *made);

/// The same in binary16, alone or beside the bytes that `filled` has. They are not made where the filter's bound would
/// be wide. Does not wait.
Status make_half_rows(const RoundedPlace &place, const Filled &filled, std::shared_ptr<const RoundedRows> *made);

/// Launch the kernel that makes rows [first, first + n) of rounded rows, into `to` [n, pitch_bytes] and `values` [n];
/// one of them may be null. values and off_bits (kernels::launch_scale_rows) are for Form::kScaled.
cudaError_t launch_rounding(const RoundedPlace &place, const Filled &filled, const RoundedRows &rounded, uint32_t first,
	uint32_t n, void *to, kernels::ScaledValue *values, uint32_t *off_bits);

} // namespace vectorgpu::cuda
