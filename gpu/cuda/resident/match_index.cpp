// The index of a segment on the device: loading it. See match_index.hpp; match_search.cpp searches.
#include "cuda/resident/match_index.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::cuda
{

using engine::match::MatchIndex;

namespace
{

constexpr uint64_t kAlign = 16;

uint64_t
aligned(uint64_t bytes)
{
	return (bytes + kAlign - 1) / kAlign * kAlign;
}

/// True if a tile has so large a share of all codes that it is looked up by code, without a search.
bool
is_dense(const MatchIndex::Tile &tile, size_t n_codes)
{
	return n_codes <= 4 * tile.codes.size();
}

uint64_t
image_bytes(const MatchIndex::Tile &tile, size_t n_codes)
{
	const uint64_t codes = is_dense(tile, n_codes) ? aligned(n_codes * 4) : 2 * aligned(tile.codes.size() * 4);

	return codes + aligned(tile.rows.size() * 2);
}

/// Compare all but the padding between members.
bool
same_tile(const kernels::MatchTile &a, const kernels::MatchTile &b)
{
	return a.codes == b.codes && a.ends == b.ends && a.places == b.places && a.n_codes == b.n_codes &&
		a.n_rows == b.n_rows && a.first_row == b.first_row;
}

} // namespace

uint64_t
DeviceMatchIndex::list_bytes(std::span<const MatchIndex::Tile> tiles, size_t n_codes)
{
	uint64_t bytes = 0;

	for (const MatchIndex::Tile &tile : tiles)
		bytes += image_bytes(tile, n_codes);
	return bytes;
}

uint64_t
DeviceMatchIndex::host_bytes() const
{
	uint64_t bytes = 0;

	for (const Part &part : parts_)
		bytes += part.image.size();
	return bytes;
}

/// Write to image [image_bytes], zeroed, the lists of a tile, which will lie at `base` on the device.
kernels::MatchTile
DeviceMatchIndex::pack_tile(const MatchIndex::Tile &from, size_t number, const uint8_t *base, uint8_t *image) const
{
	kernels::MatchTile to;
	uint64_t at = 0;

	if (is_dense(from, n_codes_))
	{
		uint32_t *ends = reinterpret_cast<uint32_t *>(image);
		size_t code = 0;

		for (size_t j = 0; j < from.codes.size(); j++)
		{
			if (from.codes[j] < code || from.codes[j] >= n_codes_) // the tile was damaged after it was opened
				continue;
			for (; code < from.codes[j]; code++)
				ends[code] = j == 0 ? 0 : from.ends[j - 1];
			ends[code++] = from.ends[j];
		}
		for (; code < n_codes_; code++)
			ends[code] = from.ends.empty() ? 0 : from.ends.back();
		to.ends = reinterpret_cast<const uint32_t *>(base);
		to.n_codes = static_cast<uint32_t>(n_codes_);
		at += aligned(n_codes_ * 4);
	}
	else
	{
		const uint64_t bytes = from.codes.size() * 4;

		std::memcpy(image, from.codes.data(), bytes);
		to.codes = reinterpret_cast<const uint32_t *>(base);
		at += aligned(bytes);
		std::memcpy(image + at, from.ends.data(), bytes);
		to.ends = reinterpret_cast<const uint32_t *>(base + at);
		to.n_codes = static_cast<uint32_t>(from.codes.size());
		at += aligned(bytes);
	}
	if (!from.rows.empty())
		std::memcpy(image + at, from.rows.data(), from.rows.size() * 2);
	to.places = reinterpret_cast<const uint16_t *>(base + at);
	to.first_row = static_cast<uint32_t>(number * kernels::kMatchTileRows);
	to.n_rows = static_cast<uint32_t>(std::min<size_t>(kernels::kMatchTileRows, n_rows_ - to.first_row));
	return to;
}

void
DeviceMatchIndex::pack(std::span<const MatchIndex::Tile> tiles, Part *part) const
{
	uint64_t at = 0;

	part->image.resize(part->bytes);
	for (size_t i = 0; i < part->n_tiles; i++)
	{
		const size_t number = part->first_tile + i;
		const MatchIndex::Tile &from = tiles[number];

		part->tiles.push_back(pack_tile(from, number, lists_.as<uint8_t>() + at, part->image.data() + at));
		part->n_postings.push_back(from.rows.size());
		at += image_bytes(from, n_codes_);
	}
}

Status
DeviceMatchIndex::count_different_of_part(
	const Part &part, std::span<const MatchIndex::Tile> tiles, size_t first, size_t n, uint64_t *n_different) const
{
	std::vector<uint8_t> image;
	std::vector<uint8_t> held;
	uint64_t at = 0;

	for (size_t i = 0; i < part.n_tiles; i++)
	{
		const size_t number = part.first_tile + i;
		const uint64_t bytes = image_bytes(tiles[number], n_codes_);

		if (const size_t first_row = number * kernels::kMatchTileRows; first_row >= first && first_row - first < n)
		{
			image.assign(bytes, 0);

			const kernels::MatchTile tile = pack_tile(tiles[number], number, lists_.as<uint8_t>() + at, image.data());
			kernels::MatchTile held_tile = part.tiles[i];

			if (parts_.size() == 1) // it stays on the device
			{
				held.resize(bytes);
				VECTORGPU_TRY(read_back(device_, held.data(), lists_.as<uint8_t>() + at, bytes, "read match lists"));
				VECTORGPU_TRY(read_back(
					device_, &held_tile, tiles_.as<kernels::MatchTile>() + i, sizeof(held_tile), "read match tiles"));
			}
			else
				held.assign(part.image.begin() + static_cast<ptrdiff_t>(at),
					part.image.begin() + static_cast<ptrdiff_t>(at + bytes));
			for (size_t j = 0; j < bytes; j++)
				*n_different += held[j] != image[j] ? 1 : 0;
			*n_different += same_tile(held_tile, tile) ? 0 : 1;
		}
		at += bytes;
	}
	return {};
}

Status
DeviceMatchIndex::count_different(const MatchIndex &index, size_t first, size_t n, uint64_t *n_different) const
{
	if (device_ == nullptr || n == 0) // nothing was loaded
		return {};
	if (texts_.loaded())
		VECTORGPU_TRY(texts_.count_different(index, first, n, n_different));
	for (const Part &part : parts_)
		VECTORGPU_TRY(count_different_of_part(part, index.tiles(), first, n, n_different));
	return {};
}

Status
DeviceMatchIndex::count_different_dead(
	std::span<const uint8_t> dead, size_t first, size_t n, uint64_t *n_different) const
{
	const size_t first_byte = first / 8;
	const size_t dead_end = std::min((first + n + 7) / 8, (n_rows_ + 7) / 8);

	if (device_ == nullptr || n == 0 || !any_dead_ || first_byte >= dead_end)
		return {};

	std::vector<uint8_t> held(dead_end - first_byte);

	VECTORGPU_TRY(read_back(device_, held.data(), dead_.as<uint8_t>() + first_byte, held.size(), "read tombstones"));
	for (size_t i = 0; i < held.size(); i++)
		*n_different += held[i] != (first_byte + i < dead.size() ? dead[first_byte + i] : 0) ? 1 : 0;
	return {};
}

Status
DeviceMatchIndex::send(const Part &part, cudaStream_t stream) const
{
	if (!part.image.empty())
		VECTORGPU_TRY(device_->check(
			cudaMemcpyAsync(lists_.as<uint8_t>(), part.image.data(), part.image.size(), cudaMemcpyHostToDevice, stream),
			"send match lists"));
	return device_->check(cudaMemcpyAsync(tiles_.as<uint8_t>(), part.tiles.data(),
							  part.tiles.size() * sizeof(kernels::MatchTile), cudaMemcpyHostToDevice, stream),
		"send match tiles");
}

Status
DeviceMatchIndex::load(const Device *device, std::span<const MatchIndex::Tile> tiles, size_t n_rows, size_t n_codes,
	uint64_t budget_bytes, Budget *budget)
{
	static_assert(kernels::kMatchTileRows == engine::match::kTileRows);
	uint64_t most = 0;
	size_t most_tiles = 0;

	device_ = device;
	n_rows_ = n_rows;
	n_codes_ = n_codes;
	n_tiles_ = tiles.size();
	parts_.clear();
	for (size_t i = 0; i < tiles.size(); i++)
	{
		const uint64_t bytes = image_bytes(tiles[i], n_codes);

		if (parts_.empty() || (budget_bytes != 0 && parts_.back().bytes + bytes > budget_bytes))
		{
			parts_.emplace_back();
			parts_.back().first_tile = i;
		}
		parts_.back().n_tiles++;
		parts_.back().bytes += bytes;
	}
	for (const Part &part : parts_)
	{
		most = std::max(most, part.bytes);
		most_tiles = std::max(most_tiles, part.n_tiles);
	}
	if (parts_.empty())
		return {};
	VECTORGPU_TRY(device->use());
	VECTORGPU_TRY(device->check(kernels::prepare_match_kernels(), "prepare match kernels"));
	VECTORGPU_TRY(lists_.allocate(device, budget, most, "match lists"));
	VECTORGPU_TRY(tiles_.allocate(device, budget, most_tiles * sizeof(kernels::MatchTile), "match tiles"));
	VECTORGPU_TRY(dead_.allocate(device, budget, (n_rows + 7) / 8, "tombstones"));
	for (Part &part : parts_)
		pack(tiles, &part);
	if (parts_.size() == 1)
	{
		const GpuWait wait(device);

		VECTORGPU_TRY(send(parts_[0], nullptr));
		VECTORGPU_TRY(device->damage("gpu_flip_derived", lists_.as<uint8_t>(), lists_.bytes() / 2, nullptr));
		VECTORGPU_TRY(device->check(cudaStreamSynchronize(nullptr), "load match lists"));
		std::vector<uint8_t>().swap(parts_[0].image);
	}
	return {};
}

Status
DeviceMatchIndex::load_texts(const Device *device, const MatchIndex &index, Budget *budget)
{
	device_ = device;
	n_rows_ = index.n_rows();
	n_codes_ = 0;
	parts_.clear();
	VECTORGPU_TRY(texts_.load(device, index, budget));
	VECTORGPU_TRY(dead_.allocate(device, budget, (n_rows_ + 7) / 8, "tombstones"));
	n_tiles_ = texts_.n_tiles();
	return {};
}

Status
DeviceMatchIndex::set_dead(std::span<const uint8_t> bits)
{
	const size_t bytes = (n_rows_ + 7) / 8;

	any_dead_ = std::any_of(bits.begin(), bits.end(), [](uint8_t byte) { return byte != 0; });
	if (!any_dead_ || bytes == 0)
		return {};
	VECTORGPU_TRY(device_->use());

	const GpuWait wait(device_);

	VECTORGPU_TRY(device_->check(cudaMemset(dead_.as<uint8_t>(), 0, bytes), "clear tombstones"));
	VECTORGPU_TRY(device_->check(
		cudaMemcpy(dead_.as<uint8_t>(), bits.data(), std::min(bytes, bits.size()), cudaMemcpyHostToDevice),
		"send tombstones"));
	// A copy from pageable memory may return before it is complete, and searches' streams do not wait for this stream.
	return device_->check(cudaStreamSynchronize(nullptr), "send tombstones");
}

} // namespace vectorgpu::cuda
