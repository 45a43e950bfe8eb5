// See host_buffer.hpp. Mapped from the system in large pages where it gives such: these are pinned several times
// sooner.
#include "cuda/device/host_buffer.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <string>

#include <sys/mman.h>

namespace vectorgpu::cuda
{
namespace
{

constexpr size_t kLargePage = size_t{2} << 20;

/// True if a call has failed because a driver, or a container, pins no memory allocated by others: then the context is
/// as good as before.
bool
is_refusal(cudaError_t error)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;

	return error != cudaErrorMemoryAllocation && cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess;
}

/// The memory of a buffer.
struct Mapping
{
	int ordinal; // of the GPU that it was allocated for
	uint8_t *data;
	size_t bytes;
	void *mapping; // null: the driver's own memory
	size_t mapped_bytes;
	bool is_lost = false;
};

/// The memory of all buffers of this process.
class Mappings
{
public:
	/// Never destroyed: buffers may be, later.
	static Mappings &get()
	{
		static Mappings &mappings = *new Mappings;

		return mappings;
	}

	/// one: of one mapping, made beforehand, so that this cannot fail.
	void add(std::list<Mapping> *one) noexcept
	{
		const std::lock_guard lock(mutex_);

		all_.splice(all_.end(), *one);
	}

	/// False if it has been given back.
	bool remove(const uint8_t *data) noexcept
	{
		const std::lock_guard lock(mutex_);

		return all_.remove_if([data](const Mapping &mapping) { return mapping.data == data; }) > 0;
	}

	void lose(int ordinal) noexcept
	{
		const std::lock_guard lock(mutex_);

		for (Mapping &mapping : all_)
			mapping.is_lost = mapping.is_lost || mapping.ordinal == ordinal;
	}

	/// Call give_back(mapping), which returns whether the memory is free, for all that are lost. Returns how many are
	/// not.
	template <class GiveBack>
	size_t give_back_lost(GiveBack give_back) noexcept
	{
		std::list<Mapping> lost; // worked on without the lock: a second for each few GB

		{
			const std::lock_guard lock(mutex_);

			for (auto next = all_.begin(); next != all_.end();)
				if (const auto one = next++; one->is_lost)
					lost.splice(lost.end(), all_, one);
		}
		lost.remove_if(give_back);

		const std::lock_guard lock(mutex_);
		const size_t n_left = lost.size();

		all_.splice(all_.end(), lost);
		return n_left;
	}

private:
	std::mutex mutex_;
	std::list<Mapping> all_;
};

/// True if the driver knows the address as pinned memory.
bool
is_registered(const uint8_t *data)
{
	cudaPointerAttributes attributes{};

	return cudaPointerGetAttributes(&attributes, data) != cudaSuccess || attributes.type != cudaMemoryTypeUnregistered;
}

/// The end of a GPU's context may have unpinned what was pinned through it, or not: then any other context does, since
/// it was pinned for all of them.
bool
give_back(const Mapping &lost)
{
	bool is_free = true;

	for (size_t at = 0; at < lost.bytes && is_free; at += HostBuffer::kPieceBytes)
		if (is_registered(lost.data + at))
			is_free = lost.mapping != nullptr ? cudaHostUnregister(lost.data + at) == cudaSuccess
											  : at > 0 || cudaFreeHost(lost.data) == cudaSuccess;
	(void) cudaGetLastError(); // of a refused call
	return is_free && (lost.mapping == nullptr || munmap(lost.mapping, lost.mapped_bytes) == 0);
}

uint8_t *
round_up(void *address)
{
	const uintptr_t number = reinterpret_cast<uintptr_t>(address);

	return static_cast<uint8_t *>(address) + ((number + kLargePage - 1) / kLargePage * kLargePage - number);
}

/// True if kernels see registered memory at the host's address, as on every system with one address space of both.
bool
same_address(uint8_t *data)
{
	void *seen = nullptr;

	return cudaHostGetDevicePointer(&seen, data, 0) == cudaSuccess && seen == data;
}

} // namespace

Status
HostBuffer::allocate(const Device *device, size_t bytes, const char *purpose)
{
	reset();
	device_ = device;
	if (bytes == 0)
		return Status::ok();

	const size_t mapped_bytes = (bytes + kLargePage - 1) / kLargePage * kLargePage + kLargePage;
	std::list<Mapping> one(1);
	void *mapping = device->armed() && device->fault("gpu_host_rows")
		? MAP_FAILED
		: mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapping == MAP_FAILED)
		return Status::error(StatusCode::kOutOfMemory, std::string("could not allocate host memory for ") + purpose);
	mapping_ = mapping;
	mapped_bytes_ = mapped_bytes;
	data_ = round_up(mapping);
	bytes_ = bytes;
	one.front() = {device->ordinal(), data_, bytes, mapping, mapped_bytes};
	Mappings::get().add(&one);
	(void) madvise(data_, mapped_bytes - kLargePage, MADV_HUGEPAGE); // where there are none, small pages do
	return Status::ok();
}

Status
HostBuffer::pin()
{
	size_t done = 0;
	cudaError_t error = cudaSuccess;

	if (is_pinned_ || bytes_ == 0)
		return Status::ok();
	if (device_->armed() && device_->fault("gpu_pin"))
		error = cudaErrorMemoryAllocation;
	while (error == cudaSuccess && done < bytes_)
	{
		const GpuWait wait(device_);
		const size_t here = std::min(kPieceBytes, bytes_ - done);

		error = cudaHostRegister(data_ + done, here, cudaHostRegisterMapped | cudaHostRegisterPortable);
		if (error == cudaSuccess)
			done += here;
	}
	if (error == cudaSuccess && same_address(data_))
	{
		is_pinned_ = true;
		return Status::ok();
	}
	(void) cudaGetLastError(); // of a refused call
	unregister(done);
	if (error == cudaSuccess || is_refusal(error))
		return Status::error(StatusCode::kUnsupported, "the GPU reads no memory that its driver has not allocated");
	return device_->check(error, "pin rows in host memory");
}

Status
HostBuffer::allocate_pinned(const Device *device, size_t bytes, const char *purpose)
{
	const std::string what = std::string("allocate pinned memory for ") + purpose; // what throws comes first
	std::list<Mapping> one(1);
	void *pinned = nullptr;

	reset();
	device_ = device;
	if (bytes == 0)
		return Status::ok();

	{
		const GpuWait wait(device, bytes); // a second for each GB, for zeroing and pinning
		const cudaError_t error = device->armed() && device->fault("gpu_pin")
			? cudaErrorMemoryAllocation
			: cudaHostAlloc(&pinned, bytes, cudaHostAllocMapped | cudaHostAllocPortable);

		VECTORGPU_TRY(device->check(error, what.c_str()));
	}
	data_ = static_cast<uint8_t *>(pinned);
	bytes_ = bytes;
	one.front() = {device->ordinal(), data_, bytes, nullptr, 0};
	Mappings::get().add(&one);
	is_pinned_ = true;
	if (same_address(data_))
		return Status::ok();
	reset();
	return Status::error(StatusCode::kUnsupported, "the GPU does not read host memory at its address");
}

/// Unregister the pieces of the first n_bytes.
void
HostBuffer::unregister(size_t n_bytes) noexcept
{
	for (size_t at = 0; at < n_bytes; at += kPieceBytes)
	{
		const GpuWait wait(device_);

		device_->check_quietly(cudaHostUnregister(data_ + at), "unpin rows in host memory");
	}
}

void
HostBuffer::release() noexcept
{
	if (mapping_ != nullptr)
	{
		if (is_pinned_)
			unregister(bytes_);
		(void) munmap(mapping_, mapped_bytes_);
		return;
	}

	const GpuWait wait(device_, bytes_);

	device_->check_quietly(cudaFreeHost(data_), "free pinned memory");
}

/// A lost GPU may still read the memory: then it stays until the GPU's context is gone (give_back_lost).
void
HostBuffer::reset() noexcept
{
	if (data_ == nullptr)
		return;
	if (!is_pinned_)
	{
		if (Mappings::get().remove(data_))
			release();
	}
	else if (const DeviceVisit visit(device_); visit && Mappings::get().remove(data_))
		release();
	data_ = nullptr;
	bytes_ = 0;
	mapping_ = nullptr;
	mapped_bytes_ = 0;
	is_pinned_ = false;
}

void
HostBuffer::lose(int ordinal) noexcept
{
	Mappings::get().lose(ordinal);
}

size_t
HostBuffer::give_back_lost() noexcept
{
	return Mappings::get().give_back_lost(give_back);
}

} // namespace vectorgpu::cuda
