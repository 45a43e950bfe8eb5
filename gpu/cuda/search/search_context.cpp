// See search_context.hpp.
#include "cuda/search/search_context.hpp"

#include <cstring>
#include <iterator>

#include "kernels/filter/one_pass.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

Status
SearchContext::create(const Device *device, size_t workspace_bytes, size_t pinned_bytes)
{
	VECTORGPU_TRY(stream.create(device));
	for (Stream &side : sides)
		VECTORGPU_TRY(side.create(device));
	VECTORGPU_TRY(fork.create(device));
	VECTORGPU_TRY(join.create(device));
	VECTORGPU_TRY(workspace.allocate(device, workspace_bytes, "the workspace of a search"));
	VECTORGPU_TRY(pinned_in.allocate(device, pinned_bytes / 2, "queries"));
	VECTORGPU_TRY(heads.allocate(device, kMostAnswers * sizeof(kernels::AnswerHead), "results"));
	std::memset(heads.get(), 0, heads.bytes());
	VECTORGPU_TRY(
		counters.allocate(device, kernels::OnePassCounters::kWords * sizeof(uint32_t), "counters of a search"));
	VECTORGPU_TRY(device->check(cudaMemsetAsync(counters.get(), 0, counters.bytes(), stream.get()), "clear counters"));
	VECTORGPU_TRY(given_up.allocate(device, sizeof(uint32_t), "counters of a search"));
	*given_up.as<uint32_t>() = 0;

	auto made = std::make_shared<Held>();

	VECTORGPU_TRY(made->allocate(device, nullptr, kMaskBytes, "rows that pass"));
	masks = std::move(made);
	VECTORGPU_TRY(masks_in.allocate(device, kMaskBytes / 4, "rows that pass"));
	return pinned_out.allocate(device, pinned_bytes, "results");
}

SideStreams::~SideStreams()
{
	if (!ended_ && !device_->fatal())
		device_->check_quietly(join(), "finish work on the GPU");
}

Status
SideStreams::begin(size_t part, cudaStream_t *stream)
{
	*stream = context_->sides[part % std::size(context_->sides)].get();
	VECTORGPU_TRY(device_->check(cudaEventRecord(context_->fork.get(), context_->stream.get()), "search in parts"));
	return device_->check(cudaStreamWaitEvent(*stream, context_->fork.get()), "search in parts");
}

Status
SideStreams::end()
{
	ended_ = true;
	return device_->check(join(), "search in parts");
}

/// All sides are joined though one fails.
cudaError_t
SideStreams::join()
{
	cudaError_t first = cudaSuccess;

	for (const Stream &side : context_->sides)
	{
		cudaError_t error = cudaEventRecord(context_->join.get(), side.get());

		if (error == cudaSuccess) // a wait is for what is recorded now: the event serves the next side as well
			error = cudaStreamWaitEvent(context_->stream.get(), context_->join.get());
		first = first != cudaSuccess ? first : error;
	}
	return first;
}

StreamEnd::~StreamEnd()
{
	if (reached_ || device_->fatal())
		return;

	const GpuWait wait(device_, stream_->patience());

	device_->check_quietly(cudaStreamSynchronize(stream_->get()), "finish work on the GPU");
}

} // namespace vectorgpu::cuda
