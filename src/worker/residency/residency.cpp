// The registry of copies, admission and eviction, leases, inventory. See residency.hpp. Changes of a copy are in
// residency_write.cpp.
#include "worker/residency/residency.hpp"

#include <algorithm>
#include <cstring>

#include "common/device_list.hpp"
#include "worker/worker_fault.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;

namespace
{

bool
serves(const wire::CopyVersion &held, const wire::CopyVersion &wanted)
{
	return held.manifest_generation >= wanted.manifest_generation && held.delta_end >= wanted.delta_end &&
		held.tombstone_generation >= wanted.tombstone_generation;
}

bool
same_shape(const engine::DistanceSpec &spec, ElementType element, Metric metric, uint32_t dim)
{
	return spec.element == element && spec.metric == metric && spec.dim == dim;
}

engine::CopyKind
engine_kind(wire::CopyKind kind)
{
	switch (kind)
	{
		case wire::CopyKind::kLists:
			return engine::CopyKind::kLists;
		case wire::CopyKind::kGraph:
			return engine::CopyKind::kGraph;
		case wire::CopyKind::kCodedLists:
			return engine::CopyKind::kCodedLists;
		case wire::CopyKind::kMatch:
			return engine::CopyKind::kMatch;
		case wire::CopyKind::kHashedGraph:
			return engine::CopyKind::kHashedGraph;
		case wire::CopyKind::kCodes:
			return engine::CopyKind::kCodes;
		case wire::CopyKind::kSparse:
			return engine::CopyKind::kSparse;
		case wire::CopyKind::kRows:
			break;
	}
	return engine::CopyKind::kRows;
}

/// Kinds whose codes select candidates need their number for each segment; other kinds must not have one. Kind kCodes
/// needs probes.
bool
probes_fit(engine::CopyKind kind, std::span<const wire::SegmentProbes> probes)
{
	return (kind != engine::CopyKind::kCodes || !probes.empty()) &&
		std::all_of(probes.begin(), probes.end(),
			[kind](const wire::SegmentProbes &named) { return (named.candidates != 0) == engine::has_codes(kind); });
}

bool
same_keys(const Copy &copy, const wire::KeyColumns &key_columns)
{
	return copy.keys == nullptr ? key_columns.n_columns == 0
								: memcmp(&copy.keys->keys(), &key_columns, sizeof(key_columns)) == 0;
}

/// Return the bytes that a copy is charged with: at least those that its loader announced, and those of the rows that
/// are known of its searches' conditions, which change with every search.
uint64_t
charged_bytes(const Copy &copy)
{
	return std::max(copy.held_bytes, copy.reserved_bytes) + (copy.keys != nullptr ? copy.keys->known_bytes() : 0);
}

/// Bytes of a copy's rows and what is expected beside them, if each row takes `more` for rounded ones.
uint64_t
with_rounded(const Copy &copy, size_t more, uint64_t expected_bytes)
{
	return expected_bytes + expected_bytes / rows_bytes(1, engine::segment_vector_bytes(copy.spec)) * more;
}

wire::CopyInfo
info_of(const Copy &copy)
{
	wire::CopyInfo info{};

	info.key = copy.key;
	info.version = copy.version;
	info.resident_bytes = copy.held_bytes;
	info.delta_rows = copy.version.delta_end - copy.delta_first;
	info.n_dead = copy.delta_n_dead;
	for (const auto &[id, segment] : copy.segments)
	{
		info.n_rows += segment.n_rows;
		info.n_dead += segment.n_dead;
	}
	info.n_searches = copy.n_searches;
	info.n_loads = copy.n_loads;
	info.last_used_ns = copy.last_used_ns;
	info.n_segments = static_cast<uint32_t>(copy.segments.size());
	info.current = copy.current ? 1 : 0;
	info.leased = copy.lease != 0 ? 1 : 0;

	// Both quick, and without a lock of a search or a writer.
	const std::vector<uint64_t> on_devices = copy.engine.device_bytes(copy.id);

	info.host_bytes = copy.engine.host_bytes(copy.id);

	info.n_devices = static_cast<uint32_t>(std::min(on_devices.size(), kMostDevices));
	std::copy_n(on_devices.begin(), info.n_devices, info.device_bytes);
	return info;
}

} // namespace

Copy::~Copy()
{
	// The result is ignored: an engine that fails to drop a copy has lost it already.
	if (created) [[maybe_unused]]
		const Status status = engine.drop(id);
}

uint64_t
rows_bytes(uint64_t n_rows, size_t row_bytes)
{
	return n_rows * (row_bytes + sizeof(RowId) + sizeof(double));
}

uint64_t
Copy::segment_bytes(uint64_t n_rows) const
{
	return rows_bytes(n_rows, segment_row_bytes + rounded_row_bytes);
}

ReplyStatus
reply_status(const Status &status)
{
	switch (status.code)
	{
		case StatusCode::kOk:
			return ReplyStatus::kOk;
		case StatusCode::kInvalidArgument:
			return ReplyStatus::kInvalid;
		case StatusCode::kOutOfMemory:
			return ReplyStatus::kOutOfMemory;
		case StatusCode::kUnsupported:
			return ReplyStatus::kUnsupported;
		case StatusCode::kNotFound:
			return ReplyStatus::kAbsent;
		case StatusCode::kCancelled:
			return ReplyStatus::kCancelled;
		case StatusCode::kUnavailable:
		case StatusCode::kInternal:
			break;
	}
	return ReplyStatus::kInternal;
}

size_t
Residency::KeyHash::operator()(const wire::CopyKey &key) const
{
	// The uuid is random already; the other fields distinguish clones of a database.
	return static_cast<size_t>(key.uuid_low ^ (key.uuid_high << 1) ^ (uint64_t{key.database} << 32 | key.relfilenode));
}

bool
Residency::KeyEqual::operator()(const wire::CopyKey &a, const wire::CopyKey &b) const
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

Residency::Residency(engine::Engine &engine, uint64_t budget_bytes, Clock clock)
	: engine_(engine), budget_bytes_(budget_bytes), clock_(clock)
{
}

std::shared_ptr<Copy>
Residency::lookup(const wire::CopyKey &key)
{
	const auto found = copies_.find(key);

	return found == copies_.end() ? nullptr : found->second;
}

ReplyStatus
Residency::find(const wire::CopyKey &key, const wire::SearchRequest &search,
	std::span<const wire::SegmentProbes> probes, uint64_t now_ns, std::shared_ptr<Copy> *copy)
{
	const std::lock_guard lock(mutex_);
	const auto found = copies_.find(key);

	if (found == copies_.end())
		return ReplyStatus::kAbsent;

	Copy &held = *found->second;

	if (!held.current)
		return held.lease != 0 ? ReplyStatus::kBusy : ReplyStatus::kAbsent;
	if (!same_shape(held.spec.distance, search.element, search.metric, search.dim) ||
		(!probes.empty() && !engine::takes_probes(held.spec.kind)) || !probes_fit(held.spec.kind, probes) ||
		(search.program_bytes > 0 &&
			((search.given == 0 && held.keys == nullptr) || held.spec.kind == engine::CopyKind::kCodes ||
				held.spec.kind == engine::CopyKind::kMatch)))
		return ReplyStatus::kInvalid;
	if (!serves(held.version, search.version))
		return ReplyStatus::kBehind;
	held.n_searches++;
	held.searched_bytes.store(held.held_bytes, std::memory_order_relaxed);
	held.last_used_ns = now_ns;
	*copy = found->second;
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::describe(const wire::CopyKey &key, wire::CopyState *state, std::vector<wire::SegmentState> *segments)
{
	const std::lock_guard lock(mutex_);
	const auto found = copies_.find(key);

	segments->clear();
	if (found == copies_.end())
		return ReplyStatus::kAbsent;

	const Copy &copy = *found->second;

	*state = wire::CopyState{};
	state->version = copy.version;
	state->delta_first = copy.delta_first;
	state->delta_tombstone_generation = copy.delta_tombstone_generation;
	state->leased = copy.lease != 0 ? 1 : 0;
	state->current = copy.current ? 1 : 0;
	for (const auto &[id, segment] : copy.segments)
		segments->push_back({id, segment.complete ? 1u : 0u, segment.n_rows, segment.tombstone_generation,
			segment.structure_bytes, segment.key_bytes});
	return ReplyStatus::kOk;
}

void
Residency::inventory(uint32_t first, size_t most, std::vector<wire::CopyInfo> *infos)
{
	const std::lock_guard lock(mutex_);
	size_t at = 0;

	infos->clear();
	for (const auto &[key, copy] : copies_)
		if (at++ >= first && infos->size() < most)
			infos->push_back(info_of(*copy));
}

ResidencyCounters
Residency::counters()
{
	const std::lock_guard lock(mutex_);
	ResidencyCounters now = counters_;

	now.n_copies = copies_.size();
	for (const auto &[key, copy] : copies_)
		now.resident_bytes += copy->held_bytes;
	return now;
}

/// Make room for `bytes` in the budget by evicting copies that no session uses, the longest unused first. Evict none if
/// that is not enough. The caller holds the mutex and destroys `evicted` after releasing it.
bool
Residency::make_room(uint64_t bytes, const Copy *but_not, std::vector<std::shared_ptr<Copy>> *evicted)
{
	std::vector<std::pair<std::shared_ptr<Copy>, uint64_t>> idle; // and what they are charged with now
	uint64_t charged = bytes;
	uint64_t reclaimable = 0;

	for (const auto &[key, copy] : copies_)
	{
		if (copy.get() == but_not)
			continue; // `bytes` includes its share

		const uint64_t own = charged_bytes(*copy);

		charged += own;
		if (copy->lease == 0 && copy.use_count() == 1)
		{
			idle.emplace_back(copy, own);
			reclaimable += own;
		}
	}
	if (bytes > budget_bytes_ || (charged > budget_bytes_ && charged - budget_bytes_ > reclaimable))
		return false;
	std::sort(idle.begin(), idle.end(),
		[](const auto &a, const auto &b) { return a.first->last_used_ns < b.first->last_used_ns; });
	for (const auto &[copy, own] : idle)
	{
		if (charged <= budget_bytes_)
			break;
		evicted->push_back(copy);
		charged -= own;
	}
	for (const std::shared_ptr<Copy> &copy : *evicted)
	{
		copies_.erase(copy->key);
		counters_.n_evictions++;
	}
	return true;
}

/// Return true if `bytes` more of a copy's rows exceed the budget without evictions.
bool
Residency::must_evict(const Copy *copy, uint64_t bytes)
{
	const std::lock_guard lock(mutex_);
	uint64_t charged = 0;

	if (copy->held_bytes + bytes <= copy->reserved_bytes)
		return false;
	for (const auto &[key, other] : copies_)
		charged += charged_bytes(*other);
	return charged + bytes > budget_bytes_;
}

/// Charge `bytes` more for a copy's rows, or refuse. A copy with rounded rows goes instead: without them it may fit.
ReplyStatus
Residency::reserve(Copy *copy, uint64_t bytes)
{
	std::vector<std::shared_ptr<Copy>> evicted; // destroyed after the lock is released: the engine may take long
	const std::lock_guard lock(mutex_);

	if (copy->held_bytes + bytes > copy->reserved_bytes &&
		!make_room(std::max(copy->held_bytes + bytes, copy->reserved_bytes), copy, &evicted))
	{
		const auto found = copies_.find(copy->key);

		if (copy->rounded_row_bytes == 0 || found == copies_.end() || found->second.get() != copy)
			return ReplyStatus::kRefused;
		evicted.push_back(found->second);
		copies_.erase(found);
		counters_.n_evictions++;
		return ReplyStatus::kAbsent;
	}
	copy->held_bytes += bytes;
	return ReplyStatus::kOk;
}

/// Have the engine keep rounded rows of a new copy, if there is room for it twice beside all others: while an index is
/// merged, the copy holds the old segments and the new one. Return the bytes that it takes in all. The caller holds the
/// mutex.
uint64_t
Residency::plan_rounded(Copy *copy, uint64_t expected_bytes)
{
	const size_t more = engine_.rounded_row_bytes(copy->spec);

	if (more == 0 || expected_bytes > budget_bytes_)
		return expected_bytes;

	const uint64_t own = with_rounded(*copy, more, expected_bytes);
	uint64_t charged = 2 * own;

	for (const auto &[key, other] : copies_)
		charged += charged_bytes(*other);
	if (charged > budget_bytes_)
		return expected_bytes;
	copy->spec.rounded = true;
	copy->rounded_row_bytes = more;
	return own;
}

ReplyStatus
Residency::create(
	const wire::CopyKey &key, const wire::CreateRequest &request, const wire::KeyColumns &key_columns, uint64_t session)
{
	const engine::CopySpec spec({request.metric, request.element, request.dim}, engine_kind(request.kind));
	std::vector<std::shared_ptr<Copy>> gone; // destroyed after the lock is released
	auto copy = std::make_shared<Copy>(engine_);

	if (WORKER_FAULT("create") == Fault::kError)
		return ReplyStatus::kInternal;
	{
		const std::lock_guard lock(mutex_);
		const std::shared_ptr<Copy> old = lookup(key);

		if (old != nullptr && old->lease != 0 && old->lease != session)
			return ReplyStatus::kBusy;
		if (old != nullptr && old->spec.kind == spec.kind &&
			same_shape(old->spec.distance, request.element, request.metric, request.dim) &&
			same_keys(*old, key_columns))
		{
			const uint64_t most = with_rounded(*old, old->rounded_row_bytes, request.expected_bytes);

			if (make_room(std::max(most, old->held_bytes), old.get(), &gone))
			{
				old->reserved_bytes = most;
				old->lease = session;
				return ReplyStatus::kOk;
			}
			if (old->rounded_row_bytes == 0)
				return ReplyStatus::kRefused;
		}
		// The same key with another shape: the old copy cannot be of this index. Or without rounded rows it may fit.
		if (old != nullptr)
		{
			gone.push_back(old);
			copies_.erase(key);
		}
		copy->spec = spec;
		copy->reserved_bytes = plan_rounded(copy.get(), request.expected_bytes);
		if (!make_room(copy->reserved_bytes, nullptr, &gone))
			return ReplyStatus::kRefused;
	}
	gone.clear(); // before the engine allocates for the new one
	if (key_columns.n_columns > 0)
		copy->keys = std::make_shared<KeyStore>(key_columns, &filter_counters_);

	Status status = engine_.create(copy->spec, &copy->id);

	if (!status.is_ok())
		return reply_status(status);
	copy->created = true;
	status = engine_.trim_delta(copy->id, request.delta_first);
	if (!status.is_ok())
		return reply_status(status);
	if (copy->keys != nullptr)
		copy->keys->trim(request.delta_first);
	copy->key = key;
	copy->row_bytes = vector_bytes(request.element, request.dim);
	copy->segment_row_bytes = engine::segment_vector_bytes(spec);
	copy->delta_first = copy->version.delta_end = request.delta_first;
	copy->delta_dead_first = request.delta_first / 8 * 8;
	copy->lease = session;
	copy->last_used_ns = clock_();

	const std::lock_guard lock(mutex_);

	copies_.emplace(key, copy);
	return ReplyStatus::kOk;
}

void
Residency::remove(const std::shared_ptr<Copy> &copy)
{
	const std::lock_guard lock(mutex_);
	const auto found = copies_.find(copy->key);

	if (found != copies_.end() && found->second == copy)
		copies_.erase(found);
}

ReplyStatus
Residency::drop(const wire::CopyKey &key)
{
	std::shared_ptr<Copy> copy;

	{
		const std::lock_guard lock(mutex_);

		copy = lookup(key);
	}
	if (copy == nullptr)
		return ReplyStatus::kAbsent;
	remove(copy);
	return ReplyStatus::kOk;
}

void
Residency::forget_lost(const wire::CopyKey &key)
{
	std::shared_ptr<Copy> copy;

	{
		const std::lock_guard lock(mutex_);

		copy = lookup(key);
	}
	if (copy != nullptr && engine_.has_lost(copy->id))
		remove(copy);
}

void
Residency::end_leases(uint64_t session)
{
	std::vector<std::shared_ptr<Copy>> leased;

	{
		const std::lock_guard lock(mutex_);

		for (const auto &[key, copy] : copies_)
			if (copy->lease == session)
				leased.push_back(copy);
	}
	for (const std::shared_ptr<Copy> &copy : leased)
	{
		const std::lock_guard writing(copy->write_mutex);
		bool current = false;

		{
			// A MANIFEST of the session may have ended the lease meanwhile, and another session may have taken it.
			const std::lock_guard lock(mutex_);

			if (copy->lease != session)
				continue;
			current = copy->current;
		}
		if (!current)
		{
			remove(copy);
			continue;
		}
		drop_unpublished(copy.get());

		const std::lock_guard lock(mutex_);

		copy->reserved_bytes = 0;
		copy->lease = 0;
	}
}

} // namespace vectorgpu::worker
