// The shared memory of one session. Layout and life of a request: README.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/messages.hpp"

namespace vectorgpu::wire
{

enum class SlotState : uint32_t
{
	kIdle = 0,
	kSubmitted = 1,
	kTaken = 2,
	kReplied = 3,
};

/// What the client sleeps on; the worker wakes it there after the reply.
enum class ClientWaits : uint32_t
{
	kNot = 0,
	kDescriptor = 1, // the wake-up descriptor
	kState = 2,      // a futex on the slot's state
};

/// At offset 0 of the memory; the areas follow at kSlotHeaderBytes. The client's and the worker's fields are on
/// separate cache lines.
struct SlotHeader
{
	std::atomic<uint32_t> state;        // SlotState
	std::atomic<uint32_t> client_waits; // ClientWaits
	std::atomic<uint64_t> request_sequence;
	std::atomic<uint64_t> cancel;
	std::atomic<uint32_t> request_length;
	uint32_t zero0;
	uint64_t zero1[4];
	std::atomic<uint64_t> heartbeat_ns;
	std::atomic<uint64_t> reply_sequence;
	std::atomic<uint32_t> reply_length;
	std::atomic<uint32_t> worker_polls; // 1: the worker polls `state`, the doorbell need not be rung
	uint64_t zero3[5];
};
static_assert(sizeof(SlotHeader) == 128 && offsetof(SlotHeader, heartbeat_ns) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

/// If each of two sides stores, passes a full fence and loads the other's variable, at least one sees the other's
/// store.
inline void
full_fence()
{
#if defined(__SANITIZE_THREAD__)
	std::atomic<uint32_t> own{0}; // the sanitizer does not model fences; a locked instruction acts as one

	own.exchange(1, std::memory_order_seq_cst);
#else
	std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Sleep until the state differs from `seen`, a signal handler has run, or the time is over. False: the system forbids
/// it.
bool sleep_on_state(SlotHeader *slot, SlotState seen, uint32_t timeout_us);

/// Wake the client that sleeps on the state.
void wake_state(SlotHeader *slot);

constexpr uint32_t kSlotHeaderBytes = 4096;

constexpr size_t
slot_bytes(uint32_t request_area_bytes, uint32_t reply_area_bytes)
{
	return static_cast<size_t>(kSlotHeaderBytes) + request_area_bytes + reply_area_bytes;
}

} // namespace vectorgpu::wire
