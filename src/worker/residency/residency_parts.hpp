// Shared by the files of the residency: bitmaps, and engine calls that may fail.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>

#include "worker/worker_fault.hpp"
#include "worker/residency/residency.hpp"

namespace vectorgpu::worker
{

constexpr size_t kMostSegments = 2 * wire::kMaxSegmentsPerCopy; // of a copy: the old manifest's and the new one's

inline bool
test_bit(const Bits &bits, uint64_t bit)
{
	return bit / 8 < bits.size() && ((bits[bit / 8] >> (bit % 8)) & 1) != 0;
}

inline void
set_bit(Bits *bits, uint64_t bit)
{
	(*bits)[bit / 8] = static_cast<uint8_t>((*bits)[bit / 8] | 1 << (bit % 8));
}

inline uint64_t
count_bits(const Bits &bits)
{
	uint64_t n = 0;

	for (const uint8_t byte : bits)
		n += static_cast<uint64_t>(std::popcount(byte));
	return n;
}

inline uint64_t
count_range(const Bits &bits, uint64_t first, uint64_t n)
{
	const uint64_t last = std::min<uint64_t>(first + n, bits.size() * 8);
	uint64_t found = 0;

	for (uint64_t bit = first; bit < last; bit++)
		found += test_bit(bits, bit) ? 1 : 0;
	return found;
}

/// Call the engine, with a fault point before the call. bad_alloc becomes a status, so that the caller can undo.
template <class Call>
Status
engine_call([[maybe_unused]] const char *fault, Call call)
{
	try
	{
		if (WORKER_FAULT(fault) == Fault::kError)
			return Status::error(StatusCode::kInternal, "fault");
		return call();
	}
	catch (const std::bad_alloc &)
	{
		return Status{StatusCode::kOutOfMemory, {}};
	}
}

} // namespace vectorgpu::worker
