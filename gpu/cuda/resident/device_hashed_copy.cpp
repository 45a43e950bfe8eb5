// See device_hashed_copy.hpp. A batch goes segment by segment: queries in order of their widths, in chunks that fit the
// context's buffers; the device finds nodes of each part, the host's threads judge them.
#include "cuda/resident/device_hashed_copy.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cuda/device/arena.hpp"
#include "cuda/resident/device_codes.hpp"
#include "cuda/device/stop.hpp"
#include "engine/cpu/cpu_engine_search.hpp"
#include "engine/cpu/passing_groups.hpp"
#include "engine/graph/build.hpp"
#include "engine/graph/search.hpp"
#include "kernels/graph/graph_codes.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr size_t kMostQueries = 16384;                  // of a chunk
constexpr size_t kQueryBytes = 64;                      // of a query in a chunk, besides its code and the nodes found
constexpr size_t kSlackBytes = 8192;                    // of each buffer, for alignment
constexpr uint64_t kMostRows = (uint64_t{1} << 31) - 1; // of a segment

static_assert(kernels::kCodeGraphMostBegin == engine::graph::kSearchEntries);
static_assert(kernels::kCodeGraphMostEntries >= engine::graph::kMaxEntries);

/// Call work(i) for 0 <= i < n with the pool's threads.
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

std::shared_ptr<const engine::SegmentGraph>
DeviceHashedCopy::made_of(engine::SegmentId id) const
{
	return host_.prepared_graph(id);
}

Status
DeviceHashedCopy::upload(engine::SegmentId id, const std::shared_ptr<const engine::SegmentGraph> &graph)
{
	if (graph->layout().n_rows == 0)
		return Status::ok();

	auto made = std::make_shared<HashedPart>();

	made->made = graph;
	made->unsupported = graph->layout().n_rows > kMostRows;
	for (const engine::GraphPartLayout &part : graph->parts())
		made->unsupported = made->unsupported || part.n_entries > kernels::kCodeGraphMostEntries;
	if (made->unsupported)
		budget_->device()->log(
			"a segment of a graph with codes has more rows, or more entry points, than the GPU takes: "
			"the host searches it");
	else
		VECTORGPU_TRY(send_part(*graph, made.get()));
	put_part(id, std::move(made));
	return Status::ok();
}

Status
DeviceHashedCopy::send_part(const engine::SegmentGraph &graph, HashedPart *part)
{
	const Device *device = budget_->device();
	const engine::GraphLayout &layout = graph.layout();
	const uint32_t n_entries = layout.header.n_entries;
	const size_t code_bytes = engine::graph::code_bytes(layout.header.code_bits, layout.dim);

	VECTORGPU_TRY(part->edges.allocate(budget_, layout.edge_bytes(), "edges"));
	VECTORGPU_TRY(part->codes.allocate(budget_, layout.n_rows * code_bytes, "codes"));
	VECTORGPU_TRY(part->entry_nodes.allocate(budget_, n_entries * sizeof(uint32_t), "entry points"));
	VECTORGPU_TRY(part->entry_codes.allocate(budget_, n_entries * code_bytes, "codes of entry points"));

	const std::lock_guard uploading(uploader_->mutex);

	VECTORGPU_TRY(send_bytes(device, uploader_, part->edges.as<uint8_t>(), graph.edges(), layout.edge_bytes()));
	VECTORGPU_TRY(send_bytes(device, uploader_, part->codes.as<uint8_t>(), graph.codes(), layout.n_rows * code_bytes));
	VECTORGPU_TRY(
		send_bytes(device, uploader_, part->entry_nodes.as<uint8_t>(), graph.entries(), n_entries * sizeof(uint32_t)));
	VECTORGPU_TRY(device->check(
		kernels::launch_code_gather(part->codes.as<uint8_t>(), static_cast<uint32_t>(code_bytes),
			part->entry_nodes.as<uint32_t>(), n_entries, part->entry_codes.as<uint8_t>(), uploader_->stream.get()),
		"gather codes of entry points"));
	VECTORGPU_TRY(device->damage("gpu_flip_derived", part->edges.as<uint8_t>(), 0, uploader_->stream.get()));
	return uploader_->stream.synchronize();
}

Status
DeviceHashedCopy::check_derived(engine::SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	VECTORGPU_TRY(host_.check_derived(id, first, n_rows, n_different));

	const std::shared_ptr<const HashedPart> segment = find_part(id);

	if (segment == nullptr || segment->unsupported)
		return Status::ok();

	const engine::SegmentGraph &graph = *segment->made;
	const engine::GraphHeader &header = graph.layout().header;
	const size_t edge_bytes = header.degree * sizeof(uint32_t);
	const size_t code_bytes = engine::graph::code_bytes(header.code_bits, graph.layout().dim);
	const std::lock_guard lock(uploader_->mutex);

	VECTORGPU_TRY(compare(
		segment->edges, first * edge_bytes, graph.edges() + first * header.degree, n_rows * edge_bytes, n_different));
	VECTORGPU_TRY(compare(
		segment->codes, first * code_bytes, graph.codes() + first * code_bytes, n_rows * code_bytes, n_different));
	if (first > 0)
		return Status::ok();

	std::vector<uint8_t> entry_codes(header.n_entries * code_bytes);

	for (size_t i = 0; i < header.n_entries; i++)
		std::memcpy(entry_codes.data() + i * code_bytes, graph.codes() + graph.entries()[i] * code_bytes, code_bytes);
	VECTORGPU_TRY(compare(segment->entry_nodes, 0, graph.entries(), header.n_entries * sizeof(uint32_t), n_different));
	return compare(segment->entry_codes, 0, entry_codes.data(), entry_codes.size(), n_different);
}

/// Return null if the host has to find the nodes.
std::shared_ptr<const HashedPart>
DeviceHashedCopy::find(const engine::RowsView &view) const
{
	std::shared_ptr<const HashedPart> part =
		view.graph == nullptr ? nullptr : find_part(view.segment, view.graph.get());

	return part != nullptr && !part->unsupported ? part : nullptr;
}

/// A chunk of queries on their way through a segment, in the context's buffers.
struct DeviceHashedCopy::Wave
{
	std::span<const uint32_t> numbers; // of the batch's queries, n of them
	kernels::CodeGraphArgs args;       // without those of a part of the graph
	size_t query_bytes;                // of a query's code
	uint8_t *h_codes;                  // [n, query_bytes]
	uint32_t *h_widths;                // [n]
	uint8_t *d_codes;
	uint32_t *d_widths;
	uint32_t *h_counts; // [n]
	uint32_t *h_rows;   // [n, max_width] the nodes found
};

/// Return how many of the queries `numbers`, in order of their widths, fit the context's buffers together.
size_t
DeviceHashedCopy::wave_size(
	const Batch &batch, const engine::RowsView &view, std::span<const uint32_t> numbers, size_t query_bytes)
{
	const SearchContext &context = *batch.means.context;
	size_t n = 0;

	for (; n < std::min(numbers.size(), kMostQueries); n++)
	{
		const size_t width = batch.answers[numbers[n]]->width(view);
		const size_t each = query_bytes + kQueryBytes + width * sizeof(uint32_t);
		const size_t on_device =
			each + width * sizeof(uint64_t) + kernels::kCodeGraphMostBegin * sizeof(kernels::Entry);

		if (n > 0 &&
			((n + 1) * (query_bytes + kQueryBytes) + kSlackBytes > context.pinned_in.bytes() ||
				(n + 1) * each + kSlackBytes > context.pinned_out.bytes() ||
				(n + 1) * on_device + kSlackBytes > context.workspace.bytes()))
			break;
	}
	return n;
}

/// Place a wave in the context's buffers.
Status
DeviceHashedCopy::make_wave(const Batch &batch, const engine::RowsView &view, const HashedPart &part,
	std::span<const uint32_t> numbers, Wave *wave)
{
	const engine::SegmentGraph &graph = *part.made;
	const SearchContext &context = *batch.means.context;
	const size_t n = numbers.size();
	const uint32_t bits = graph.layout().header.code_bits;
	const size_t query_bytes = engine::graph::code_query_bytes(bits, graph.layout().dim);
	const uint32_t max_width = batch.answers[numbers[n - 1]]->width(view);
	Arena arena(context.workspace.get(), context.workspace.bytes());
	Arena in(context.pinned_in.as<uint8_t>(), context.pinned_in.bytes());
	Arena out(context.pinned_out.as<uint8_t>(), context.pinned_out.bytes());
	kernels::CodeGraphArgs &args = wave->args;

	wave->numbers = numbers;
	wave->h_codes = in.take<uint8_t>(n * query_bytes);
	wave->h_widths = in.take<uint32_t>(n);
	wave->d_codes = arena.take<uint8_t>(n * query_bytes);
	wave->d_widths = arena.take<uint32_t>(n);
	wave->h_counts = out.take<uint32_t>(n);
	wave->h_rows = out.take<uint32_t>(n * max_width);
	args.n_queries = static_cast<uint32_t>(n);
	args.max_width = max_width;
	args.found.counts = arena.take<uint32_t>(n);
	args.found.rows = arena.take<uint32_t>(n * max_width);
	args.begin = arena.take<kernels::Entry>(n * kernels::kCodeGraphMostBegin);
	args.found.keys = arena.take<uint64_t>(n * max_width);
	args.found.capacity = max_width;
	args.query_codes = wave->d_codes;
	wave->query_bytes = query_bytes;
	args.rabitq_bits = engine::graph::codes_are_rabitq(bits) ? bits : 0;
	args.code_bytes = static_cast<uint32_t>(engine::graph::code_bytes(bits, graph.layout().dim));
	args.codes = part.codes.as<uint8_t>();
	args.n_rows = static_cast<uint32_t>(graph.layout().n_rows);
	args.edges = part.edges.as<uint32_t>();
	args.degree = graph.degree();
	args.widths = wave->d_widths;
	return arena.failed() || in.failed() || out.failed()
		? Status::error(StatusCode::kOutOfMemory, "the workspace on the GPU is too small for the search")
		: Status::ok();
}

/// Compute codes and widths of a wave's queries, with the host's threads.
void
DeviceHashedCopy::hash_queries(
	const Batch &batch, const engine::RowsView &view, const HashedPart &part, const Wave &wave) const
{
	const engine::graph::CodeModel model = part.made->code_model(spec());
	const size_t n = wave.numbers.size();
	std::vector<std::vector<float>> work(pool_->n_threads());
	std::atomic<size_t> next{0};

	for (std::vector<float> &floats : work)
		floats.resize(engine::graph::code_work_floats(model.spec));
	pool_->run(std::min(pool_->n_threads(), (n + 15) / 16),
		[&](size_t thread)
		{
			for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;)
			{
				engine::graph::make_query_code(model, batch.queries[wave.numbers[i]].query,
					wave.h_codes + i * wave.query_bytes, work[thread].data());
				wave.h_widths[i] = batch.answers[wave.numbers[i]]->width(view);
			}
		});
}

/// Search the segment's parts on the device and let the host's threads judge the nodes found.
Status
DeviceHashedCopy::search_wave(Batch *batch, const engine::RowsView &view, const HashedPart &part, Wave *wave)
{
	const Device *const device = batch->means.device;
	const Stream &stream = batch->means.context->stream;
	const size_t n = wave->numbers.size();
	kernels::CodeGraphArgs &args = wave->args;

	VECTORGPU_TRY(device->check(
		cudaMemcpyAsync(wave->d_codes, wave->h_codes, n * wave->query_bytes, cudaMemcpyHostToDevice, stream.get()),
		"send codes"));
	VECTORGPU_TRY(device->check(
		cudaMemcpyAsync(wave->d_widths, wave->h_widths, n * sizeof(uint32_t), cudaMemcpyHostToDevice, stream.get()),
		"send widths"));
	for (const engine::GraphPartLayout &layout : part.made->parts())
	{
		args.entry_codes = part.entry_codes.as<uint8_t>() + size_t{layout.first_entry} * args.code_bytes;
		args.entry_nodes = part.entry_nodes.as<uint32_t>() + layout.first_entry;
		args.n_entries = layout.n_entries;
		args.n_begin = std::min(layout.n_entries, kernels::kCodeGraphMostBegin);
		VECTORGPU_TRY(device->check(kernels::launch_code_graph_search(args, stream.get()), "search a graph by codes"));
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(wave->h_counts, args.found.counts, n * sizeof(uint32_t),
										cudaMemcpyDeviceToHost, stream.get()),
			"read counts"));
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(wave->h_rows, args.found.rows,
										n * args.max_width * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream.get()),
			"read nodes"));
		VECTORGPU_TRY(stream.synchronize());
		for_each(pool_, n, [&](size_t i)
			{ batch->answers[wave->numbers[i]]->add(view, wave->h_rows + i * args.max_width, wave->h_counts[i]); });
		if (is_stopped(batch->control))
			return stopped();
	}
	return Status::ok();
}

/// numbers: queries that search this segment, in order of their widths.
Status
DeviceHashedCopy::search_device(
	Batch *batch, const engine::RowsView &view, const HashedPart &part, std::span<const uint32_t> numbers)
{
	const engine::GraphLayout &layout = part.made->layout();
	const size_t query_bytes = engine::graph::code_query_bytes(layout.header.code_bits, layout.dim);
	StreamEnd end(batch->means.device, &batch->means.context->stream);

	while (!numbers.empty())
	{
		const size_t n = wave_size(*batch, view, numbers, query_bytes);
		Wave wave;

		if (is_stopped(batch->control))
			return stopped();
		VECTORGPU_TRY(make_wave(*batch, view, part, numbers.first(n), &wave));
		hash_queries(*batch, view, part, wave);
		VECTORGPU_TRY(search_wave(batch, view, part, &wave));
		numbers = numbers.subspan(n);
	}
	end.reached();
	return Status::ok();
}

/// The host searches among all rows: queries without probes, and those with conditions.
Status
DeviceHashedCopy::search_exact(const engine::Snapshot &snapshot, std::span<const engine::SearchQuery> queries,
	std::vector<std::vector<engine::Neighbor>> *found, BatchCounts *counts, engine::SearchControl *control) const
{
	const auto search_group = [&](const engine::Snapshot &rows, std::span<const engine::SearchQuery> group,
								  std::vector<std::vector<engine::Neighbor>> *results)
	{ counts->n_rescored += engine::search_snapshot(spec(), rows, group, {}, *pool_, results, control); };

	if (engine::has_conditions(queries))
		return engine::search_groups(snapshot, queries, search_group, found, control);
	search_group(snapshot, queries, found);
	return Status::ok();
}

Status
DeviceHashedCopy::search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
	std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts, engine::SearchControl *control)
{
	const std::shared_ptr<const engine::Snapshot> snapshot = host_.snapshot();
	std::vector<engine::SearchQuery> exact;
	std::vector<uint32_t> exact_numbers;
	std::vector<uint32_t> narrow;
	Batch batch = {means, queries, {}, control};
	std::vector<std::unique_ptr<engine::HashedAnswer>> &answers = batch.answers;
	Status status = means.device->provoke(means.context->stream.get());

	answers.resize(queries.size());
	results->resize(queries.size());
	for (uint32_t i = 0; i < queries.size(); i++)
	{
		if (queries[i].probes.empty() || queries[i].passing != nullptr)
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
		const std::shared_ptr<const HashedPart> part = find(*view);
		std::vector<uint32_t> on_device;
		std::vector<uint32_t> on_host;

		for (const uint32_t i : narrow)
			if (const uint32_t width = answers[i]->width(*view); width != 0)
				(part != nullptr && width <= kernels::kCodeGraphMostWidth ? on_device : on_host).push_back(i);
		std::stable_sort(on_device.begin(), on_device.end(),
			[&](uint32_t a, uint32_t b) { return answers[a]->width(*view) < answers[b]->width(*view); });
		if (status.is_ok() && !on_device.empty())
		{
			status = search_device(&batch, *view, *part, on_device);
			counts->n_hashed += on_device.size();
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
	VECTORGPU_TRY(status);
	{
		engine::ThreadPool *const helpers = narrow.size() < pool_->n_threads() ? pool_ : nullptr;

		for_each(pool_, narrow.size(), [&](size_t i) { answers[narrow[i]]->finish(&(*results)[narrow[i]], helpers); });
	}
	for (const uint32_t i : narrow)
		counts->n_rescored += answers[i]->n_rescored();
	if (!exact.empty())
	{
		std::vector<std::vector<engine::Neighbor>> found;

		VECTORGPU_TRY(search_exact(*snapshot, exact, &found, counts, control));
		for (size_t i = 0; i < exact.size(); i++)
			(*results)[exact_numbers[i]] = std::move(found[i]);
	}
	return is_stopped(control) ? stopped() : Status::ok();
}

} // namespace vectorgpu::cuda
