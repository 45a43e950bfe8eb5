// Rows in the forms of the device, made on the host, for the delta: its rows come a few at a time, and the host must
// know at once whether they fit a form and whether the filter's bound covers them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/interface/engine.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

/// Return the narrowest form, no narrower than `least`, that holds all n float32 elements exactly (-0 and NaN are not
/// bytes; no NaN is a half). As launch_narrow_check.
kernels::Form narrowest_form(kernels::Form least, const float *elements, size_t n);

/// Write the row to `to` [pitch_bytes] in `form`, which holds it, with zeros beyond dim. row: of the element type, any
/// alignment.
void encode_row(
	const engine::DistanceSpec &spec, const void *row, kernels::Form form, uint32_t pitch_bytes, uint8_t *to);

struct RowValue
{
	float value;     // as launch_row_values; NaN: the filter's bound does not cover the row
	double max_norm; // |row| rounded up; 0 if not covered
};

/// Return the value of a row that the filter serves. scratch [dim].
RowValue row_value(const engine::DistanceSpec &spec, const void *row, float *scratch);

} // namespace vectorgpu::cuda
