// See tiered_engine.hpp. A move reads the rows back from one engine and gives them to the other, under the copy's write
// mutex: searches go on in the old place and keep it until they end. Copies that the device's engine keeps in host
// memory anyway (Engine::keeps_on_host) stay there: only the device's part of them comes and goes.
#include "worker/tiered_engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/interface/graph_builder.hpp"
#include "engine/interface/list_builder.hpp"
#include "worker/tiered_copy.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr uint64_t kRowExtraBytes = 16; // row id, norm
constexpr uint64_t kMostPauseNs = 600 * kSecondNs;

/// A refusal that the other engine may not share. An argument that is wrong is wrong everywhere, a lost GPU ends the
/// process.
bool
host_may_do_better(const Status &status)
{
	return status.code == StatusCode::kOutOfMemory || status.code == StatusCode::kUnsupported ||
		status.code == StatusCode::kInternal;
}

class Impl final : public TieredEngine
{
public:
	Impl(std::unique_ptr<Engine> device, std::unique_ptr<Engine> host, const TieredEngineOptions &options)
		: options_(options), device_(std::move(device)), host_(std::move(host))
	{
		if (options_.background)
			thread_ = std::thread([this] { run(); });
	}

	~Impl() override
	{
		{
			const std::lock_guard lock(mutex_);

			stopping_ = true;
		}
		stop_.notify_one();
		if (thread_.joinable())
			thread_.join();
		copies_.clear(); // before the engines
	}

	const char *name() const override { return device_->name(); }
	const char *description() const override { return device_->description(); }

	Status create(const engine::CopySpec &spec, CopyId *copy) override
	{
		auto made = std::make_shared<TieredCopy>();
		auto place = std::make_shared<Place>(*device_, true);
		Status status = device_->create(spec, &place->id);

		if (!status.is_ok() && host_may_do_better(status))
		{
			const std::string reason = status.message;

			made->host_only = status.code == StatusCode::kUnsupported || device_->keeps_on_host(spec.kind);
			place = std::make_shared<Place>(*host_, false);
			status = host_->create(spec, &place->id);
			if (status.is_ok())
				say("a copy begins in host memory: " + reason);
		}
		if (!status.is_ok())
			return status;
		place->made = true;
		made->stays = place->is_device && device_->keeps_on_host(spec.kind);
		made->spec = spec;
		made->bytes_per_row = made->bytes_per_segment_row =
			vector_bytes(spec.distance.element, spec.distance.dim) + kRowExtraBytes;
		if (engine::segment_vector_bytes(spec) == 0)
			made->bytes_per_segment_row = sizeof(RowId);
		made->place = std::move(place);
		made->last_used_ns = options_.clock();

		const std::lock_guard lock(mutex_);

		copies_.emplace(next_copy_, std::move(made));
		*copy = next_copy_++;
		return Status::ok();
	}

	Status load_segment(CopyId id, SegmentId segment, const engine::RowBlock &rows) override
	{
		return write(
			id, {.n_rows = rows.n_rows}, [&](Engine &e, CopyId c) { return e.load_segment(c, segment, rows); },
			[&](TieredCopy &copy) { copy.segments[segment].n_rows += rows.n_rows; });
	}

	Status load_structure(CopyId id, SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return write(
			id, {.n_bytes = bytes.size()},
			[&](Engine &e, CopyId c) { return e.load_structure(c, segment, parameter, bytes); },
			[&](TieredCopy &copy)
			{
				copy.segments[segment].parameter = parameter;
				copy.segments[segment].structure_bytes += bytes.size();
			});
	}

	Status seal_segment(CopyId id, SegmentId segment) override
	{
		return write(
			id, {.indexed = segment}, [&](Engine &e, CopyId c) { return e.seal_segment(c, segment); },
			[&](TieredCopy &copy) { copy.segments[segment].sealed = true; });
	}

	Status prepare_segment(CopyId id, SegmentId segment) override
	{
		return write(
			id, {.indexed = segment}, [&](Engine &e, CopyId c) { return e.prepare_segment(c, segment); },
			[&](TieredCopy &copy) { copy.segments[segment].prepared = true; });
	}

	Status drop_segment(CopyId id, SegmentId segment) override
	{
		return write(
			id, {}, [&](Engine &e, CopyId c) { return e.drop_segment(c, segment); },
			[&](TieredCopy &copy) { copy.segments.erase(segment); });
	}

	Status append_delta(CopyId id, uint64_t position, const engine::RowBlock &rows) override
	{
		return write(
			id, {.n_delta_rows = rows.n_rows}, [&](Engine &e, CopyId c) { return e.append_delta(c, position, rows); },
			[&](TieredCopy &copy) { copy.delta_last = std::max(copy.delta_last, position + rows.n_rows); });
	}

	bool append_at_once(CopyId id, uint64_t position, const engine::RowBlock &rows, Status *status) override
	{
		const std::shared_ptr<TieredCopy> copy = find(id);

		if (copy == nullptr)
		{
			*status = not_resident();
			return true;
		}

		const std::unique_lock writing(copy->write_mutex, std::try_to_lock); // a move holds it for long

		if (!writing.owns_lock() || copy->dropped)
			return false;

		const std::shared_ptr<Place> place = copy->get_place();

		if (needs_host(*copy, *place) && !host_has_room(rows.n_rows * copy->bytes_per_row))
			return false;

		Status appended;

		if (!place->engine.append_at_once(place->id, position, rows, &appended) ||
			(may_move(*copy, *place) && !appended.is_ok() && host_may_do_better(appended)))
			return false;
		*status = appended;
		if (appended.is_ok())
		{
			copy->delta_last = std::max(copy->delta_last, position + rows.n_rows);
			count_bytes(copy.get());
		}
		return true;
	}

	Status trim_delta(CopyId id, uint64_t position) override
	{
		return write(
			id, {}, [&](Engine &e, CopyId c) { return e.trim_delta(c, position); },
			[&](TieredCopy &copy)
			{
				copy.delta_first = std::max(copy.delta_first, position);
				copy.delta_last = std::max(copy.delta_last, position);
			});
	}

	Status set_tombstones(CopyId id, SegmentId segment, std::span<const uint8_t> bits) override
	{
		std::vector<uint8_t> kept(bits.begin(), bits.end());

		return write(
			id, {}, [&](Engine &e, CopyId c) { return e.set_tombstones(c, segment, bits); },
			[&](TieredCopy &copy) { copy.segments[segment].dead = std::move(kept); });
	}

	Status set_delta_tombstones(CopyId id, uint64_t first_position, std::span<const uint8_t> bits) override
	{
		std::vector<uint8_t> kept(bits.begin(), bits.end());

		return write(
			id, {}, [&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, first_position, bits); },
			[&](TieredCopy &copy)
			{
				copy.delta_dead = std::move(kept);
				copy.delta_dead_first = first_position;
				copy.has_delta_dead = true;
			});
	}

	Status drop(CopyId id) override
	{
		std::shared_ptr<TieredCopy> copy;

		{
			const std::lock_guard lock(mutex_);
			const auto found = copies_.find(id);

			if (found == copies_.end())
				return not_resident();
			copy = std::move(found->second);
			copies_.erase(found);
		}

		const std::lock_guard writing(copy->write_mutex);

		copy->dropped = true;
		host_bytes_.fetch_sub(std::exchange(copy->host_charged, 0), std::memory_order_relaxed);
		return Status::ok();
	}

	Status search(CopyId id, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control) override
	{
		const std::shared_ptr<TieredCopy> copy = find(id);

		if (copy == nullptr)
			return not_resident();
		copy->last_used_ns.store(options_.clock(), std::memory_order_relaxed);

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.search(place->id, queries, results, control);
	}

	Status read_rows(
		CopyId id, SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) override
	{
		const std::shared_ptr<TieredCopy> copy = find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.read_rows(place->id, segment, first, n_rows, row_ids, vectors);
	}

	Status read_structure(CopyId id, SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) override
	{
		const std::shared_ptr<TieredCopy> copy = find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.read_structure(place->id, segment, first, n_bytes, bytes);
	}

	Status read_tombstones(CopyId id, SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) override
	{
		const std::shared_ptr<TieredCopy> copy = find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.read_tombstones(place->id, segment, first, n_rows, bits);
	}

	Status check_derived(CopyId id, SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) override
	{
		const std::shared_ptr<TieredCopy> copy = find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.check_derived(place->id, segment, first, n_rows, n_different);
	}

	/// On the device, if it has room.
	Status make_list_builder(const engine::ListBuildSpec &spec, engine::SearchControl *control,
		std::unique_ptr<engine::ListBuilder> *builder) override
	{
		const Status status = device_->make_list_builder(spec, control, builder);

		return host_may_do_better(status) ? host_->make_list_builder(spec, control, builder) : status;
	}

	/// On the host's threads; the device finds the nearest rows of each.
	Status make_graph_builder(const engine::GraphBuildSpec &spec, engine::SearchControl *control, engine::Engine *,
		std::unique_ptr<engine::GraphBuilder> *builder) override
	{
		return host_->make_graph_builder(spec, control, device_.get(), builder);
	}

	size_t n_threads() const override { return host_->n_threads(); }

	engine::EngineStats stats() const override
	{
		engine::EngineStats stats = device_->stats();
		const engine::EngineStats host = host_->stats();

		stats.resident_bytes += host.resident_bytes;
		stats.n_searches += host.n_searches;
		stats.n_batches += host.n_batches;
		stats.n_rescored += host.n_rescored;

		const std::lock_guard lock(mutex_);

		stats.n_copies = copies_.size();
		return stats;
	}

	bool computes_elsewhere() const override { return device_->computes_elsewhere(); }

	uint64_t n_rescored() const override { return device_->n_rescored() + host_->n_rescored(); }

	void rebalance() override
	{
		const uint64_t now = options_.clock();

		for (const std::shared_ptr<TieredCopy> &copy : by_last_use(true))
		{
			const std::unique_lock writing(copy->write_mutex, std::try_to_lock);

			if (!writing.owns_lock() || copy->dropped || copy->host_only || is_complete(*copy) ||
				now < copy->not_before_ns ||
				now - copy->last_used_ns.load(std::memory_order_relaxed) > options_.idle_ns ||
				(!copy->stays && !copy->movable))
				continue;
			if (const Status status = copy->stays ? attach(copy.get()) : come_back(copy.get()); status.is_ok())
			{
				copy->pause_ns = kLeastPauseNs;
				return;
			}
			copy->not_before_ns = now + copy->pause_ns;
			copy->pause_ns = std::min(2 * copy->pause_ns, kMostPauseNs);
			return; // one attempt a call
		}
	}

	bool on_device(CopyId id) override
	{
		const std::shared_ptr<TieredCopy> copy = find(id);

		return copy != nullptr && is_complete(*copy);
	}

private:
	static Status not_resident() { return Status::error(StatusCode::kNotFound, "the copy is not resident"); }

	std::shared_ptr<TieredCopy> find(CopyId id) const
	{
		const std::lock_guard lock(mutex_);
		const auto found = copies_.find(id);

		return found == copies_.end() ? nullptr : found->second;
	}

	/// All copies, the one used last first, or the other way round.
	std::vector<std::shared_ptr<TieredCopy>> by_last_use(bool latest_first) const
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

	/// What a change brings.
	struct Growth
	{
		uint64_t n_bytes = 0;
		uint64_t n_rows = 0; // of segments
		uint64_t n_delta_rows = 0;
		SegmentId indexed = engine::kDeltaSegment; // a segment that becomes ready for searches
	};

	/// Bytes that a change takes. A match index is made in host memory from its description, and takes about as much
	/// once more.
	static uint64_t bytes_of(const TieredCopy &copy, const Growth &growth)
	{
		uint64_t bytes =
			growth.n_bytes + growth.n_rows * copy.bytes_per_segment_row + growth.n_delta_rows * copy.bytes_per_row;

		if (const auto found = copy.segments.find(growth.indexed); copy.spec.kind == engine::CopyKind::kMatch &&
			found != copy.segments.end() && !found->second.prepared && !found->second.sealed)
			bytes += found->second.structure_bytes;
		return bytes;
	}

	/// `change` in the copy's place; where the device refuses, copies that are idle give way, and in the end this one
	/// moves to the host. `note` keeps what moves need to know.
	template <class Change, class Note>
	Status write(CopyId id, const Growth &growth, Change change, Note note)
	{
		const std::shared_ptr<TieredCopy> copy = find(id);

		if (copy == nullptr)
			return not_resident();

		const std::lock_guard writing(copy->write_mutex);
		std::shared_ptr<Place> place = copy->get_place();
		const uint64_t bytes = bytes_of(*copy, growth);

		if (copy->dropped)
			return not_resident();
		if (needs_host(*copy, *place) && !host_has_room(bytes))
			return out_of_host_memory();

		Status status = change(place->engine, place->id);

		while (may_move(*copy, *place) && status.code == StatusCode::kOutOfMemory && give_way(copy.get()))
			status = change(place->engine, place->id);
		if (may_move(*copy, *place) && !status.is_ok() && host_may_do_better(status))
		{
			const Status moved =
				host_has_room(copy->bytes + bytes) ? move(copy.get(), *host_, false) : out_of_host_memory();

			if (!moved.is_ok())
				return moved;
			say("a copy has moved to host memory: " + status.message);
			copy->host_only = status.code == StatusCode::kUnsupported;
			place = copy->get_place();
			status = change(place->engine, place->id);
		}
		if (!status.is_ok())
			return status;
		try
		{
			note(*copy);
		}
		catch (const std::bad_alloc &)
		{
			copy->movable = false; // the engine has the rows, but we do not know which
		}
		count_bytes(copy.get());
		if (copy->stays && copy->attached && growth.indexed != engine::kDeltaSegment)
		{
			const bool complete = copy->complete;

			if (const Status attached = attach(copy.get()); !attached.is_ok() && complete)
				say("a copy is not all on the device, the host searches the rest: " + attached.message);
		}
		return status;
	}

	/// After a change: the caller holds the write mutex.
	void count_bytes(TieredCopy *copy)
	{
		copy->bytes.store(bytes_of(*copy), std::memory_order_relaxed);
		charge_host(copy);
	}

	/// Copies of which an engine with a device has something, or all, in host memory.
	static bool kept_on_host(const TieredCopy &copy)
	{
		return copy.spec.kind == engine::CopyKind::kMatch || copy.stays;
	}

	/// True if the copy takes host memory: there all of it lies, or a part.
	static bool needs_host(const TieredCopy &copy, const Place &place)
	{
		return !place.is_device || kept_on_host(copy);
	}

	/// From the device to host memory.
	static bool may_move(const TieredCopy &copy, const Place &place) { return place.is_device && !copy.stays; }

	/// True if the device has all that it can have of the copy.
	static bool is_complete(const TieredCopy &copy) { return copy.get_place()->is_device && copy.complete; }

	/// What the device has of a copy, about; 0: nothing.
	static uint64_t device_bytes(const TieredCopy &copy)
	{
		uint64_t bytes = 0;

		if (!copy.stays)
			return copy.get_place()->is_device ? copy.bytes.load(std::memory_order_relaxed) : 0;
		for (const auto &[segment, rows] : copy.segments)
			bytes += rows.structure_bytes;
		return copy.attached ? bytes : 0;
	}

	/// Brings the device's part of a copy that stays; copies that are idle give way. Caller holds the write mutex.
	Status attach(TieredCopy *copy)
	{
		const std::shared_ptr<Place> place = copy->get_place();
		Status status = place->engine.attach(place->id);

		while (status.code == StatusCode::kOutOfMemory && give_way(copy))
			status = place->engine.attach(place->id);
		copy->attached = true;
		copy->complete = status.is_ok();
		charge_host(copy); // what the device gets in parts
		return status;
	}

	/// Any other copy to the device. Caller holds the write mutex.
	Status come_back(TieredCopy *copy)
	{
		const uint64_t bytes = copy->bytes.load(std::memory_order_relaxed);
		const uint64_t budget = device_->stats().budget_bytes;

		while (budget != 0 && device_->stats().resident_bytes + bytes > budget && give_way(copy))
			;
		return move(copy, *device_, true);
	}

	/// Caller holds the write mutex.
	void charge_host(TieredCopy *copy)
	{
		const std::shared_ptr<Place> place = copy->get_place();
		uint64_t bytes = 0;

		if (kept_on_host(*copy))
			bytes = place->engine.host_bytes(place->id);
		else if (!place->is_device)
			bytes = copy->bytes.load(std::memory_order_relaxed);
		host_bytes_.fetch_add(
			bytes - std::exchange(copy->host_charged, bytes), std::memory_order_relaxed); // wraps round
	}

	static uint64_t bytes_of(const TieredCopy &copy)
	{
		uint64_t bytes = (copy.delta_last - copy.delta_first) * copy.bytes_per_row;

		for (const auto &[segment, rows] : copy.segments)
			bytes += rows.n_rows * copy.bytes_per_segment_row + rows.structure_bytes;
		return bytes;
	}

	bool host_has_room(uint64_t bytes) const
	{
		return bytes == 0 || host_bytes_.load(std::memory_order_relaxed) + bytes <= options_.host_bytes;
	}

	static Status out_of_host_memory()
	{
		return Status::error(StatusCode::kOutOfMemory, "neither the device nor the budget of host memory has room");
	}

	/// Moves the copy that has been idle longest from the device to the host, or the part of it that the device has.
	/// False if there is none that may go. A copy in use never goes, so that two busy ones do not push each other out
	/// in turn.
	bool give_way(const TieredCopy *to)
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
							: host_has_room(copy->bytes) && move(copy.get(), *host_, false).is_ok())
				return true;
		}
		return false;
	}

	/// Of a copy that stays: caller holds the write mutex.
	bool detach(TieredCopy *copy)
	{
		const std::shared_ptr<Place> place = copy->get_place();

		if (!place->engine.detach(place->id).is_ok())
			return false;
		copy->attached = copy->complete = false;
		charge_host(copy);
		return true;
	}

	/// Room of the host's budget while a copy is on its way there: others must not take it before the copy is charged.
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

	/// Everything of a copy into another engine. Caller holds the write mutex. After a failure the copy is where it
	/// was.
	Status move(TieredCopy *copy, Engine &to, bool to_device)
	{
		if (!copy->movable)
			return Status::error(
				StatusCode::kOutOfMemory, "out of memory when the copy was changed: it stays where it is");

		const Reservation room(&host_bytes_, to_device ? UINT64_MAX : options_.host_bytes,
			to_device ? 0 : copy->bytes.load(std::memory_order_relaxed));

		if (!room.made())
			return out_of_host_memory();

		const std::shared_ptr<Place> from = copy->get_place();
		auto place = std::make_shared<Place>(to, to_device);
		Status status = to.create(copy->spec, &place->id);

		if (!status.is_ok())
			return status;
		place->made = true;
		status = copy_rows(*copy, *from, place.get());
		if (!status.is_ok())
			return status;
		copy->set_place(std::move(place));
		charge_host(copy);
		return status;
	}

	void run()
	{
		std::unique_lock lock(mutex_);

		while (!stop_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; }))
		{
			lock.unlock();
			try
			{
				rebalance();
			}
			catch (const std::bad_alloc &)
			{
				// Nothing has moved: the next second is another try.
			}
			lock.lock();
		}
	}

	void say(const std::string &line) const
	{
		if (options_.log)
			options_.log(line.c_str());
	}

	const TieredEngineOptions options_;
	const std::unique_ptr<Engine> device_;
	const std::unique_ptr<Engine> host_;
	std::atomic<uint64_t> host_bytes_{0}; // charged to copies

	mutable std::mutex mutex_; // copies_, next_copy_, stopping_; never held during work on a copy
	std::map<CopyId, std::shared_ptr<TieredCopy>> copies_;
	CopyId next_copy_ = 1;
	bool stopping_ = false;
	std::condition_variable stop_;
	std::thread thread_;
};

} // namespace

std::unique_ptr<TieredEngine>
make_tiered_engine(std::unique_ptr<Engine> device, std::unique_ptr<Engine> host, const TieredEngineOptions &options)
{
	return std::make_unique<Impl>(std::move(device), std::move(host), options);
}

} // namespace vectorgpu::worker
