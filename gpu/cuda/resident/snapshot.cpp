// See snapshot.hpp.
#include "cuda/resident/snapshot.hpp"

#include "cuda/resident/ivf_lists.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/filter/tuning.hpp"

namespace vectorgpu::cuda
{

kernels::Rows
Source::rows() const
{
	kernels::Rows rows;

	rows.vectors = block->vectors.as<uint8_t>() + static_cast<size_t>(first) * block->pitch_bytes;
	rows.row_ids = (lists != nullptr ? lists->row_ids : block->row_ids).as<uint64_t>() + first;
	rows.dead = dead == nullptr ? nullptr : dead->as<uint8_t>();
	rows.dead_start = dead_start;
	rows.dead_bits = dead_bits;
	rows.n_rows = n_rows;
	rows.pitch_bytes = block->pitch_bytes;
	rows.form = block->form;
	return rows;
}

kernels::Form
Source::filter_form(uint32_t k) const
{
	if (rounded == nullptr)
		return block->form;
	if (rounded->form == kernels::Form::kScaled && k > kernels::kScaledMostK &&
		kernels::filter_fits(block->form, block->pitch_bytes / sizeof(float)))
		return block->form;
	return rounded->form;
}

/// The rows in their own form or in that of the rounded ones.
kernels::Rows
Source::rows_of(kernels::Form form) const
{
	kernels::Rows narrow = rows();

	if (form == block->form)
		return narrow;
	narrow.form = rounded->form;
	narrow.pitch_bytes = rounded->pitch_bytes;
	narrow.vectors = rounded->vectors.as<uint8_t>() + static_cast<size_t>(first) * narrow.pitch_bytes;
	return narrow;
}

kernels::ScaledPass
Source::scaled_pass(const engine::DistanceSpec &spec) const
{
	kernels::ScaledPass pass;

	pass.values = rounded->values.as<kernels::ScaledValue>() + first;
	kernels::scale_pass(spec.metric, spec.dim, max_norm, &pass);
	return pass;
}

} // namespace vectorgpu::cuda
