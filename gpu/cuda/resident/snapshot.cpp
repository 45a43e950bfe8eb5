// See snapshot.hpp.
#include "cuda/resident/snapshot.hpp"

#include "cuda/resident/ivf_lists.hpp"

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

kernels::Rows
Source::filter_rows() const
{
	kernels::Rows narrow = rows();

	if (halves == nullptr)
		return narrow;
	narrow.form = kernels::Form::kFloat16;
	narrow.pitch_bytes = block->pitch_bytes / 2;
	narrow.vectors = halves->as<uint8_t>() + static_cast<size_t>(first) * narrow.pitch_bytes;
	return narrow;
}

} // namespace vectorgpu::cuda
