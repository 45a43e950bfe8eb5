// See chunk.hpp.
#include "cuda/search/chunk.hpp"

#include <algorithm>

#include "cuda/device/staging.hpp"
#include "kernels/select/pack_rows.hpp"

namespace vectorgpu::cuda
{
namespace
{

/// Whether rows of the source are as queries are: float32, padded with zeros. Rows in a narrower form are not, rows of
/// lists have places beside their numbers, and those of the delta have none.
bool
has_queries(const SearchCall &call, const Source &source)
{
	return source.segment != engine::kDeltaSegment && source.lists == nullptr && !source.block->on_host() &&
		call.spec.element == ElementType::kFloat32 && source.block->form == kernels::Form::kFloat32 &&
		source.block->pitch_bytes == call.shape.query_bytes;
}

} // namespace

bool
chunk_fits(const SearchContext &context, size_t n, const QueryRoom &each, const ChunkMargins &margins)
{
	return n * each.in + margins.pinned <= context.pinned_in.bytes() &&
		n * each.out + margins.pinned <= context.pinned_out.bytes() &&
		n * each.workspace + margins.workspace <= context.workspace.bytes() / 4 * 3;
}

size_t
room_left(const Arena &arena)
{
	constexpr size_t kPadding = padding_of(16);

	return arena.left() > kPadding ? arena.left() - kPadding : 0;
}

Status
too_small()
{
	return Status::error(StatusCode::kOutOfMemory, "the workspace on the GPU is too small for the search");
}

Status
copy_in(const SearchCall &call, void *to, const void *from, size_t bytes)
{
	return call.check(bytes <= kernels::kMostCopiedByKernel
			? kernels::launch_copy(to, from, bytes, call.stream())
			: cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, call.stream()),
		"send queries");
}

Status
copy_out(const SearchCall &call, void *to, const void *from, size_t bytes)
{
	return call.check(bytes <= kernels::kMostCopiedByKernel
			? kernels::launch_copy(to, from, bytes, call.stream())
			: cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, call.stream()),
		"read results");
}

const Source *
source_of_queries(const SearchCall &call, std::span<const uint32_t> numbers)
{
	const std::vector<Source> &sources = call.copy_rows().sources;
	const engine::SegmentId segment =
		numbers.empty() ? engine::kDeltaSegment : call.queries[numbers.front()].own_row.segment;
	const auto found =
		std::find_if(sources.begin(), sources.end(), [&](const Source &source) { return source.segment == segment; });

	if (found == sources.end() || !has_queries(call, *found))
		return nullptr;

	const bool all = std::all_of(numbers.begin(), numbers.end(),
		[&](uint32_t number)
		{
			const engine::SegmentRow &row = call.queries[number].own_row;

			return row.segment == segment && row.number < found->n_rows;
		});

	return all ? &*found : nullptr;
}

ChunkStaging::ChunkStaging(const SearchCall &call, std::span<const uint32_t> numbers, Arena *arena)
	: call_(call), numbers_(numbers), host_(call.context->pinned_in.as<uint8_t>(), call.context->pinned_in.bytes()),
	  arena_(arena), vectors_(take<uint8_t>(numbers.size() * call.shape.query_bytes)),
	  k_(take<uint32_t>(numbers.size())), after_(take<kernels::Entry>(numbers.size())),
	  has_after_(take<uint8_t>(numbers.size()))
{
}

void
ChunkStaging::put_heads(QueryChunk *chunk)
{
	for (size_t i = 0; i < numbers_.size(); i++)
	{
		const engine::SearchQuery &query = call_.queries[numbers_[i]];

		k_.host[i] = static_cast<uint32_t>(call_.k_of(numbers_[i]));
		has_after_.host[i] = query.has_after;
		after_.host[i] = {kernels::score_to_key(query.after.score), query.after.row};
		chunk->any_after |= query.has_after;
		chunk->max_k = std::max(chunk->max_k, k_.host[i]);
	}
	chunk->numbers = numbers_;
	chunk->queries.vectors = vectors_.device;
	chunk->queries.k = k_.device;
	chunk->queries.after = chunk->any_after ? after_.device : nullptr;
	chunk->queries.has_after = has_after_.device;
	chunk->queries.n_queries = static_cast<uint32_t>(numbers_.size());
	chunk->queries.dim_pad = call_.shape.dim_pad;
}

bool
ChunkStaging::put_vectors(uint8_t *bytes, int32_t *norms)
{
	return stage_queries(call_.spec, call_.shape, call_.queries, numbers_, vectors_.host, bytes, norms);
}

Status
ChunkStaging::send() const
{
	return copy_in(call_, vectors_.device, vectors_.host, host_.mark());
}

Status
ChunkStaging::put_and_send(kernels::Incoming *incoming)
{
	if (is_sent())
	{
		*incoming = {};
		return put_and_send();
	}
	(void) put_vectors(nullptr, nullptr);
	*incoming = {vectors_.host, vectors_.device, host_.mark()};
	return Status::ok();
}

size_t
ChunkStaging::part_size() const
{
	constexpr size_t kPartBytes = size_t{2} << 20; // so that the driver's calls take little beside the copies

	return std::max<size_t>(1, kPartBytes / call_.shape.query_bytes);
}

Status
ChunkStaging::put_and_send()
{
	bool are_bytes = false;

	if (numbers_.size() > part_size())
		return put_and_send_by_driver(nullptr, &are_bytes);
	(void) put_vectors(nullptr, nullptr);
	return send();
}

Status
ChunkStaging::put_and_send_by_driver(uint8_t *bytes, bool *are_bytes)
{
	const size_t each = call_.shape.query_bytes;
	const size_t n = numbers_.size();
	Status status = Status::ok();
	size_t sent = 0;

	*are_bytes = stage_queries_in_order(call_.spec, call_.shape, call_.queries, numbers_, vectors_.host, bytes,
		[&](size_t last)
		{
			if (!status.is_ok() || last == n || last - sent < part_size())
				return; // the last ones go with what follows
			status = send_some(sent, last);
			sent = last;
		});
	VECTORGPU_TRY(status);
	return send_piece(sent * each, host_.mark());
}

/// A copy comes last, as where vectors are sent: behind a kernel, blocks of the search's first ones would come early
/// (warp_block/launch.cuh).
Status
ChunkStaging::gather_and_send(const Source &source, const Piece<uint32_t> &rows) const
{
	const uint32_t n = static_cast<uint32_t>(numbers_.size());

	for (uint32_t i = 0; i < n; i++)
		rows.host[i] = call_.queries[numbers_[i]].own_row.number;
	VECTORGPU_TRY(call_.check(
		cudaMemcpyAsync(rows.device, rows.host, n * sizeof(uint32_t), cudaMemcpyHostToDevice, call_.stream()),
		"send queries"));
	VECTORGPU_TRY(call_.check(kernels::launch_pack({rows.device, nullptr, n}, source.rows().vectors,
								  source.block->pitch_bytes, vectors_.device, call_.stream()),
		"take queries from rows"));
	call_.counts->n_own_rows += n;
	return send_heads();
}

Status
ChunkStaging::put_and_send_in_order(const std::function<Status(size_t)> &staged)
{
	Status status = Status::ok();

	(void) stage_queries_in_order(call_.spec, call_.shape, call_.queries, numbers_, vectors_.host, nullptr,
		[&](size_t last)
		{
			if (status.is_ok())
				status = staged(last);
		});
	return status;
}

Status
ChunkStaging::send_some(size_t first, size_t last) const
{
	return send_piece(first * call_.shape.query_bytes, last * call_.shape.query_bytes);
}

/// Sends the bytes begin ... end - 1 of all pieces.
Status
ChunkStaging::send_piece(size_t begin, size_t end) const
{
	return call_.check(cudaMemcpyAsync(vectors_.device + begin, vectors_.host + begin, end - begin,
						   cudaMemcpyHostToDevice, call_.stream()),
		"send queries");
}

} // namespace vectorgpu::cuda
