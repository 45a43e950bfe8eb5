// See block.hpp.
#include "cuda/device/block.hpp"

#include <algorithm>
#include <cstring>

#include "common/half.hpp"
#include "engine/distance/distance.hpp"

namespace vectorgpu::cuda
{
namespace
{

using kernels::Form;

uint32_t
round_up(uint32_t n, uint32_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/// Widen a row to float32.
void
widen_row(Form form, const uint8_t *from, uint32_t dim, uint8_t *to)
{
	for (uint32_t e = 0; e < dim; e++)
	{
		float value;

		if (form == Form::kByte)
			value = from[e];
		else
		{
			uint16_t half;

			std::memcpy(&half, from + size_t{e} * 2, 2);
			value = half_to_float(half);
		}
		std::memcpy(to + size_t{e} * 4, &value, 4);
	}
}

} // namespace

void
put_query(const engine::DistanceSpec &spec, const Shape &shape, const void *query, uint8_t *to)
{
	size_t written = shape.row_bytes;

	if (spec.element == ElementType::kFloat16)
	{
		engine::widen_halves(query, spec.dim, reinterpret_cast<float *>(to));
		written = spec.dim * sizeof(float);
	}
	else
		std::memcpy(to, query, shape.row_bytes);
	std::memset(to + written, 0, shape.query_bytes - written);
}

Form
own_form(ElementType element)
{
	return element == ElementType::kFloat32 ? Form::kFloat32
		: element == ElementType::kFloat16  ? Form::kFloat16
											: Form::kBit;
}

uint32_t
form_pitch(Form form, uint32_t dim)
{
	const uint32_t padded = round_up(dim, kernels::kLanes);

	switch (form)
	{
		case Form::kFloat32:
			return padded * 4;
		case Form::kFloat16:
			return padded * 2;
		case Form::kByte:
		case Form::kScaled:
			return padded;
		case Form::kBit:
			return round_up((dim + 7) / 8, kernels::kBitPadBytes);
	}
	return 0;
}

bool
filter_serves(const engine::DistanceSpec &spec)
{
	return spec.element != ElementType::kBit && spec.metric != Metric::kL1;
}

Shape::Shape(const engine::DistanceSpec &spec)
	: metric(spec.metric), row_bytes(static_cast<uint32_t>(vector_bytes(spec.element, spec.dim)))
{
	if (spec.element == ElementType::kBit)
		query_bytes = dim_pad = form_pitch(Form::kBit, spec.dim);
	else
	{
		dim_pad = round_up(spec.dim, kernels::kLanes);
		query_bytes = dim_pad * 4;
	}
}

Status
make_block(
	Budget *budget, Form form, uint32_t dim, uint32_t capacity, bool with_values, std::shared_ptr<const Block> *block)
{
	auto made = std::make_shared<Block>();

	made->form = form;
	made->pitch_bytes = form_pitch(form, dim);
	made->capacity = capacity;
	VECTORGPU_TRY(made->vectors.allocate(budget, static_cast<size_t>(capacity) * made->pitch_bytes, "vectors"));
	VECTORGPU_TRY(made->row_ids.allocate(budget, static_cast<size_t>(capacity) * sizeof(RowId), "row ids"));
	if (with_values)
		VECTORGPU_TRY(made->values.allocate(budget, static_cast<size_t>(capacity) * sizeof(float), "norms of rows"));
	*block = std::move(made);
	return Status::ok();
}

Status
make_block_of_ids(Budget *budget, Form form, uint32_t capacity, std::shared_ptr<const Block> *block)
{
	auto made = std::make_shared<Block>();

	made->form = form;
	made->capacity = capacity;
	VECTORGPU_TRY(made->row_ids.allocate(budget, static_cast<size_t>(capacity) * sizeof(RowId), "row ids"));
	*block = std::move(made);
	return Status::ok();
}

Status
read_block(const Device *device, const Stream &stream, const PinnedBuffer &pinned, const engine::DistanceSpec &spec,
	const Block &block, uint32_t first, uint32_t n, RowId *row_ids, uint8_t *vectors)
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);
	const uint32_t per_round =
		static_cast<uint32_t>(std::max<size_t>(1, pinned.bytes() / (block.pitch_bytes + sizeof(RowId))));

	while (n > 0)
	{
		const uint32_t here = std::min(n, per_round);
		uint8_t *to = pinned.as<uint8_t>();
		const size_t id_bytes = here * sizeof(RowId);

		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(to, block.row_ids.as<RowId>() + first, id_bytes, cudaMemcpyDeviceToHost, stream.get()),
			"read row ids"));
		if (block.pitch_bytes > 0)
			VECTORGPU_TRY(
				device->check(cudaMemcpyAsync(to + id_bytes,
								  block.vectors.as<uint8_t>() + static_cast<size_t>(first) * block.pitch_bytes,
								  static_cast<size_t>(here) * block.pitch_bytes, cudaMemcpyDeviceToHost, stream.get()),
					"read rows"));
		VECTORGPU_TRY(stream.synchronize());
		std::memcpy(row_ids, to, id_bytes);
		first += here;
		row_ids += here;
		n -= here;
		if (block.pitch_bytes == 0)
			continue;
		for (uint32_t i = 0; i < here; i++)
		{
			const uint8_t *from = to + id_bytes + static_cast<size_t>(i) * block.pitch_bytes;

			if (block.form == own_form(spec.element))
				std::memcpy(vectors + i * row_bytes, from, row_bytes);
			else
				widen_row(block.form, from, spec.dim, vectors + i * row_bytes);
		}
		vectors += here * row_bytes;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
