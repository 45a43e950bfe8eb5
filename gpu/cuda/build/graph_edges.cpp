// See graph_edges.hpp. Device memory for one row: its list, and five times its edges; some twice its edges more for the
// sort. All of it is allocated first, and results are read when all kernels have succeeded.
#include "cuda/build/graph_edges.hpp"

#include <algorithm>

#include "cuda/device/stop.hpp"
#include "cuda/resident/device_codes.hpp"
#include "kernels/graph/graph_edges.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::graph::EdgeJob;

/// The numbers of one job on the device.
struct EdgeRoom
{
	Held lists;
	Held chosen;
	Held forward;
	Held ends;
	Held sorted_ends;
	Held begins;
	Held sorted_begins;
	Held first;
	Held temp;

	Status allocate(Budget *budget, const EdgeJob &job)
	{
		const size_t edge_bytes = size_t{job.n_rows} * job.degree * sizeof(uint32_t);

		VECTORGPU_TRY(lists.allocate(budget, size_t{job.n_rows} * job.k * sizeof(uint32_t), "lists of nearest rows"));
		if (job.chosen != nullptr)
			VECTORGPU_TRY(chosen.allocate(budget, job.n_rows, "rows that choose edges"));
		for (Held *edges : {&forward, &ends, &sorted_ends, &begins, &sorted_begins})
			VECTORGPU_TRY(edges->allocate(budget, edge_bytes, "edges"));
		return first.allocate(budget, (size_t{job.n_rows} + 1) * sizeof(uint32_t), "edges");
	}
};

Status
fits(const EdgeJob &job)
{
	return job.k > kernels::kEdgeMostList || job.degree > kernels::kEdgeMostDegree ||
			uint64_t{job.n_rows} * job.degree >= uint64_t{1} << 31
		? Status::error(StatusCode::kUnsupported, "too many edges for the GPU's choice of them")
		: Status::ok();
}

} // namespace

Status
choose_graph_edges(Budget *budget, Uploader *uploader, const EdgeJob &job, engine::SearchControl *control)
{
	const Device *device = budget->device();
	const size_t edge_bytes = size_t{job.n_rows} * job.degree * sizeof(uint32_t);
	EdgeRoom room;
	kernels::ReverseArgs reverse;

	VECTORGPU_TRY(fits(job));
	if (job.n_rows == 0)
		return Status::ok();
	VECTORGPU_TRY(room.allocate(budget, job));
	reverse.n_rows = job.n_rows;
	reverse.degree = job.degree;

	const std::lock_guard lock(uploader->mutex);
	const cudaStream_t stream = uploader->stream.get();

	VECTORGPU_TRY(device->check(kernels::launch_reverse_edges(&reverse, stream), "ask for memory to sort edges"));
	VECTORGPU_TRY(room.temp.allocate(budget, std::max<size_t>(reverse.temp_bytes, 1), "edges"));
	VECTORGPU_TRY(send_bytes(device, uploader, room.lists.as<uint8_t>(), job.lists, room.lists.bytes()));
	if (job.chosen != nullptr)
	{
		VECTORGPU_TRY(send_bytes(device, uploader, room.chosen.as<uint8_t>(), job.chosen, job.n_rows));
		VECTORGPU_TRY(send_bytes(device, uploader, room.forward.as<uint8_t>(), job.forward, edge_bytes));
	}
	if (is_stopped(control))
		return stopped();
	VECTORGPU_TRY(
		device->check(kernels::launch_forward_edges(
						  {job.n_rows, job.k, job.degree, room.lists.as<uint32_t>(),
							  job.chosen != nullptr ? room.chosen.as<uint8_t>() : nullptr, room.forward.as<uint32_t>()},
						  stream),
			"choose edges"));
	reverse.forward = room.forward.as<uint32_t>();
	reverse.ends = room.ends.as<uint32_t>();
	reverse.sorted_ends = room.sorted_ends.as<uint32_t>();
	reverse.begins = room.begins.as<uint32_t>();
	reverse.sorted_begins = room.sorted_begins.as<uint32_t>();
	reverse.first = room.first.as<uint32_t>();
	reverse.temp = room.temp.as<void>();
	reverse.edges = room.ends.as<uint32_t>();
	VECTORGPU_TRY(device->check(kernels::launch_reverse_edges(&reverse, stream), "add edges back"));
	VECTORGPU_TRY(uploader->stream.synchronize());
	if (control != nullptr)
		control->progress.fetch_add(1, std::memory_order_relaxed);
	if (is_stopped(control))
		return stopped();

	Status read = receive_bytes(
		device, uploader, reinterpret_cast<uint8_t *>(job.forward), room.forward.as<uint8_t>(), edge_bytes);

	if (read.is_ok())
		read = receive_bytes(
			device, uploader, reinterpret_cast<uint8_t *>(job.edges), room.ends.as<uint8_t>(), edge_bytes);
	return read.is_ok() ? read : Status::error(StatusCode::kUnavailable, read.message);
}

} // namespace vectorgpu::cuda
