// Host memory that kernels read over the bus, at the address that the host uses. Ordinary memory at first, which the
// host fills and gives back as it likes; pin() makes it visible to the device. Never managed memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/device/device.hpp"

namespace vectorgpu::cuda
{

class HostBuffer
{
public:
	/// Bytes pinned at a time, so that other calls of the driver do not wait long. A copy by the driver must not cross
	/// a multiple of this, see pieces().
	static constexpr size_t kPieceBytes = size_t{256} << 20;

	HostBuffer() = default;
	~HostBuffer() { reset(); }
	HostBuffer(const HostBuffer &) = delete;
	HostBuffer &operator=(const HostBuffer &) = delete;

	/// Allocate zeros. kOutOfMemory. Pages are taken as they are written.
	Status allocate(const Device *device, size_t bytes, const char *purpose);

	/// Let the device read the memory, at the same address. After a failure it is as before. kUnsupported: this system
	/// pins only memory that the driver allocates.
	Status pin();

	/// Allocate such memory, pinned. What it contains is undefined.
	Status allocate_pinned(const Device *device, size_t bytes, const char *purpose);
	void reset() noexcept;

	/// This process's context of a GPU is gone (Device::give_up_context), and no call uses the buffers that were made
	/// for it. They are not destroyed, since their engine is not: give_back_lost() frees them.
	static void lose(int ordinal) noexcept;

	/// Unpin and unmap the memory of lost buffers, through the context of the calling thread's device. Returns how many
	/// could not be.
	static size_t give_back_lost() noexcept;

	uint8_t *get() const { return data_; }
	size_t bytes() const { return bytes_; }
	bool is_pinned() const { return is_pinned_; }

	/// Call copy(at, n) for parts of bytes [first, first + n_bytes) that the driver may copy at once. Stops at the
	/// first failure.
	template <class Copy>
	static Status pieces(size_t first, size_t n_bytes, Copy copy)
	{
		for (const size_t end = first + n_bytes; first < end;)
		{
			const size_t left = kPieceBytes - first % kPieceBytes;
			const size_t here = left < end - first ? left : end - first;

			VECTORGPU_TRY(copy(first, here));
			first += here;
		}
		return Status::ok();
	}

private:
	void unregister(size_t n_bytes) noexcept;
	void release() noexcept;

	const Device *device_ = nullptr;
	uint8_t *data_ = nullptr;
	size_t bytes_ = 0;
	void *mapping_ = nullptr; // null: the driver's own memory, or none
	size_t mapped_bytes_ = 0;
	bool is_pinned_ = false;
};

} // namespace vectorgpu::cuda
