// The times of a batch of graph searches (graph_chunks.hpp), for a benchmark that searches with one thread: of the
// stages on the device by events, and of the host.
#pragma once

#include <array>
#include <chrono>

#include <cuda_runtime.h>

namespace vectorgpu::cuda
{

/// Ends of stages on the device, in their order.
enum class GraphStage : uint8_t
{
	kBegun = 0,
	kSent = 1,     // the queries
	kScored = 2,   // the entry points
	kChosen = 3,   // ... and the nearest of them are known
	kSearched = 4, // the graph
	kMerged = 5,   // not always
	kRead = 6,     // the results
};
constexpr size_t kGraphStages = 7;

/// Moments of the calling thread.
enum class GraphMoment : uint8_t
{
	kBegun = 0,
	kStaged = 1,   // the queries are in pinned memory
	kLaunched = 2, // all work
	kAnswered = 3, // all work is done
	kTaken = 4,    // the results are where the caller wants them
};
constexpr size_t kGraphMoments = 5;

/// The last chunk's times; of its last part where a stage has several. Errors of events only leave times out.
class GraphTrace
{
public:
	GraphTrace() = default;
	~GraphTrace()
	{
		for (const cudaEvent_t event : events_)
			if (event != nullptr)
				(void) cudaEventDestroy(event);
	}
	GraphTrace(const GraphTrace &) = delete;
	GraphTrace &operator=(const GraphTrace &) = delete;

	/// On the device's thread: the engine has set the device.
	void mark(GraphStage stage, cudaStream_t stream)
	{
		const size_t i = static_cast<size_t>(stage);

		if (stage == GraphStage::kBegun)
			marked_ = {};
		if (events_[i] == nullptr && cudaEventCreate(&events_[i]) != cudaSuccess)
			return;
		marked_[i] = cudaEventRecord(events_[i], stream) == cudaSuccess;
	}

	void note(GraphMoment moment) { moments_[static_cast<size_t>(moment)] = std::chrono::steady_clock::now(); }

	/// Milliseconds from the end of the stage before, of those that took place, to the end of this one; 0: it did not.
	double ms(GraphStage stage) const
	{
		size_t before = static_cast<size_t>(stage);
		float ms = 0.0f;

		if (!marked_[before])
			return 0.0;
		const cudaEvent_t end = events_[before];

		do
		{
			if (before == 0)
				return 0.0;
			before--;
		} while (!marked_[before]);
		return cudaEventElapsedTime(&ms, events_[before], end) == cudaSuccess ? static_cast<double>(ms) : 0.0;
	}

	/// Milliseconds of the host from the moment before.
	double ms(GraphMoment moment) const
	{
		const size_t i = static_cast<size_t>(moment);

		return i == 0 ? 0.0 : std::chrono::duration<double, std::milli>(moments_[i] - moments_[i - 1]).count();
	}

private:
	std::array<cudaEvent_t, kGraphStages> events_ = {};
	std::array<bool, kGraphStages> marked_ = {};
	std::array<std::chrono::steady_clock::time_point, kGraphMoments> moments_ = {};
};

} // namespace vectorgpu::cuda
