// See device.hpp.
#include "cuda/device/device.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <utility>

#include "kernels/warp_block/gpu_fault.hpp"

namespace vectorgpu::cuda
{
namespace
{

/// True for errors after which the context can still be used.
bool
is_harmless(cudaError_t error)
{
	switch (error)
	{
		case cudaErrorMemoryAllocation:
		case cudaErrorInvalidValue:
		case cudaErrorInvalidConfiguration:
		case cudaErrorLaunchOutOfResources:
		case cudaErrorNotSupported:
			return true;
		default:
			return false;
	}
}

} // namespace

int
Device::count() noexcept
{
	int n_devices = 0;

	return cudaGetDeviceCount(&n_devices) == cudaSuccess ? n_devices : 0;
}

void
Device::give_up_context(int ordinal) noexcept
{
	int current = -1;

	// Both calls may report the error that has broken the context, and work all the same.
	(void) cudaSetDevice(ordinal);
	(void) cudaGetDevice(&current);
	if (current == ordinal) // never another GPU's
		(void) cudaDeviceReset();
	(void) cudaGetLastError();
}

Status
Device::open(int ordinal, Log log, Device *device)
{
	int n_devices = 0;
	cudaDeviceProp properties{};

	device->log_ = std::move(log);
	device->ordinal_ = ordinal;
	if (const cudaError_t error = cudaGetDeviceCount(&n_devices); error != cudaSuccess)
		return Status::error(StatusCode::kUnavailable, std::string("no usable GPU: ") + cudaGetErrorString(error));
	if (ordinal < 0 || ordinal >= n_devices)
		return Status::error(StatusCode::kUnavailable, "there is no GPU number " + std::to_string(ordinal));
	VECTORGPU_TRY(device->check(cudaSetDevice(ordinal), "select the GPU"));
	VECTORGPU_TRY(device->check(cudaGetDeviceProperties(&properties, ordinal), "read the GPU's properties"));
	VECTORGPU_TRY(device->check(cudaFree(nullptr), "start the GPU's context"));
	if (properties.major < 8)
		return Status::error(StatusCode::kUnsupported, "the GPU is older than compute capability 8.0");
	device->total_bytes_ = properties.totalGlobalMem;
	device->description_ = std::string(properties.name) + ", compute capability " + std::to_string(properties.major) +
		"." + std::to_string(properties.minor) + ", " + std::to_string(properties.totalGlobalMem >> 20) + " MiB";
	return Status::ok();
}

Status
Device::use() const
{
	if (fatal())
		return Status::error(StatusCode::kUnavailable, "the GPU's context is lost");
	(void) cudaGetLastError(); // what a call for another GPU, lost meanwhile, has left to this thread
	return check(cudaSetDevice(ordinal_), "select the GPU");
}

DeviceVisit::DeviceVisit(const Device *device) noexcept
{
	int current = -1;

	if (device->fatal())
		return;
	device->check_quietly(cudaGetDevice(&current), "ask for the GPU");
	if (current != device->ordinal_)
	{
		before_ = current;
		device->check_quietly(cudaSetDevice(device->ordinal_), "select the GPU");
	}
	entered_ = !device->fatal();
}

DeviceVisit::~DeviceVisit()
{
	if (before_ >= 0)
		(void) cudaSetDevice(before_);
}

Status
Device::check(cudaError_t error, const char *what) const
{
	if (error == cudaSuccess)
		return Status::ok();

	const std::string message =
		std::string("could not ") + what + ": " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error);

	(void) cudaGetLastError(); // clears errors that are not sticky
	if (error == cudaErrorMemoryAllocation)
		return Status::error(StatusCode::kOutOfMemory, message);
	if (is_harmless(error))
		return Status::error(StatusCode::kInternal, message);
	lose(message.c_str());
	return Status::error(StatusCode::kUnavailable, message);
}

void
Device::lose(const char *why) const noexcept
{
	if (fatal_.exchange(true, std::memory_order_acq_rel))
		return;

	char line[512];

	snprintf(line, sizeof(line), "GPU lost: %s", why);
	log(line);
	if (on_fatal_)
		on_fatal_();
}

Status
Device::provoke([[maybe_unused]] cudaStream_t stream) const
{
#ifdef VECTORGPU_FAULTS
	constexpr std::pair<const char *, kernels::FaultKind> kKernels[] = {
		{"gpu_launch", kernels::FaultKind::kBadLaunch},
		{"gpu_address", kernels::FaultKind::kAddress},
		{"gpu_misaligned", kernels::FaultKind::kMisaligned},
		{"gpu_trap", kernels::FaultKind::kTrap},
		{"gpu_assert", kernels::FaultKind::kAssert},
		{"gpu_spin", kernels::FaultKind::kSpin},
	};

	// The driver's error for memory that it cannot correct, which cannot be provoked.
	if (armed_ && fault("gpu_ecc"))
		return check(cudaErrorECCUncorrectable, "search");
	for (const auto &[name, kind] : kKernels)
		if (armed_ && fault(name))
			if (Status status = check(kernels::launch_fault(kind, stream), "run a broken kernel"); !status.is_ok())
				return status;
#endif
	return Status::ok();
}

Status
Device::damage([[maybe_unused]] const char *name, [[maybe_unused]] uint8_t *to, [[maybe_unused]] size_t at,
	[[maybe_unused]] cudaStream_t stream) const
{
#ifdef VECTORGPU_FAULTS
	if (armed_ && fault(name))
		return check(kernels::launch_flip(to, at, stream), "damage what lies on the device");
#endif
	return Status::ok();
}

void
Device::check_quietly(cudaError_t error, const char *what) const noexcept
{
	if (error == cudaSuccess || error == cudaErrorCudartUnloading || fatal())
		return;
	try
	{
		const Status status = check(error, what);

		log(status.message.c_str());
	}
	catch (...) // no memory for a message
	{
		fatal_.store(true, std::memory_order_release);
	}
}

void
Device::log(const char *line) const noexcept
{
	try
	{
		if (log_)
			log_(line);
	}
	catch (...)
	{
		// A log that fails must not fail its caller.
	}
}

uint64_t
Device::waiting_since_ns() const
{
	uint64_t first = 0;

	for (const std::atomic<uint64_t> &wait : waits_)
		if (const uint64_t since = wait.load(std::memory_order_relaxed); since != 0 && (first == 0 || since < first))
			first = since;
	return first;
}

GpuWait::GpuWait(const Device *device, uint64_t patience_ns) noexcept
{
	timespec now{};

	clock_gettime(CLOCK_MONOTONIC, &now);

	const uint64_t since =
		static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec) + patience_ns;

	for (std::atomic<uint64_t> &slot : device->waits_)
	{
		uint64_t unused = 0;

		if (slot.load(std::memory_order_relaxed) == 0 &&
			slot.compare_exchange_strong(unused, since, std::memory_order_relaxed))
		{
			slot_ = &slot;
			break;
		}
	}
}

GpuWait::~GpuWait()
{
	if (slot_ != nullptr)
		slot_->store(0, std::memory_order_relaxed);
}

Status
Stream::create(const Device *device)
{
	reset();
	device_ = device;
	return device->check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "create a stream");
}

Status
Stream::create_urgent(const Device *device)
{
	int least = 0;
	int greatest = 0;

	reset();
	device_ = device;
	VECTORGPU_TRY(device->check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "ask for priorities of streams"));
	return device->check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "create a stream");
}

void
Stream::reset() noexcept
{
	if (stream_ == nullptr)
		return;
	if (const DeviceVisit visit(device_); visit)
		device_->check_quietly(cudaStreamDestroy(stream_), "destroy a stream");
	stream_ = nullptr;
}

Status
Stream::synchronize(uint64_t patience_ns) const
{
	const GpuWait wait(device_, std::max(patience_ns, patience_ns_));

	return device_->check(cudaStreamSynchronize(stream_), "finish work on the GPU");
}

Status
Stream::wait_for(const Event &event) const
{
	const GpuWait wait(device_);

	return device_->check(cudaEventSynchronize(event.get()), "finish work on the GPU");
}

Status
Event::create(const Device *device)
{
	reset();
	device_ = device;
	return device->check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "create an event");
}

void
Event::reset() noexcept
{
	if (event_ == nullptr)
		return;
	if (const DeviceVisit visit(device_); visit)
		device_->check_quietly(cudaEventDestroy(event_), "destroy an event");
	event_ = nullptr;
}

Status
DeviceBuffer::allocate(const Device *device, size_t bytes, const char *purpose)
{
	reset();
	device_ = device;
	if (bytes == 0)
		return Status::ok();

	const GpuWait wait(device);
	const bool fails = device->fault("gpu_malloc") || (device->armed() && device->fault("gpu_malloc_late"));
	const cudaError_t error = fails ? cudaErrorMemoryAllocation : cudaMalloc(&data_, bytes);

	VECTORGPU_TRY(device->check(error, (std::string("allocate device memory for ") + purpose).c_str()));
	bytes_ = bytes;
	return Status::ok();
}

void
DeviceBuffer::reset() noexcept
{
	if (data_ == nullptr)
		return;
	if (const DeviceVisit visit(device_); visit)
	{
		const GpuWait wait(device_);

		device_->check_quietly(cudaFree(data_), "free device memory");
	}
	data_ = nullptr;
	bytes_ = 0;
}

void
DeviceBuffer::swap(DeviceBuffer &other) noexcept
{
	std::swap(device_, other.device_);
	std::swap(data_, other.data_);
	std::swap(bytes_, other.bytes_);
}

Status
PinnedBuffer::allocate(const Device *device, size_t bytes, const char *purpose)
{
	reset();
	device_ = device;
	const GpuWait wait(device);
	const cudaError_t error = device->fault("gpu_pinned") ? cudaErrorMemoryAllocation : cudaMallocHost(&data_, bytes);

	VECTORGPU_TRY(device->check(error, (std::string("allocate pinned memory for ") + purpose).c_str()));
	bytes_ = bytes;
	return Status::ok();
}

void
PinnedBuffer::reset() noexcept
{
	if (data_ == nullptr)
		return;
	if (const DeviceVisit visit(device_); visit)
	{
		const GpuWait wait(device_);

		device_->check_quietly(cudaFreeHost(data_), "free pinned memory");
	}
	data_ = nullptr;
	bytes_ = 0;
}

} // namespace vectorgpu::cuda
