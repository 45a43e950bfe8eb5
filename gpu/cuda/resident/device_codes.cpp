// See device_codes.hpp.
#include "cuda/resident/device_codes.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cuda/device/host_team.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::ivf::CodeKind;

/// By the host's threads, if it is much.
void
copy_on_host(uint8_t *to, const uint8_t *from, size_t n_bytes)
{
	HostTeam::get().share(
		n_bytes, n_bytes, [=](size_t first, size_t last) { std::memcpy(to + first, from + first, last - first); });
}

/// Send codes through the staging buffer and lay them out for the kernels.
Status
send_codes(const Device *device, Uploader *uploader, const engine::Lists &lists, DeviceCodes *codes)
{
	const engine::CodesLayout &layout = codes->layout;
	const cudaStream_t stream = uploader->stream.get();
	const size_t unit_rows = engine::ivf::code_unit_rows(layout.spec);
	const size_t unit_bytes = unit_rows * codes->code_bytes;
	const uint64_t n_units = (layout.n_rows + unit_rows - 1) / unit_rows;
	const size_t per_round =
		std::max<size_t>(1, std::min(uploader->pinned.bytes(), uploader->staging.bytes()) / unit_bytes);

	for (uint64_t done = 0; done < n_units;)
	{
		const uint64_t here = std::min<uint64_t>(per_round, n_units - done);
		const uint8_t *staging = uploader->staging.as<uint8_t>();
		cudaError_t error = cudaSuccess;

		VECTORGPU_TRY(send_bytes(
			device, uploader, uploader->staging.get(), lists.codes() + done * unit_bytes, here * unit_bytes));
		if (layout.spec.kind == CodeKind::kHalves)
			error = cudaMemcpy2DAsync(codes->codes.as<uint8_t>() + done * codes->pitch_bytes, codes->pitch_bytes,
				staging, codes->code_bytes, codes->code_bytes, here, cudaMemcpyDeviceToDevice, stream);
		else
			error = lay_out_codes(*codes, staging, done, here, codes->codes.as<uint8_t>(), stream);
		VECTORGPU_TRY(device->check(error, "lay out codes"));
		VECTORGPU_TRY(uploader->stream.synchronize()); // before the staging buffer is reused
		done += here;
	}
	return Status::ok();
}

} // namespace

/// A piece is copied by the host's threads while the one before it travels, from the other half of the pinned buffer.
Status
send_bytes(const Device *device, Uploader *uploader, void *to, const void *from, size_t n_bytes)
{
	const size_t most = uploader->pinned.bytes() / 2;
	bool second = false;

	for (size_t done = 0; done < n_bytes; second = !second)
	{
		const size_t here = std::min(n_bytes - done, most);
		uint8_t *half = uploader->pinned.as<uint8_t>() + (second ? most : 0);

		copy_on_host(half, static_cast<const uint8_t *>(from) + done, here);
		if (done > 0)
			VECTORGPU_TRY(uploader->stream.synchronize());
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(static_cast<uint8_t *>(to) + done, half, here,
										cudaMemcpyHostToDevice, uploader->stream.get()),
			"send lists"));
		done += here;
	}
	return n_bytes > 0 ? uploader->stream.synchronize() : Status::ok();
}

Status
receive_bytes(const Device *device, Uploader *uploader, uint8_t *to, const uint8_t *from, size_t n_bytes)
{
	const size_t most = uploader->pinned.bytes() / 2;
	uint8_t *half = uploader->pinned.as<uint8_t>();
	uint8_t *other = half + most; // has the n_before bytes before those that travel
	size_t n_before = 0;

	for (size_t done = 0; done < n_bytes;)
	{
		const size_t here = std::min(n_bytes - done, most);

		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(half, from + done, here, cudaMemcpyDeviceToHost, uploader->stream.get()), "read lists"));
		copy_on_host(to + done - n_before, other, n_before);
		VECTORGPU_TRY(uploader->stream.synchronize());
		n_before = here;
		done += here;
		std::swap(half, other);
	}
	copy_on_host(to + n_bytes - n_before, other, n_before);
	return Status::ok();
}

Status
count_different(const Device *device, Uploader *uploader, const uint8_t *on_device, const uint8_t *on_host,
	size_t n_bytes, uint64_t *n_different)
{
	std::vector<uint8_t> read(std::min(n_bytes, uploader->pinned.bytes()));

	for (size_t done = 0; done < n_bytes;)
	{
		const size_t here = std::min(n_bytes - done, read.size());

		VECTORGPU_TRY(receive_bytes(device, uploader, read.data(), on_device + done, here));
		for (size_t i = 0; i < here; i++)
			*n_different += read[i] != on_host[done + i] ? 1 : 0;
		done += here;
	}
	return Status::ok();
}

cudaError_t
lay_out_codes(const DeviceCodes &codes, const uint8_t *from, uint64_t first_unit, uint64_t n_units, uint8_t *to,
	cudaStream_t stream)
{
	switch (codes.layout.spec.kind)
	{
		case CodeKind::kSq8:
			return kernels::launch_sq8_layout(
				from, codes.layout.spec.dim, first_unit, n_units, to, codes.pitch_bytes, stream);
		case CodeKind::kPq:
			return kernels::launch_pq_layout(
				from, codes.code_bytes, first_unit, n_units, to, codes.pitch_bytes, stream);
		case CodeKind::kRabitq:
			return kernels::launch_rabitq_layout(codes.view(), from, first_unit, n_units, to, stream);
		case CodeKind::kHalves:
		case CodeKind::kNone:
			break;
	}
	return cudaErrorInvalidValue;
}

cudaError_t
lay_out_codes_back(const DeviceCodes &codes, uint64_t first_byte, uint64_t n_bytes, uint8_t *to, cudaStream_t stream)
{
	const uint8_t *all = codes.codes.as<uint8_t>();

	switch (codes.layout.spec.kind)
	{
		case CodeKind::kSq8:
			return kernels::launch_sq8_layout_back(
				all, codes.pitch_bytes, codes.layout.spec.dim, first_byte, n_bytes, to, stream);
		case CodeKind::kPq:
			return kernels::launch_pq_layout_back(
				all, codes.pitch_bytes, codes.code_bytes, first_byte, n_bytes, to, stream);
		case CodeKind::kRabitq:
			return kernels::launch_rabitq_layout_back(codes.view(), first_byte, n_bytes, to, stream);
		case CodeKind::kHalves:
		case CodeKind::kNone:
			break;
	}
	return cudaErrorInvalidValue;
}

kernels::Codes
DeviceCodes::view() const
{
	const engine::ivf::CodeSpec &spec = layout.spec;
	kernels::Codes view;

	view.form = spec.kind == CodeKind::kHalves ? kernels::CodeForm::kHalves
		: spec.kind == CodeKind::kSq8          ? kernels::CodeForm::kSq8
		: spec.kind == CodeKind::kRabitq       ? kernels::CodeForm::kRabitq
		: spec.pq.bits == 8                    ? kernels::CodeForm::kPq8
											   : kernels::CodeForm::kPq4;
	view.codes = codes.as<uint8_t>();
	view.pitch_bytes = pitch_bytes;
	view.terms = engine::ivf::code_has_terms(spec) ? terms.as<float>() : nullptr;
	view.model = model.as<float>();
	view.dim = spec.dim;
	view.n_rows = static_cast<uint32_t>(layout.n_rows);
	if (spec.kind == CodeKind::kRabitq)
	{
		view.bits = spec.bits;
		view.deviations = engine::ivf::kRabitqDeviations;
	}
	if (spec.kind == CodeKind::kPq)
	{
		view.m = spec.pq.m;
		view.sub_dim = engine::ivf::pq_sub_dim(spec.pq);
		if (spec.pq.opq)
		{
			view.rotation = model.as<float>() + engine::ivf::pq_codebook_floats(spec.pq);
			view.rotation_stride = static_cast<uint32_t>(engine::ivf::pq_rotation_stride(spec.pq));
		}
	}
	return view;
}

Status
make_codes(Budget *budget, Uploader *uploader, const engine::Lists &lists, std::unique_ptr<const DeviceCodes> *made)
{
	const Device *device = budget->device();
	const engine::CodesLayout &layout = lists.codes_layout();
	const uint32_t code_bytes = static_cast<uint32_t>(engine::ivf::code_bytes(layout.spec));
	const size_t model_bytes = engine::ivf::code_model_floats(layout.spec) * sizeof(float);
	const size_t term_bytes = engine::ivf::code_has_terms(layout.spec) ? layout.n_rows * sizeof(float) : 0;
	auto next = std::make_unique<DeviceCodes>();

	next->layout = layout;
	next->code_bytes = code_bytes;
	switch (layout.spec.kind)
	{
		case CodeKind::kHalves:
			next->pitch_bytes = (layout.spec.dim + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes * 2;
			break;
		case CodeKind::kSq8:
			next->pitch_bytes =
				(layout.spec.dim + kernels::kSq8GroupDims - 1) / kernels::kSq8GroupDims * kernels::kSq8GroupDims;
			break;
		case CodeKind::kRabitq:
			next->pitch_bytes = kernels::rabitq_pitch_bytes(layout.spec.dim, layout.spec.bits);
			break;
		case CodeKind::kPq:
		case CodeKind::kNone:
			next->pitch_bytes = (code_bytes + 15) / 16 * 16;
			break;
	}

	const uint64_t padded_rows = (layout.n_rows + kernels::kCodeRows - 1) / kernels::kCodeRows * kernels::kCodeRows;

	VECTORGPU_TRY(next->model.allocate(budget, std::max<size_t>(model_bytes, 1), "codebooks"));
	VECTORGPU_TRY(next->terms.allocate(budget, std::max<size_t>(term_bytes, 1), "terms of codes"));
	VECTORGPU_TRY(next->codes.allocate(budget, padded_rows * next->pitch_bytes, "codes"));
	if (layout.spec.kind == CodeKind::kHalves)
		VECTORGPU_TRY(device->check(
			cudaMemsetAsync(next->codes.as<uint8_t>(), 0, next->codes.bytes(), uploader->stream.get()), "clear codes"));
	VECTORGPU_TRY(
		send_bytes(device, uploader, next->model.as<uint8_t>(), lists.codes_bytes() + layout.model_at(), model_bytes));
	VECTORGPU_TRY(
		send_bytes(device, uploader, next->terms.as<uint8_t>(), lists.codes_bytes() + layout.terms_at(), term_bytes));
	VECTORGPU_TRY(send_codes(device, uploader, lists, next.get()));
	*made = std::move(next);
	return Status::ok();
}

Status
read_codes(
	const Device *device, Uploader *uploader, const DeviceCodes &codes, uint64_t first, size_t n_bytes, uint8_t *bytes)
{
	const engine::CodesLayout &layout = codes.layout;
	const cudaStream_t stream = uploader->stream.get();

	while (n_bytes > 0)
	{
		size_t here = n_bytes;

		if (first < layout.model_at())
		{
			const engine::CodesHead head = engine::head_of(layout.spec);

			here = std::min<uint64_t>(here, layout.model_at() - first);
			std::memcpy(bytes, reinterpret_cast<const uint8_t *>(&head) + first, here);
		}
		else if (first < layout.terms_at())
		{
			here = std::min<uint64_t>(here, layout.terms_at() - first);
			VECTORGPU_TRY(
				receive_bytes(device, uploader, bytes, codes.model.as<uint8_t>() + (first - layout.model_at()), here));
		}
		else if (first < layout.codes_at())
		{
			here = std::min<uint64_t>(here, layout.codes_at() - first);
			VECTORGPU_TRY(
				receive_bytes(device, uploader, bytes, codes.terms.as<uint8_t>() + (first - layout.terms_at()), here));
		}
		else
		{
			const uint64_t at = first - layout.codes_at();
			uint8_t *staging = uploader->staging.as<uint8_t>();
			cudaError_t error = cudaSuccess;

			here = std::min(here, uploader->staging.bytes());
			if (layout.spec.kind != CodeKind::kHalves)
				error = lay_out_codes_back(codes, at, here, staging, stream);
			else if (const size_t in_row = at % codes.code_bytes; in_row == 0 && here >= codes.code_bytes)
			{
				// Rows are padded: copy all whole rows at once.
				const size_t n_rows = here / codes.code_bytes;

				here = n_rows * codes.code_bytes;
				error = cudaMemcpy2DAsync(staging, codes.code_bytes,
					codes.codes.as<uint8_t>() + at / codes.code_bytes * codes.pitch_bytes, codes.pitch_bytes,
					codes.code_bytes, n_rows, cudaMemcpyDeviceToDevice, stream);
			}
			else
			{
				here = std::min<size_t>(
					here, codes.code_bytes - in_row); // the end of a row, or the beginning of the last one
				error = cudaMemcpyAsync(staging,
					codes.codes.as<uint8_t>() + at / codes.code_bytes * codes.pitch_bytes + in_row, here,
					cudaMemcpyDeviceToDevice, stream);
			}
			VECTORGPU_TRY(device->check(error, "read codes"));
			VECTORGPU_TRY(receive_bytes(device, uploader, bytes, staging, here));
		}
		first += here;
		bytes += here;
		n_bytes -= here;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
