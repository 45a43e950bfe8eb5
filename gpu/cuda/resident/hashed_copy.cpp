// See hashed_copy.hpp. A batch goes segment by segment: queries in order of their widths, in chunks that fit the
// context's buffers; the device finds nodes of each part, the host's threads judge them.
#include "cuda/resident/hashed_copy.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cuda/device/arena.hpp"
#include "cuda/resident/device_codes.hpp"
#include "cuda/device/stop.hpp"
#include "engine/cpu/cpu_engine_search.hpp"
#include "engine/graph/search.hpp"
#include "kernels/graph/graph_codes.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr size_t kMostQueries = 16384;                  // of a chunk
constexpr size_t kQueryBytes = 64;                      // of a query in a chunk, beside its code and what is found
constexpr uint64_t kMostRows = (uint64_t{1} << 31) - 1; // of a segment

static_assert(kernels::kCodeGraphMostBegin == engine::graph::kSearchEntries);

/// work(i) for 0 <= i < n by the pool's threads.
template <class Work>
void
for_each(engine::ThreadPool *pool, size_t n, Work work)
{
	std::atomic<size_t> next{0};

	pool->run(std::min(pool->n_threads(), n),
		[&](size_t)
		{
			for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;)
				work(i);
		});
}

} // namespace

HashedCopy::HashedCopy(const engine::CopySpec &spec, Budget *budget, Copy::Uploader *uploader, engine::ThreadPool *pool)
	: host_(spec), budget_(budget), uploader_(uploader), pool_(pool)
{
}

Status
HashedCopy::prepare_segment(engine::SegmentId id)
{
	const std::lock_guard writing(device_mutex_);

	return prepare(id);
}

Status
HashedCopy::seal_segment(engine::SegmentId id)
{
	const std::lock_guard writing(device_mutex_);

	VECTORGPU_TRY(prepare(id));
	return host_.seal_segment(id);
}

/// Caller holds device_mutex_.
Status
HashedCopy::prepare(engine::SegmentId id)
{
	VECTORGPU_TRY(host_.prepare_segment(id));
	prepared_.insert(id);
	if (!attached_)
		return Status::ok();

	const Status status = upload(id);

	// What the device has no room for, or will not take, the host searches. A device that is lost is another matter.
	return status.code == StatusCode::kOutOfMemory || status.code == StatusCode::kInternal ? Status::ok() : status;
}

Status
HashedCopy::attach()
{
	const std::lock_guard writing(device_mutex_);
	Status status;

	attached_ = true;
	for (const engine::SegmentId id : prepared_)
		if (Status uploaded = upload(id); !uploaded.is_ok() && status.is_ok()) // a smaller one may fit yet
			status = std::move(uploaded);
	return status;
}

Status
HashedCopy::detach()
{
	const std::lock_guard writing(device_mutex_);
	std::map<engine::SegmentId, std::shared_ptr<const DeviceSegment>> gone; // freed after the lock
	const std::lock_guard lock(mutex_);

	attached_ = false;
	gone.swap(segments_);
	return Status::ok();
}

Status
HashedCopy::drop_segment(engine::SegmentId id)
{
	const std::lock_guard writing(device_mutex_);
	std::shared_ptr<const DeviceSegment> gone; // searches under way may hold it

	VECTORGPU_TRY(host_.drop_segment(id));
	prepared_.erase(id);

	const std::lock_guard lock(mutex_);

	if (const auto found = segments_.find(id); found != segments_.end())
	{
		gone = std::move(found->second);
		segments_.erase(found);
	}
	return Status::ok();
}

/// The device's part of a prepared segment, if it has not got it. Caller holds device_mutex_.
Status
HashedCopy::upload(engine::SegmentId id)
{
	const std::shared_ptr<const engine::SegmentGraph> graph = host_.prepared_graph(id);
	const Device *device = budget_->device();

	if (graph == nullptr || graph->layout().n_rows == 0) // a segment without rows
		return Status::ok();
	{
		const std::lock_guard lock(mutex_);

		if (const auto found = segments_.find(id); found != segments_.end() && found->second->graph == graph)
			return Status::ok();
	}

	const engine::GraphLayout &layout = graph->layout();
	const uint32_t n_entries = layout.header.n_entries;
	const size_t code_bytes = layout.header.hash_bits / 8;
	auto made = std::make_shared<DeviceSegment>();

	made->graph = graph;
	made->unsupported = layout.n_rows > kMostRows;
	for (const engine::GraphPartLayout &part : graph->parts())
		made->unsupported = made->unsupported || part.n_entries > kernels::kCodeGraphMostEntries;
	if (made->unsupported)
	{
		const std::lock_guard lock(mutex_);

		device->log("a segment of a graph with codes has more rows, or more entry points, than the GPU takes: the host "
					"searches it");
		segments_[id] = std::move(made);
		return Status::ok();
	}
	VECTORGPU_TRY(made->edges.allocate(budget_, layout.edge_bytes(), "edges"));
	VECTORGPU_TRY(made->codes.allocate(budget_, layout.n_rows * code_bytes, "codes"));
	VECTORGPU_TRY(made->entry_nodes.allocate(budget_, n_entries * sizeof(uint32_t), "entry points"));
	VECTORGPU_TRY(made->entry_codes.allocate(budget_, n_entries * code_bytes, "codes of entry points"));
	{
		const std::lock_guard uploading(uploader_->mutex);

		VECTORGPU_TRY(send_bytes(device, uploader_, made->edges.as<uint8_t>(), graph->edges(), layout.edge_bytes()));
		VECTORGPU_TRY(
			send_bytes(device, uploader_, made->codes.as<uint8_t>(), graph->codes(), layout.n_rows * code_bytes));
		VECTORGPU_TRY(send_bytes(
			device, uploader_, made->entry_nodes.as<uint8_t>(), graph->entries(), n_entries * sizeof(uint32_t)));
		VECTORGPU_TRY(device->check(
			kernels::launch_code_gather(made->codes.as<uint8_t>(), static_cast<uint32_t>(code_bytes),
				made->entry_nodes.as<uint32_t>(), n_entries, made->entry_codes.as<uint8_t>(), uploader_->stream.get()),
			"gather codes of entry points"));
		VECTORGPU_TRY(device->damage("gpu_flip_derived", made->edges.as<uint8_t>(), 0, uploader_->stream.get()));
		VECTORGPU_TRY(uploader_->stream.synchronize());
	}

	const std::lock_guard lock(mutex_);

	segments_[id] = std::move(made);
	return Status::ok();
}

Status
HashedCopy::check_derived(engine::SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	const Device *device = budget_->device();
	std::shared_ptr<const DeviceSegment> segment;

	VECTORGPU_TRY(host_.check_derived(id, first, n_rows, n_different));
	{
		const std::lock_guard lock(mutex_);

		if (const auto found = segments_.find(id); found != segments_.end() && !found->second->unsupported)
			segment = found->second;
	}
	if (segment == nullptr)
		return Status::ok();

	const engine::SegmentGraph &graph = *segment->graph;
	const engine::GraphHeader &header = graph.layout().header;
	const size_t edge_bytes = header.degree * sizeof(uint32_t);
	const size_t code_bytes = header.hash_bits / 8;
	const std::lock_guard lock(uploader_->mutex);
	const auto look = [&](const Held &held, const void *host, size_t at, size_t n_bytes)
	{
		return count_different(
			device, uploader_, held.as<uint8_t>() + at, static_cast<const uint8_t *>(host) + at, n_bytes, n_different);
	};

	VECTORGPU_TRY(look(segment->edges, graph.edges(), first * edge_bytes, n_rows * edge_bytes));
	VECTORGPU_TRY(look(segment->codes, graph.codes(), first * code_bytes, n_rows * code_bytes));
	if (first > 0)
		return Status::ok();

	std::vector<uint8_t> entry_codes(header.n_entries * code_bytes);

	for (size_t i = 0; i < header.n_entries; i++)
		std::memcpy(entry_codes.data() + i * code_bytes, graph.codes() + graph.entries()[i] * code_bytes, code_bytes);
	VECTORGPU_TRY(look(segment->entry_nodes, graph.entries(), 0, header.n_entries * sizeof(uint32_t)));
	return look(segment->entry_codes, entry_codes.data(), 0, entry_codes.size());
}

/// Null: the host has to find the nodes.
std::shared_ptr<const HashedCopy::DeviceSegment>
HashedCopy::find(const engine::RowsView &view) const
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(view.segment);

	return found != segments_.end() && found->second->graph == view.graph && !found->second->unsupported ? found->second
																										 : nullptr;
}

/// A chunk of queries on their way through a segment.
struct HashedCopy::Wave
{
	std::span<const uint32_t> numbers; // of the batch's queries
	kernels::CodeGraphArgs args;       // but for what a part says
	uint32_t *h_counts;                // [n], then the nodes found [n, max_width]: one copy
	uint32_t *h_rows;
};

/// numbers: queries that search this segment, in order of their widths.
Status
HashedCopy::search_device(const Device *device, SearchContext *context, const engine::RowsView &view,
	const DeviceSegment &segment, std::span<const engine::SearchQuery> queries, std::span<const uint32_t> numbers,
	std::span<std::unique_ptr<engine::HashedAnswer>> answers, engine::SearchControl *control)
{
	const engine::SegmentGraph &graph = *segment.graph;
	const engine::graph::HashModel model = graph.hash_model(spec());
	const uint32_t code_bytes = graph.layout().header.hash_bits / 8;
	const cudaStream_t stream = context->stream.get();

	while (!numbers.empty())
	{
		Arena arena(context->workspace.get(), context->workspace.bytes());
		Arena in(context->pinned_in.as<uint8_t>(), context->pinned_in.bytes());
		Arena out(context->pinned_out.as<uint8_t>(), context->pinned_out.bytes());
		Wave wave;
		size_t n = 0;

		// As many as fit with the widest of them.
		for (; n < std::min(numbers.size(), kMostQueries); n++)
		{
			const size_t width = answers[numbers[n]]->width(view);
			const size_t each = code_bytes + kQueryBytes + width * sizeof(uint32_t);

			if (n > 0 &&
				((n + 1) * (code_bytes + kQueryBytes) + 8192 > context->pinned_in.bytes() ||
					(n + 1) * each + 8192 > context->pinned_out.bytes() ||
					(n +
						1) * (each + width * sizeof(uint64_t) + kernels::kCodeGraphMostBegin * sizeof(kernels::Entry)) +
							8192 >
						context->workspace.bytes()))
				break;
		}
		if (is_stopped(control))
			return stopped();
		wave.numbers = numbers.first(n);
		wave.args.n_queries = static_cast<uint32_t>(n);
		wave.args.max_width = answers[numbers[n - 1]]->width(view);

		uint8_t *h_codes = in.take<uint8_t>(n * code_bytes);
		uint32_t *h_widths = in.take<uint32_t>(n);
		uint8_t *d_codes = arena.take<uint8_t>(n * code_bytes);
		uint32_t *d_widths = arena.take<uint32_t>(n);
		uint32_t *d_counts = arena.take<uint32_t>(n);
		uint32_t *d_rows = arena.take<uint32_t>(n * wave.args.max_width);

		wave.h_counts = out.take<uint32_t>(n);
		wave.h_rows = out.take<uint32_t>(n * wave.args.max_width);
		wave.args.begin = arena.take<kernels::Entry>(n * kernels::kCodeGraphMostBegin);
		wave.args.found.keys = arena.take<uint64_t>(n * wave.args.max_width);
		wave.args.found.rows = d_rows;
		wave.args.found.counts = d_counts;
		wave.args.found.capacity = wave.args.max_width;
		if (arena.failed() || in.failed() || out.failed())
			return Status::error(StatusCode::kOutOfMemory, "the workspace on the GPU is too small for the search");
		{
			std::vector<std::vector<float>> work(pool_->n_threads());
			std::atomic<size_t> next{0};

			for (std::vector<float> &floats : work)
				floats.resize(engine::graph::hash_work_floats(model.spec));
			pool_->run(std::min(pool_->n_threads(), (n + 15) / 16),
				[&](size_t thread)
				{
					for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;)
					{
						engine::graph::hash_query(
							model, queries[wave.numbers[i]].query, h_codes + i * code_bytes, work[thread].data());
						h_widths[i] = answers[wave.numbers[i]]->width(view);
					}
				});
		}
		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(d_codes, h_codes, n * code_bytes, cudaMemcpyHostToDevice, stream), "send codes"));
		VECTORGPU_TRY(device->check(
			cudaMemcpyAsync(d_widths, h_widths, n * sizeof(uint32_t), cudaMemcpyHostToDevice, stream), "send widths"));
		wave.args.query_codes = d_codes;
		wave.args.code_bytes = code_bytes;
		wave.args.codes = segment.codes.as<uint8_t>();
		wave.args.n_rows = static_cast<uint32_t>(graph.layout().n_rows);
		wave.args.edges = segment.edges.as<uint32_t>();
		wave.args.degree = graph.degree();
		wave.args.widths = d_widths;
		for (const engine::GraphPartLayout &part : graph.parts())
		{
			wave.args.entry_codes = segment.entry_codes.as<uint8_t>() + size_t{part.first_entry} * code_bytes;
			wave.args.entry_nodes = segment.entry_nodes.as<uint32_t>() + part.first_entry;
			wave.args.n_entries = part.n_entries;
			wave.args.n_begin = std::min(part.n_entries, kernels::kCodeGraphMostBegin);
			VECTORGPU_TRY(
				device->check(kernels::launch_code_graph_search(wave.args, stream), "search a graph by codes"));
			VECTORGPU_TRY(device->check(
				cudaMemcpyAsync(wave.h_counts, d_counts, n * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream),
				"read counts"));
			VECTORGPU_TRY(device->check(cudaMemcpyAsync(wave.h_rows, d_rows, n * wave.args.max_width * sizeof(uint32_t),
											cudaMemcpyDeviceToHost, stream),
				"read nodes"));
			VECTORGPU_TRY(context->stream.synchronize());
			for_each(pool_, n, [&](size_t i)
				{ answers[wave.numbers[i]]->add(view, wave.h_rows + i * wave.args.max_width, wave.h_counts[i]); });
			if (is_stopped(control))
				return stopped();
		}
		numbers = numbers.subspan(n);
	}
	return Status::ok();
}

Status
HashedCopy::search(const Device *device, SearchContext *context, std::span<const engine::SearchQuery> queries,
	std::vector<std::vector<engine::Neighbor>> *results, HashedCounts *counts, engine::SearchControl *control)
{
	const std::shared_ptr<const engine::Snapshot> snapshot = host_.snapshot();
	std::vector<engine::SearchQuery> exact;
	std::vector<uint32_t> exact_numbers;
	std::vector<uint32_t> narrow;
	std::vector<std::unique_ptr<engine::HashedAnswer>> answers(queries.size());
	Status status = device->provoke(context->stream.get());

	results->resize(queries.size());
	for (uint32_t i = 0; i < queries.size(); i++)
	{
		if (queries[i].probes.empty())
		{
			exact.push_back(queries[i]);
			exact_numbers.push_back(i);
			continue;
		}
		answers[i] = std::make_unique<engine::HashedAnswer>(spec(), *snapshot, queries[i], control);
		narrow.push_back(i);
	}
	for (const auto &view : snapshot->segments)
	{
		const std::shared_ptr<const DeviceSegment> segment = view->graph == nullptr ? nullptr : find(*view);
		std::vector<uint32_t> on_device;
		std::vector<uint32_t> on_host;

		for (const uint32_t i : narrow)
			if (const uint32_t width = answers[i]->width(*view); width != 0)
				(segment != nullptr && width <= kernels::kCodeGraphMostWidth ? on_device : on_host).push_back(i);
		std::stable_sort(on_device.begin(), on_device.end(),
			[&](uint32_t a, uint32_t b) { return answers[a]->width(*view) < answers[b]->width(*view); });
		if (status.is_ok() && !on_device.empty())
		{
			status = search_device(device, context, *view, *segment, queries, on_device, answers, control);
			counts->n_on_device += on_device.size();
		}
		if (!status.is_ok())
			break;
		for_each(pool_, on_host.size(),
			[&](size_t i)
			{
				engine::CodeSearcher searcher;
				const uint32_t number = on_host[i];

				(void) searcher.search(spec(), *view, queries[number].query, answers[number]->width(*view), control,
					answers[number].get());
			});
	}
	if (!status.is_ok())
	{
		// Nothing on the stream may still read the segments: they may go once we return.
		if (!device->fatal())
			VECTORGPU_TRY(context->stream.synchronize());
		return status;
	}
	{
		engine::ThreadPool *const helpers = narrow.size() < pool_->n_threads() ? pool_ : nullptr;

		for_each(pool_, narrow.size(), [&](size_t i) { answers[narrow[i]]->finish(&(*results)[narrow[i]], helpers); });
	}
	for (const uint32_t i : narrow)
		counts->n_rescored += answers[i]->n_rescored();
	if (!exact.empty())
	{
		std::vector<std::vector<engine::Neighbor>> found;

		counts->n_rescored += engine::search_snapshot(spec(), *snapshot, exact, {}, *pool_, &found, control);
		for (size_t i = 0; i < exact.size(); i++)
			(*results)[exact_numbers[i]] = std::move(found[i]);
	}
	return is_stopped(control) ? stopped() : Status::ok();
}

} // namespace vectorgpu::cuda
