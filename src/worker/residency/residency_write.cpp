// Loading of rows and structures. See residency.hpp. The order is always: check under the mutex, change the engine's
// copy under the copy's write mutex alone, then record the change under the mutex. So a version is never ahead of the
// rows.
#include "worker/residency/residency_parts.hpp"

#include <memory>
#include <utility>

#include "engine/interface/structure.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;

/// Find the copy if `session` may change it: because it has the lease, or, unless lease_needed, because it is current.
ReplyStatus
Residency::writable(const wire::CopyKey &key, uint64_t session, bool lease_needed, std::shared_ptr<Copy> *copy)
{
	const std::lock_guard lock(mutex_);
	std::shared_ptr<Copy> found = lookup(key);

	if (found == nullptr)
		return ReplyStatus::kAbsent;
	if (found->lease != session && (lease_needed || !found->current))
		return found->lease == 0 ? ReplyStatus::kAbsent : ReplyStatus::kBusy;
	*copy = std::move(found);
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::load_rows(const wire::CopyKey &key, const wire::RowsRequest &request, const engine::RowBlock &rows,
	size_t row_bytes, uint64_t session)
{
	std::shared_ptr<Copy> copy;
	ReplyStatus status = writable(key, session, true, &copy);

	if (status != ReplyStatus::kOk)
		return status;
	if (row_bytes != copy->segment_row_bytes)
		return ReplyStatus::kInvalid;

	const std::lock_guard writing(copy->write_mutex);
	const uint64_t bytes = copy->segment_bytes(rows.n_rows);

	{
		const std::lock_guard lock(mutex_);
		const auto found = copy->segments.find(request.segment);

		if (found == copy->segments.end() && (request.position != 0 || copy->segments.size() >= kMostSegments))
			return ReplyStatus::kInvalid;
		if (found != copy->segments.end() && (found->second.complete || found->second.n_rows != request.position))
			return ReplyStatus::kInvalid;
		copy->segments.try_emplace(request.segment);
	}
	status = reserve(copy.get(), bytes);
	if (status != ReplyStatus::kOk)
		return status;

	const Status loaded =
		engine_call("load_segment", [&] { return engine_.load_segment(copy->id, request.segment, rows); });
	const std::lock_guard lock(mutex_);

	if (!loaded.is_ok())
	{
		copy->held_bytes -= bytes;
		return reply_status(loaded);
	}
	copy->segments[request.segment].n_rows += rows.n_rows;
	counters_.loaded_bytes += rows.n_rows * (copy->segment_row_bytes + sizeof(RowId));
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::load_structure(
	const wire::CopyKey &key, const wire::StructureRequest &request, std::span<const uint8_t> bytes, uint64_t session)
{
	std::shared_ptr<Copy> copy;
	ReplyStatus status = writable(key, session, true, &copy);

	if (status != ReplyStatus::kOk)
		return status;

	const std::lock_guard writing(copy->write_mutex);
	const auto found = copy->segments.find(request.segment);

	if (copy->spec.kind == engine::CopyKind::kRows || found == copy->segments.end() || found->second.complete ||
		request.position != found->second.structure_bytes ||
		(found->second.parameter != 0 && found->second.parameter != request.parameter))
		return ReplyStatus::kInvalid;

	const uint64_t most = engine::structure_size(copy->spec, request.parameter, found->second.n_rows).most_bytes;

	if (bytes.size() > most - std::min(most, request.position))
		return ReplyStatus::kInvalid;
	status = reserve(copy.get(), bytes.size());
	if (status != ReplyStatus::kOk)
		return status;

	const Status loaded = engine_call(
		"load_structure", [&] { return engine_.load_structure(copy->id, request.segment, request.parameter, bytes); });
	const std::lock_guard lock(mutex_);

	if (!loaded.is_ok())
	{
		copy->held_bytes -= bytes.size();
		return reply_status(loaded);
	}
	found->second.parameter = request.parameter;
	found->second.structure_bytes += bytes.size();
	counters_.loaded_bytes += bytes.size();
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::load_keys(
	const wire::CopyKey &key, const wire::KeysRequest &request, std::span<const uint8_t> bytes, uint64_t session)
{
	std::shared_ptr<Copy> copy;
	ReplyStatus status = writable(key, session, true, &copy);

	if (status != ReplyStatus::kOk)
		return status;

	const std::lock_guard writing(copy->write_mutex);
	const auto found = copy->segments.find(request.segment);

	if (copy->keys == nullptr || found == copy->segments.end() || found->second.complete ||
		request.position != found->second.key_bytes)
		return ReplyStatus::kInvalid;

	const uint64_t most = copy->keys->area_bytes(found->second.n_rows);

	if (bytes.size() > most - std::min(most, request.position))
		return ReplyStatus::kInvalid;
	status = reserve(copy.get(), bytes.size());
	if (status != ReplyStatus::kOk)
		return status;

	const Status loaded = engine_call("load_keys",
		[&]
		{
			copy->keys->load(request.segment, found->second.n_rows, bytes);
			return Status::ok();
		});
	const std::lock_guard lock(mutex_);

	if (!loaded.is_ok())
	{
		copy->held_bytes -= bytes.size();
		return reply_status(loaded);
	}
	found->second.key_bytes += bytes.size();
	counters_.loaded_bytes += bytes.size();
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::seal(const wire::CopyKey &key, const wire::SegmentRequest &request, uint64_t session)
{
	std::shared_ptr<Copy> copy;
	const ReplyStatus status = writable(key, session, true, &copy);

	if (status != ReplyStatus::kOk)
		return status;

	const std::lock_guard writing(copy->write_mutex);
	auto found = copy->segments.find(request.segment);

	if (found != copy->segments.end() &&
		found->second.structure_bytes <
			engine::structure_size(copy->spec, found->second.parameter, found->second.n_rows).least_bytes)
		return ReplyStatus::kInvalid;
	// A segment whose values are all NULL has no rows; the engine does not get it.
	if (found == copy->segments.end() && request.n_rows == 0 && copy->segments.size() < kMostSegments)
	{
		const std::lock_guard lock(mutex_);

		found = copy->segments.try_emplace(request.segment).first;
	}
	if (found == copy->segments.end() || found->second.n_rows != request.n_rows)
		return ReplyStatus::kInvalid;
	if (copy->keys != nullptr && found->second.key_bytes != copy->keys->area_bytes(request.n_rows))
		return ReplyStatus::kInvalid;
	if (request.n_rows > 0 && !found->second.complete)
	{
		// The slow part runs here, on the loading thread, not between two batches (MANIFEST).
		if (copy->keys != nullptr)
			copy->keys->seal(request.segment, request.n_rows, &engine_, copy->id);

		const Status prepared = engine_call("seal", [&] { return engine_.prepare_segment(copy->id, request.segment); });

		if (!prepared.is_ok())
			return reply_status(prepared);
	}

	const std::lock_guard lock(mutex_);

	found->second.complete = true;
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::append(const wire::CopyKey &key, const wire::RowsRequest &request, const engine::RowBlock &rows,
	size_t row_bytes, uint64_t session)
{
	std::shared_ptr<Copy> copy;
	const ReplyStatus status = writable(key, session, false, &copy);

	if (status != ReplyStatus::kOk)
		return status;
	if (row_bytes != copy->delta_row_bytes() || request.position > wire::kMaxRowNumber - rows.n_rows)
		return ReplyStatus::kInvalid;

	const std::lock_guard writing(copy->write_mutex);
	bool done = true;

	return append_delta(copy.get(), request, rows, Wait::kYes, &done);
}

bool
Residency::try_append(
	const wire::CopyKey &key, const wire::RowsRequest &request, const engine::RowBlock &rows, size_t row_bytes)
{
	const bool any_dead = std::any_of(
		rows.row_ids.begin(), rows.row_ids.end(), [](uint64_t header) { return (header & wire::kRowOut) != 0; });
	std::shared_ptr<Copy> copy;

	{
		const std::lock_guard lock(mutex_);

		copy = lookup(key);
		if (copy == nullptr || !copy->current || copy->delta_row_bytes() != row_bytes ||
			request.position > wire::kMaxRowNumber - rows.n_rows || request.position > copy->version.delta_end ||
			(request.position + rows.n_rows <= copy->version.delta_end && !any_dead)) // another session brought them
			return true;
	}

	const std::unique_lock writing(copy->write_mutex, std::try_to_lock);

	bool done = true;

	if (!writing.owns_lock() || any_dead || must_evict(copy.get(), rows_bytes(rows.n_rows, row_bytes)))
		return false;
	(void) append_delta(copy.get(), request, rows, Wait::kNo, &done); // after a failure the search reports BEHIND
	return done;
}

/// Caller holds the write mutex. *done: false if the engine could not append the rows without waiting.
ReplyStatus
Residency::append_delta(
	Copy *copy, const wire::RowsRequest &request, const engine::RowBlock &rows, Wait wait, bool *done)
{
	const uint64_t delta_end = copy->version.delta_end; // its writers hold the write mutex
	const uint64_t last = request.position + rows.n_rows;

	if (request.position > delta_end)
		return ReplyStatus::kInvalid;

	// Dead rows first: the bitmap extends beyond the rows, so that no search sees such a row alive.
	const uint64_t first = std::max(request.position, copy->delta_first);
	std::vector<RowId> row_ids(rows.n_rows);
	Bits dead;
	uint64_t n_dead = 0;

	for (size_t i = 0; i < rows.n_rows; i++)
	{
		const uint64_t number = request.position + i;
		const uint64_t bit = number - copy->delta_dead_first;

		row_ids[i] = rows.row_ids[i] & wire::kRowIdMask;
		if (number < first || (rows.row_ids[i] & wire::kRowOut) == 0)
			continue;
		if (dead.empty())
		{
			dead = copy->delta_dead;
			dead.resize(std::max<uint64_t>(dead.size(), (last - copy->delta_dead_first + 7) / 8));
		}
		n_dead += test_bit(dead, bit) ? 0 : 1;
		set_bit(&dead, bit);
	}
	if (n_dead > 0)
	{
		const Status status = engine_.set_delta_tombstones(copy->id, copy->delta_dead_first, dead);

		if (!status.is_ok())
			return reply_status(status);

		const std::lock_guard lock(mutex_);

		copy->delta_dead.swap(dead);
		copy->delta_n_dead += n_dead;
	}
	if (last <= delta_end)
		return ReplyStatus::kOk;

	// Skip rows that the copy has already, or that were merged away.
	const uint64_t known = delta_end - request.position;
	const uint8_t *const codes = static_cast<const uint8_t *>(rows.vectors) + rows.n_rows * copy->row_bytes;
	const engine::RowBlock fresh = {std::span<const RowId>(row_ids).subspan(known),
		static_cast<const uint8_t *>(rows.vectors) + known * copy->row_bytes, rows.n_rows - known};
	const uint64_t bytes = rows_bytes(fresh.n_rows, copy->delta_row_bytes());
	const ReplyStatus reserved = reserve(copy, bytes);

	if (reserved != ReplyStatus::kOk)
		return reserved;

	const Status status = engine_call("append_delta",
		[&]
		{
			Status appended;

			// Before the rows: a search that sees a row has its codes.
			if (copy->keys != nullptr)
				copy->keys->append(delta_end, codes + known * copy->keys->image_bytes(), fresh.n_rows);

			if (wait == Wait::kYes)
				return engine_.append_delta(copy->id, delta_end, fresh);
			*done = engine_.try_append_delta(copy->id, delta_end, fresh, &appended);
			return appended;
		});
	const std::lock_guard lock(mutex_);

	if (!status.is_ok() || !*done)
	{
		copy->held_bytes -= bytes;
		return reply_status(status);
	}
	copy->version.delta_end = last;
	counters_.loaded_bytes += fresh.n_rows * (copy->delta_row_bytes() + sizeof(RowId));
	return ReplyStatus::kOk;
}

} // namespace vectorgpu::worker
