// Publishing a manifest. See residency.hpp. The order is that of residency_write.cpp.
#include "worker/residency/residency_parts.hpp"

#include <utility>

namespace vectorgpu::worker
{

using wire::ReplyStatus;

/// Drop segments that no manifest has named. The caller holds the write mutex.
void
Residency::drop_unpublished(Copy *copy)
{
	for (auto at = copy->segments.begin(); at != copy->segments.end();)
	{
		if (at->second.live)
		{
			++at;
			continue;
		}

		// Even if the engine fails to drop it, no search sees it.
		if (at->second.n_rows > 0) [[maybe_unused]]
			const Status status = engine_.drop_segment(copy->id, at->first);

		if (copy->keys != nullptr)
			copy->keys->drop(at->first);

		const std::lock_guard lock(mutex_);

		copy->held_bytes -= std::min(copy->held_bytes,
			copy->segment_bytes(at->second.n_rows) + at->second.structure_bytes + at->second.key_bytes);
		at = copy->segments.erase(at);
	}
}

ReplyStatus
Residency::manifest(
	const wire::CopyKey &key, const wire::ManifestRequest &request, const uint32_t *segment_ids, uint64_t session)
{
	std::shared_ptr<Copy> copy;
	ReplyStatus status = writable(key, session, true, &copy);

	if (status != ReplyStatus::kOk)
		return status;

	const std::lock_guard writing(copy->write_mutex);

	for (uint32_t i = 0; i < request.n_segments; i++)
	{
		const auto found = copy->segments.find(segment_ids[i]);

		if (found == copy->segments.end() || !found->second.complete)
			return ReplyStatus::kInvalid;
	}
	// Another session may have published a newer state since this client read the pages: it stays.
	const bool newer = !copy->current || request.manifest_generation >= copy->version.manifest_generation;

	try
	{
		if (newer)
			status = WORKER_FAULT("manifest") == Fault::kError ? ReplyStatus::kInternal
															   : publish(copy.get(), request, segment_ids);
	}
	catch (const std::bad_alloc &)
	{
		status = ReplyStatus::kOutOfMemory;
	}
	if (status != ReplyStatus::kOk)
	{
		remove(copy); // neither the old state nor the new one: it must not be searched
		return status;
	}
	drop_unpublished(copy.get());

	const std::lock_guard lock(mutex_);

	copy->reserved_bytes = 0;
	copy->lease = 0;
	copy->n_loads++;
	counters_.n_loads++;
	return ReplyStatus::kOk;
}

/// Swap the segments and set the version. After a failure the copy is inconsistent. The caller holds the write mutex.
ReplyStatus
Residency::publish(Copy *copy, const wire::ManifestRequest &request, const uint32_t *segment_ids)
{
	const std::span<const uint32_t> listed(segment_ids, request.n_segments);

	for (auto &[id, segment] : copy->segments)
	{
		const bool wanted = std::find(listed.begin(), listed.end(), id) != listed.end();
		Status status;

		if (segment.live && !wanted)
			segment.live = false; // drop_unpublished drops it; no search runs until then
		else if (!segment.live && wanted)
		{
			if (segment.n_rows > 0)
				status = engine_.seal_segment(copy->id, id);
			if (status.is_ok() && segment.n_dead > 0)
				status = engine_.set_tombstones(copy->id, id, segment.dead);
			segment.live = true;
		}
		if (!status.is_ok())
			return reply_status(status);
	}
	if (request.delta_first > copy->delta_first)
	{
		const Status status = engine_.trim_delta(copy->id, request.delta_first);

		if (!status.is_ok())
			return reply_status(status);
		if (copy->keys != nullptr)
			copy->keys->trim(request.delta_first);
	}
	if (copy->keys != nullptr)
		copy->keys->publish(listed);

	const std::lock_guard lock(mutex_);

	if (request.delta_first > copy->delta_first)
	{
		const uint64_t gone = std::min(request.delta_first, copy->version.delta_end) - copy->delta_first;
		const uint64_t bytes =
			std::min<uint64_t>((request.delta_first - copy->delta_dead_first) / 8, copy->delta_dead.size());

		copy->held_bytes -= std::min(copy->held_bytes, rows_bytes(gone, copy->delta_row_bytes()));
		copy->delta_dead.erase(copy->delta_dead.begin(), copy->delta_dead.begin() + static_cast<ptrdiff_t>(bytes));
		copy->delta_first = request.delta_first;
		copy->delta_dead_first = request.delta_first / 8 * 8;
		copy->version.delta_end = std::max(copy->version.delta_end, request.delta_first);
		copy->delta_n_dead =
			count_range(copy->delta_dead, request.delta_first % 8, copy->version.delta_end - copy->delta_first);
	}
	copy->version.manifest_generation = request.manifest_generation;
	copy->searched_delta_first.store(copy->delta_first, std::memory_order_release);
	copy->searched_manifest.store(request.manifest_generation, std::memory_order_release);
	copy->version.tombstone_generation = std::max(copy->version.tombstone_generation, request.tombstone_generation);
	copy->current = true;
	return ReplyStatus::kOk;
}

} // namespace vectorgpu::worker
