// Owners of CUDA resources and the check of every CUDA call. One move-only class per handle; destructors never throw
// and log what fails. The only place of cudaMalloc and cudaMallocHost.
//
// A *sticky* error (illegal address, launch failure, ECC, lost device, ...) leaves the process's context broken for
// good: it sets `fatal`, every later call returns kUnavailable, and the process should exit.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "common/status.hpp"

namespace vectorgpu::cuda
{

/// For tests: true if the fault of this name is to happen now. Called only in builds with VECTORGPU_FAULTS.
using Fault = std::function<bool(const char *name)>;

/// Takes log lines, from any thread. Null: none are logged.
using Log = std::function<void(const char *line)>;

/// One GPU: its number, name, size and health. Outlives the owners below.
class Device
{
public:
	/// kUnavailable if there is no such device or its driver does not work.
	static Status open(int ordinal, Log log, Device *device);

	/// The number of GPUs; 0 if the driver does not work.
	static int count() noexcept;

	/// Destroy this process's context of a GPU that it has lost, so that a new one can be made. What the old one owned
	/// must not be used or freed any more.
	static void give_up_context(int ordinal) noexcept;

	/// Set a function that the thread of the first later sticky error calls once, after logging. Call before other
	/// threads use the device, and after the self-test: a failed start is no reason to exit.
	void on_fatal(std::function<void()> call) { on_fatal_ = std::move(call); }

	/// Make this the calling thread's device. Every entry into the engine calls it first.
	Status use() const;

	/// Return ok, or the error of doing `what`. Sticky errors set fatal().
	Status check(cudaError_t error, const char *what) const;

	/// Give the GPU up, as a sticky error does, for failures that the driver does not notice.
	void lose(const char *why) const noexcept;

	void set_fault(Fault fault) { fault_ = std::move(fault); }

	/// True if the fault is to happen; always false in builds without fault points.
	bool fault([[maybe_unused]] const char *name) const
	{
#ifdef VECTORGPU_FAULTS
		return fault_ && fault_(name);
#else
		return false;
#endif
	}

	/// Enable provoke() and the faults of a running engine. Called after the self-test, which runs without them.
	void arm() { armed_ = true; }
	bool armed() const { return armed_; }

	/// For tests: if the fault of this name is to happen, invert the byte at to + at on the device.
	Status damage(const char *name, uint8_t *to, size_t at, cudaStream_t stream) const;

	/// For tests: launch the broken kernels asked for; see README.md, "Fault points".
	Status provoke(cudaStream_t stream) const;

	/// Log an error, for destructors.
	void check_quietly(cudaError_t error, const char *what) const noexcept;

	bool fatal() const { return fatal_.load(std::memory_order_acquire); }
	void log(const char *line) const noexcept;

	/// Return the start of the longest present wait for the GPU (GpuWait), CLOCK_MONOTONIC in ns; 0: no thread waits.
	/// Any thread.
	uint64_t waiting_since_ns() const;

	int ordinal() const { return ordinal_; }
	const std::string &description() const { return description_; }
	uint64_t total_bytes() const { return total_bytes_; }

private:
	friend class GpuWait;
	friend class DeviceVisit;

	static constexpr size_t kMostWaits = 256; // further waits are not watched

	int ordinal_ = 0;
	uint64_t total_bytes_ = 0;
	std::string description_;
	Log log_;
	Fault fault_;
	bool armed_ = false;
	std::function<void()> on_fatal_;
	mutable std::atomic<bool> fatal_{false};
	mutable std::array<std::atomic<uint64_t>, kMostWaits> waits_{}; // start of the wait; 0: free
};

/// Makes a device the thread's own while it lives, for destructors: they run on any thread, also within a call of
/// another GPU's engine.
class DeviceVisit
{
public:
	explicit DeviceVisit(const Device *device) noexcept;
	~DeviceVisit();
	DeviceVisit(const DeviceVisit &) = delete;
	DeviceVisit &operator=(const DeviceVisit &) = delete;

	/// False if the GPU is lost: then nothing of it may be freed, since its context is broken, or gone and its
	/// addresses those of another one.
	explicit operator bool() const { return entered_; }

private:
	int before_ = -1; // the thread's device; -1: the same
	bool entered_ = false;
};

/// Declares to the watchdog, while it lives, that its thread waits for the GPU: in a wait for a stream, a copy from or
/// to memory that is not pinned, an allocation.
class GpuWait
{
public:
	/// patience_ns: time that the work may take beyond the watchdog's limit.
	explicit GpuWait(const Device *device, uint64_t patience_ns = 0) noexcept;
	~GpuWait();
	GpuWait(const GpuWait &) = delete;
	GpuWait &operator=(const GpuWait &) = delete;

private:
	std::atomic<uint64_t> *slot_ = nullptr;
};

/// Copy n_bytes at `from` on the device to `to`, in the order of the default stream. Waits for the copy.
inline Status
read_back(const Device *device, void *to, const void *from, size_t n_bytes, const char *what)
{
	const GpuWait wait(device);

	return n_bytes == 0 ? Status::ok() : device->check(cudaMemcpy(to, from, n_bytes, cudaMemcpyDeviceToHost), what);
}

class Event
{
public:
	Event() = default;
	~Event() { reset(); }
	Event(const Event &) = delete;
	Event &operator=(const Event &) = delete;

	Status create(const Device *device);
	void reset() noexcept;
	cudaEvent_t get() const { return event_; }

private:
	const Device *device_ = nullptr;
	cudaEvent_t event_ = nullptr;
};

class Stream
{
public:
	Stream() = default;
	~Stream() { reset(); }
	Stream(const Stream &) = delete;
	Stream &operator=(const Stream &) = delete;

	Status create(const Device *device);

	/// A stream whose kernels start before those of other streams that wait for room on the device.
	Status create_urgent(const Device *device);
	void reset() noexcept;
	cudaStream_t get() const { return stream_; }

	/// Wait for all work on the stream. patience_ns: see GpuWait.
	Status synchronize(uint64_t patience_ns = 0) const;

	/// Set a least patience for all waits that follow; used by one thread at a time.
	void set_patience(uint64_t patience_ns) { patience_ns_ = patience_ns; }
	uint64_t patience() const { return patience_ns_; }

	/// Wait for an event, if it was recorded on the stream.
	Status wait_for(const Event &event) const;

private:
	const Device *device_ = nullptr;
	cudaStream_t stream_ = nullptr;
	uint64_t patience_ns_ = 0;
};

/// Device memory. `purpose` is for messages.
class DeviceBuffer
{
public:
	DeviceBuffer() = default;
	~DeviceBuffer() { reset(); }
	DeviceBuffer(DeviceBuffer &&other) noexcept { swap(other); }
	DeviceBuffer &operator=(DeviceBuffer &&other) noexcept
	{
		swap(other);
		return *this;
	}

	/// kOutOfMemory if the device has too little.
	Status allocate(const Device *device, size_t bytes, const char *purpose);
	void reset() noexcept;

	void *get() const { return data_; }
	size_t bytes() const { return bytes_; }

	template <class T>
	T *as() const
	{
		return static_cast<T *>(data_);
	}

private:
	void swap(DeviceBuffer &other) noexcept;

	const Device *device_ = nullptr;
	void *data_ = nullptr;
	size_t bytes_ = 0;
};

/// Page-locked host memory.
class PinnedBuffer
{
public:
	PinnedBuffer() = default;
	~PinnedBuffer() { reset(); }
	PinnedBuffer(const PinnedBuffer &) = delete;
	PinnedBuffer &operator=(const PinnedBuffer &) = delete;

	Status allocate(const Device *device, size_t bytes, const char *purpose);
	void reset() noexcept;

	void *get() const { return data_; }
	size_t bytes() const { return bytes_; }

	template <class T>
	T *as() const
	{
		return static_cast<T *>(data_);
	}

private:
	const Device *device_ = nullptr;
	void *data_ = nullptr;
	size_t bytes_ = 0;
};

} // namespace vectorgpu::cuda

/// Return the status from the calling function if it is not ok.
#define VECTORGPU_TRY(expression)                                                                                      \
	do                                                                                                                 \
	{                                                                                                                  \
		if (::vectorgpu::Status vectorgpu_status_ = (expression); !vectorgpu_status_.is_ok())                          \
			return vectorgpu_status_;                                                                                  \
	} while (false)
