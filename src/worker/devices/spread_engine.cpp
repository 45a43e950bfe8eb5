// See spread_engine.hpp.
#include "worker/devices/spread_engine.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "engine/interface/graph_builder.hpp"
#include "worker/devices/every_second.hpp"
#include "worker/devices/spread_list_builder.hpp"
#include "worker/devices/spread_placement.hpp"
#include "worker/devices/spread_read.hpp"
#include "worker/devices/spread_search.hpp"

namespace vectorgpu::worker
{
namespace
{

class Impl final : public SpreadEngine
{
public:
	explicit Impl(const SpreadOptions &options)
		: options_(options), devices_(options.devices), placement_(devices_, options.stripe_bytes),
		  search_(devices_, options.cuts)
	{
	}

	/// The part of the construction that can fail.
	Status start()
	{
		if (!devices_.open())
			return Status::error(StatusCode::kUnavailable, "no device can be used");

		const DevicePtr first = devices_.usable().front();

		name_ = first->engine->name();
		computes_elsewhere_ = first->engine->computes_elsewhere();
		n_threads_ = first->engine->n_threads();
		describe();
		if (options_.background)
		{
			background_.add([this] { devices_.watch(); });
			background_.add([this] { tend(); });
		}
		return Status::ok();
	}

	const char *name() const override { return name_.c_str(); }
	const char *description() const override { return description_.c_str(); }

	Status create(const engine::CopySpec &spec, CopyId *copy) override
	{
		return guarded(
			[&]
			{
				auto made = std::make_shared<SpreadCopy>();

				begin_record(spec, rounded_row_bytes(spec), &made->record);
				made->last_used_ns = options_.devices.clock();

				const Status status = placement_.create(made.get());

				if (status.is_ok())
					*copy = placement_.add(std::move(made));
				return status;
			});
	}

	Status load_segment(CopyId id, SegmentId segment, const engine::RowBlock &rows) override
	{
		return write(
			id,
			[&](SpreadCopy *copy)
			{
				return placement_.grow_segment(copy, segment, rows.n_rows,
					rows.n_rows * copy->record.bytes_per_segment_row,
					[&](Engine &e, CopyId c) { return e.load_segment(c, segment, rows); });
			},
			[&](SpreadCopy *copy) { copy->record.segments[segment].n_rows += rows.n_rows; });
	}

	Status load_structure(CopyId id, SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return write(
			id,
			[&](SpreadCopy *copy)
			{
				return placement_.grow_segment(copy, segment, 0, bytes.size(),
					[&](Engine &e, CopyId c) { return e.load_structure(c, segment, parameter, bytes); });
			},
			[&](SpreadCopy *copy)
			{
				copy->record.segments[segment].parameter = parameter;
				copy->record.segments[segment].structure_bytes += bytes.size();
			});
	}

	Status seal_segment(CopyId id, SegmentId segment) override
	{
		return write(
			id,
			[&](SpreadCopy *copy)
			{
				return placement_.change_segment(
					copy, segment, true, [&](Engine &e, CopyId c) { return e.seal_segment(c, segment); });
			},
			[&](SpreadCopy *copy)
			{
				copy->record.segments[segment].sealed = true;
				copy->publish();
			});
	}

	Status prepare_segment(CopyId id, SegmentId segment) override
	{
		return write(
			id,
			[&](SpreadCopy *copy)
			{
				return placement_.change_segment(
					copy, segment, false, [&](Engine &e, CopyId c) { return e.prepare_segment(c, segment); });
			},
			[&](SpreadCopy *copy) { copy->record.segments[segment].prepared = true; });
	}

	Status drop_segment(CopyId id, SegmentId segment) override
	{
		return write(
			id,
			[&](SpreadCopy *copy)
			{
				return placement_.change_segment(
					copy, segment, true, [&](Engine &e, CopyId c) { return e.drop_segment(c, segment); });
			},
			[&](SpreadCopy *copy)
			{
				copy->record.segments.erase(segment);
				copy->ranges.erase(segment);
				copy->publish();
			});
	}

	Status append_delta(CopyId id, uint64_t position, const engine::RowBlock &rows) override
	{
		return write(
			id,
			[&](SpreadCopy *copy)
			{
				return placement_.change(copy, rows.n_rows * copy->record.bytes_per_row,
					[&](Engine &e, CopyId c) { return e.append_delta(c, position, rows); });
			},
			[&](SpreadCopy *copy)
			{ copy->record.delta_last = std::max(copy->record.delta_last, position + rows.n_rows); });
	}

	/// Rows that one replica has taken and another has not are sent again by the caller: those held are skipped.
	bool try_append_delta(CopyId id, uint64_t position, const engine::RowBlock &rows, Status *status) override
	{
		const CopyPtr copy = placement_.find(id);

		if (copy == nullptr)
		{
			*status = SpreadPlacement::not_resident();
			return true;
		}

		const std::unique_lock writing(copy->write_mutex, std::try_to_lock);
		const uint64_t bytes = rows.n_rows * copy->record.bytes_per_row;

		if (!writing.owns_lock() || copy->dropped || copy->view()->broken())
			return false;
		for (size_t i = 0; i < (copy->sharded ? 1 : copy->places.size()); i++)
		{
			const PlacePtr &place = copy->places[i];
			bool done = false;
			Status appended;

			if (place->device->lost || place->device->refuses(bytes))
				return false;
			appended = devices_.run(place->device.get(),
				[&](Engine &engine)
				{
					Status tried;

					done = engine.try_append_delta(place->id, position, rows, &tried);
					return tried;
				});
			if (!done || !appended.is_ok())
				return false;
		}
		*status = Status::ok();
		copy->record.delta_last = std::max(copy->record.delta_last, position + rows.n_rows);
		copy->charge();
		return true;
	}

	Status trim_delta(CopyId id, uint64_t position) override
	{
		return write(
			id, [&](SpreadCopy *copy)
			{ return placement_.change(copy, 0, [&](Engine &e, CopyId c) { return e.trim_delta(c, position); }); },
			[&](SpreadCopy *copy)
			{
				copy->record.delta_first = std::max(copy->record.delta_first, position);
				copy->record.delta_last = std::max(copy->record.delta_last, position);
			});
	}

	Status set_tombstones(CopyId id, SegmentId segment, std::span<const uint8_t> bits) override
	{
		return write(
			id, [&](SpreadCopy *copy) { return placement_.set_tombstones(copy, segment, bits); },
			[&](SpreadCopy *copy) { copy->record.segments[segment].dead.assign(bits.begin(), bits.end()); });
	}

	Status set_delta_tombstones(CopyId id, uint64_t first_position, std::span<const uint8_t> bits) override
	{
		return write(
			id,
			[&](SpreadCopy *copy)
			{
				return placement_.change(
					copy, 0, [&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, first_position, bits); });
			},
			[&](SpreadCopy *copy)
			{
				copy->record.delta_dead.assign(bits.begin(), bits.end());
				copy->record.delta_dead_first = first_position;
				copy->record.has_delta_dead = true;
			});
	}

	Status drop(CopyId id) override
	{
		const CopyPtr copy =
			placement_.take(id); // a writer keeps it until it is done, for long if it brings it somewhere

		if (copy == nullptr)
			return SpreadPlacement::not_resident();
		copy->dropped = true;
		return Status::ok();
	}

	Status search(CopyId id, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control) override
	{
		const Status searched = guarded(
			[&]
			{
				const CopyPtr copy = placement_.find(id);

				if (copy == nullptr)
					return SpreadPlacement::not_resident();
				copy->last_used_ns.store(options_.devices.clock(), std::memory_order_relaxed);

				const ViewPtr view = copy->view();
				const Status status = copy->dropped || view->broken()
					? SpreadPlacement::not_resident()
					: search_.search(*view, copy->cuts.get(), queries, results, control);

				if (status.code == StatusCode::kUnavailable)
					return SpreadPlacement::not_resident();
				n_searches_ += queries.size();
				n_batches_ += 1;
				return status;
			});

		if (!searched.is_ok())
			results->clear(); // else the answers have the memory of earlier ones
		return searched;
	}

	Status read_rows(
		CopyId id, SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) override
	{
		return read(id, [&](const SpreadCopy &copy)
			{ return read_spread_rows(&devices_, copy, segment, first, n_rows, row_ids, vectors); });
	}

	Status read_structure(CopyId id, SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) override
	{
		return read(id, [&](const SpreadCopy &copy)
			{ return read_spread_structure(&devices_, copy, segment, first, n_bytes, bytes); });
	}

	Status read_tombstones(CopyId id, SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) override
	{
		return read(id, [&](const SpreadCopy &copy)
			{ return read_spread_tombstones(&devices_, copy, segment, first, n_rows, bits); });
	}

	Status check_derived(CopyId id, SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) override
	{
		return read(id,
			[&](const SpreadCopy &copy) { return check_spread(&devices_, copy, segment, first, n_rows, n_different); });
	}

	bool keeps_on_host(engine::CopyKind kind) const override
	{
		const std::vector<DevicePtr> devices = devices_.usable();

		return !devices.empty() && devices.front()->engine->keeps_on_host(kind);
	}

	size_t rounded_row_bytes(const engine::CopySpec &spec) const override
	{
		const std::vector<DevicePtr> devices = devices_.usable();

		return devices.empty() ? 0 : devices.front()->engine->rounded_row_bytes(spec);
	}

	bool may_keep_rows_on_host(const engine::CopySpec &spec) const override
	{
		const std::vector<DevicePtr> devices = devices_.usable();

		return !devices.empty() && devices.front()->engine->may_keep_rows_on_host(spec);
	}

	Status move_rows_to_host(CopyId id, uint64_t most_bytes) override
	{
		return write(
			id, [&](SpreadCopy *copy) { return placement_.move_rows_to_host(copy, most_bytes); }, [](SpreadCopy *) {});
	}

	Status attach(CopyId id) override
	{
		return each_place(id, [](Engine &e, CopyId c) { return e.attach(c); });
	}

	Status detach(CopyId id) override
	{
		return each_place(id, [](Engine &e, CopyId c) { return e.detach(c); });
	}

	uint64_t host_bytes(CopyId id) const override
	{
		const CopyPtr copy = placement_.find(id);
		uint64_t bytes = 0;

		if (copy == nullptr)
			return 0;
		for (const PlacePtr &place : copy->view()->places)
			bytes += place->device->lost ? 0 : place->device->engine->host_bytes(place->id);
		return bytes;
	}

	Status make_list_builder(const engine::ListBuildSpec &spec, engine::SearchControl *control,
		std::unique_ptr<engine::ListBuilder> *builder) override
	{
		return guarded([&] { return make_spread_list_builder(&devices_, spec, control, builder); });
	}

	/// On one device: sending the lists to several would take longer than the choice.
	Status choose_graph_edges(const engine::graph::EdgeJob &job, engine::SearchControl *control) override
	{
		return guarded(
			[&]
			{
				const std::vector<DevicePtr> devices = devices_.usable();

				return devices.empty() ? Status::error(StatusCode::kUnsupported, "no device can be used")
									   : devices_.run(devices.front().get(),
											 [&](Engine &engine) { return engine.choose_graph_edges(job, control); });
			});
	}

	/// Of a copy in replicas, on all of them; from then on it is brought nowhere.
	Status set_graph(CopyId id, SegmentId segment, const engine::graph::GivenGraph &given) override
	{
		return write(
			id,
			[&](SpreadCopy *copy)
			{
				copy->may_spread = false;
				return copy->sharded ? Status::error(StatusCode::kUnsupported, "the segment is cut")
									 : placement_.change_segment(copy, segment, false,
										   [&](Engine &e, CopyId c) { return e.set_graph(c, segment, given); });
			},
			[](SpreadCopy *) {});
	}

	size_t n_threads() const override { return n_threads_; }
	bool computes_elsewhere() const override { return computes_elsewhere_; }
	size_t n_batches_at_once() const override { return devices_.size(); }

	engine::EngineStats stats() const override
	{
		engine::EngineStats stats;
		bool limited = true;

		for (const DevicePtr &device : devices_.usable())
		{
			const engine::EngineStats own = device->engine->stats();
			const uint64_t budget = device->budget_bytes();

			stats.resident_bytes += own.resident_bytes;
			stats.budget_bytes += budget;
			stats.host_bytes += own.host_bytes;
			limited = limited && budget != 0;
		}
		if (!limited)
			stats.budget_bytes = 0;
		stats.resident_bytes -= std::min(stats.resident_bytes, placement_.spare_bytes());
		stats.n_rescored = devices_.n_rescored();
		stats.n_copies = placement_.n_copies();
		stats.n_searches = n_searches_;
		stats.n_batches = n_batches_;
		return stats;
	}

	uint64_t n_rescored() const override { return devices_.n_rescored(); }

	std::vector<engine::DeviceStats> devices() const override { return devices_.stats(); }

	bool has_lost(CopyId id) const override
	{
		const CopyPtr copy = placement_.find(id);

		return copy != nullptr && (copy->dropped || copy->view()->broken());
	}

	std::vector<uint64_t> device_bytes(CopyId id) const override
	{
		const CopyPtr copy = placement_.find(id);
		std::vector<uint64_t> bytes;

		if (copy == nullptr)
			return bytes;
		bytes.resize(devices_.size());
		for (const PlacePtr &place : copy->view()->places)
			if (!place->device->lost)
				bytes[place->device->index] += place->bytes;
		return bytes;
	}

	void tend() override
	{
		devices_.tend();
		placement_.spread_one(options_.devices.clock());
	}

	SpreadTimes times() const override { return search_.times(); }

	void lose(size_t device) override
	{
		if (const DevicePtr held = devices_.get(device); held != nullptr)
			devices_.lose(held.get());
	}

	size_t n_places(CopyId id) override
	{
		const CopyPtr copy = placement_.find(id);

		return copy == nullptr ? 0 : copy->view()->places.size();
	}

	bool is_sharded(CopyId id) override
	{
		const CopyPtr copy = placement_.find(id);

		return copy != nullptr && copy->view()->sharded;
	}

private:
	/// Run work(); exceptions become a status, since none may pass an Engine call.
	template <class Work>
	static Status guarded(Work work)
	{
		try
		{
			return work();
		}
		catch (const std::bad_alloc &)
		{
			return Status::error(StatusCode::kOutOfMemory, "out of memory in the engine of several devices");
		}
	}

	/// Change a copy, and note the change in its record. Where memory lacks in between the copy is given up.
	template <class Change, class Note>
	Status write(CopyId id, Change change, Note note)
	{
		const CopyPtr copy = placement_.find(id);

		if (copy == nullptr)
			return SpreadPlacement::not_resident();

		const std::lock_guard writing(copy->write_mutex);

		if (copy->dropped || copy->view()->broken())
			return SpreadPlacement::not_resident();

		try
		{
			const Status changed = change(copy.get());

			if (changed.is_ok())
			{
				note(copy.get());
				copy->charge();
			}
			return changed;
		}
		catch (const std::bad_alloc &)
		{
			copy->dropped = true;
			return Status::error(StatusCode::kOutOfMemory, "out of memory in the engine of several devices");
		}
	}

	template <class Read>
	Status read(CopyId id, Read read)
	{
		return guarded(
			[&]
			{
				const CopyPtr copy = placement_.find(id);

				if (copy == nullptr)
					return SpreadPlacement::not_resident();

				const std::lock_guard writing(copy->write_mutex);

				return copy->dropped || copy->view()->broken() ? SpreadPlacement::not_resident() : read(*copy);
			});
	}

	/// The last failure counts; all places are called.
	Status each_place(CopyId id, Status (*call)(Engine &engine, CopyId copy))
	{
		const CopyPtr copy = placement_.find(id);
		Status status;

		if (copy == nullptr)
			return SpreadPlacement::not_resident();

		const std::lock_guard writing(copy->write_mutex);

		for (const PlacePtr &place : copy->places)
			if (const Status one =
					devices_.run(place->device.get(), [&](Engine &engine) { return call(engine, place->id); });
				!one.is_ok())
				status = one;
		copy->charge();
		return status.code == StatusCode::kUnavailable ? SpreadPlacement::not_resident() : status;
	}

	/// Equal devices are named once.
	void describe()
	{
		for (const DevicePtr &device : devices_.usable())
		{
			const std::string own = device->engine->description();

			if (description_.find(own) == std::string::npos)
				description_ += (description_.empty() ? "" : "; ") + own;
		}
		description_ = std::to_string(devices_.size()) + " x " + description_;
	}

	const SpreadOptions options_;
	DeviceSet devices_;
	SpreadPlacement placement_; // after the devices, which outlive the copies
	SpreadSearch search_;
	std::string name_;
	std::string description_;
	bool computes_elsewhere_ = false;
	size_t n_threads_ = 1;
	std::atomic<uint64_t> n_searches_{0};
	std::atomic<uint64_t> n_batches_{0};
	EverySecond background_; // the last: it ends first
};

} // namespace

Status
make_spread_engine(const SpreadOptions &options, std::unique_ptr<SpreadEngine> *engine)
{
	auto made = std::make_unique<Impl>(options);
	Status status = made->start();

	if (status.is_ok())
		*engine = std::move(made);
	return status;
}

} // namespace vectorgpu::worker
