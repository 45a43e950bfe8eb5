// See device_sparse_copy.hpp. A batch goes in chunks of queries, each segment by segment and tile by tile of rows: the
// device bounds a tile, the host's threads offer its rows to the selections, a query each.
#include "cuda/resident/device_sparse_copy.hpp"

#include <algorithm>
#include <atomic>

#include "cuda/device/arena.hpp"
#include "cuda/device/stop.hpp"
#include "cuda/resident/device_codes.hpp"
#include "engine/cpu/cpu_engine_sparse.hpp"
#include "engine/cpu/passing_groups.hpp"
#include "engine/distance/sparse_query.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr size_t kMostQueries = 64;                // of a chunk
constexpr size_t kSlackBytes = 8192;               // of each buffer, for alignment
constexpr uint32_t kHashed = kMaxSparseDimensions; // queries are prepared with hash tables, whatever the index has
constexpr uint64_t kMostTileRows = (uint64_t{1} << 31) - 1; // a warp each

/// Bytes of hash tables that a chunk may have: in pinned memory behind the queries, and in half of the workspace. 0:
/// the context's buffers are too small.
size_t
table_room(const SearchContext &context)
{
	constexpr size_t kQueryBytes = kMostQueries * sizeof(kernels::SparseBoundQuery) + kArenaAlignment;
	constexpr size_t kOutBytes = kMostQueries * sizeof(float) + kSlackBytes; // bounds of a row
	const size_t in = std::min(context.pinned_in.bytes(), context.workspace.bytes() / 2);
	const size_t out = std::min(context.pinned_out.bytes(), context.workspace.bytes() / 2);

	return in > kQueryBytes + kSlackBytes && out > kOutBytes + kSlackBytes ? in - kQueryBytes - kSlackBytes : 0;
}

} // namespace

struct DeviceSparseCopy::Call
{
	const SearchMeans &means;
	std::span<const engine::SearchQuery> queries;
	BatchCounts *counts;
	engine::SearchControl *control;
	std::vector<engine::SparseVector> vectors = {}; // of the queries
	std::vector<engine::Selection> selections = {}; // of the queries
};

struct DeviceSparseCopy::Chunk
{
	size_t first; // query
	size_t n;
	const kernels::SparseBoundQuery *d_queries;
	const engine::SparseSlot *d_slots;
	size_t used; // of the workspace
};

std::shared_ptr<const engine::SparseRows>
DeviceSparseCopy::made_of(engine::SegmentId id) const
{
	return host_.prepared_sparse(id);
}

Status
DeviceSparseCopy::upload(engine::SegmentId id, const std::shared_ptr<const engine::SparseRows> &rows)
{
	const Device *device = budget_->device();

	if (rows->bytes().empty()) // a segment without rows
		return Status::ok();

	auto made = std::make_shared<SparsePart>();

	made->made = rows;
	VECTORGPU_TRY(made->bytes.allocate(budget_, rows->bytes().size(), "sparse vectors"));
	{
		const std::lock_guard uploading(uploader_->mutex);
		uint8_t *const to = made->bytes.as<uint8_t>();

		VECTORGPU_TRY(send_bytes(device, uploader_, to, rows->bytes().data(), rows->bytes().size()));
		if (rows->bytes().size() > rows->elements_at()) // of the last value: with another end, kernels read elsewhere
			VECTORGPU_TRY(device->damage("gpu_flip_derived", to, rows->bytes().size() - 1, uploader_->stream.get()));
		VECTORGPU_TRY(uploader_->stream.synchronize());
	}
	put_part(id, std::move(made));
	return Status::ok();
}

Status
DeviceSparseCopy::check_derived(engine::SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	VECTORGPU_TRY(host_.check_derived(id, first, n_rows, n_different));

	const std::shared_ptr<const SparsePart> part = find_part(id);

	if (part == nullptr || n_rows == 0)
		return Status::ok();

	const engine::SparseRows &rows = *part->made;
	const uint64_t start = rows.elements_at() + rows.start(first);
	const uint64_t end = rows.elements_at() + rows.ends()[first + n_rows - 1];
	const std::lock_guard lock(uploader_->mutex);

	VECTORGPU_TRY(
		compare(part->bytes, first * sizeof(uint64_t), rows.ends() + first, n_rows * sizeof(uint64_t), n_different));
	return compare(part->bytes, start, rows.bytes().data() + start, end - start, n_different);
}

/// Return null if the host has to compare the rows: none are on the device, or few pass.
std::shared_ptr<const SparsePart>
DeviceSparseCopy::find(const engine::RowsView &view) const
{
	if (view.rows.last == 0 || view.sparse == nullptr || (view.passing != nullptr && view.passing->listed()))
		return nullptr;

	return find_part(view.segment, view.sparse.get());
}

/// True if there is room for the table of each query: else the host searches for them all.
bool
DeviceSparseCopy::holds_tables(const Call &call)
{
	const size_t room = table_room(*call.means.context);

	return std::all_of(call.vectors.begin(), call.vectors.end(),
		[room](const engine::SparseVector &vector) { return engine::sparse_table_bytes(vector.n, kHashed) <= room; });
}

/// Prepare queries from number `first` on, as many as fit the context's buffers, one at least, and send them.
Status
DeviceSparseCopy::send_chunk(const Call &call, size_t first, Chunk *chunk)
{
	const SearchContext &context = *call.means.context;
	const size_t room = table_room(context);
	Arena arena(context.workspace.get(), context.workspace.bytes());
	Arena in(context.pinned_in.as<uint8_t>(), context.pinned_in.bytes());
	kernels::SparseBoundQuery *const queries = in.take<kernels::SparseBoundQuery>(kMostQueries);
	size_t bytes = 0;

	*chunk = {first, 0, nullptr, nullptr, 0};
	for (; chunk->n < std::min(kMostQueries, call.queries.size() - first); chunk->n++)
	{
		const engine::SparseVector &vector = call.vectors[first + chunk->n];
		const size_t needed = engine::sparse_table_bytes(vector.n, kHashed);

		if (bytes + needed > room)
			break;

		engine::SparseSlot *const slots =
			reinterpret_cast<engine::SparseSlot *>(context.pinned_in.as<uint8_t>() + in.mark() + bytes);
		engine::SparseQuery prepared;

		engine::sparse_query_init(&prepared, Metric::kL2, vector, kHashed, slots);
		queries[chunk->n] = {
			bytes / sizeof(engine::SparseSlot), vector.n, prepared.shift, prepared.sum, prepared.squares};
		bytes += needed;
	}

	uint8_t *const d_queries = arena.take<uint8_t>(in.mark() + bytes); // queries, then slots, as in pinned memory

	if (chunk->n == 0 || arena.failed())
		return Status::error(StatusCode::kOutOfMemory, "the workspace on the GPU is too small for the search");
	chunk->d_queries = reinterpret_cast<const kernels::SparseBoundQuery *>(d_queries);
	chunk->d_slots = reinterpret_cast<const engine::SparseSlot *>(d_queries + in.mark());
	chunk->used = arena.mark();
	return call.means.device->check(cudaMemcpyAsync(d_queries, context.pinned_in.get(), in.mark() + bytes,
										cudaMemcpyHostToDevice, context.stream.get()),
		"send sparse queries");
}

Status
DeviceSparseCopy::search_segment(
	const engine::RowsView &view, const SparsePart &part, const Chunk &chunk, Call *call) const
{
	const Device *const device = call->means.device;
	const SearchContext &context = *call->means.context;
	const Stream &stream = context.stream;
	const size_t room = std::min(context.workspace.bytes() - chunk.used, context.pinned_out.bytes());
	const uint64_t tile = std::min<uint64_t>((room - kSlackBytes) / (chunk.n * sizeof(float)), kMostTileRows);
	const float *const bounds = context.pinned_out.as<float>();
	std::atomic<uint64_t> n_scored{0};
	kernels::SparseArgs args;

	args.metric = spec().metric;
	args.queries = chunk.d_queries;
	args.slots = chunk.d_slots;
	args.n_queries = static_cast<uint32_t>(chunk.n);
	args.ends = part.bytes.as<uint64_t>();
	args.elements = part.bytes.as<uint8_t>() + part.made->elements_at();
	args.bounds = reinterpret_cast<float *>(context.workspace.as<uint8_t>() + chunk.used);
	for (uint64_t first = 0; first < view.rows.last; first += tile)
	{
		const size_t n = std::min<uint64_t>(tile, view.rows.last - first);
		std::atomic<size_t> next{0};

		if (is_stopped(call->control))
			return stopped();
		args.first_row = static_cast<uint32_t>(first);
		args.n_rows = static_cast<uint32_t>(n);
		VECTORGPU_TRY(device->check(kernels::launch_sparse_bounds(args, stream.get()), "bound sparse vectors"));
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(context.pinned_out.get(), args.bounds, chunk.n * n * sizeof(float),
										cudaMemcpyDeviceToHost, stream.get()),
			"read bounds"));
		VECTORGPU_TRY(stream.synchronize());
		pool_->run(std::min(pool_->n_threads(), chunk.n),
			[&](size_t)
			{
				for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < chunk.n;)
					n_scored += engine::offer_bounded(view, first, n, bounds + i * n, spec().metric,
						call->vectors[chunk.first + i], &call->selections[chunk.first + i]);
			});
		if (call->control != nullptr)
			call->control->progress.fetch_add(1, std::memory_order_relaxed);
	}
	call->counts->n_rescored += n_scored;
	call->counts->n_sparse += chunk.n;
	return Status::ok();
}

/// Search for queries that have the same rows to look at; call->selections [queries] are started and filled.
Status
DeviceSparseCopy::search_group(const engine::Snapshot &snapshot, Call *call) const
{
	std::vector<std::pair<const engine::RowsView *, std::shared_ptr<const SparsePart>>> on_device;
	engine::Snapshot on_host;
	std::vector<std::vector<engine::Neighbor>> found;

	call->vectors.resize(call->queries.size());
	for (size_t i = 0; i < call->queries.size(); i++)
		(void) engine::open_sparse(call->queries[i].query, call->queries[i].query_bytes, &call->vectors[i]);

	const bool holds = holds_tables(*call);

	on_host.delta = snapshot.delta;
	on_host.n_rows = snapshot.n_rows;
	for (const auto &view : snapshot.segments)
		if (std::shared_ptr<const SparsePart> part = holds ? find(*view) : nullptr; part != nullptr)
			on_device.emplace_back(view.get(), std::move(part));
		else
			on_host.segments.push_back(view);
	call->counts->n_rescored += engine::search_sparse(spec(), on_host, call->queries, *pool_, &found, call->control);
	call->selections = std::vector<engine::Selection>(call->queries.size());
	for (size_t i = 0; i < call->queries.size(); i++)
	{
		call->selections[i].start(call->queries[i], snapshot.n_rows);
		for (const engine::Neighbor &one : found[i])
			engine::topk_push(call->selections[i].topk(), &one.score, &one.row, 1, nullptr, 0);
	}

	StreamEnd end(call->means.device, &call->means.context->stream);
	Chunk chunk;

	for (size_t first = 0; first < call->queries.size() && !on_device.empty(); first += chunk.n)
	{
		VECTORGPU_TRY(send_chunk(*call, first, &chunk));
		for (const auto &[view, part] : on_device)
			VECTORGPU_TRY(search_segment(*view, *part, chunk, call));
	}
	end.reached();
	return Status::ok();
}

Status
DeviceSparseCopy::search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
	std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts, engine::SearchControl *control)
{
	const std::shared_ptr<const engine::Snapshot> snapshot = host_.snapshot();
	Status status;
	const auto search_rows = [&](const engine::Snapshot &rows, std::span<const engine::SearchQuery> group,
								 std::vector<std::vector<engine::Neighbor>> *found)
	{
		Call call = {means, group, counts, control};

		found->resize(group.size());
		if (status.is_ok())
			status = search_group(rows, &call);
		for (size_t i = 0; i < group.size() && status.is_ok(); i++)
			(*found)[i] = call.selections[i].finish();
	};

	VECTORGPU_TRY(engine::check_sparse_queries(queries));
	VECTORGPU_TRY(means.device->provoke(means.context->stream.get()));
	if (engine::has_conditions(queries))
		VECTORGPU_TRY(engine::search_groups(*snapshot, queries, search_rows, results, control));
	else
		search_rows(*snapshot, queries, results);
	VECTORGPU_TRY(status);
	return is_stopped(control) ? stopped() : Status::ok();
}

} // namespace vectorgpu::cuda
