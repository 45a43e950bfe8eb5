// See tiered_engine.hpp. Copies that the device's engine keeps in host memory anyway (Engine::keeps_on_host) stay in
// their place: only the device's part of them comes and goes.
#include "worker/tiers/tiered_engine.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/interface/graph_builder.hpp"
#include "engine/interface/list_builder.hpp"
#include "worker/tiers/tiered_copy.hpp"
#include "worker/tiers/tiered_placement.hpp"

namespace vectorgpu::worker
{
namespace
{

class Impl final : public TieredEngine
{
public:
	Impl(std::unique_ptr<Engine> device, std::unique_ptr<Engine> host, const TieredEngineOptions &options)
		: options_(options), placement_(std::move(device), std::move(host), options), device_(placement_.device()),
		  host_(placement_.host())
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
	}

	const char *name() const override { return device_.name(); }
	const char *description() const override { return device_.description(); }

	Status create(const engine::CopySpec &spec, CopyId *copy) override
	{
		auto made = std::make_shared<TieredCopy>();
		auto place = std::make_shared<Place>(device_, true);
		Status status = device_.create(spec, &place->id);

		if (!status.is_ok() && host_may_do_better(status))
		{
			const std::string reason = status.message;

			made->host_only = status.code == StatusCode::kUnsupported || device_.keeps_on_host(spec.kind);
			place = std::make_shared<Place>(host_, false);
			status = host_.create(spec, &place->id);
			if (status.is_ok())
				placement_.say("a copy begins in host memory: " + reason);
		}
		if (!status.is_ok())
			return status;
		place->made = true;
		made->stays = place->is_device && device_.keeps_on_host(spec.kind);
		begin_record(spec, device_.rounded_row_bytes(spec), made.get());
		made->place = std::move(place);
		made->last_used_ns = options_.clock();
		*copy = placement_.add(std::move(made));
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

	bool try_append_delta(CopyId id, uint64_t position, const engine::RowBlock &rows, Status *status) override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		if (copy == nullptr)
		{
			*status = not_resident();
			return true;
		}

		const std::unique_lock writing(copy->write_mutex, std::try_to_lock); // a move holds it for long

		if (!writing.owns_lock() || copy->dropped)
			return false;

		const std::shared_ptr<Place> place = copy->get_place();

		if (!placement_.host_has_room(host_growth(*copy, *place, rows.n_rows * copy->bytes_per_row, 0)))
			return false;

		Status appended;

		if (!place->engine.try_append_delta(place->id, position, rows, &appended) ||
			(may_move(*copy, *place) && !appended.is_ok() && host_may_do_better(appended)))
			return false;
		*status = appended;
		if (appended.is_ok())
		{
			copy->delta_last = std::max(copy->delta_last, position + rows.n_rows);
			placement_.count_bytes(copy.get());
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
		const std::shared_ptr<TieredCopy> copy = placement_.take(id);

		if (copy == nullptr)
			return not_resident();

		const std::lock_guard writing(copy->write_mutex);

		copy->dropped = true;
		placement_.uncharge(copy.get());
		return Status::ok();
	}

	Status search(CopyId id, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control) override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		if (copy == nullptr)
			return not_resident();
		copy->last_used_ns.store(options_.clock(), std::memory_order_relaxed);

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.search(place->id, queries, results, control);
	}

	Status read_rows(
		CopyId id, SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.read_rows(place->id, segment, first, n_rows, row_ids, vectors);
	}

	Status read_structure(CopyId id, SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.read_structure(place->id, segment, first, n_bytes, bytes);
	}

	Status read_tombstones(CopyId id, SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.read_tombstones(place->id, segment, first, n_rows, bits);
	}

	Status check_derived(CopyId id, SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.check_derived(place->id, segment, first, n_rows, n_different);
	}

	/// Of copies that are on the device.
	Status hold_key_codes(CopyId id, const engine::KeyArea &area, std::shared_ptr<engine::KeyCodes> *codes) override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		if (copy == nullptr)
			return not_resident();

		const std::shared_ptr<Place> place = copy->get_place();

		return place->engine.hold_key_codes(place->id, area, codes);
	}

	/// On the device if it has room.
	Status make_list_builder(const engine::ListBuildSpec &spec, engine::SearchControl *control,
		std::unique_ptr<engine::ListBuilder> *builder) override
	{
		const Status status = device_.make_list_builder(spec, control, builder);

		return host_may_do_better(status) ? host_.make_list_builder(spec, control, builder) : status;
	}

	/// On the host's threads; the device finds each row's nearest rows.
	Status make_graph_builder(const engine::GraphBuildSpec &spec, engine::SearchControl *control, engine::Engine *,
		std::unique_ptr<engine::GraphBuilder> *builder) override
	{
		return host_.make_graph_builder(spec, control, &device_, builder);
	}

	/// A GPU keeps none, so that copies in host memory have none either; several CPU engines do.
	size_t rounded_row_bytes(const engine::CopySpec &spec) const override { return device_.rounded_row_bytes(spec); }

	size_t n_threads() const override { return host_.n_threads(); }

	engine::EngineStats stats() const override
	{
		engine::EngineStats stats = device_.stats();
		const engine::EngineStats host = host_.stats();

		stats.resident_bytes += host.resident_bytes;
		stats.n_searches += host.n_searches;
		stats.n_batches += host.n_batches;
		stats.n_rescored += host.n_rescored;
		stats.n_copies = placement_.n_copies();
		stats.host_bytes = placement_.host_bytes();
		return stats;
	}

	bool computes_elsewhere() const override { return device_.computes_elsewhere(); }
	size_t n_batches_at_once() const override { return device_.n_batches_at_once(); }
	std::vector<engine::DeviceStats> devices() const override { return device_.devices(); }

	bool has_lost(CopyId id) const override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);
		const std::shared_ptr<Place> place = copy != nullptr ? copy->get_place() : nullptr;

		return place != nullptr && place->is_device && device_.has_lost(place->id);
	}

	std::vector<uint64_t> device_bytes(CopyId id) const override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);
		const std::shared_ptr<Place> place = copy != nullptr ? copy->get_place() : nullptr;

		return place != nullptr && place->is_device ? device_.device_bytes(place->id) : std::vector<uint64_t>();
	}

	/// As it is charged. Quick.
	uint64_t host_bytes(CopyId id) const override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		return copy != nullptr ? copy->host_charged.load(std::memory_order_relaxed) : 0;
	}

	uint64_t n_rescored() const override { return device_.n_rescored() + host_.n_rescored(); }

	void rebalance() override
	{
		const uint64_t now = options_.clock();

		for (const std::shared_ptr<TieredCopy> &copy : placement_.by_last_use(true))
		{
			const std::unique_lock writing(copy->write_mutex, std::try_to_lock);

			if (!writing.owns_lock() || copy->dropped || copy->host_only || is_complete(*copy) ||
				now < copy->not_before_ns ||
				now - copy->last_used_ns.load(std::memory_order_relaxed) > options_.idle_ns ||
				(!copy->stays && !copy->movable))
				continue;
			const bool on_host = !copy->get_place()->is_device;

			if (bring(copy.get()).is_ok())
			{
				if (copy->stays || on_host) // rows that came back may have to go again soon
					copy->pause_ns = kLeastPauseNs;
				return;
			}
			copy->pause_return(now);
			return; // one attempt a call
		}
	}

	bool on_device(CopyId id) override
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		return copy != nullptr && is_complete(*copy);
	}

private:
	/// Bring what is missing on the device. Caller holds the copy's write mutex.
	Status bring(TieredCopy *copy)
	{
		if (copy->stays)
			return placement_.attach(copy);
		return copy->get_place()->is_device ? placement_.bring_rows(copy) : placement_.come_back(copy);
	}

	static Status not_resident() { return Status::error(StatusCode::kNotFound, "the copy is not resident"); }

	/// The memory that a change needs.
	struct Growth
	{
		uint64_t n_bytes = 0;
		uint64_t n_rows = 0; // of segments
		uint64_t n_delta_rows = 0;
		SegmentId indexed = engine::kDeltaSegment; // a segment that becomes ready for searches
	};

	/// Bytes that a change needs.
	static uint64_t bytes_of(const TieredCopy &copy, const Growth &growth)
	{
		return growth.n_bytes + growth.n_rows * copy.bytes_per_segment_row + growth.n_delta_rows * copy.bytes_per_row +
			seal_bytes(copy, growth.indexed);
	}

	/// Make `change` in the copy's place. If the device refuses, idle copies give way; if it still refuses, rows that
	/// the device may read in host memory go there; if that does not help, this copy moves to the host. `note` records
	/// the change for later moves.
	template <class Change, class Note>
	Status write(CopyId id, const Growth &growth, Change change, Note note)
	{
		const std::shared_ptr<TieredCopy> copy = placement_.find(id);

		if (copy == nullptr)
			return not_resident();

		const std::lock_guard writing(copy->write_mutex);
		std::shared_ptr<Place> place = copy->get_place();
		const uint64_t bytes = bytes_of(*copy, growth);
		const uint64_t segment_bytes = growth.n_rows * copy->bytes_per_segment_row;

		if (copy->dropped)
			return not_resident();
		if (!placement_.host_has_room(host_growth(*copy, *place, bytes, segment_bytes)))
			return out_of_host_memory();

		Status status = change(place->engine, place->id);

		while (may_move(*copy, *place) && status.code == StatusCode::kOutOfMemory && placement_.give_way(copy.get()))
			status = change(place->engine, place->id);
		while (may_move(*copy, *place) && status.code == StatusCode::kOutOfMemory &&
			placement_.host_has_room(segment_bytes) && placement_.move_rows(copy.get()))
			status = change(place->engine, place->id);
		if (may_move(*copy, *place) && !status.is_ok() && host_may_do_better(status))
		{
			const Status moved = placement_.host_has_room(copy->bytes + bytes) ? placement_.move_to_host(copy.get())
																			   : out_of_host_memory();

			if (!moved.is_ok())
				return moved;
			placement_.say("a copy has moved to host memory: " + status.message);
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
			copy->movable = false; // the engine has the rows, but which ones is not recorded
		}
		placement_.count_bytes(copy.get());
		if (copy->stays && copy->attached && growth.indexed != engine::kDeltaSegment)
		{
			const bool complete = copy->complete;

			if (const Status attached = placement_.attach(copy.get()); !attached.is_ok() && complete)
				placement_.say("a copy is not all on the device, the host searches the rest: " + attached.message);
		}
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
				// Nothing has moved; the thread tries again in a second.
			}
			lock.lock();
		}
	}

	const TieredEngineOptions options_;
	TieredPlacement placement_;
	Engine &device_;
	Engine &host_;

	std::mutex mutex_; // stopping_
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
