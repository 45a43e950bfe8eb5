// The worker's side of the socket: the directory, the listening socket, the greeting, and the memory and descriptors of
// a slot. Only lock_folder blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/status.hpp"
#include "wire/messages.hpp"
#include "wire/slot.hpp"

namespace vectorgpu::wire
{

/// The memory and the descriptors of one session; free_slot releases them.
struct SlotMemory
{
	SlotHeader *header = nullptr; // mapped
	uint32_t request_area_bytes = 0;
	uint32_t reply_area_bytes = 0;
	int memory = -1;
	int doorbell = -1;
	int wakeup = -1;
};

inline uint8_t *
slot_request(const SlotMemory &slot)
{
	return reinterpret_cast<uint8_t *>(slot.header) + kSlotHeaderBytes;
}

inline uint8_t *
slot_reply(const SlotMemory &slot)
{
	return slot_request(slot) + slot.request_area_bytes;
}

/// Open the directory, after creating it if it is missing. Refuse one that another user owns or may enter.
Status open_folder(int *folder);

/// Take the directory's lock, which the worker holds for its lifetime: one worker for each data directory. Wait up to
/// `timeout_ms` for an earlier worker to die.
Status lock_folder(int folder, int timeout_ms);

/// Remove sockets of earlier workers and listen at the path of `epoch`. The caller holds the directory's lock.
Status listen_at(int folder, uint64_t epoch, int *socket);

/// Accept a connection. Returns its descriptor, -1 if there is none (errno: EAGAIN, EMFILE, …), or -2 if the peer
/// belongs to another user; its connection is closed then.
int accept_peer(int listening);

/// Allocate and seal the memory and open the descriptors. kOutOfMemory if that fails.
Status make_slot(uint32_t request_area_bytes, uint32_t reply_area_bytes, SlotMemory *slot);
void free_slot(SlotMemory *slot);

enum class HelloResult : uint8_t
{
	kHello = 0,
	kNothing = 1, // not there yet
	kGone = 2,
	kMalformed = 3,
};

/// Read HELLO and check everything but version and epoch, which the caller compares.
HelloResult receive_hello(int socket, Hello *hello);

/// Send WELCOME, with the descriptors if slot is not null. False if the peer did not take it.
bool send_welcome(int socket, const Welcome &welcome, const SlotMemory *slot);

} // namespace vectorgpu::wire
