// The texts of a segment on the device, for searches by edit distance (kernels/match/match.hpp): each character as a
// number of the segment's own alphabet, a byte. A part of DeviceMatchIndex.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda/device/budget.hpp"
#include "cuda/device/device.hpp"
#include "engine/match/match_index.hpp"
#include "kernels/match/match.hpp"

namespace vectorgpu::cuda
{

class DeviceTexts
{
public:
	/// True if the device can search the segment: texts of at most 16,384 characters, at most 254 different characters,
	/// at most most_bytes there.
	static bool fits(const engine::match::MatchIndex &index, uint64_t most_bytes);

	/// Load the texts of an index that fits. budget, if not null, counts the memory. kOutOfMemory if the budget or the
	/// device has too little.
	Status load(const Device *device, const engine::match::MatchIndex &index, Budget *budget = nullptr);

	/// Compare tiles that begin in rows [first, first + n) with those made anew from `index`, the index loaded, and add
	/// differences to *n_different.
	Status count_different(const engine::match::MatchIndex &index, size_t first, size_t n, uint64_t *n_different) const;

	/// Return the symbols [n] of a query with codes [n * 4 bytes, any alignment].
	std::vector<uint8_t> symbols_of(const uint8_t *codes, size_t n) const;

	/// An upper bound on the distance of a row from a query of at most kMatchTextQuery characters.
	uint32_t most_distance() const { return most_distance_; }

	uint32_t bits() const { return most_distance_ + 1 <= 255 ? 8 : 16; }
	bool loaded() const { return n_tiles_ > 0; }
	uint32_t n_tiles() const { return n_tiles_; }

	/// [n_tiles] symbols of each tile, padding of groups included: the steps that a query takes.
	std::span<const uint64_t> tile_symbols() const { return tile_symbols_; }
	const kernels::MatchTextTile *tiles() const { return tiles_.as<kernels::MatchTextTile>(); }
	uint64_t device_bytes() const { return texts_.bytes() + tiles_.bytes(); }

private:
	const Device *device_ = nullptr;
	std::unordered_map<uint32_t, uint8_t> alphabet_;
	uint32_t most_distance_ = 0;
	uint32_t n_tiles_ = 0;
	std::vector<uint64_t> tile_symbols_;
	std::vector<uint64_t> tiles_at_; // where each begins in texts_
	Held texts_;
	Held tiles_;
};

} // namespace vectorgpu::cuda
