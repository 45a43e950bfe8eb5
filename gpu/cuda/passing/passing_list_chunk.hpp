// A chunk of queries with conditions that score the rows of their lists: what it sends, its launches, and the lists
// that stay on the device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cuda/device/budget.hpp"
#include "cuda/search/chunk.hpp"
#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// The rows of one source that pass.
struct ListedPart
{
	const Source *source = nullptr;
	const engine::PassingSegment *segment = nullptr; // null: of the delta
	std::shared_ptr<const Held> kept;                // the list on the device
	std::shared_ptr<const Held> places;              // of a segment with lists
	std::vector<uint32_t> delta_rows;                // of the source
	ChunkStaging::Piece<uint32_t> sent = {};         // the list as the chunk sends it
	std::shared_ptr<Held> made;                      // to be kept after the chunk

	uint64_t n_rows() const { return segment != nullptr ? segment->n_pass : delta_rows.size(); }

	/// Empty if they are on the device only.
	std::span<const uint32_t> rows() const
	{
		return segment != nullptr ? std::span<const uint32_t>(segment->rows) : std::span<const uint32_t>(delta_rows);
	}
};

/// The rows that pass some conditions.
struct ListedRows
{
	std::vector<ListedPart> parts; // with rows
	uint64_t n_rows = 0;
};

/// Queries that score the same lists together.
struct ListedUnit
{
	ListedRows *listed;
	std::span<const uint32_t> numbers;
	uint32_t group_rows = 0;
	uint32_t n_groups = 0;

	uint64_t n_keys() const { return uint64_t{n_groups} * group_rows; }

	/// Bytes of lists that have to be sent.
	size_t sent_bytes() const
	{
		size_t bytes = 0;

		for (const ListedPart &part : listed->parts)
			bytes += part.kept != nullptr ? 0 : part.rows().size_bytes() + kArenaAlignment;
		return bytes;
	}
};

/// True if listed rows of bytes are scored as whole numbers, should the queries be bytes too.
bool may_list_bytes(const SearchCall &call);

/// Answer the queries `numbers`, which are those of the units, one after the other. They fit the context's buffers.
/// Lists that were sent are kept as far as the budget goes. Waits for the stream.
Status search_listed_chunk(
	const SearchCall &call, Budget *budget, std::span<ListedUnit> units, std::span<const uint32_t> numbers);

} // namespace vectorgpu::cuda
