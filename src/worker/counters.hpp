// The worker's counters, for STATS. Relaxed atomics: they synchronise nothing.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "wire/status_messages.hpp"

namespace vectorgpu::worker
{

struct Counters
{
	std::atomic<uint64_t> n_searches{0};
	std::atomic<uint64_t> n_cancelled{0};
	std::atomic<uint64_t> n_rescored{0};
	std::atomic<uint64_t> n_invalid{0};
	std::atomic<uint64_t> n_refused{0};
	std::atomic<uint64_t> n_out_of_memory{0};
	std::atomic<uint64_t> n_internal{0};
	std::atomic<uint64_t> kept_bytes{0};
	std::atomic<uint64_t> latency_histogram[wire::kHistogramBuckets]{};

	static size_t bucket(uint64_t ns)
	{
		const uint64_t units = ns / 256;
		const size_t at = units == 0 ? 0 : static_cast<size_t>(std::bit_width(units)) - 1;

		return at < wire::kHistogramBuckets ? at : wire::kHistogramBuckets - 1;
	}

	void count_reply(wire::ReplyStatus status)
	{
		switch (status)
		{
			case wire::ReplyStatus::kInvalid:
				n_invalid.fetch_add(1, std::memory_order_relaxed);
				break;
			case wire::ReplyStatus::kCancelled:
				n_cancelled.fetch_add(1, std::memory_order_relaxed);
				break;
			case wire::ReplyStatus::kRefused:
				n_refused.fetch_add(1, std::memory_order_relaxed);
				break;
			case wire::ReplyStatus::kOutOfMemory:
				n_out_of_memory.fetch_add(1, std::memory_order_relaxed);
				break;
			case wire::ReplyStatus::kInternal:
				n_internal.fetch_add(1, std::memory_order_relaxed);
				break;
			default:
				break;
		}
	}
};

} // namespace vectorgpu::worker
