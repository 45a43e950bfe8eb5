// Division of the caller's memory and threads. Used by engine/graph, too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::ivf
{

/// Takes arrays from a piece of memory, each at a multiple of 64 bytes. With no memory (null) it only counts, so that
/// the same function computes the bytes needed and takes the arrays.
class Arena
{
public:
	Arena() = default;
	Arena(void *memory, size_t bytes) : base_(static_cast<uint8_t *>(memory)), bytes_(bytes)
	{
		const uintptr_t address = reinterpret_cast<uintptr_t>(memory);

		used_ = (address + 63) / 64 * 64 - address;
	}

	/// Null if there is not enough memory (or none).
	template <class T>
	T *take(size_t n)
	{
		const size_t at = used_;

		used_ += (n * sizeof(T) + 63) / 64 * 64;
		return base_ == nullptr || used_ > bytes_ ? nullptr : reinterpret_cast<T *>(base_ + at);
	}

	/// Bytes taken, plus those that aligning the start may cost.
	size_t bytes_needed() const { return used_ + (base_ == nullptr ? 64 : 0); }
	bool is_short() const { return base_ == nullptr || used_ > bytes_; }

private:
	uint8_t *base_ = nullptr;
	size_t bytes_ = 0;
	size_t used_ = 0;
};

inline Outcome
work_memory_short()
{
	return {StatusCode::kInvalidArgument, "work memory is smaller than was asked for"};
}

inline Outcome
cancelled()
{
	return {StatusCode::kCancelled, "canceled"};
}

/// A counter that tasks take pieces of work from, and the flag to stop.
struct Share
{
	std::atomic<size_t> next{0};
	std::atomic<bool> stop{false};

	/// The next of n pieces; n if none is left.
	size_t take(size_t n)
	{
		const size_t piece = stop.load(std::memory_order_relaxed) ? n : next.fetch_add(1, std::memory_order_relaxed);

		return piece < n ? piece : n;
	}
};

/// Run body(argument, worker) in up to n_workers threads (body takes pieces from a Share).
inline void
run_workers(const Call &call, size_t n_workers, void (*body)(void *argument, size_t worker), void *argument)
{
	if (n_workers > 1 && call.parallel != nullptr)
		call.parallel(call.parallel_context, n_workers, body, argument);
	else
		body(argument, 0);
}

/// The part of a longer operation that is done.
struct Progress
{
	uint64_t done = 0;
	uint64_t total = 0;
};

inline bool
go_on(const Call &call, const Progress &progress)
{
	return call.progress == nullptr || call.progress(call.progress_context, progress.done, progress.total);
}

} // namespace vectorgpu::engine::ivf
