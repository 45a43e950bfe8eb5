// See host_buffer.hpp. Mapped from the system in large pages where it gives such: these are pinned several times
// sooner.
#include "cuda/device/host_buffer.hpp"

#include <algorithm>
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
	void *mapping = device->armed() && device->fault("gpu_host_rows")
		? MAP_FAILED
		: mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mapping == MAP_FAILED)
		return Status::error(StatusCode::kOutOfMemory, std::string("could not allocate host memory for ") + purpose);
	mapping_ = mapping;
	mapped_bytes_ = mapped_bytes;
	data_ = round_up(mapping);
	bytes_ = bytes;
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

		VECTORGPU_TRY(device->check(error, (std::string("allocate pinned memory for ") + purpose).c_str()));
	}
	data_ = static_cast<uint8_t *>(pinned);
	bytes_ = bytes;
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

/// A lost GPU may still read the memory: then it is never given back.
void
HostBuffer::reset() noexcept
{
	if (data_ == nullptr)
		return;
	if (!is_pinned_)
		(void) munmap(mapping_, mapped_bytes_);
	else if (const DeviceVisit visit(device_); visit)
	{
		if (mapping_ != nullptr)
		{
			unregister(bytes_);
			(void) munmap(mapping_, mapped_bytes_);
		}
		else
		{
			const GpuWait wait(device_, bytes_);

			device_->check_quietly(cudaFreeHost(data_), "free pinned memory");
		}
	}
	data_ = nullptr;
	bytes_ = 0;
	mapping_ = nullptr;
	mapped_bytes_ = 0;
	is_pinned_ = false;
}

} // namespace vectorgpu::cuda
