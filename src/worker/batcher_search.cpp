// Batches in the engine, and their answers: those of a lane, and those that a dispatcher runs at once. See batcher.hpp.
#include <algorithm>
#include <exception>
#include <new>

#include "worker/batcher.hpp"
#include "worker/worker_fault.hpp"

namespace vectorgpu::worker
{

/// Run searches of one copy in the engine.
Status
Batcher::search(std::span<Search *const> searches, EngineCall *call, BatchInfo *info)
{
	Status status;

	info->size = static_cast<uint32_t>(searches.size());
	n_batches_.fetch_add(1, std::memory_order_relaxed);
	try
	{
		const uint64_t started_ns = clock_();

		call->queries.clear();
		for (Search *search : searches)
		{
			// No manifest is published from here to the answer, so the engine searches the segments that this names.
			if (search->manifest != nullptr)
				search->outdated = search->manifest->load(std::memory_order_acquire) != search->wanted_manifest;
			if (search->outdated)
				search->passing = std::make_shared<const engine::Passing>();
			else if (search->keys != nullptr)
				search->passing = search->keys->passing(search->program, &search->filter_found);
			search->query.passing = search->passing.get();
			call->queries.push_back(search->query);
		}
		if (WORKER_FAULT("search") == Fault::kError)
			status = Status::error(StatusCode::kInternal, "fault");
		else
			status = engine_.search(searches.front()->copy_id, call->queries, &call->results, &call->control);
		if (status.is_ok() && call->results.size() != searches.size())
			status = Status::error(StatusCode::kInternal, "the engine gave another number of answers");
		info->ended_ns = clock_();
		info->engine_ns = info->ended_ns - started_ns;
	}
	catch (const std::bad_alloc &)
	{
		status.code = StatusCode::kOutOfMemory;
	}
	catch (const std::exception &)
	{
		status.code = StatusCode::kInternal;
	}
	return status;
}

void
Batcher::search_batch(Lane *lane)
{
	// Until the answers are written, or the delivery has them.
	const std::shared_lock shared(between_);
	BatchInfo info;
	const uint64_t rescored_before = engine_.n_rescored();
	const Status status = search(lane->running, &lane->call, &info);
	const uint64_t rescored = engine_.n_rescored();

	if (rescored > rescored_before && !lane->is_helper)
		info.n_rescored = rescored - rescored_before; // with several lanes also those of other batches
	end_batch(lane, info);
	if (status.code == StatusCode::kInvalidArgument && lane->finished.size() > 1)
		answer_alone(lane->finished, &lane->call);
	else if (n_waiting_.load(std::memory_order_relaxed) > 0 &&
		lane->delivery.take(&lane->finished, &lane->call.results, status, info))
		return;
	else
		done_(lane->finished, status, &lane->call.results, info);
	lane->finished.clear(); // `done_` has received the searches and may have freed them
}

/// Run each search of a refused batch by itself, so that one which names rows that there are not is refused alone.
void
Batcher::answer_alone(std::span<Search *const> searches, EngineCall *call)
{
	for (size_t i = 0; i < searches.size(); i++)
	{
		BatchInfo info;
		const Status status = search(searches.subspan(i, 1), call, &info);

		done_(searches.subspan(i, 1), status, &call->results, info);
	}
}

/// Run round->batch on the calling thread if the engine answers it at once and no task that excludes searches runs.
bool
Batcher::run_at_once(Round *round)
{
	if (!engine_.answers_at_once(round->batch.front()->copy_id, round->batch.size()))
		return false;

	const std::shared_lock lock(between_, std::try_to_lock);
	BatchInfo info;

	if (!lock.owns_lock())
		return false;

	const Status status = search(round->batch, &round->call, &info);

	if (status.code == StatusCode::kInvalidArgument && round->batch.size() > 1)
		answer_alone(round->batch, &round->call);
	else
		done_(round->batch, status, &round->call.results, info);
	return true;
}

} // namespace vectorgpu::worker
