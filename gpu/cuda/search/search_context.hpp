// The buffers and the stream of one search. All are allocated when the engine starts: a search allocates no memory of
// the device and no pinned memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda/device/budget.hpp"

namespace vectorgpu::cuda
{

/// Used by one thread at a time.
struct SearchContext
{
	Stream stream;
	Stream sides[2]; // of a search that goes on in parts (SideStreams); idle while no search has them
	Event fork;      // of SideStreams
	Event join;
	DeviceBuffer workspace;
	PinnedBuffer pinned_in;  // queries on their way to the device
	PinnedBuffer pinned_out; // results on their way back

	static constexpr size_t kMostAnswers = 128;
	PinnedBuffer heads; // [kMostAnswers] kernels::AnswerHead, see answers.hpp
	uint32_t last_mark = 0;
	DeviceBuffer counters;    // kernels::OnePassCounters
	uint32_t counted[5] = {}; // the values of the counters after all launches up to this moment
	PinnedBuffer given_up;    // a u32: OnePassCounters::given_up

	static constexpr size_t kMaskBytes = size_t{1} << 20;
	std::shared_ptr<const Held> masks; // [kMaskBytes] of one search by masks: passing_masks.hpp
	PinnedBuffer masks_in;             // [kMaskBytes / 4] bits of the delta on their way

	Status create(const Device *device, size_t workspace_bytes, size_t pinned_bytes);
};

/// Waits for a search's stream if the search fails, or is left by an exception, with work on it: that work may read
/// memory of the copy, or the context's buffers. Declare it behind what holds that memory.
class StreamEnd
{
public:
	StreamEnd(const Device *device, const Stream *stream) : device_(device), stream_(stream) {}
	~StreamEnd();
	StreamEnd(const StreamEnd &) = delete;
	StreamEnd &operator=(const StreamEnd &) = delete;

	/// The search has waited for all of its work.
	void reached() { reached_ = true; }

private:
	const Device *const device_;
	const Stream *const stream_;
	bool reached_ = false;
};

/// A search's work on other streams of its context, beside the search's own: it begins behind what that stream has now,
/// and what comes later in that stream waits for it. A wait for the search's stream is a wait for all.
class SideStreams
{
public:
	SideStreams(const Device *device, const SearchContext *context) : device_(device), context_(context) {}
	~SideStreams();
	SideStreams(const SideStreams &) = delete;
	SideStreams &operator=(const SideStreams &) = delete;

	/// *stream: for the part of this number, behind all work that the search's stream has now.
	Status begin(size_t part, cudaStream_t *stream);

	/// Let the search's stream wait for all parts; the destructor does so unless this has.
	Status end();

private:
	cudaError_t join();

	const Device *const device_;
	const SearchContext *const context_;
	bool ended_ = false;
};

} // namespace vectorgpu::cuda
