// See cuda_engine.hpp: the start, the calls, and the border where exceptions become a Status.
#include "cuda/cuda_engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>

#include "cuda/batch_totals.hpp"
#include "cuda/build/graph_edges.hpp"
#include "cuda/build/label_rows.hpp"
#include "cuda/build/list_builder.hpp"
#include "cuda/context_pool.hpp"
#include "cuda/device/start_times.hpp"
#include "cuda/device/stop.hpp"
#include "cuda/device/watchdog.hpp"
#include "cuda/engine_copies.hpp"
#include "cuda/guarded.hpp"
#include "cuda/passing/packed_rows.hpp"
#include "cuda/prepare_kernels.hpp"
#include "cuda/search/results.hpp"
#include "cuda/search/ways.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr size_t kUploadBytes = size_t{16} << 20;
constexpr size_t kSmallAppendBytes = size_t{64} << 10; // encoded in a few microseconds
constexpr size_t kReserveBytes = size_t{256} << 20;    // of the device, for its driver and other processes

class Impl final : public CudaEngine
{
public:
	explicit Impl(const CudaEngineOptions &options)
		: options_(options), ways_(asked_ways(options)), packed_(options.packed),
		  copies_(options_, ways_, &uploader_, &lane_)
	{
		one_pass_.most_looks = options.one_pass_looks;
		one_pass_.pause = std::chrono::milliseconds(options.one_pass_pause_ms);
		one_pass_.tuning = options.one_pass_tuning;
		one_pass_.trace = options.one_pass_trace;
	}

	~Impl() override
	{
		watchdog_.stop();
		copies_.clear(); // before the streams
	}

	/// The part of the construction that can fail.
	Status start()
	{
		StartTimes times;

		device_.set_fault(options_.fault);
		VECTORGPU_TRY(Device::open(options_.device, options_.log, &device_));
		times.done("context");
		VECTORGPU_TRY(prepare_kernels(device_));
		times.done("kernels");
		VECTORGPU_TRY(uploader_.stream.create(&device_));
		VECTORGPU_TRY(uploader_.pinned.allocate(&device_, kUploadBytes, "uploads"));
		VECTORGPU_TRY(uploader_.staging.allocate(&device_, kUploadBytes, "uploads"));
		VECTORGPU_TRY(uploader_.scratch.allocate(&device_, 4096, "counters"));
		VECTORGPU_TRY(lane_.create(&device_));
		VECTORGPU_TRY(contexts_.create(&device_, options_.n_streams, options_.workspace_bytes, options_.pinned_bytes));
		VECTORGPU_TRY(make_budget());
		times.done("memory");
		if (options_.self_test)
		{
			VECTORGPU_TRY(test_ways(this, device_, options_, &ways_, &times));
			totals_.reset();
		}
		if (options_.memory_bytes != 0) // after the self-test, whose copies do not count
			budget_->set_most(std::min<uint64_t>(budget_->most(), options_.memory_bytes));
		device_.on_fatal(options_.on_fatal);
		device_.arm();
		watchdog_.start(&device_, std::chrono::milliseconds(options_.hang_limit_ms));
		device_.log(times.line().c_str());
		return Status::ok();
	}

	const char *name() const override { return "cuda"; }
	bool fatal() const override { return device_.fatal(); }
	const char *description() const override { return device_.description().c_str(); }

	Status create(const engine::CopySpec &spec, engine::CopyId *copy) override
	{
		return guarded([&] { return copies_.create(spec, copy); });
	}

	Status load_segment(engine::CopyId copy, engine::SegmentId segment, const engine::RowBlock &rows) override
	{
		return with_room(copy, [&](ResidentCopy &c) { return c.load_segment(segment, rows); });
	}

	Status load_structure(
		engine::CopyId copy, engine::SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.load_structure(segment, parameter, bytes); });
	}

	Status seal_segment(engine::CopyId copy, engine::SegmentId segment) override
	{
		return with_room(copy, [&](ResidentCopy &c) { return c.seal_segment(segment); }, &segment);
	}

	Status prepare_segment(engine::CopyId copy, engine::SegmentId segment) override
	{
		return with_room(copy, [&](ResidentCopy &c) { return c.prepare_segment(segment); }, &segment);
	}

	Status drop_segment(engine::CopyId copy, engine::SegmentId segment) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.drop_segment(segment); });
	}

	Status append_delta(engine::CopyId copy, uint64_t position, const engine::RowBlock &rows) override
	{
		return with_room(copy, [&](ResidentCopy &c) { return c.append_delta(position, rows); });
	}

	bool try_append_delta(engine::CopyId copy, uint64_t position, const engine::RowBlock &rows, Status *status) override
	{
		bool done = true;

		*status = with(copy,
			[&](ResidentCopy &c)
			{
				Status appended;

				done = rows.n_rows * vector_bytes(c.spec().element, c.spec().dim) <= kSmallAppendBytes &&
					c.try_append_delta(position, rows, &appended);
				return appended;
			});
		return done;
	}

	Status trim_delta(engine::CopyId copy, uint64_t position) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.trim_delta(position); });
	}

	Status set_tombstones(engine::CopyId copy, engine::SegmentId segment, std::span<const uint8_t> bits) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.set_tombstones(segment, bits); });
	}

	Status set_delta_tombstones(engine::CopyId copy, uint64_t first_position, std::span<const uint8_t> bits) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.set_delta_tombstones(first_position, bits); });
	}

	Status drop(engine::CopyId copy) override
	{
		return guarded([&] { return copies_.drop(copy) ? Status::ok() : not_resident(); });
	}

	Status search(engine::CopyId copy, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control) override
	{
		const auto search = [&]
		{
			begin_results(queries.size(), results); // may throw

			const std::shared_ptr<ResidentCopy> held = copies_.find(copy); // stays alive if it is dropped meanwhile

			if (held == nullptr)
				return not_resident();
			VECTORGPU_TRY(begin_queries(queries));

			const ContextPool::Lease context(&contexts_);
			BatchCounts counts;

			VECTORGPU_TRY(held->search(
				{&device_, context.get(), &ways_, &one_pass_, &lane_, options_.packed.on ? &packed_ : nullptr}, queries,
				results, &counts, control));
			totals_.add(counts);
			if (is_stopped(control))
				return stopped();
			totals_.n_searches += queries.size();
			totals_.n_batches += 1;
			return Status::ok();
		};

		return end_results(guarded(search), results);
	}

	Status read_rows(engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids,
		void *vectors) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.read_rows(segment, first, n_rows, row_ids, vectors); });
	}

	Status read_structure(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.read_structure(segment, first, n_bytes, bytes); });
	}

	Status read_tombstones(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.read_tombstones(segment, first, n_rows, bits); });
	}

	Status check_derived(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.check_derived(segment, first, n_rows, n_different); });
	}

	Status make_list_builder(const engine::ListBuildSpec &spec, engine::SearchControl *control,
		std::unique_ptr<engine::ListBuilder> *builder) override
	{
		return guarded(
			[&]
			{
				const Status good = engine::check_list_build(spec);

				return good.is_ok() ? cuda::make_list_builder(spec, &device_, budget_.get(), control, builder) : good;
			});
	}

	Status choose_graph_edges(const engine::graph::EdgeJob &job, engine::SearchControl *control) override
	{
		return guarded([&] { return cuda::choose_graph_edges(budget_.get(), &uploader_, job, control); });
	}

	Status set_graph(engine::CopyId copy, engine::SegmentId segment, const engine::graph::GivenGraph &given) override
	{
		return with(copy,
			[&](ResidentCopy &c)
			{
				const bool holds = c.spec().element == ElementType::kBit ? ways_.holds_bit_graphs : ways_.holds_graphs;

				return holds ? c.set_graph(segment, given)
							 : Status::error(StatusCode::kUnsupported, "the GPU's searches of graphs are not in use");
			});
	}

	Status label_rows(engine::CopyId copy, engine::SegmentId segment, std::span<const float> centroids,
		uint32_t *labels, engine::SearchControl *control) override
	{
		return with(copy,
			[&](ResidentCopy &c)
			{
				std::shared_ptr<const Block> block; // stays while its rows are read
				uint32_t n_rows = 0;

				VECTORGPU_TRY(c.sealed_rows(segment, &block, &n_rows));
				return cuda::label_rows(budget_.get(), *block, n_rows, c.spec().dim, centroids, labels, control);
			});
	}

	size_t rounded_row_bytes(const engine::CopySpec &spec) const override
	{
		return EngineCopies::rounded_row_bytes(spec);
	}

	bool keeps_on_host(engine::CopyKind kind) const override
	{
		return kind == engine::CopyKind::kHashedGraph || kind == engine::CopyKind::kMatch ||
			kind == engine::CopyKind::kSparse;
	}

	bool may_keep_rows_on_host(const engine::CopySpec &spec) const override
	{
		return spec.kind == engine::CopyKind::kCodedLists;
	}

	Status move_rows_to_host(engine::CopyId copy, uint64_t most_bytes) override
	{
		return with(copy, [&](ResidentCopy &c) { return c.move_rows_to_host(most_bytes); });
	}

	Status attach(engine::CopyId copy) override
	{
		return with(copy, [](ResidentCopy &c) { return c.attach(); });
	}

	Status detach(engine::CopyId copy) override
	{
		return with(copy, [](ResidentCopy &c) { return c.detach(); });
	}

	uint64_t host_bytes(engine::CopyId copy) const override
	{
		const std::shared_ptr<ResidentCopy> held = copies_.find(copy);

		return held != nullptr ? held->host_bytes() : 0;
	}

	Status hold_key_codes(
		engine::CopyId copy, const engine::KeyArea &area, std::shared_ptr<engine::KeyCodes> *codes) override
	{
		return with(copy,
			[&](const ResidentCopy &c) { return copies_.hold_key_codes(c, area, {&contexts_, &n_programs_}, codes); });
	}

	engine::EngineStats stats() const override
	{
		engine::EngineStats stats;

		stats.resident_bytes = budget_->used();
		stats.budget_bytes = budget_->most();
		stats.n_copies = copies_.n_copies();
		stats.n_searches = totals_.n_searches;
		stats.n_batches = totals_.n_batches;
		stats.n_rescored = totals_.n_rescored;
		return stats;
	}

	uint64_t n_one_pass() const override { return totals_.n_one_pass; }

	uint64_t n_scaled_segments() const override { return copies_.n_scaled_segments(); }
	uint64_t n_graph_alone() const override { return totals_.n_graph_alone; }
	uint64_t n_graph_blocks() const override { return totals_.n_graph_blocks; }
	uint64_t n_entries_apart() const override { return totals_.n_entries_apart; }
	uint64_t n_one_pass_given_up() const override { return totals_.n_given_up; }
	uint64_t n_few_lists() const override { return totals_.n_few_lists; }
	uint64_t n_few_real_lists() const override { return totals_.n_few_real_lists; }
	uint64_t n_rounded_lists() const override { return totals_.n_rounded_lists; }
	uint64_t n_packed() const override { return totals_.n_packed; }
	uint64_t n_own_rows() const override { return totals_.n_own_rows; }
	uint64_t n_hashed() const override { return totals_.n_hashed; }
	uint64_t n_matched() const override { return totals_.n_matched; }
	uint64_t n_sparse() const override { return totals_.n_sparse; }
	uint64_t n_programs() const override { return n_programs_.load(std::memory_order_relaxed); }
	uint64_t n_rescored() const override { return totals_.n_rescored; }

	bool computes_elsewhere() const override { return true; }

private:
	/// Make the budget: what the device has left, less a reserve. All workspaces have been made.
	Status make_budget()
	{
		size_t free_bytes = 0;
		size_t total_bytes = 0;

		VECTORGPU_TRY(device_.check(cudaMemGetInfo(&free_bytes, &total_bytes), "ask for the GPU's free memory"));

		const uint64_t left = free_bytes > kReserveBytes ? free_bytes - kReserveBytes : 1;

		budget_ = std::make_unique<Budget>(&device_, left);
		copies_.set_budget(budget_.get());
		return Status::ok();
	}

	static Status not_resident() { return Status::error(StatusCode::kNotFound, "the copy is not resident"); }

	template <class Work>
	Status guarded(Work work) const
	{
		return cuda::guarded(device_, work);
	}

	template <class Work>
	Status with(engine::CopyId id, Work work)
	{
		return guarded(
			[&]
			{
				const std::shared_ptr<ResidentCopy> copy = copies_.find(id); // stays alive if it is dropped meanwhile

				return copy != nullptr ? work(*copy) : not_resident();
			});
	}

	/// As with, for work that changes nothing when it fails: what copies can do without goes before it fails for
	/// memory, and then the segment that `prepared` names, if any, is prepared through host memory.
	template <class Work>
	Status with_room(engine::CopyId id, Work work, const engine::SegmentId *prepared = nullptr)
	{
		Status status = with(id, work);

		for (bool (*give_way)(Impl &) :
			{
				+[](Impl &e) { return e.packed_.drop(); }, // copies of rows that pass
				+[](Impl &e) { return e.copies_.drop_key_codes(); },
				+[](Impl &e) { return e.copies_.drop_rounded(false); },
				+[](Impl &e) { return e.copies_.drop_rounded(true); },
			})
			if (status.code == StatusCode::kOutOfMemory &&
				guarded(
					[&] { return give_way(*this) ? Status::ok() : Status::error(StatusCode::kNotFound, "none there"); })
					.is_ok())
				status = with(id, work);
		if (status.code == StatusCode::kOutOfMemory && prepared != nullptr &&
			with(id, [&](ResidentCopy &c) { return c.prepare_through_host(*prepared); }).is_ok())
			status = with(id, work);
		return status;
	}

	const CudaEngineOptions options_;
	Ways ways_; // from start() on
	OnePassUse one_pass_;
	PackedPool packed_;
	Device device_; // before what it owns
	std::unique_ptr<Budget> budget_;
	Uploader uploader_;
	AppendLane lane_;
	ContextPool contexts_;
	Watchdog watchdog_;
	EngineCopies copies_;
	std::atomic<uint64_t> n_programs_{0};
	BatchTotals totals_;
};

} // namespace

Status
make_cuda_engine(const CudaEngineOptions &options, std::unique_ptr<CudaEngine> *engine)
{
	try
	{
		auto made = std::make_unique<Impl>(options);

		VECTORGPU_TRY(made->start());
		*engine = std::move(made);
		return Status::ok();
	}
	catch (const std::bad_alloc &)
	{
		return Status::error(StatusCode::kOutOfMemory, "out of memory");
	}
}

} // namespace vectorgpu::cuda
