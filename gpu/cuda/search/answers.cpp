// See answers.hpp.
#include "cuda/search/answers.hpp"

#include <algorithm>
#include <atomic>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vectorgpu::cuda
{
namespace
{

constexpr uint32_t kLooks = 4096;       // at a mark, about 100 us, before the driver is asked for errors
constexpr uint32_t kMostQuestions = 64; // to the driver, before the thread waits in it

void
pause()
{
#if defined(__x86_64__)
	_mm_pause();
#endif
}

/// Waits until the head has the mark.
Status
wait_for_mark(const Device *device, const Stream &stream, kernels::AnswerHead *head, uint32_t mark)
{
	const std::atomic_ref<uint32_t> seen(head->mark);

	for (uint32_t questions = 0;; questions++)
	{
		for (uint32_t look = 0; look < kLooks; look++)
		{
			if (seen.load(std::memory_order_acquire) == mark)
				return Status::ok();
			pause();
		}
		if (questions < kMostQuestions)
		{
			const cudaError_t error = cudaStreamQuery(stream.get());

			if (error == cudaErrorNotReady)
			{
				(void) cudaGetLastError(); // not ready is no error
				continue;
			}
			VECTORGPU_TRY(device->check(error, "finish work on the GPU"));
		}
		else
			VECTORGPU_TRY(stream.synchronize());
		return seen.load(std::memory_order_acquire) == mark
			? Status::ok()
			: Status::error(StatusCode::kInternal, "the GPU ended without an answer");
	}
}

} // namespace

kernels::Answers
begin_answers(SearchContext *context, size_t n_queries, uint32_t stride)
{
	kernels::Answers answers;

	if (n_queries > SearchContext::kMostAnswers ||
		n_queries * stride * sizeof(kernels::Entry) > context->pinned_out.bytes())
		return answers;
	if (++context->last_mark == 0) // the mark of heads never written
		context->last_mark++;
	answers.heads = context->heads.as<kernels::AnswerHead>();
	answers.entries = context->pinned_out.as<kernels::Entry>();
	answers.stride = stride;
	answers.mark = context->last_mark;
	return answers;
}

Status
end_answers(const SearchCall &call, const kernels::Answers &answers, std::span<const uint32_t> numbers,
	std::vector<uint32_t> *redo)
{
	const GpuWait wait(call.device, call.context->stream.patience()); // rows may be read over the bus

	for (size_t i = 0; i < numbers.size(); i++)
	{
		kernels::AnswerHead *head = answers.heads + i;

		VECTORGPU_TRY(wait_for_mark(call.device, call.context->stream, head, answers.mark));
		call.counts->n_rescored += head->n_rescored;
		if (head->redo == kernels::kAnswerIsAway)
		{
			note_away(call.queries[numbers[i]]);
			(*call.results)[numbers[i]].clear();
			continue;
		}
		if (head->redo != 0)
		{
			redo->push_back(numbers[i]);
			continue;
		}

		const kernels::Entry *from = answers.entries + i * answers.stride;
		std::vector<engine::Neighbor> &result = (*call.results)[numbers[i]];

		result.resize(head->n_entries);
		std::transform(from, from + head->n_entries, result.begin(),
			[](const kernels::Entry &entry) { return engine::Neighbor{kernels::key_to_score(entry.key), entry.row}; });
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
