// See append_lane.hpp. Ticket t uses slot t mod kSlots, so that a slot's event belongs to the last ticket that used it.
// Waiting for it waits for every earlier one.
#include "cuda/resident/append_lane.hpp"

#include <algorithm>

namespace vectorgpu::cuda
{

Status
AppendLane::create(const Device *device)
{
	device_ = device;
	VECTORGPU_TRY(stream_.create_urgent(device));
	VECTORGPU_TRY(pinned_.allocate(device, kSlots * kSlotBytes, "new rows"));
	for (Event &event : taken_)
		VECTORGPU_TRY(event.create(device));
	return Status::ok();
}

Status
AppendLane::acquire(Lease *lease, uint8_t **slot)
{
	Lease held(mutex_);
	const size_t next = (last_ + 1) % kSlots;

	VECTORGPU_TRY(stream_.wait_for(taken_[next]));
	*slot = pinned_.as<uint8_t>() + next * kSlotBytes;
	*lease = std::move(held);
	return Status::ok();
}

bool
AppendLane::try_acquire(Lease *lease, uint8_t **slot)
{
	Lease held(mutex_, std::try_to_lock);

	if (!held.owns_lock())
		return false;

	const size_t next = (last_ + 1) % kSlots;
	const bool known_free = last_ + 1 <= kSlots + arrived_.load(std::memory_order_acquire); // without asking the driver

	if (!known_free && cudaEventQuery(taken_[next].get()) != cudaSuccess)
	{
		(void) cudaGetLastError(); // "not ready" is no error; the next call reports a broken context
		return false;
	}
	*slot = pinned_.as<uint8_t>() + next * kSlotBytes;
	*lease = std::move(held);
	return true;
}

Status
AppendLane::send(const kernels::StoredRows &rows, Ticket *ticket)
{
	const Ticket next = last_ + 1;

	VECTORGPU_TRY(device_->check(kernels::launch_take_rows(rows, stream_.get()), "take over new rows"));
	last_ = next; // from here on the slot is in use, also after an error
	VECTORGPU_TRY(device_->check(cudaEventRecord(taken_[next % kSlots].get(), stream_.get()), "mark new rows"));
	*ticket = next;
	return Status::ok();
}

Status
AppendLane::join(cudaStream_t stream, Ticket ticket)
{
	const Event &taken = taken_[ticket % kSlots];

	if (ticket <= arrived_.load(std::memory_order_acquire))
		return Status::ok();
	// The rows have nearly always arrived: asking costs the host less than waiting costs the stream.
	if (cudaEventQuery(taken.get()) == cudaSuccess)
	{
		arrived(ticket);
		return Status::ok();
	}
	(void) cudaGetLastError(); // "not ready" is no error; the next call reports a broken context
	return device_->check(cudaStreamWaitEvent(stream, taken.get(), 0), "wait for new rows");
}

void
AppendLane::arrived(Ticket ticket)
{
	Ticket seen = arrived_.load(std::memory_order_relaxed);

	while (seen < ticket &&
		!arrived_.compare_exchange_weak(seen, ticket, std::memory_order_release, std::memory_order_relaxed))
		;
}

Status
NewRows::await(AppendLane::Ticket ticket)
{
	if (ticket <= awaited_)
		return Status::ok();
	VECTORGPU_TRY(lane_->join(stream_, ticket));
	awaited_ = ticket;
	return Status::ok();
}

void
NewRows::has_run()
{
	if (awaited_ > 0)
		lane_->arrived(awaited_);
}

} // namespace vectorgpu::cuda
