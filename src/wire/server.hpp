// The worker's side of the socket: the folder, the listening socket, the greeting, and the memory and descriptors of a
// slot. Called by the worker's dispatcher thread only. C++ dialect; no function blocks but lock_folder.
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

/// Makes the folder if it is missing and opens it. Refuses one that others own or may enter.
Status open_folder(int *folder);

/// Takes the folder's lock, which the worker holds for life: one worker a data directory. Waits up to `timeout_ms` for
/// an earlier one to die.
Status lock_folder(int folder, int timeout_ms);

/// Removes sockets of earlier workers and listens at the path of `epoch`. The caller holds the folder's lock.
Status listen_at(int folder, uint64_t epoch, int *socket);

/// Accepts a connection: its descriptor, -1 if there is none (errno says why: EAGAIN, EMFILE, …), or -2 if the peer
/// belongs to another user and was sent away.
int accept_peer(int listening);

/// Memory allocated and sealed, descriptors open. kOutOfMemory if the memory or the descriptors are not to be had.
Status make_slot(uint32_t request_area_bytes, uint32_t reply_area_bytes, SlotMemory *slot);
void free_slot(SlotMemory *slot);

enum class HelloResult : uint8_t
{
	kHello = 0,
	kNothing = 1, // not there yet
	kGone = 2,
	kMalformed = 3,
};

/// Reads HELLO. Version and epoch are the caller's to compare; all else is checked.
HelloResult receive_hello(int socket, Hello *hello);

/// Sends WELCOME, with the descriptors if slot is not null. False if the peer did not take it.
bool send_welcome(int socket, const Welcome &welcome, const SlotMemory *slot);

} // namespace vectorgpu::wire
