// The path of a delta's new rows to the device: slots of pinned memory, filled in turn, and a stream that takes them
// over in that order. The writer does not wait; a search makes its stream wait for the last slot that it needs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "cuda/device/device.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

class AppendLane
{
public:
	static constexpr size_t kSlotBytes = size_t{1} << 20;

	/// Names all rows sent up to some moment; 0: none.
	using Ticket = uint64_t;

	Status create(const Device *device);

	/// Lends the lane to one writer, from acquire() until it is destroyed.
	using Lease = std::unique_lock<std::mutex>;

	/// Wait for the lane and for a free slot.
	Status acquire(Lease *lease, uint8_t **slot);

	/// The same without waiting; false if that is impossible.
	bool try_acquire(Lease *lease, uint8_t **slot);

	/// Make the device take over the rows that the lease's holder has written into the slot. rows.from*: in the slot.
	Status send(const kernels::StoredRows &rows, Ticket *ticket);

	/// The lane's stream. Waiting for it waits for all that was sent.
	const Stream &stream() const { return stream_; }

	/// Make `stream` wait until the ticket's rows have been taken over, unless they have.
	Status join(cudaStream_t stream, Ticket ticket);

	/// Report that a stream joined with the ticket has passed it: no other stream needs to wait for it.
	void arrived(Ticket ticket);

private:
	static constexpr size_t kSlots = 8;

	const Device *device_ = nullptr;
	std::mutex mutex_;
	Stream stream_;
	PinnedBuffer pinned_;
	std::array<Event, kSlots> taken_; // slot i was taken over, of its last ticket
	Ticket last_ = 0;                 // of the next two: under mutex_
	std::atomic<Ticket> arrived_{0};
};

/// The new rows that one search waits for on its stream. Wait directly before the first work that reads them, so that
/// earlier work on the stream overlaps with their transfer.
class NewRows
{
public:
	/// lane: not null if anything is awaited.
	NewRows(AppendLane *lane, cudaStream_t stream) : lane_(lane), stream_(stream) {}

	/// Make the stream wait for the ticket, unless it does already or need not. 0: no rows.
	Status await(AppendLane::Ticket ticket);

	/// Report that the stream is idle: no other stream needs to wait for the awaited rows.
	void has_run();

private:
	AppendLane *const lane_;
	const cudaStream_t stream_;
	AppendLane::Ticket awaited_ = 0;
};

} // namespace vectorgpu::cuda
