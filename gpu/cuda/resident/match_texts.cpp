// See match_texts.hpp.
#include "cuda/resident/match_texts.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace vectorgpu::cuda
{

using engine::match::MatchIndex;
using engine::match::TextView;

namespace
{

constexpr size_t kMostSymbols = 254;        // kMatchNoSymbol is none of them
constexpr uint64_t kMostCharacters = 16384; // of a text
constexpr size_t kGroup = kernels::kMatchTextGroup;

uint32_t
code_at(const TextView &text, uint64_t i)
{
	uint32_t code = 0;

	std::memcpy(&code, text.data + i * text.width, text.width);
	return code;
}

/// Call with the code of each character of all texts, until the call returns false.
template <class Body>
bool
for_each_code(const MatchIndex &index, const Body &body)
{
	for (size_t row = 0; row < index.n_rows(); row++)
	{
		const TextView text = index.text(row);

		for (uint64_t i = 0; i < text.n; i++)
			if (!body(code_at(text, i)))
				return false;
	}
	return true;
}

/// A tile as it is packed, with offsets into the image instead of pointers.
struct Packed
{
	kernels::MatchTextTile tile;
	size_t starts_at;
	size_t places_at;
	size_t lengths_at;
	size_t text_at;
	uint64_t n_symbols;
};

template <class T>
size_t
append(std::vector<uint8_t> *image, const std::vector<T> &items)
{
	const size_t at = (image->size() + 15) / 16 * 16;

	image->resize(at + items.size() * sizeof(T));
	if (!items.empty())
		std::memcpy(image->data() + at, items.data(), items.size() * sizeof(T));
	return at;
}

Packed
pack(const MatchIndex &index, size_t first, size_t n, const std::unordered_map<uint32_t, uint8_t> &alphabet,
	std::vector<uint8_t> *image)
{
	const size_t n_groups = (n + kGroup - 1) / kGroup;
	std::vector<uint32_t> order(n);
	std::vector<uint32_t> starts(n_groups);
	std::vector<uint16_t> places(n_groups * kGroup);
	std::vector<uint16_t> lengths(n_groups * kGroup, kernels::kMatchNoText);
	std::vector<uint32_t> words;
	Packed packed{};

	std::iota(order.begin(), order.end(), 0u);
	std::stable_sort(order.begin(), order.end(),
		[&](uint32_t a, uint32_t b) { return index.text(first + a).n < index.text(first + b).n; });
	for (size_t group = 0; group < n_groups; group++)
	{
		const size_t begin = group * kGroup;
		const size_t end = std::min(begin + kGroup, n);
		const size_t n_words = (index.text(first + order[end - 1]).n + 3) / 4;
		const size_t at = words.size();

		starts[group] = static_cast<uint32_t>(at / kGroup);
		words.resize(at + n_words * kGroup);
		for (size_t i = begin; i < end; i++)
		{
			const TextView text = index.text(first + order[i]);

			places[i] = static_cast<uint16_t>(order[i]);
			lengths[i] = static_cast<uint16_t>(text.n);
			for (uint64_t j = 0; j < text.n; j++)
				words[at + j / 4 * kGroup + (i - begin)] |= uint32_t{alphabet.at(code_at(text, j))} << (8 * (j % 4));
		}
	}
	packed.tile.n_groups = static_cast<uint32_t>(n_groups);
	packed.tile.n_rows = static_cast<uint32_t>(n);
	packed.tile.first_row = static_cast<uint32_t>(first);
	packed.starts_at = append(image, starts);
	packed.places_at = append(image, places);
	packed.lengths_at = append(image, lengths);
	packed.text_at = append(image, words);
	packed.n_symbols = words.size() * 4;
	return packed;
}

/// Return the tile with pointers to the device, where it begins at `base`.
kernels::MatchTextTile
place(const Packed &packed, const uint8_t *base)
{
	kernels::MatchTextTile tile = packed.tile;

	tile.starts = reinterpret_cast<const uint32_t *>(base + packed.starts_at);
	tile.places = reinterpret_cast<const uint16_t *>(base + packed.places_at);
	tile.lengths = reinterpret_cast<const uint16_t *>(base + packed.lengths_at);
	tile.text = reinterpret_cast<const uint32_t *>(base + packed.text_at);
	return tile;
}

/// Compare all but the padding between members.
bool
same_tile(const kernels::MatchTextTile &a, const kernels::MatchTextTile &b)
{
	return a.starts == b.starts && a.places == b.places && a.lengths == b.lengths && a.text == b.text &&
		a.n_groups == b.n_groups && a.n_rows == b.n_rows && a.first_row == b.first_row;
}

} // namespace

bool
DeviceTexts::fits(const MatchIndex &index, uint64_t most_bytes)
{
	constexpr uint64_t kRowBytes = 9; // place, length, a share of the group's start, padding of the last word
	std::unordered_map<uint32_t, bool> seen;
	uint64_t bytes = 0;

	if (!index.has_texts() || index.n_rows() == 0)
		return false;
	for (size_t row = 0; row < index.n_rows(); row++)
		if (bytes += index.text(row).n + kRowBytes; index.text(row).n > kMostCharacters || bytes > most_bytes)
			return false;
	return for_each_code(index, [&](uint32_t code) { return seen.emplace(code, true), seen.size() <= kMostSymbols; });
}

Status
DeviceTexts::load(const Device *device, const MatchIndex &index, Budget *budget)
{
	std::vector<uint8_t> image;
	std::vector<Packed> packed;
	std::vector<kernels::MatchTextTile> tiles;
	uint64_t longest = kernels::kMatchTextQuery;

	device_ = device;
	alphabet_.clear();
	tile_symbols_.clear();
	tiles_at_.clear();
	for_each_code(
		index, [&](uint32_t code) { return alphabet_.emplace(code, static_cast<uint8_t>(alphabet_.size())), true; });
	for (size_t row = 0; row < index.n_rows(); row++)
		longest = std::max(longest, index.text(row).n);
	most_distance_ = static_cast<uint32_t>(longest);

	const size_t tile_rows = kernels::match_text_rows(bits());

	for (size_t first = 0; first < index.n_rows(); first += tile_rows)
		packed.push_back(pack(index, first, std::min(tile_rows, index.n_rows() - first), alphabet_, &image));
	VECTORGPU_TRY(device->use());
	VECTORGPU_TRY(device->check(kernels::prepare_match_kernels(), "prepare match kernels"));
	VECTORGPU_TRY(texts_.allocate(device, budget, image.size(), "texts"));
	VECTORGPU_TRY(tiles_.allocate(device, budget, packed.size() * sizeof(kernels::MatchTextTile), "tiles of texts"));
	for (const Packed &one : packed)
	{
		tiles.push_back(place(one, texts_.as<uint8_t>()));
		tile_symbols_.push_back(one.n_symbols);
		tiles_at_.push_back(one.starts_at);
	}

	const GpuWait wait(device);

	VECTORGPU_TRY(device->check(
		cudaMemcpy(texts_.as<uint8_t>(), image.data(), image.size(), cudaMemcpyHostToDevice), "send texts"));
	VECTORGPU_TRY(device->check(
		cudaMemcpy(tiles_.as<uint8_t>(), tiles.data(), tiles.size() * sizeof(tiles[0]), cudaMemcpyHostToDevice),
		"send tiles of texts"));
	VECTORGPU_TRY(device->damage("gpu_flip_derived", texts_.as<uint8_t>(), texts_.bytes() / 2, nullptr));
	VECTORGPU_TRY(device->check(cudaStreamSynchronize(nullptr), "load texts"));
	n_tiles_ = static_cast<uint32_t>(tiles.size());
	return {};
}

Status
DeviceTexts::count_different(const MatchIndex &index, size_t first, size_t n, uint64_t *n_different) const
{
	const size_t tile_rows = kernels::match_text_rows(bits());

	for (size_t i = (first + tile_rows - 1) / tile_rows; i < n_tiles_ && i * tile_rows - first < n; i++)
	{
		const size_t first_row = i * tile_rows;
		const uint8_t *base = texts_.as<uint8_t>() + tiles_at_[i];
		std::vector<uint8_t> image;
		const Packed packed =
			pack(index, first_row, std::min(tile_rows, index.n_rows() - first_row), alphabet_, &image);
		std::vector<uint8_t> held(image.size());
		kernels::MatchTextTile tile;

		VECTORGPU_TRY(read_back(device_, held.data(), base, held.size(), "read texts"));
		VECTORGPU_TRY(
			read_back(device_, &tile, tiles_.as<kernels::MatchTextTile>() + i, sizeof(tile), "read tiles of texts"));
		for (size_t j = 0; j < image.size(); j++)
			*n_different += held[j] != image[j] ? 1 : 0;
		*n_different += same_tile(tile, place(packed, base)) ? 0 : 1;
	}
	return {};
}

std::vector<uint8_t>
DeviceTexts::symbols_of(const uint8_t *codes, size_t n) const
{
	std::vector<uint8_t> symbols(n, static_cast<uint8_t>(kernels::kMatchNoSymbol));

	for (size_t i = 0; i < n; i++)
	{
		uint32_t code;

		std::memcpy(&code, codes + i * sizeof(code), sizeof(code));
		if (const auto found = alphabet_.find(code); found != alphabet_.end())
			symbols[i] = found->second;
	}
	return symbols;
}

} // namespace vectorgpu::cuda
