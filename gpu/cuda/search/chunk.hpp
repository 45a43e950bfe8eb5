// Chunks of a batch: the queries that one run of a search takes together, as many as fit the workspace and the pinned
// buffers. The margins, the way of a chunk's queries to the device, and small helpers of all searches in chunks.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>

#include "cuda/device/arena.hpp"
#include "cuda/search/search_call.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

constexpr size_t kMostChunkQueries = 16384;

// Bytes of rows in host memory that a chunk reads at most if it has more than one query: a second or two.
constexpr uint64_t kMostHostBytes = uint64_t{64} << 30;

/// Queries of a chunk, where each of them may read all of these bytes in host memory.
inline size_t
most_chunk_queries(uint64_t host_bytes)
{
	return host_bytes == 0
		? kMostChunkQueries
		: static_cast<size_t>(std::clamp<uint64_t>(kMostHostBytes / host_bytes, 1, kMostChunkQueries));
}

/// Bytes of a query's small values: as it is sent (k, after, flags), as its result (count, flags), and while a source
/// is searched (threshold, count, flags).
constexpr size_t kQueryHeadBytes = 64;
constexpr size_t kResultHeadBytes = 16;
constexpr size_t kQueryScratchBytes = 64;

/// Bytes that the pieces of an arena take for their alignment, at most.
constexpr size_t
padding_of(size_t n_pieces)
{
	return n_pieces * kArenaAlignment;
}

/// Bytes that a chunk leaves free in a pinned buffer and in the workspace.
struct ChunkMargins
{
	size_t pinned;
	size_t workspace;
};

constexpr ChunkMargins kExactMargins = {padding_of(16), padding_of(256)};
constexpr ChunkMargins kIndexMargins = {padding_of(32), 0}; // lists and graphs

/// Bytes that each query of a chunk takes in each buffer.
struct QueryRoom
{
	size_t in;
	size_t out;
	size_t workspace;
};

/// True if n queries fit. A quarter of the workspace is left for what does not grow with the queries: plans of lists,
/// windows, ranges of rows.
bool chunk_fits(const SearchContext &context, size_t n, const QueryRoom &each, const ChunkMargins &margins);

/// Bytes of an arena that up to 16 more pieces can share.
size_t room_left(const Arena &arena);

Status too_small();

/// Copies bytes to the device, or back, in the order of the call's stream. A kernel copies few bytes: it takes
/// less time than the start of the driver's copy.
Status copy_in(const SearchCall &call, void *to, const void *from, size_t bytes);
Status copy_out(const SearchCall &call, void *to, const void *from, size_t bytes);

/// The source with the rows that all of these queries are (SearchQuery::own_row), if it is one, lies in device memory,
/// and has its rows in the form of queries. Null: the queries are to be sent.
const Source *source_of_queries(const SearchCall &call, std::span<const uint32_t> numbers);

/// The queries of a chunk on the device.
struct QueryChunk
{
	std::span<const uint32_t> numbers; // of the call's queries
	kernels::Queries queries;
	kernels::Best best;
	uint32_t max_k = 0;
	bool any_after = false;
};

/// Sends the queries of a chunk, and what goes with them, by one copy: each piece has the same offset in pinned memory
/// and on the device. First all pieces are taken, then failed() is asked, then they are filled, then sent.
class ChunkStaging
{
public:
	template <class T>
	struct Piece
	{
		T *host;
		T *device;
	};

	/// arena: empty. Takes the pieces of the vectors, k and `after`.
	ChunkStaging(const SearchCall &call, std::span<const uint32_t> numbers, Arena *arena);

	template <class T>
	Piece<T> take(size_t n)
	{
		return {host_.take<T>(n), arena_->take<T>(n)};
	}

	/// A piece on the device that the copy fills with zeros, its padding included.
	template <class T>
	T *take_zeros(size_t n)
	{
		const size_t begin = host_.mark();
		const Piece<T> piece = take<T>(n);

		if (piece.host != nullptr)
			std::memset(piece.host, 0, host_.mark() - begin);
		return piece.device;
	}

	/// Pinned memory for more pieces.
	size_t host_left() const { return host_.left(); }

	bool failed() const { return host_.failed() || arena_->failed(); }

	/// Fills the pieces of k and `after`, and the chunk but for chunk->best.
	void put_heads(QueryChunk *chunk);

	/// Fills the piece of the vectors; bytes, norms and the answer: as stage_queries.
	bool put_vectors(uint8_t *bytes, int32_t *norms);

	/// Like copy_in.
	Status send() const;

	/// Fill the piece of the vectors. A small chunk is not sent: *incoming is what the first kernel of the search has
	/// to take over. Others are sent, and *incoming is empty.
	Status put_and_send(kernels::Incoming *incoming);

	/// Fill the piece of the vectors and send all pieces. The vectors of a large chunk go in parts: the device copies
	/// one while the next is filled.
	Status put_and_send();

	/// The same by the driver's copies, however few the bytes are. bytes: null, or a piece that was taken, for the
	/// elements as bytes; *are_bytes: the answer of stage_queries.
	Status put_and_send_by_driver(uint8_t *bytes, bool *are_bytes);

	/// Send all pieces but the vectors, which the device takes from rows of the source_of_queries. rows: a piece for
	/// the numbers of these.
	Status gather_and_send(const Source &source, const Piece<uint32_t> &rows) const;

	/// Whether put_and_send(incoming) would send the pieces, not leave them to a kernel.
	bool is_sent() const { return host_.mark() > kernels::kMostCopiedByKernel; }

	/// For a search that begins before all are sent: the driver's copy of all pieces but the vectors; of the vectors of
	/// queries first ... last - 1; and the filling of the vectors, which calls staged(last) for ever more queries
	/// 0 ... last - 1 that are filled, until it fails.
	Status send_heads() const { return send_piece(numbers_.size() * call_.shape.query_bytes, host_.mark()); }
	Status send_some(size_t first, size_t last) const;
	Status put_and_send_in_order(const std::function<Status(size_t)> &staged);

	/// Queries whose vectors go together.
	size_t part_size() const;

private:
	Status send_piece(size_t begin, size_t end) const;

	const SearchCall &call_;
	const std::span<const uint32_t> numbers_;
	Arena host_;
	Arena *const arena_;
	const Piece<uint8_t> vectors_;
	const Piece<uint32_t> k_;
	const Piece<kernels::Entry> after_;
	const Piece<uint8_t> has_after_;
};

} // namespace vectorgpu::cuda
