// See residency.hpp. Here: what changes a copy. The order is always the same: check under the mutex, change the engine's
// copy under the copy's write mutex alone, then say so under the mutex; so a version is never ahead of the rows.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "worker/residency.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <new>
#include <utility>

#include "engine/structure.hpp"
#include "worker/fault.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;

namespace
{

constexpr size_t kChecksumBlockBytes = 1024 * 1024;
constexpr size_t kMostSegments = 2 * wire::kMaxSegmentsPerCopy; // of the old manifest and of the new one

bool
test_bit(const Bits &bits, uint64_t bit)
{
	return bit / 8 < bits.size() && ((bits[bit / 8] >> (bit % 8)) & 1) != 0;
}

void
set_bit(Bits *bits, uint64_t bit)
{
	(*bits)[bit / 8] = static_cast<uint8_t>((*bits)[bit / 8] | 1 << (bit % 8));
}

uint64_t
count_bits(const Bits &bits)
{
	uint64_t n = 0;

	for (const uint8_t byte : bits)
		n += static_cast<uint64_t>(std::popcount(byte));
	return n;
}

/// An engine call with a fault point before it; out of memory on the way is a status too, so that the caller can undo.
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

uint64_t
count_range(const Bits &bits, uint64_t first, uint64_t n)
{
	const uint64_t last = std::min<uint64_t>(first + n, bits.size() * 8);
	uint64_t found = 0;

	for (uint64_t bit = first; bit < last; bit++)
		found += test_bit(bits, bit) ? 1 : 0;
	return found;
}

} // namespace

/// The copy that `session` may change: with its lease, or, where that is enough, any current one.
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
	const uint64_t bytes = rows_bytes(rows.n_rows, copy->segment_row_bytes);

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
Residency::load_structure(const wire::CopyKey &key, const wire::StructureRequest &request, std::span<const uint8_t> bytes,
	uint64_t session)
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
	// A segment all of whose values are NULL has no rows; the engine is not told of it.
	if (found == copy->segments.end() && request.n_rows == 0 && copy->segments.size() < kMostSegments)
	{
		const std::lock_guard lock(mutex_);

		found = copy->segments.try_emplace(request.segment).first;
	}
	if (found == copy->segments.end() || found->second.n_rows != request.n_rows)
		return ReplyStatus::kInvalid;
	if (request.n_rows > 0 && !found->second.complete)
	{
		// What takes long is done here, on the loading thread, and not between two batches (MANIFEST).
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
	if (row_bytes != copy->row_bytes || request.position > wire::kMaxRowNumber - rows.n_rows)
		return ReplyStatus::kInvalid;

	const std::lock_guard writing(copy->write_mutex);
	bool done = true;

	return append_rows(copy.get(), request, rows, true, &done);
}

bool
Residency::append_at_once(const wire::CopyKey &key, const wire::RowsRequest &request, const engine::RowBlock &rows,
	size_t row_bytes)
{
	const bool any_dead = std::any_of(rows.row_ids.begin(), rows.row_ids.end(),
		[](uint64_t header) { return (header & wire::kRowOut) != 0; });
	std::shared_ptr<Copy> copy;

	{
		const std::lock_guard lock(mutex_);

		copy = lookup(key);
		if (copy == nullptr || !copy->current || copy->row_bytes != row_bytes ||
			request.position > wire::kMaxRowNumber - rows.n_rows || request.position > copy->version.delta_end ||
			(request.position + rows.n_rows <= copy->version.delta_end && !any_dead)) // somebody else brought them
			return true;
	}

	const std::unique_lock writing(copy->write_mutex, std::try_to_lock);

	bool done = true;

	if (!writing.owns_lock() || any_dead || must_evict(copy.get(), rows_bytes(rows.n_rows, row_bytes)))
		return false;
	(void) append_rows(copy.get(), request, rows, false, &done); // after a failure the copy stays behind
	return done;
}

/// Caller holds the write mutex. may_wait false: *done says whether the engine did it without waiting.
ReplyStatus
Residency::append_rows(Copy *copy, const wire::RowsRequest &request, const engine::RowBlock &rows, bool may_wait, bool *done)
{
	const uint64_t delta_end = copy->version.delta_end; // its writers hold the write mutex
	const uint64_t last = request.position + rows.n_rows;

	if (request.position > delta_end)
		return ReplyStatus::kInvalid;

	// Dead rows first: the bitmap reaches beyond the rows, so that no search sees such a row alive.
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

	// Rows that are there already, or were merged away, are passed over.
	const uint64_t known = delta_end - request.position;
	const engine::RowBlock fresh = {std::span<const RowId>(row_ids).subspan(known),
		static_cast<const uint8_t *>(rows.vectors) + known * copy->row_bytes, rows.n_rows - known};
	const uint64_t bytes = rows_bytes(fresh.n_rows, copy->row_bytes);
	const ReplyStatus reserved = reserve(copy, bytes);

	if (reserved != ReplyStatus::kOk)
		return reserved;

	const Status status = engine_call("append_delta",
		[&]
		{
			Status appended;

			if (may_wait)
				return engine_.append_delta(copy->id, delta_end, fresh);
			*done = engine_.append_at_once(copy->id, delta_end, fresh, &appended);
			return appended;
		});
	const std::lock_guard lock(mutex_);

	if (!status.is_ok() || !*done)
	{
		copy->held_bytes -= bytes;
		return reply_status(status);
	}
	copy->version.delta_end = last;
	counters_.loaded_bytes += fresh.n_rows * (copy->row_bytes + sizeof(RowId));
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::tombstones(const wire::CopyKey &key, const wire::TombstonesRequest &request, std::span<const uint8_t> bits,
	uint64_t session)
{
	std::shared_ptr<Copy> copy;
	const ReplyStatus status = writable(key, session, true, &copy);

	if (status != ReplyStatus::kOk)
		return status;
	if (WORKER_FAULT("tombstones") == Fault::kError)
		return ReplyStatus::kInternal;

	const std::lock_guard writing(copy->write_mutex);

	return request.segment == 0 ? delta_tombstones(copy.get(), request, bits)
								: segment_tombstones(copy.get(), request, bits);
}

/// Bits gather until the last part, then the union with what held before holds: rows never rise again, whatever the order
/// in which several clients bring their views. Caller holds the write mutex.
ReplyStatus
Residency::segment_tombstones(Copy *copy, const wire::TombstonesRequest &request, std::span<const uint8_t> bits)
{
	const auto found = copy->segments.find(request.segment);

	if (found == copy->segments.end() || !found->second.complete)
		return ReplyStatus::kInvalid;

	Segment &segment = found->second;

	if (request.first_bit == 0)
	{
		segment.arriving.clear();
		segment.next_bit = 0;
	}
	if (request.first_bit != segment.next_bit || request.n_bits > segment.n_rows - request.first_bit)
		return ReplyStatus::kInvalid;
	segment.arriving.insert(segment.arriving.end(), bits.begin(), bits.end());
	segment.next_bit = request.first_bit + request.n_bits;
	if (request.last == 0)
		return ReplyStatus::kOk;
	if (segment.next_bit != segment.n_rows)
		return ReplyStatus::kInvalid;

	Bits dead = std::move(segment.arriving);

	segment.arriving = Bits();
	segment.next_bit = 0;
	if (segment.n_rows % 8 != 0)
		dead.back() = static_cast<uint8_t>(dead.back() & ((1 << (segment.n_rows % 8)) - 1));
	for (size_t i = 0; i < segment.dead.size(); i++)
		dead[i] = static_cast<uint8_t>(dead[i] | segment.dead[i]);
	if (segment.live && segment.n_rows > 0)
	{
		const Status status = engine_.set_tombstones(copy->id, request.segment, dead);

		if (!status.is_ok())
			return reply_status(status);
	}

	const uint64_t n_dead = count_bits(dead);
	const std::lock_guard lock(mutex_);

	segment.dead = std::move(dead);
	segment.n_dead = n_dead;
	segment.tombstone_generation = std::max(segment.tombstone_generation, request.generation);
	return ReplyStatus::kOk;
}

/// Each part holds at once. Rows that were merged away are passed over. Caller holds the write mutex.
ReplyStatus
Residency::delta_tombstones(Copy *copy, const wire::TombstonesRequest &request, std::span<const uint8_t> bits)
{
	const uint64_t last = request.first_bit + request.n_bits;
	Bits dead = copy->delta_dead;
	uint64_t n_dead = 0;

	if (last > copy->version.delta_end)
		return ReplyStatus::kInvalid;
	dead.resize(std::max<uint64_t>(dead.size(), (copy->version.delta_end - copy->delta_dead_first + 7) / 8));
	for (uint64_t i = 0; i < request.n_bits; i++)
	{
		const uint64_t number = request.first_bit + i;

		if (((bits[i / 8] >> (i % 8)) & 1) == 0 || number < copy->delta_first)
			continue;
		n_dead += test_bit(dead, number - copy->delta_dead_first) ? 0 : 1;
		set_bit(&dead, number - copy->delta_dead_first);
	}
	if (n_dead > 0)
	{
		const Status status = engine_.set_delta_tombstones(copy->id, copy->delta_dead_first, dead);

		if (!status.is_ok())
			return reply_status(status);
	}

	const std::lock_guard lock(mutex_);

	copy->delta_dead = std::move(dead);
	copy->delta_n_dead += n_dead;
	if (request.last != 0)
		copy->delta_tombstone_generation = std::max(copy->delta_tombstone_generation, request.generation);
	return ReplyStatus::kOk;
}

/// Forgets segments that no manifest has named. Caller holds the write mutex.
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

		// If the engine cannot drop it, it is lost to searches all the same.
		if (at->second.n_rows > 0)
			[[maybe_unused]]
			const Status status = engine_.drop_segment(copy->id, at->first);

		const std::lock_guard lock(mutex_);

		copy->held_bytes -=
			std::min(copy->held_bytes, rows_bytes(at->second.n_rows, copy->segment_row_bytes) + at->second.structure_bytes);
		at = copy->segments.erase(at);
	}
}

ReplyStatus
Residency::manifest(const wire::CopyKey &key, const wire::ManifestRequest &request, const uint32_t *segment_ids,
	uint64_t session)
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
	// Others may have published a newer state since this client looked: theirs stays.
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
		remove(copy); // neither the old state nor the new one: nobody may search it
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

/// Swaps the segments and moves the version. On anything but kOk the copy is in between. Caller holds the write mutex.
ReplyStatus
Residency::publish(Copy *copy, const wire::ManifestRequest &request, const uint32_t *segment_ids)
{
	const std::span<const uint32_t> listed(segment_ids, request.n_segments);

	for (auto &[id, segment] : copy->segments)
	{
		const bool wanted = std::find(listed.begin(), listed.end(), id) != listed.end();
		Status status;

		if (segment.live && !wanted)
			segment.live = false; // drop_unpublished drops it: until then no search runs
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
	}

	const std::lock_guard lock(mutex_);

	if (request.delta_first > copy->delta_first)
	{
		const uint64_t gone = std::min(request.delta_first, copy->version.delta_end) - copy->delta_first;
		const uint64_t bytes = std::min<uint64_t>((request.delta_first - copy->delta_dead_first) / 8, copy->delta_dead.size());

		copy->held_bytes -= std::min(copy->held_bytes, rows_bytes(gone, copy->row_bytes));
		copy->delta_dead.erase(copy->delta_dead.begin(), copy->delta_dead.begin() + static_cast<ptrdiff_t>(bytes));
		copy->delta_first = request.delta_first;
		copy->delta_dead_first = request.delta_first / 8 * 8;
		copy->version.delta_end = std::max(copy->version.delta_end, request.delta_first);
		copy->delta_n_dead = count_range(copy->delta_dead, request.delta_first % 8,
			copy->version.delta_end - copy->delta_first);
	}
	copy->version.manifest_generation = request.manifest_generation;
	copy->version.tombstone_generation = std::max(copy->version.tombstone_generation, request.tombstone_generation);
	copy->current = true;
	return ReplyStatus::kOk;
}

/// Of the bytes that describe a segment's structure.
ReplyStatus
Residency::structure_checksum(const Copy &copy, const wire::ChecksumRequest &request, wire::ChecksumReply *reply,
	const std::function<void()> &progress)
{
	std::vector<uint8_t> bytes(std::min<uint64_t>(kChecksumBlockBytes, request.n_rows));
	XXH3_state_t sum;

	XXH3_64bits_reset(&sum);
	for (uint64_t done = 0; done < request.n_rows;)
	{
		const size_t n = std::min<uint64_t>(bytes.size(), request.n_rows - done);
		const Status status = engine_.read_structure(copy.id, request.segment, request.first + done, n, bytes.data());

		if (!status.is_ok())
			return reply_status(status);
		XXH3_64bits_update(&sum, bytes.data(), n);
		done += n;
		progress();
	}
	*reply = {0, XXH3_64bits_digest(&sum), 0};
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::checksum(const wire::CopyKey &key, const wire::ChecksumRequest &request, wire::ChecksumReply *reply,
	const std::function<void()> &progress)
{
	std::shared_ptr<Copy> copy;

	{
		const std::lock_guard lock(mutex_);

		copy = lookup(key);
	}
	if (copy == nullptr)
		return ReplyStatus::kAbsent;
	if (request.n_rows > wire::kMaxChecksumBytes / (request.structure != 0 ? 1 : copy->row_bytes))
		return ReplyStatus::kInvalid;
	if (request.structure != 0)
		return structure_checksum(*copy, request, reply, progress);

	const size_t row_bytes = request.segment == 0 ? copy->row_bytes : copy->segment_row_bytes;
	const size_t block_rows = std::max<size_t>(1, kChecksumBlockBytes / copy->row_bytes);
	std::vector<RowId> row_ids(std::min<uint64_t>(block_rows, request.n_rows));
	std::vector<uint8_t> vectors(row_ids.size() * row_bytes);
	XXH3_state_t id_state;
	XXH3_state_t vector_state;

	XXH3_64bits_reset(&id_state);
	XXH3_64bits_reset(&vector_state);
	for (uint64_t done = 0; done < request.n_rows;)
	{
		const size_t n = std::min<uint64_t>(block_rows, request.n_rows - done);
		const Status status = engine_.read_rows(copy->id, request.segment, request.first + done, n, row_ids.data(),
			vectors.data());

		if (!status.is_ok())
			return reply_status(status);
		XXH3_64bits_update(&id_state, row_ids.data(), n * sizeof(RowId));
		XXH3_64bits_update(&vector_state, vectors.data(), n * row_bytes);
		done += n;
		progress();
	}
	*reply = {XXH3_64bits_digest(&id_state), XXH3_64bits_digest(&vector_state), 0};

	const std::lock_guard writing(copy->write_mutex);
	const auto found = copy->segments.find(request.segment);

	if (request.segment == 0 && request.first >= copy->delta_dead_first)
		reply->n_dead = count_range(copy->delta_dead, request.first - copy->delta_dead_first, request.n_rows);
	else if (found != copy->segments.end())
		reply->n_dead = count_range(found->second.dead, request.first, request.n_rows);
	return ReplyStatus::kOk;
}

} // namespace vectorgpu::worker
