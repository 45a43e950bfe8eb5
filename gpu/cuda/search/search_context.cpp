// See search_context.hpp.
#include "cuda/search/search_context.hpp"

#include <cstring>

#include "kernels/filter/one_pass.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

Status
SearchContext::create(const Device *device, size_t workspace_bytes, size_t pinned_bytes)
{
	VECTORGPU_TRY(stream.create(device));
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

StreamEnd::~StreamEnd()
{
	if (reached_ || device_->fatal())
		return;

	const GpuWait wait(device_, stream_->patience());

	device_->check_quietly(cudaStreamSynchronize(stream_->get()), "finish work on the GPU");
}

} // namespace vectorgpu::cuda
