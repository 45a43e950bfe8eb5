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

constexpr size_t kLeastBytesPerNs = 4; // of the bus: what the watchdog waits for, beside searches that use it too

/// Write n padded rows of a block's form, in host memory, to vectors [n, row bytes] in the element type.
void
take_rows(const engine::DistanceSpec &spec, const Block &block, const uint8_t *rows, uint32_t n, uint8_t *vectors)
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);

	for (uint32_t i = 0; i < n; i++)
	{
		const uint8_t *from = rows + static_cast<size_t>(i) * block.pitch_bytes;

		if (block.form == own_form(spec.element))
			std::memcpy(vectors + i * row_bytes, from, row_bytes);
		else
			widen_row(block.form, from, spec.dim, vectors + i * row_bytes);
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
make_block_on_host(const Device *device, Form form, uint32_t dim, uint32_t capacity, std::shared_ptr<Block> *block)
{
	auto made = std::make_shared<Block>();

	made->form = form;
	made->pitch_bytes = form_pitch(form, dim);
	made->capacity = capacity;
	VECTORGPU_TRY(made->vectors.allocate_on_host(device, static_cast<size_t>(capacity) * made->pitch_bytes, "vectors"));
	VECTORGPU_TRY(made->row_ids.allocate_on_host(device, static_cast<size_t>(capacity) * sizeof(RowId), "row ids"));
	*block = std::move(made);
	return Status::ok();
}

Status
pin_block(const Device *device, std::shared_ptr<Block> *block)
{
	Block &old = **block;
	Status status = old.vectors.pin();

	if (status.is_ok())
		status = old.row_ids.pin();
	if (status.code != StatusCode::kUnsupported)
		return status;

	auto made = std::make_shared<Block>();

	made->form = old.form;
	made->pitch_bytes = old.pitch_bytes;
	made->capacity = old.capacity;
	VECTORGPU_TRY(made->vectors.allocate_pinned(device, old.vectors.bytes(), "vectors"));
	VECTORGPU_TRY(made->row_ids.allocate_pinned(device, old.row_ids.bytes(), "row ids"));
	std::memcpy(made->vectors.as<uint8_t>(), old.vectors.as<uint8_t>(), old.vectors.bytes());
	std::memcpy(made->row_ids.as<uint8_t>(), old.row_ids.as<uint8_t>(), old.row_ids.bytes());
	*block = std::move(made);
	return Status::ok();
}

Status
copy_block(const Device *device, const Stream &stream, const Block &from, uint32_t n, const Block &to)
{
	const auto copy = [&](const Held &source, const Held &target, size_t n_bytes)
	{
		return HostBuffer::pieces(0, n_bytes,
			[&](size_t at, size_t here)
			{
				const GpuWait wait(device); // the host's memory need not be pinned

				return device->check(cudaMemcpyAsync(target.as<uint8_t>() + at, source.as<uint8_t>() + at, here,
										 cudaMemcpyDefault, stream.get()),
					"move rows");
			});
	};

	VECTORGPU_TRY(copy(from.vectors, to.vectors, static_cast<size_t>(n) * from.pitch_bytes));
	VECTORGPU_TRY(copy(from.row_ids, to.row_ids, n * sizeof(RowId)));
	return stream.synchronize(size_t{n} * (from.pitch_bytes + sizeof(RowId)) / kLeastBytesPerNs);
}

void
read_host_block(
	const engine::DistanceSpec &spec, const Block &block, uint32_t first, uint32_t n, RowId *row_ids, uint8_t *vectors)
{
	std::memcpy(row_ids, block.row_ids.as<RowId>() + first, n * sizeof(RowId));
	take_rows(spec, block, block.vectors.as<uint8_t>() + static_cast<size_t>(first) * block.pitch_bytes, n, vectors);
}

Status
read_block(const Device *device, const Stream &stream, const PinnedBuffer &pinned, const engine::DistanceSpec &spec,
	const Block &block, uint32_t first, uint32_t n, RowId *row_ids, uint8_t *vectors)
{
	const size_t row_bytes = vector_bytes(spec.element, spec.dim);
	const uint32_t per_round =
		static_cast<uint32_t>(std::max<size_t>(1, pinned.bytes() / (block.pitch_bytes + sizeof(RowId))));

	if (block.on_host())
	{
		read_host_block(spec, block, first, n, row_ids, vectors);
		return Status::ok();
	}
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
		take_rows(spec, block, to + id_bytes, here, vectors);
		vectors += here * row_bytes;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
