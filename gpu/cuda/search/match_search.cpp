// Searches of a match index on the device, see match_index.hpp. A batch is cut into chunks that fit the workspace. A k
// beyond kMaxSelectK is answered in several rounds.
#include <algorithm>

#include "cuda/resident/match_index.hpp"
#include "cuda/device/stop.hpp"

namespace vectorgpu::cuda
{

namespace
{

constexpr size_t kWidths = 4;

/// The width of a counter for marks of up to most_count + 1: it has 4 << width bits.
size_t
width_for(uint64_t most_count)
{
	return most_count < 15 ? 0 : most_count < 255 ? 1 : most_count < 65535 ? 2 : 3;
}

/// Cuts pieces from the workspace. With a null base it only counts their bytes.
class Pieces
{
public:
	explicit Pieces(uint8_t *base) : base_(base) {}

	template <class T>
	T *take(uint64_t n)
	{
		T *piece = base_ == nullptr ? nullptr : reinterpret_cast<T *>(base_ + used_);

		used_ += (n * sizeof(T) + 255) / 256 * 256;
		return piece;
	}

	uint64_t used() const { return used_; }

private:
	uint8_t *base_;
	uint64_t used_ = 0;
};

} // namespace

/// Some queries of a batch, with counters of the same width, and their state on the device.
struct DeviceMatchIndex::Chunk
{
	std::span<const MatchRequest> requests;
	std::span<const uint32_t> numbers; // of the requests
	uint32_t max_k = 0;
	uint32_t most_count = 0;
	uint64_t n_ranges = 0;
	bool by_texts = false;
	uint32_t most_size = 0; // characters of a query
	uint32_t n_parts = 1;   // of a tile
	bool any_after = false;

	kernels::MatchQueries queries;
	kernels::MatchCandidates candidates;
	uint8_t *symbols = nullptr; // [n, kMatchTextQuery] of texts
	uint32_t *sizes = nullptr;
	uint64_t *out = nullptr;
	uint32_t *n_out = nullptr;
	uint8_t *zeros = nullptr; // the part of the state that is zero at first
	uint64_t zero_bytes = 0;

	Chunk(std::span<const MatchRequest> all, std::span<const uint32_t> some, uint32_t bits, size_t n_rows,
		size_t n_tiles, bool texts);
	void place(Pieces *pieces);

	/// The requests as they are sent: an entry for each query, but for ranges.
	struct Arrays;

	Status send(const Device *device, const Arrays &arrays, cudaStream_t stream) const;
};

struct DeviceMatchIndex::Chunk::Arrays
{
	std::vector<kernels::MatchRange> ranges;
	std::vector<uint32_t> ends, ks, after_marks, after_rows, sizes;
	std::vector<uint8_t> symbols; // [n, kMatchTextQuery] of texts

	explicit Arrays(const Chunk &chunk);
};

DeviceMatchIndex::Chunk::Arrays::Arrays(const Chunk &chunk)
	: symbols(chunk.by_texts ? chunk.numbers.size() * kernels::kMatchTextQuery : 0)
{
	ranges.reserve(chunk.n_ranges);
	for (const uint32_t i : chunk.numbers)
	{
		const MatchRequest &request = chunk.requests[i];

		for (const engine::match::CodeRange &range : request.ranges)
			ranges.push_back({range.first, range.last});
		if (chunk.by_texts)
			std::copy(request.symbols.begin(), request.symbols.end(),
				symbols.begin() + static_cast<ptrdiff_t>(sizes.size() * kernels::kMatchTextQuery));
		sizes.push_back(static_cast<uint32_t>(request.symbols.size()));
		ends.push_back(static_cast<uint32_t>(ranges.size()));
		ks.push_back(static_cast<uint32_t>(request.k));
		after_marks.push_back(request.has_after
				? static_cast<uint32_t>(std::min<uint64_t>(request.after_count + uint64_t{1}, UINT32_MAX))
				: UINT32_MAX);
		after_rows.push_back(request.has_after ? request.after_row : 0);
	}
}

/// Clears the state and sends the arrays, after place().
Status
DeviceMatchIndex::Chunk::send(const Device *device, const Arrays &arrays, cudaStream_t stream) const
{
	const GpuWait wait(device); // copies from memory that is not pinned
	auto send_array = [&](const void *to, const auto &from)
	{
		return device->check(cudaMemcpyAsync(const_cast<void *>(to), from.data(), from.size() * sizeof(from[0]),
								 cudaMemcpyHostToDevice, stream),
			"send match queries");
	};

	VECTORGPU_TRY(device->check(cudaMemsetAsync(zeros, 0, zero_bytes, stream), "clear match state"));
	if (!arrays.ranges.empty())
		VECTORGPU_TRY(send_array(queries.ranges, arrays.ranges));
	VECTORGPU_TRY(send_array(queries.range_ends, arrays.ends));
	VECTORGPU_TRY(send_array(queries.k, arrays.ks));
	if (any_after)
	{
		VECTORGPU_TRY(send_array(queries.after_marks, arrays.after_marks));
		VECTORGPU_TRY(send_array(queries.after_rows, arrays.after_rows));
	}
	if (by_texts)
	{
		VECTORGPU_TRY(send_array(symbols, arrays.symbols));
		VECTORGPU_TRY(send_array(sizes, arrays.sizes));
	}
	return {};
}

DeviceMatchIndex::Chunk::Chunk(std::span<const MatchRequest> all, std::span<const uint32_t> some, uint32_t bits,
	size_t n_rows, size_t n_tiles, bool texts)
	: requests(all), numbers(some), by_texts(texts)
{
	for (const uint32_t i : numbers)
	{
		max_k = std::max(max_k, static_cast<uint32_t>(requests[i].k));
		most_count = std::max(most_count, static_cast<uint32_t>(requests[i].most_count));
		n_ranges += requests[i].ranges.size();
		most_size = std::max(most_size, static_cast<uint32_t>(requests[i].symbols.size()));
		any_after |= requests[i].has_after;
	}
	queries.n_queries = static_cast<uint32_t>(numbers.size());
	queries.bits = bits;
	candidates.zipper_shift = kernels::match_zipper_shift(most_count + 1);
	n_parts = texts ? kernels::match_text_parts(queries.n_queries, static_cast<uint32_t>(n_tiles))
					: kernels::match_parts(bits);
	candidates.capacity = static_cast<uint32_t>(std::min<uint64_t>(n_rows, uint64_t{max_k} * n_tiles * n_parts));
}

void
DeviceMatchIndex::Chunk::place(Pieces *pieces)
{
	const uint64_t n = numbers.size();

	if (by_texts)
	{
		symbols = pieces->take<uint8_t>(n * kernels::kMatchTextQuery);
		sizes = pieces->take<uint32_t>(n);
	}
	queries.ranges = pieces->take<kernels::MatchRange>(n_ranges);
	queries.range_ends = pieces->take<uint32_t>(n);
	queries.k = pieces->take<uint32_t>(n);
	if (any_after)
	{
		queries.after_marks = pieces->take<uint32_t>(n);
		queries.after_rows = pieces->take<uint32_t>(n);
	}
	n_out = pieces->take<uint32_t>(n);
	candidates.entries = pieces->take<uint64_t>(n * candidates.capacity);

	const uint64_t before = pieces->used();

	candidates.counts = pieces->take<uint32_t>(n);
	candidates.zipper = pieces->take<uint32_t>(n * kernels::kMatchZipperBins);
	out = pieces->take<uint64_t>(n * max_k); // read back as a whole, written where rows were found
	zeros = reinterpret_cast<uint8_t *>(candidates.counts);
	zero_bytes = pieces->used() - before;
}

/// An upper bound on the work of a tile for a query, none of whose rows counts more than most_count. See
/// limit_launches.
uint64_t
DeviceMatchIndex::tile_work(size_t tile, uint64_t most_count) const
{
	if (texts_.loaded())
		return texts_.tile_symbols()[tile];
	for (const Part &part : parts_)
		if (tile - part.first_tile < part.n_tiles)
		{
			const uint64_t n_rows = part.tiles[tile - part.first_tile].n_rows;

			return (std::min(part.n_postings[tile - part.first_tile], most_count * n_rows) + n_rows) / 8 + 1;
		}
	return 0;
}

/// Tiles of a launch, from `first` on and before `end`: as many as its work allows, and at least one. search_once makes
/// chunks for which one tile is not too much work.
size_t
DeviceMatchIndex::tiles_of_launch(size_t first, size_t end, const Chunk &chunk) const
{
	const uint64_t most = most_work_ / chunk.numbers.size();
	uint64_t work = tile_work(first, chunk.most_count);
	size_t n = 1;

	while (first + n < end && work + tile_work(first + n, chunk.most_count) <= most)
		work += tile_work(first + n++, chunk.most_count);
	return n;
}

namespace
{

/// Waits between two launches of a search, and notices a stop.
Status
pause(const Stream &stream, engine::SearchControl *control)
{
	VECTORGPU_TRY(stream.synchronize());
	if (control == nullptr)
		return {};
	control->progress.fetch_add(1, std::memory_order_relaxed);
	return is_stopped(control) ? stopped() : Status::ok();
}

} // namespace

Status
DeviceMatchIndex::count_by_tiles(const Chunk &chunk, const Stream &stream, engine::SearchControl *control) const
{
	kernels::MatchTileArgs args;

	args.dead = any_dead_ ? dead_.as<uint8_t>() : nullptr;
	args.queries = chunk.queries;
	args.candidates = chunk.candidates;
	for (const Part &part : parts_)
	{
		const size_t end = part.first_tile + part.n_tiles;

		if (parts_.size() > 1)
		{
			const GpuWait wait(device_); // copies from memory that is not pinned

			VECTORGPU_TRY(send(part, stream.get()));
		}
		for (size_t first = part.first_tile; first < end; first += args.n_tiles)
		{
			args.tiles = tiles_.as<kernels::MatchTile>() + (first - part.first_tile);
			args.n_tiles = static_cast<uint32_t>(tiles_of_launch(first, end, chunk));
			VECTORGPU_TRY(device_->check(kernels::launch_match_tiles(args, stream.get()), "count matches"));
			if (first + args.n_tiles < n_tiles_)
				VECTORGPU_TRY(pause(stream, control));
		}
	}
	return {};
}

Status
DeviceMatchIndex::compare_texts(const Chunk &chunk, const Stream &stream, engine::SearchControl *control) const
{
	kernels::MatchTextArgs args;

	args.dead = any_dead_ ? dead_.as<uint8_t>() : nullptr;
	args.symbols = chunk.symbols;
	args.sizes = chunk.sizes;
	args.most_size = chunk.most_size;
	args.most_distance = texts_.most_distance();
	args.n_parts = chunk.n_parts;
	args.queries = chunk.queries;
	args.candidates = chunk.candidates;
	for (size_t first = 0; first < n_tiles_; first += args.n_tiles)
	{
		args.tiles = texts_.tiles() + first;
		args.n_tiles = static_cast<uint32_t>(tiles_of_launch(first, n_tiles_, chunk));
		VECTORGPU_TRY(device_->check(kernels::launch_match_texts(args, stream.get()), "compare texts"));
		if (first + args.n_tiles < n_tiles_)
			VECTORGPU_TRY(pause(stream, control));
	}
	return {};
}

Status
DeviceMatchIndex::search_chunk(Chunk *chunk, MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *results,
	engine::SearchControl *control) const
{
	Pieces pieces(workspace->data());
	const cudaStream_t stream = workspace->stream().get();
	const size_t n = chunk->numbers.size();
	std::vector<uint64_t> out(n * chunk->max_k);
	std::vector<uint32_t> n_out(n);

	chunk->place(&pieces);

	const Chunk::Arrays arrays(*chunk);

	VECTORGPU_TRY(chunk->send(device_, arrays, stream));
	VECTORGPU_TRY(chunk->by_texts ? compare_texts(*chunk, workspace->stream(), control)
								  : count_by_tiles(*chunk, workspace->stream(), control));

	const GpuWait wait(device_); // copies to memory that is not pinned

	VECTORGPU_TRY(device_->check(kernels::launch_match_merge(chunk->queries, chunk->candidates, chunk->max_k,
									 chunk->out, chunk->n_out, chunk->max_k, stream),
		"select by count"));
	VECTORGPU_TRY(device_->check(
		cudaMemcpyAsync(out.data(), chunk->out, out.size() * sizeof(uint64_t), cudaMemcpyDeviceToHost, stream),
		"read match results"));
	VECTORGPU_TRY(device_->check(
		cudaMemcpyAsync(n_out.data(), chunk->n_out, n * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream),
		"read match results"));
	VECTORGPU_TRY(workspace->stream().synchronize());
	for (size_t q = 0; q < n; q++)
		for (uint32_t i = 0; i < n_out[q]; i++)
		{
			const uint64_t entry = out[q * chunk->max_k + i];

			(*results)[chunk->numbers[q]].push_back(
				{~static_cast<uint32_t>(entry >> 32) - 1, static_cast<uint32_t>(entry)});
		}
	return {};
}

/// Appends the rows that the requests of these numbers find to their results. k: 1 ... kMaxSelectK; all requests have
/// counters of `bits` bits.
Status
DeviceMatchIndex::search_once(std::span<const MatchRequest> requests, std::span<const uint32_t> numbers, uint32_t bits,
	MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *results, engine::SearchControl *control) const
{
	size_t at_a_time = numbers.size();
	uint64_t most_count = 0;
	uint64_t most_work = 1; // of a tile for a query

	for (const uint32_t i : numbers)
		most_count = std::max(most_count, requests[i].most_count);
	for (size_t tile = 0; tile < n_tiles_; tile++)
		most_work = std::max(most_work, tile_work(tile, most_count));
	at_a_time = std::clamp<size_t>(most_work_ / most_work, 1, at_a_time);
	for (size_t first = 0; first < numbers.size();)
	{
		Chunk chunk(requests, numbers.subspan(first, std::min(at_a_time, numbers.size() - first)), bits, n_rows_,
			n_tiles_, texts_.loaded());
		Pieces wanted(nullptr);
		const size_t n = chunk.numbers.size();

		chunk.place(&wanted);
		if (wanted.used() > workspace->bytes())
		{
			const double share = static_cast<double>(workspace->bytes()) / static_cast<double>(wanted.used());

			if (n == 1)
				return Status::error(StatusCode::kOutOfMemory, "a query needs more than the workspace");
			at_a_time = std::clamp<size_t>(static_cast<size_t>(static_cast<double>(n) * share), 1, n - 1);
			continue;
		}
		VECTORGPU_TRY(search_chunk(&chunk, workspace, results, control));
		first += n;
		if (first < numbers.size())
			VECTORGPU_TRY(pause(workspace->stream(), control));
	}
	return {};
}

Status
DeviceMatchIndex::search(std::span<const MatchRequest> requests, MatchWorkspace *workspace,
	std::vector<std::vector<MatchFound>> *results, engine::SearchControl *control) const
{
	std::vector<MatchRequest> pieces(requests.begin(), requests.end());
	std::vector<size_t> wanted(requests.size()); // rows still to find
	std::vector<size_t> held(requests.size());
	std::vector<uint32_t> pending;

	results->assign(requests.size(), {});
	if (n_rows_ == 0)
		return {};
	VECTORGPU_TRY(device_->use());
	for (uint32_t i = 0; i < requests.size(); i++)
	{
		wanted[i] = std::min(requests[i].k, n_rows_);
		if (wanted[i] > 0)
			pending.push_back(i);
	}
	while (!pending.empty())
	{
		std::vector<uint32_t> by_width[kWidths];
		std::vector<uint32_t> unfinished;

		for (const uint32_t i : pending)
		{
			pieces[i].k = std::min<size_t>(wanted[i], kernels::kMaxSelectK);
			held[i] = (*results)[i].size();
			// Texts of up to 32 characters are compared in words of 32 bits.
			if (texts_.loaded())
				(pieces[i].symbols.size() <= 32 ? by_width[0] : by_width[1]).push_back(i);
			else
				by_width[width_for(pieces[i].most_count)].push_back(i);
		}
		for (size_t width = 0; width < kWidths; width++)
			if (!by_width[width].empty())
				VECTORGPU_TRY(search_once(pieces, by_width[width], texts_.loaded() ? texts_.bits() : 4u << width,
					workspace, results, control));
		for (const uint32_t i : pending)
		{
			const std::vector<MatchFound> &found = (*results)[i];
			const size_t n_new = found.size() - held[i];

			wanted[i] -= n_new;
			if (wanted[i] == 0 || n_new < pieces[i].k)
				continue; // complete, or there are no more rows
			pieces[i].has_after = true;
			pieces[i].after_count = found.back().count;
			pieces[i].after_row = found.back().row + 1;
			unfinished.push_back(i);
		}
		pending.swap(unfinished);
		if (!pending.empty())
			VECTORGPU_TRY(pause(workspace->stream(), control));
	}
	return {};
}

} // namespace vectorgpu::cuda
