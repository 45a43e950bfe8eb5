// The inverted index of a segment on the device, and its search by counting matches (kernels/match/match.hpp). An index
// that is larger than its budget stays in host memory in parts, which are loaded one after another for each search
// (GENIE, section III-E: multiple loading). Calls of one object are serialised by the caller.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/device/budget.hpp"
#include "cuda/device/device.hpp"
#include "cuda/resident/match_texts.hpp"
#include "engine/interface/engine.hpp"
#include "engine/match/match_index.hpp"
#include "kernels/match/match.hpp"

namespace vectorgpu::cuda
{

/// One query of a batch.
struct MatchRequest
{
	std::span<const engine::match::CodeRange> ranges; // ascending, disjoint
	uint64_t most_count = 0;                          // an upper bound on counts; of texts: DeviceTexts::most_distance
	size_t k = 0;
	bool has_after = false; // only rows with a count below after_count, or equal to it and not before after_row
	uint32_t after_count = 0;
	uint32_t after_row = 0;
	std::span<const uint8_t>
		symbols{}; // of an index of texts, instead of ranges: DeviceTexts::symbols_of, at most kMatchTextQuery
};

struct MatchFound
{
	uint32_t count; // of texts: most_distance less the distance
	uint32_t row;   // of the segment
};

class MatchWorkspace;

class DeviceMatchIndex
{
public:
	/// Load tiles of an engine::match::MatchIndex with codes below n_codes. budget_bytes: the device memory that lists
	/// may take (0: no limit; a part has at least one tile). budget, if not null, counts device memory before it is
	/// allocated. After kOutOfMemory the index cannot be used.
	Status load(const Device *device, std::span<const engine::match::MatchIndex::Tile> tiles, size_t n_rows,
		size_t n_codes, uint64_t budget_bytes, Budget *budget = nullptr);

	/// Load an index of texts, which is searched by edit distance: DeviceTexts::load.
	Status load_texts(const Device *device, const engine::match::MatchIndex &index, Budget *budget = nullptr);

	const DeviceTexts &texts() const { return texts_; }

	/// Set the rows to leave out: bit i % 8 of byte i / 8, [ceil(n_rows / 8)]; empty: none.
	Status set_dead(std::span<const uint8_t> bits);

	/// Compare tiles that begin in rows [first, first + n) with those made anew from `index`, the index loaded, and add
	/// differences to *n_different. May run beside searches.
	Status count_different(const engine::match::MatchIndex &index, size_t first, size_t n, uint64_t *n_different) const;

	/// The same of the bitmap of dead rows. dead: the bits given to set_dead last. Not beside searches.
	Status count_different_dead(std::span<const uint8_t> dead, size_t first, size_t n, uint64_t *n_different) const;

	/// results[i]: the first k rows of query i by (count descending, row), exact; rows that match nothing come last.
	/// Waits for the device. control, which may be null, counts launches; kCancelled if it says stop.
	Status search(std::span<const MatchRequest> requests, MatchWorkspace *workspace,
		std::vector<std::vector<MatchFound>> *results, engine::SearchControl *control = nullptr) const;

	/// For tests: set the largest work of a launch, in symbols of texts compared with a query; 8 postings count as one.
	/// The default is some tens of milliseconds, well below the time a caller waits for a sign of life.
	void limit_launches(uint64_t most_work) { most_work_ = most_work; }

	/// Return the bytes of the lists of all tiles: device memory of load() without a limit, and the amount that a
	/// search of an index in parts sends.
	static uint64_t list_bytes(std::span<const engine::match::MatchIndex::Tile> tiles, size_t n_codes);

	uint64_t device_bytes() const { return lists_.bytes() + tiles_.bytes() + dead_.bytes() + texts_.device_bytes(); }

	/// Host memory held: the lists of an index in parts.
	uint64_t host_bytes() const;
	size_t n_parts() const { return parts_.size(); }
	size_t n_tiles() const { return n_tiles_; }

	/// [n_tiles()] of an index in one part, for benchmarks of other ways to count.
	const kernels::MatchTile *device_tiles() const { return tiles_.as<kernels::MatchTile>(); }
	size_t n_rows() const { return n_rows_; }

private:
	static constexpr uint64_t kMostWork = 20'000'000'000;

	struct Part
	{
		size_t first_tile = 0;
		size_t n_tiles = 0;
		uint64_t bytes = 0;
		std::vector<uint8_t> image;            // of its lists; empty once they stay on the device
		std::vector<kernels::MatchTile> tiles; // pointers into lists_
		std::vector<uint64_t> n_postings;      // of each tile
	};

	struct Chunk;

	kernels::MatchTile pack_tile(
		const engine::match::MatchIndex::Tile &from, size_t number, const uint8_t *base, uint8_t *image) const;
	void pack(std::span<const engine::match::MatchIndex::Tile> tiles, Part *part) const;
	Status count_different_of_part(const Part &part, std::span<const engine::match::MatchIndex::Tile> tiles,
		size_t first, size_t n, uint64_t *n_different) const;
	Status send(const Part &part, cudaStream_t stream) const;
	Status search_once(std::span<const MatchRequest> requests, std::span<const uint32_t> numbers, uint32_t bits,
		MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *results, engine::SearchControl *control) const;
	Status search_chunk(Chunk *chunk, MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *results,
		engine::SearchControl *control) const;
	Status count_by_tiles(const Chunk &chunk, const Stream &stream, engine::SearchControl *control) const;
	Status compare_texts(const Chunk &chunk, const Stream &stream, engine::SearchControl *control) const;
	uint64_t tile_work(size_t tile, uint64_t most_count) const;
	size_t tiles_of_launch(size_t first, size_t end, const Chunk &chunk) const;

	const Device *device_ = nullptr;
	size_t n_rows_ = 0;
	size_t n_codes_ = 0;
	size_t n_tiles_ = 0;
	std::vector<Part> parts_;
	Held lists_;        // of all tiles, or of the part that was loaded last
	Held tiles_;        // kernels::MatchTile of the same
	DeviceTexts texts_; // of an index of texts; it has no lists
	Held dead_;         // [ceil(n_rows / 8)]
	bool any_dead_ = false;
	uint64_t most_work_ = kMostWork;
};

/// A stream and memory, made before, for one search at a time. A chunk of a batch is as many queries as fit the memory.
class MatchWorkspace
{
public:
	MatchWorkspace(const Stream *stream, const DeviceBuffer *memory) : stream_(stream), memory_(memory) {}

	const Stream &stream() const { return *stream_; }
	uint64_t bytes() const { return memory_->bytes(); }
	uint8_t *data() const { return memory_->as<uint8_t>(); }

private:
	const Stream *stream_;
	const DeviceBuffer *memory_;
};

} // namespace vectorgpu::cuda
