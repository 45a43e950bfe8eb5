// See tiered_placement.hpp. A move reads the rows back from one engine and gives them to the other, under the copy's
// write mutex: searches continue in the old place and keep it until they end.
#include "worker/tiers/tiered_placement.hpp"

#include <algorithm>
#include <utility>

namespace vectorgpu::worker
{
namespace
{

/// True if an engine with a device keeps the copy as a whole in host memory.
bool
stays_on_host(const TieredCopy &copy)
{
	return copy.spec.kind == engine::CopyKind::kMatch || copy.stays;
}

/// Approximate bytes that the device has of a copy.
uint64_t
device_bytes(const TieredCopy &copy)
{
	uint64_t bytes = 0;

	if (!copy.stays)
		return copy.get_place()->is_device ? copy.bytes.load(std::memory_order_relaxed) : 0;
	for (const auto &[segment, rows] : copy.segments)
		bytes += rows.structure_bytes;
	return copy.attached ? bytes : 0;
}

/// Reserves room in the host's budget during a move to the host: others must not take it before the copy is charged.
class Reservation
{
public:
	Reservation(std::atomic<uint64_t> *charged, uint64_t most, uint64_t bytes) : charged_(charged), bytes_(bytes)
	{
		uint64_t before = charged_->load(std::memory_order_relaxed);

		do
			if (before + bytes_ > most)
				return;
		while (!charged_->compare_exchange_weak(before, before + bytes_, std::memory_order_relaxed));
		made_ = true;
	}

	~Reservation()
	{
		if (made_)
			charged_->fetch_sub(bytes_, std::memory_order_relaxed);
	}

	Reservation(const Reservation &) = delete;
	Reservation &operator=(const Reservation &) = delete;

	bool made() const { return made_; }

private:
	std::atomic<uint64_t> *const charged_;
	const uint64_t bytes_;
	bool made_ = false;
};

} // namespace

bool
host_may_do_better(const Status &status)
{
	return status.code == StatusCode::kOutOfMemory || status.code == StatusCode::kUnsupported ||
		status.code == StatusCode::kInternal;
}

uint64_t
host_growth(const TieredCopy &copy, const Place &place, uint64_t n_bytes, uint64_t segment_bytes)
{
	if (!place.is_device || stays_on_host(copy))
		return n_bytes;
	return copy.rows_moved ? segment_bytes : 0; // the delta and structures are on the device
}

bool
may_move(const TieredCopy &copy, const Place &place)
{
	return place.is_device && !copy.stays;
}

bool
is_complete(const TieredCopy &copy)
{
	return copy.get_place()->is_device && copy.complete;
}

Status
out_of_host_memory()
{
	return Status::error(StatusCode::kOutOfMemory, "neither the device nor the budget of host memory has room");
}

CopyId
TieredPlacement::add(std::shared_ptr<TieredCopy> copy)
{
	const std::lock_guard lock(mutex_);

	copies_.emplace(next_copy_, std::move(copy));
	return next_copy_++;
}

std::shared_ptr<TieredCopy>
TieredPlacement::find(CopyId id) const
{
	const std::lock_guard lock(mutex_);
	const auto found = copies_.find(id);

	return found == copies_.end() ? nullptr : found->second;
}

std::shared_ptr<TieredCopy>
TieredPlacement::take(CopyId id)
{
	const std::lock_guard lock(mutex_);
	const auto found = copies_.find(id);

	if (found == copies_.end())
		return nullptr;

	std::shared_ptr<TieredCopy> copy = std::move(found->second);

	copies_.erase(found);
	return copy;
}

std::vector<std::shared_ptr<TieredCopy>>
TieredPlacement::by_last_use(bool latest_first) const
{
	std::vector<std::pair<uint64_t, std::shared_ptr<TieredCopy>>> dated;
	std::vector<std::shared_ptr<TieredCopy>> copies;

	{
		const std::lock_guard lock(mutex_);

		for (const auto &[id, copy] : copies_)
			dated.emplace_back(copy->last_used_ns.load(std::memory_order_relaxed), copy);
	}
	std::stable_sort(dated.begin(), dated.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
	if (latest_first)
		std::reverse(dated.begin(), dated.end());
	copies.reserve(dated.size());
	for (auto &[used, copy] : dated)
		copies.push_back(std::move(copy));
	return copies;
}

size_t
TieredPlacement::n_copies() const
{
	const std::lock_guard lock(mutex_);

	return copies_.size();
}

bool
TieredPlacement::host_has_room(uint64_t bytes) const
{
	return bytes == 0 || host_bytes_.load(std::memory_order_relaxed) + bytes <= options_.host_bytes;
}

void
TieredPlacement::say(const std::string &line) const
{
	if (options_.log)
		options_.log(line.c_str());
}

void
TieredPlacement::count_bytes(TieredCopy *copy)
{
	copy->bytes.store(record_bytes(*copy), std::memory_order_relaxed);
	charge_host(copy);
}

Status
TieredPlacement::attach(TieredCopy *copy)
{
	const std::shared_ptr<Place> place = copy->get_place();
	Status status = place->engine.attach(place->id);

	while (status.code == StatusCode::kOutOfMemory && give_way(copy))
		status = place->engine.attach(place->id);
	copy->attached = true;
	copy->complete = status.is_ok();
	charge_host(copy); // the upload may need host memory
	return status;
}

Status
TieredPlacement::come_back(TieredCopy *copy)
{
	const uint64_t bytes = copy->bytes.load(std::memory_order_relaxed);
	const uint64_t budget = device_->stats().budget_bytes;

	while (budget != 0 && device_->stats().resident_bytes + bytes > budget && give_way(copy))
		;

	const Status status = move(copy, *device_, true, false);

	return status.code == StatusCode::kOutOfMemory && device_->may_keep_rows_on_host(copy->spec)
		? move(copy, *device_, true, true)
		: status;
}

bool
TieredPlacement::move_rows(TieredCopy *copy)
{
	const std::shared_ptr<Place> place = copy->get_place();

	if (!place->is_device || !device_->may_keep_rows_on_host(copy->spec))
		return false;

	const uint64_t charged = host_bytes_.load(std::memory_order_relaxed);
	const uint64_t room = options_.host_bytes - std::min(options_.host_bytes, charged);
	uint64_t largest = 0; // of the segments; one of them moves, and other copies may take the rest of the room

	for (const auto &[segment, rows] : copy->segments)
		largest = std::max(largest, rows.n_rows * copy->bytes_per_segment_row);

	const Reservation reserved(&host_bytes_, options_.host_bytes, std::min(room, largest));

	if (!reserved.made() || !device_->move_rows_to_host(place->id, room).is_ok())
		return false;
	// They do not come back at once: what made them go may go on.
	copy->pause_return(options_.clock());
	if (!std::exchange(copy->rows_moved, true))
		say("a copy's codes are on the device, rows of it in host memory: the device has no room for them");
	copy->complete = false;
	charge_host(copy);
	return true;
}

Status
TieredPlacement::bring_rows(TieredCopy *copy)
{
	const std::shared_ptr<Place> place = copy->get_place();
	Status status = place->engine.attach(place->id);

	if (status.is_ok() && place->engine.host_bytes(place->id) > 0)
		status = Status::error(StatusCode::kOutOfMemory, "rows of a segment that is being loaded stay where they are");
	copy->complete = status.is_ok();
	copy->rows_moved = !status.is_ok();
	charge_host(copy);
	return status;
}

void
TieredPlacement::uncharge(TieredCopy *copy)
{
	host_bytes_.fetch_sub(copy->host_charged.exchange(0), std::memory_order_relaxed);
}

void
TieredPlacement::charge_host(TieredCopy *copy)
{
	const std::shared_ptr<Place> place = copy->get_place();
	uint64_t bytes = 0;

	if (stays_on_host(*copy) || (place->is_device && copy->rows_moved))
		bytes = place->engine.host_bytes(place->id);
	else if (!place->is_device)
		bytes = copy->bytes.load(std::memory_order_relaxed);
	host_bytes_.fetch_add(bytes - copy->host_charged.exchange(bytes), std::memory_order_relaxed); // modulo 2^64
}

bool
TieredPlacement::give_way(const TieredCopy *to)
{
	const uint64_t now = options_.clock();

	for (const std::shared_ptr<TieredCopy> &copy : by_last_use(false))
	{
		if (copy.get() == to || now - copy->last_used_ns.load(std::memory_order_relaxed) <= options_.idle_ns)
			continue;

		const std::unique_lock writing(copy->write_mutex, std::try_to_lock); // its writer may wait for ours

		if (!writing.owns_lock() || copy->dropped || device_bytes(*copy) == 0)
			continue;
		if (copy->stays ? detach(copy.get())
						: move_rows(copy.get()) || (host_has_room(copy->bytes) && move_to_host(copy.get()).is_ok()))
			return true;
	}
	return false;
}

/// Drop the device's part of a copy that stays in its place.
bool
TieredPlacement::detach(TieredCopy *copy)
{
	const std::shared_ptr<Place> place = copy->get_place();

	if (!place->engine.detach(place->id).is_ok())
		return false;
	copy->attached = copy->complete = false;
	charge_host(copy);
	return true;
}

/// Move the whole copy to another engine. After a failure it is where it was. rows_on_host: of a copy that goes to the
/// device, rows stay in host memory.
Status
TieredPlacement::move(TieredCopy *copy, Engine &to, bool to_device, bool rows_on_host)
{
	const bool needs_host = !to_device || rows_on_host;
	engine::CopySpec spec = copy->spec;

	if (!copy->movable)
		return Status::error(StatusCode::kOutOfMemory, "out of memory when the copy was changed: it stays where it is");

	const Reservation room(&host_bytes_, needs_host ? options_.host_bytes : UINT64_MAX,
		needs_host ? copy->bytes.load(std::memory_order_relaxed) : 0);

	if (!room.made())
		return out_of_host_memory();

	const std::shared_ptr<Place> from = copy->get_place();
	auto place = std::make_shared<Place>(to, to_device);
	spec.rows_on_host = rows_on_host;

	Status status = to.create(spec, &place->id);

	if (!status.is_ok())
		return status;
	place->made = true;
	status = copy_rows(*copy, *from, *place);
	if (!status.is_ok())
		return status;
	copy->set_place(std::move(place));
	copy->rows_moved = rows_on_host;
	copy->complete = !rows_on_host;
	charge_host(copy);
	return status;
}

} // namespace vectorgpu::worker
