// The way of a delta's new rows to the device: pinned memory in slots that are filled in turn, and a stream that takes
// them over in that order. The writer goes on at once; who searches makes its stream wait for the last slot that it
// needs.
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

	/// Names what was sent up to some moment; 0: nothing.
	using Ticket = uint64_t;

	Status create(const Device *device);

	/// The lane for one writer: from acquire() until it goes.
	using Lease = std::unique_lock<std::mutex>;

	/// Waits for the lane and for a slot to be free.
	Status acquire(Lease *lease, uint8_t **slot);

	/// The same if that takes no waiting.
	bool try_acquire(Lease *lease, uint8_t **slot);

	/// Has the device take over what the holder of the lease has written into the slot. rows.from*: in the slot.
	Status send(const kernels::StoredRows &rows, Ticket *ticket);

	/// Work of the stream's own, in order with what is sent. Waits for it and all before it.
	const Stream &stream() const { return stream_; }

	/// Makes `stream` wait until what the ticket names has been taken over, if it has not been.
	Status join(cudaStream_t stream, Ticket ticket);

	/// A stream that was joined with the ticket has run on: nobody needs to wait for it any more.
	void arrived(Ticket ticket);

private:
	static constexpr size_t kSlots = 8;

	const Device *device_ = nullptr;
	std::mutex mutex_;
	Stream stream_;
	PinnedBuffer pinned_;
	std::array<Event, kSlots> taken_; // slot i has been taken over, by the ticket that used it last
	Ticket last_ = 0;                 // of the next two: under mutex_
	std::atomic<Ticket> arrived_{0};
};

/// What one search waits for on its stream. It awaits new rows in front of the first work that reads them, and not
/// sooner: what the stream has before that goes on while they are on their way.
class NewRows
{
public:
	/// lane: not null if anything is awaited.
	NewRows(AppendLane *lane, cudaStream_t stream) : lane_(lane), stream_(stream) {}

	/// Makes the stream wait, unless it does already or need not. 0: for nothing.
	Status await(AppendLane::Ticket ticket);

	/// The stream has run on behind all that it was given: others need not wait for what this one has awaited.
	void has_run();

private:
	AppendLane *const lane_;
	const cudaStream_t stream_;
	AppendLane::Ticket awaited_ = 0;
};

} // namespace vectorgpu::cuda
