// See key_streams.hpp.
#include "worker/keys/key_streams.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::worker
{

namespace
{

using engine::predicate::kBlockRows;

uint64_t
padded(uint64_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

/// Bytes of the bits of one column.
uint64_t
null_bytes(uint64_t n_rows)
{
	return (n_rows + 63) / 64 * 8;
}

} // namespace

size_t
key_image_bytes(const wire::KeyColumns &keys)
{
	size_t bytes = (keys.n_columns + 7u) / 8;

	for (uint32_t i = 0; i < keys.n_streams; i++)
		bytes += keys.widths[i];
	return bytes;
}

uint64_t
key_area_bytes(const wire::KeyColumns &keys, uint64_t n_rows)
{
	uint64_t bytes = keys.n_columns * null_bytes(n_rows);

	for (uint32_t i = 0; i < keys.n_streams; i++)
		bytes += padded(n_rows * keys.widths[i]);
	return bytes;
}

void
key_area_columns(const wire::KeyColumns &keys, const uint8_t *area, uint64_t n_rows,
	const std::vector<std::vector<engine::predicate::Zone>> &zones, KeyColumnCodes *columns)
{
	const uint8_t *codes = area;
	const uint8_t *nulls = area + key_area_bytes(keys, n_rows) - keys.n_columns * null_bytes(n_rows);

	for (uint32_t i = 0; i < keys.n_streams; i++)
	{
		(*columns)[i] = {codes, nulls + keys.columns[i] * null_bytes(n_rows),
			i < zones.size() ? zones[i].data() : nullptr, keys.widths[i]};
		codes += padded(n_rows * keys.widths[i]);
	}
}

DeltaKeys::DeltaKeys(const wire::KeyColumns &keys)
	: keys_(keys), image_bytes_(key_image_bytes(keys)), codes_(keys.n_streams), nulls_(keys.n_columns)
{
}

void
DeltaKeys::reserve(uint64_t n_rows)
{
	const auto grow = [](std::vector<uint8_t> *bytes, uint64_t wanted)
	{
		if (bytes->capacity() < wanted)
			bytes->reserve(std::max<uint64_t>(wanted, bytes->capacity() * 2));
	};

	for (uint32_t i = 0; i < keys_.n_streams; i++)
		grow(&codes_[i], n_rows * keys_.widths[i]);
	for (std::vector<uint8_t> &bits : nulls_)
		grow(&bits, (n_rows + 7) / 8);
}

void
DeltaKeys::append(uint64_t position, const uint8_t *images, uint64_t n_rows)
{
	const uint64_t last = position + n_rows;

	if (last <= end_)
		return;
	reserve(last - base_);
	images += (end_ - position) * image_bytes_;
	for (; end_ < last; end_++, images += image_bytes_)
	{
		const uint64_t row = end_ - base_;
		const uint8_t *code = images;

		for (uint32_t i = 0; i < keys_.n_streams; code += keys_.widths[i], i++)
			codes_[i].insert(codes_[i].end(), code, code + keys_.widths[i]);
		for (uint32_t i = 0; i < keys_.n_columns; i++)
		{
			const unsigned null = (code[i / 8] >> (i % 8)) & 1u;

			if (row % 8 == 0)
				nulls_[i].push_back(0);
			nulls_[i].back() = static_cast<uint8_t>(nulls_[i].back() | null << (row % 8));
		}
	}
}

void
DeltaKeys::trim(uint64_t position)
{
	const uint64_t base = position / kBlockRows * kBlockRows;
	const uint64_t gone = base - std::min(base, base_);

	if (position <= first_)
		return;
	if (position > end_) // rows that were never held stand before it; no search sees them
	{
		for (uint32_t i = 0; i < keys_.n_streams; i++)
			codes_[i].assign((position - base) * keys_.widths[i], 0);
		for (std::vector<uint8_t> &bits : nulls_)
			bits.assign((position - base + 7) / 8, 0);
		end_ = position;
	}
	else
	{
		for (uint32_t i = 0; i < keys_.n_streams; i++)
			codes_[i].erase(codes_[i].begin(), codes_[i].begin() + static_cast<ptrdiff_t>(gone * keys_.widths[i]));
		for (std::vector<uint8_t> &bits : nulls_)
			bits.erase(bits.begin(), bits.begin() + static_cast<ptrdiff_t>(gone / 8));
	}
	base_ = base;
	first_ = position;
}

uint64_t
DeltaKeys::bytes() const
{
	uint64_t bytes = 0;

	for (const std::vector<uint8_t> &codes : codes_)
		bytes += codes.capacity();
	for (const std::vector<uint8_t> &bits : nulls_)
		bytes += bits.capacity();
	return bytes;
}

void
DeltaKeys::columns(KeyColumnCodes *columns) const
{
	for (uint32_t i = 0; i < keys_.n_streams; i++)
		(*columns)[i] = {codes_[i].data(), nulls_[keys_.columns[i]].data(), nullptr, keys_.widths[i]};
}

void
DeltaKeys::read(uint64_t first, uint64_t n_rows, uint8_t *images) const
{
	memset(images, 0, n_rows * image_bytes_);
	for (uint64_t row = first - base_; row < first - base_ + n_rows; row++, images += image_bytes_)
	{
		uint8_t *to = images;

		for (uint32_t i = 0; i < keys_.n_streams; to += keys_.widths[i], i++)
			memcpy(to, codes_[i].data() + row * keys_.widths[i], keys_.widths[i]);
		for (uint32_t i = 0; i < keys_.n_columns; i++)
			to[i / 8] = static_cast<uint8_t>(to[i / 8] | ((nulls_[i][row / 8] >> (row % 8)) & 1u) << (i % 8));
	}
}

} // namespace vectorgpu::worker
