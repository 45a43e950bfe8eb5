// See device_graph.hpp.
#include "cuda/resident/device_graph.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "cuda/resident/device_codes.hpp"
#include "engine/copies/rounded_trial.hpp"
#include "kernels/graph/graph_narrow.hpp"

namespace vectorgpu::cuda
{
namespace
{

/// Send n_bytes through the pinned buffer. Caller holds the uploader's mutex.
Status
send(const Device *device, Uploader *uploader, uint8_t *to, const void *from, size_t n_bytes)
{
	for (size_t done = 0; done < n_bytes;)
	{
		const size_t here = std::min(n_bytes - done, uploader->pinned.bytes());

		std::memcpy(uploader->pinned.as<uint8_t>(), static_cast<const uint8_t *>(from) + done, here);
		VECTORGPU_TRY(device->check(cudaMemcpyAsync(to + done, uploader->pinned.as<uint8_t>(), here,
										cudaMemcpyHostToDevice, uploader->stream.get()),
			"send a graph"));
		VECTORGPU_TRY(uploader->stream.synchronize());
		done += here;
	}
	return Status::ok();
}

/// Send edges. Caller holds the uploader's mutex.
Status
make_edges(Budget *budget, Uploader *uploader, const uint32_t *from, size_t n_bytes, std::shared_ptr<const Held> *edges)
{
	auto made = std::make_shared<Held>();

	VECTORGPU_TRY(made->allocate(budget, n_bytes, "edges"));
	VECTORGPU_TRY(send(budget->device(), uploader, made->as<uint8_t>(), from, n_bytes));
	*edges = std::move(made);
	return Status::ok();
}

kernels::Rows
rows_of(const Block &block, uint64_t n_rows)
{
	kernels::Rows rows;

	rows.vectors = block.vectors.as<uint8_t>();
	rows.n_rows = static_cast<uint32_t>(n_rows);
	rows.pitch_bytes = block.pitch_bytes;
	rows.form = block.form;
	return rows;
}

/// Send the entry points and gather their vectors. Caller holds the uploader's mutex; the stream has work left.
Status
make_entries(Budget *budget, Uploader *uploader, const uint32_t *entries, const kernels::Rows &rows, DeviceGraph *graph)
{
	const Device *device = budget->device();
	const uint32_t n_entries = graph->layout.header.n_entries;

	VECTORGPU_TRY(graph->entry_nodes.allocate(budget, n_entries * sizeof(uint32_t), "entry points"));
	VECTORGPU_TRY(
		graph->entry_vectors.allocate(budget, size_t{n_entries} * rows.pitch_bytes, "vectors of entry points"));
	VECTORGPU_TRY(send(device, uploader, graph->entry_nodes.as<uint8_t>(), entries, graph->entry_nodes.bytes()));
	return device->check(kernels::launch_graph_gather(rows, graph->entry_nodes.as<uint32_t>(), n_entries,
							 graph->entry_vectors.as<uint8_t>(), uploader->stream.get()),
		"gather entry points");
}

/// Append to *list rows nodes [n] of the device; they and their numbers fit the staging buffer together.
Status
read_rows(const Device *device, Uploader *uploader, const kernels::Rows &rows, std::span<const uint32_t> nodes,
	engine::RowList *list)
{
	const size_t n = nodes.size();
	uint8_t *const gathered = uploader->staging.as<uint8_t>();
	uint8_t *const numbers = gathered + n * rows.pitch_bytes;
	const std::vector<RowId> row_ids(n);
	std::vector<uint8_t> vectors(n * rows.pitch_bytes);
	std::unique_lock lock(uploader->mutex);

	VECTORGPU_TRY(send(device, uploader, numbers, nodes.data(), nodes.size_bytes()));
	VECTORGPU_TRY(device->check(kernels::launch_graph_gather(rows, reinterpret_cast<const uint32_t *>(numbers),
									static_cast<uint32_t>(n), gathered, uploader->stream.get()),
		"gather rows of a trial"));
	VECTORGPU_TRY(receive_bytes(device, uploader, vectors.data(), gathered, vectors.size()));
	lock.unlock();
	for (size_t i = 1; i < n; i++)
		std::memmove(vectors.data() + i * list->row_bytes(), vectors.data() + i * rows.pitch_bytes, list->row_bytes());
	list->append(row_ids.data(), vectors.data(), n);
	return Status::ok();
}

/// Set *lead to whether rounded rows can lead searches. Throws bad_alloc.
Status
try_rounded(const Device *device, Uploader *uploader, const engine::DistanceSpec &spec,
	const engine::SegmentGraph &graph, const kernels::Rows &rows, bool *lead)
{
	const engine::RoundedTrial trial(graph);
	const std::span<const uint32_t> nodes = trial.nodes();
	const size_t most = uploader->staging.bytes() / (rows.pitch_bytes + sizeof(uint32_t));
	engine::RowList list(spec, engine::RowList::Kind::kSegment, nullptr, true, true);
	std::vector<uint32_t> places(nodes.size());

	for (size_t first = 0; first < nodes.size(); first += most)
		VECTORGPU_TRY(
			read_rows(device, uploader, rows, nodes.subspan(first, std::min(most, nodes.size() - first)), &list));
	std::iota(places.begin(), places.end(), 0);
	*lead = trial.passes(spec, list.view(), places);
	return Status::ok();
}

/// Make the rounded rows. The stream has work left.
Status
make_narrow(Budget *budget, Uploader *uploader, const engine::DistanceSpec &spec, uint32_t dim_pad,
	const kernels::Rows &rows, DeviceGraph *graph)
{
	Status status = graph->narrow_rows.allocate(budget, size_t{rows.n_rows} * dim_pad, "rounded rows");

	if (status.is_ok())
		status = graph->narrow_values.allocate(budget, size_t{rows.n_rows} * sizeof(NarrowRow), "rounded rows");
	if (!status.is_ok())
	{
		graph->narrow_rows.reset();
		return status.code == StatusCode::kOutOfMemory ? Status::ok() : status;
	}
	return budget->device()->check(
		kernels::launch_narrow_rows(spec.metric, rows, dim_pad, graph->narrow_rows.as<int8_t>(), dim_pad,
			graph->narrow_values.as<NarrowRow>(), uploader->stream.get()),
		"round rows of a graph");
}

} // namespace

kernels::Rows
DeviceGraph::rows_of_entries(const Block &block, const engine::GraphPartLayout &part) const
{
	kernels::Rows rows;

	rows.vectors = entry_vectors.as<uint8_t>() + size_t{part.first_entry} * block.pitch_bytes;
	rows.n_rows = part.n_entries;
	rows.pitch_bytes = block.pitch_bytes;
	rows.form = block.form;
	return rows;
}

kernels::GraphNarrowRows
DeviceGraph::narrow(uint32_t dim_pad) const
{
	if (narrow_rows.bytes() == 0)
		return {};
	return {narrow_rows.as<int8_t>(), narrow_values.as<NarrowRow>(), dim_pad};
}

uint32_t
width_of(const engine::SearchQuery &query, const Source &source)
{
	return engine::width_of(query, source.segment, source.graph->narrow_rows.bytes() > 0);
}

Status
make_graph(Budget *budget, Uploader *uploader, const engine::SegmentGraph &graph, const Block &block,
	const engine::DistanceSpec *rounded, uint32_t dim_pad, std::shared_ptr<const DeviceGraph> *made)
{
	const Device *device = budget->device();
	auto next = std::make_shared<DeviceGraph>();
	const engine::GraphLayout layout = graph.layout();
	const kernels::Rows rows = rows_of(block, layout.n_rows);
	bool lead = false;

	if (rounded != nullptr && block.form == kernels::Form::kFloat32)
		VECTORGPU_TRY(try_rounded(device, uploader, *rounded, graph, rows, &lead));

	const std::lock_guard lock(uploader->mutex);

	next->layout = layout;
	next->parts.assign(graph.parts().begin(), graph.parts().end());
	VECTORGPU_TRY(make_edges(budget, uploader, graph.edges(), layout.bytes() - layout.edges_at(), &next->edges));
	VECTORGPU_TRY(make_entries(budget, uploader, graph.entries(), rows, next.get()));
	if (lead)
		VECTORGPU_TRY(make_narrow(budget, uploader, *rounded, dim_pad, rows, next.get()));
	VECTORGPU_TRY(device->damage("gpu_flip_derived", next->entry_vectors.as<uint8_t>(), 0, uploader->stream.get()));
	VECTORGPU_TRY(uploader->stream.synchronize());
	*made = std::move(next);
	return Status::ok();
}

Status
make_given_graph(Budget *budget, Uploader *uploader, const engine::graph::GivenGraph &given, const Block &block,
	uint64_t n_rows, const DeviceGraph *before, std::shared_ptr<const DeviceGraph> *made)
{
	auto next = std::make_shared<DeviceGraph>();

	if (given.degree < engine::graph::kMinDegree || given.degree > engine::graph::kMaxDegree || given.n_entries == 0 ||
		given.n_entries > kernels::kGraphMostEntries ||
		!std::all_of(
			given.entries, given.entries + given.n_entries, [n_rows](uint32_t node) { return node < n_rows; }) ||
		(given.edges == nullptr && (before == nullptr || before->layout.header.degree != given.degree)))
		return Status::error(StatusCode::kInvalidArgument, "the graph is not one of the segment's rows");

	const std::lock_guard lock(uploader->mutex);

	next->layout.header = {given.degree, 1, given.n_entries, 0};
	next->layout.n_rows = n_rows;
	next->parts = {{0, static_cast<uint32_t>(n_rows), 0, given.n_entries}};
	if (given.edges == nullptr)
		next->edges = before->edges;
	else
		VECTORGPU_TRY(make_edges(budget, uploader, given.edges, next->layout.edge_bytes(), &next->edges));
	VECTORGPU_TRY(make_entries(budget, uploader, given.entries, rows_of(block, n_rows), next.get()));
	VECTORGPU_TRY(uploader->stream.synchronize());
	*made = std::move(next);
	return Status::ok();
}

Status
read_graph(
	const Device *device, Uploader *uploader, const DeviceGraph &graph, uint64_t first, size_t n_bytes, uint8_t *bytes)
{
	const engine::GraphLayout &layout = graph.layout;
	const std::lock_guard lock(uploader->mutex);

	while (n_bytes > 0)
	{
		size_t here = n_bytes;

		if (first < layout.parts_at())
		{
			here = std::min<uint64_t>(here, layout.parts_at() - first);
			std::memcpy(bytes, reinterpret_cast<const uint8_t *>(&layout.header) + first, here);
		}
		else if (first < layout.entries_at())
		{
			here = std::min<uint64_t>(here, layout.entries_at() - first);
			std::memcpy(
				bytes, reinterpret_cast<const uint8_t *>(graph.parts.data()) + (first - layout.parts_at()), here);
		}
		else if (first < layout.edges_at())
		{
			here = std::min<uint64_t>(here, layout.edges_at() - first);
			VECTORGPU_TRY(receive_bytes(
				device, uploader, bytes, graph.entry_nodes.as<uint8_t>() + (first - layout.entries_at()), here));
		}
		else
			VECTORGPU_TRY(
				receive_bytes(device, uploader, bytes, graph.edges->as<uint8_t>() + (first - layout.edges_at()), here));
		first += here;
		bytes += here;
		n_bytes -= here;
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
