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
Source::filter_form(uint32_t n_queries, uint32_t k) const
{
	const bool has_halves = rounded.halves != nullptr;

	if (rounded.scaled != nullptr)
	{
		const uint32_t dim_pad = block->pitch_bytes / sizeof(float);
		const uint32_t most_k = has_halves ? kernels::scaled_most_k_beside_halves(n_queries, dim_pad, rounded.is_long)
										   : kernels::kScaledMostK;

		if (k <= most_k || !(has_halves || kernels::filter_fits(block->form, dim_pad)))
			return kernels::Form::kScaled;
	}
	return has_halves ? kernels::Form::kFloat16 : block->form;
}

/// The rows in their own form or rounded to this one.
kernels::Rows
Source::rows_of(kernels::Form form) const
{
	kernels::Rows narrow = rows();

	if (form == block->form)
		return narrow;

	const RoundedRows &from = form == kernels::Form::kScaled ? *rounded.scaled : *rounded.halves;

	narrow.form = form;
	narrow.pitch_bytes = from.pitch_bytes;
	narrow.vectors = from.vectors.as<uint8_t>() + static_cast<size_t>(first) * narrow.pitch_bytes;
	return narrow;
}

kernels::ScaledPass
Source::scaled_pass(const engine::DistanceSpec &spec) const
{
	kernels::ScaledPass pass;

	pass.values = rounded.scaled->values.as<kernels::ScaledValue>() + first;
	kernels::scale_pass(spec.metric, spec.dim, max_norm, &pass);
	return pass;
}

} // namespace vectorgpu::cuda
