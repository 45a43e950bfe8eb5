// See cuda_engine.hpp: the registry of copies, the contexts of searches, and the border where exceptions become a
// Status.
#include "cuda/cuda_engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/cores.hpp"
#include "common/limits.hpp"
#include "cuda/resident/copy.hpp"
#include "cuda/search/graph_search.hpp"
#include "cuda/resident/hashed_copy.hpp"
#include "cuda/search/ivf_search.hpp"
#include "cuda/build/list_builder.hpp"
#include "cuda/resident/match_copy.hpp"
#include "cuda/search/search.hpp"
#include "cuda/device/start_times.hpp"
#include "cuda/device/stop.hpp"
#include "cuda/search/ways.hpp"
#include "kernels/codes/codes.hpp"
#include "kernels/filter/filter.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/graph/graph_codes.hpp"
#include "kernels/ivf/ivf_few.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr size_t kUploadBytes = size_t{16} << 20;
constexpr size_t kSmallAppendBytes = size_t{64} << 10; // encoded in a few microseconds
constexpr size_t kMostHostThreads = 16;                // that judge what codes have found
constexpr size_t kReserveBytes = size_t{256} << 20;    // of the device, for its driver and other processes

class Impl final : public CudaEngine
{
public:
	explicit Impl(const CudaEngineOptions &options) : options_(options), ways_(asked_ways(options))
	{
		one_pass_.most_looks = options.one_pass_looks;
		one_pass_.pause = std::chrono::milliseconds(options.one_pass_pause_ms);
		one_pass_.tuning = options.one_pass_tuning;
		one_pass_.trace = options.one_pass_trace;
	}

	~Impl() override
	{
		{
			const std::lock_guard lock(contexts_mutex_);

			stopping_ = true;
		}
		watch_ended_.notify_one();
		if (watchdog_.joinable())
			watchdog_.join();
		copies_.clear(); // before the device's streams
	}

	/// What the constructor would do if it could fail.
	Status start()
	{
		StartTimes times;

		device_.set_fault(options_.fault);
		VECTORGPU_TRY(Device::open(options_.device, options_.log, &device_));
		times.done("context");
		VECTORGPU_TRY(device_.check(kernels::prepare_select_kernels(), "prepare the selection kernels"));
		VECTORGPU_TRY(device_.check(kernels::prepare_ivf_few(), "prepare the kernels of few queries over lists"));
		VECTORGPU_TRY(device_.check(kernels::prepare_graph_kernels(), "prepare the graph kernels"));
		VECTORGPU_TRY(device_.check(kernels::prepare_code_graph_kernels(), "prepare the kernels of graphs with codes"));
		VECTORGPU_TRY(device_.check(kernels::prepare_code_kernels(), "prepare the kernels of codes"));
		VECTORGPU_TRY(device_.check(kernels::prepare_filter_kernels(), "prepare the filter kernels"));
		VECTORGPU_TRY(device_.check(kernels::prepare_cluster_kernels(), "prepare the kernels of k-means"));
		times.done("kernels");
		VECTORGPU_TRY(uploader_.stream.create(&device_));
		VECTORGPU_TRY(uploader_.pinned.allocate(&device_, kUploadBytes, "uploads"));
		VECTORGPU_TRY(uploader_.staging.allocate(&device_, kUploadBytes, "uploads"));
		VECTORGPU_TRY(uploader_.scratch.allocate(&device_, 4096, "counters"));
		VECTORGPU_TRY(lane_.create(&device_));
		for (int i = 0; i < options_.n_streams; i++)
		{
			contexts_.push_back(std::make_unique<SearchContext>());
			VECTORGPU_TRY(contexts_.back()->create(&device_, options_.workspace_bytes, options_.pinned_bytes));
			free_contexts_.push_back(contexts_.back().get());
		}
		VECTORGPU_TRY(make_budget());
		times.done("memory");
		if (options_.self_test)
		{
			VECTORGPU_TRY(test_ways(this, device_, options_, &ways_, &times));
			n_searches_ = n_batches_ = n_rescored_ = n_one_pass_ = n_graph_alone_ = n_graph_blocks_ = n_few_lists_ =
				n_few_real_lists_ = n_hashed_ = n_matched_ = 0;
		}
		if (options_.memory_bytes != 0) // from here on: the self-test's copies are not the caller's
			budget_->set_most(std::min<uint64_t>(budget_->most(), options_.memory_bytes));
		device_.on_fatal(options_.on_fatal);
		device_.arm();
		watchdog_ = std::thread([this] { watch(); });
		device_.log(times.line().c_str());
		return Status::ok();
	}

	const char *name() const override { return "cuda"; }
	bool fatal() const override { return device_.fatal(); }
	const char *description() const override { return device_.description().c_str(); }

	Status create(const engine::CopySpec &copy_spec, engine::CopyId *copy) override
	{
		return guarded(
			[&]
			{
				const engine::DistanceSpec &spec = copy_spec.distance;
				const uint32_t most = spec.element == ElementType::kBit ? kMaxBitDimensions : kMaxDimensions;

				if (copy_spec.kind == engine::CopyKind::kMatch)
					return create_match(copy_spec, copy);
				if (!engine::metric_supports(spec.metric, spec.element))
					return Status::error(StatusCode::kUnsupported, "the element type does not have the metric");
				if (spec.dim < 1 || spec.dim > most)
					return Status::error(StatusCode::kInvalidArgument, "the number of dimensions is out of range");
				if (copy_spec.kind == engine::CopyKind::kHashedGraph)
					return create_hashed(copy_spec, copy);

				if (copy_spec.kind != engine::CopyKind::kRows && copy_spec.kind != engine::CopyKind::kLists &&
					!(copy_spec.kind == engine::CopyKind::kGraph && ways_.holds_graphs) &&
					!(engine::has_codes(copy_spec.kind) && ways_.holds_codes))
					return Status::error(StatusCode::kUnsupported, "the CUDA engine does not hold such copies");
				if (spec.element == ElementType::kBit && copy_spec.kind != engine::CopyKind::kRows &&
					!(copy_spec.kind == engine::CopyKind::kGraph && ways_.holds_bit_graphs))
					return Status::error(StatusCode::kUnsupported, "the CUDA engine does not hold such copies of bits");

				return add({std::make_shared<Copy>(copy_spec, budget_.get(), &uploader_, &lane_, options_.narrow),
							   nullptr, nullptr},
					copy);
			});
	}

	Status load_segment(engine::CopyId copy, engine::SegmentId segment, const engine::RowBlock &rows) override
	{
		return with(copy, [&](auto &c) { return c.load_segment(segment, rows); });
	}

	Status load_structure(
		engine::CopyId copy, engine::SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return with(copy, [&](auto &c) { return c.load_structure(segment, parameter, bytes); });
	}

	Status seal_segment(engine::CopyId copy, engine::SegmentId segment) override
	{
		return with(copy, [&](auto &c) { return c.seal_segment(segment); });
	}

	Status prepare_segment(engine::CopyId copy, engine::SegmentId segment) override
	{
		return with(copy, [&](auto &c) { return c.prepare_segment(segment); });
	}

	Status drop_segment(engine::CopyId copy, engine::SegmentId segment) override
	{
		return with(copy, [&](auto &c) { return c.drop_segment(segment); });
	}

	Status append_delta(engine::CopyId copy, uint64_t position, const engine::RowBlock &rows) override
	{
		return with(copy, [&](auto &c) { return c.append_delta(position, rows); });
	}

	bool append_at_once(engine::CopyId copy, uint64_t position, const engine::RowBlock &rows, Status *status) override
	{
		bool done = true;

		*status = with(copy,
			[&](auto &c)
			{
				Status appended;

				done = append_small(&c, position, rows, &appended);
				return appended;
			});
		return done;
	}

	Status trim_delta(engine::CopyId copy, uint64_t position) override
	{
		return with(copy, [&](auto &c) { return c.trim_delta(position); });
	}

	Status set_tombstones(engine::CopyId copy, engine::SegmentId segment, std::span<const uint8_t> bits) override
	{
		return with(copy, [&](auto &c) { return c.set_tombstones(segment, bits); });
	}

	Status set_delta_tombstones(engine::CopyId copy, uint64_t first_position, std::span<const uint8_t> bits) override
	{
		return with(copy, [&](auto &c) { return c.set_delta_tombstones(first_position, bits); });
	}

	Status drop(engine::CopyId copy) override
	{
		return guarded(
			[&]
			{
				AnyCopy dropped; // freed after the lock
				const std::unique_lock lock(mutex_);
				const auto found = copies_.find(copy);

				if (found == copies_.end())
					return not_resident();
				dropped = std::move(found->second);
				copies_.erase(found);
				return Status::ok();
			});
	}

	Status search(engine::CopyId copy, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control) override
	{
		results->clear();
		return guarded(
			[&]
			{
				const AnyCopy held = find(copy); // stays alive if it is dropped meanwhile

				if (held.rows == nullptr && held.match == nullptr && held.hashed == nullptr)
					return not_resident();
				for (const engine::SearchQuery &query : queries)
				{
					if (query.query == nullptr)
						return Status::error(StatusCode::kInvalidArgument, "a query without a vector");
					if (query.coverage != nullptr)
						*query.coverage = engine::Coverage::kAll;
				}

				const ContextLease context(this);

				VECTORGPU_TRY(held.match != nullptr
						? search_match(held.match.get(), context.get(), queries, results, control)
						: held.hashed != nullptr
						? search_hashed(held.hashed.get(), context.get(), queries, results, control)
						: search_rows(held.rows.get(), context.get(), queries, results, control));
				if (is_stopped(control))
					return stopped();
				n_searches_ += queries.size();
				n_batches_ += 1;
				return Status::ok();
			});
	}

	Status read_rows(engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids,
		void *vectors) override
	{
		return with(copy, [&](auto &c) { return c.read_rows(segment, first, n_rows, row_ids, vectors); });
	}

	Status read_structure(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) override
	{
		return with(copy, [&](auto &c) { return c.read_structure(segment, first, n_bytes, bytes); });
	}

	Status read_tombstones(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) override
	{
		return with(copy, [&](auto &c) { return c.read_tombstones(segment, first, n_rows, bits); });
	}

	Status check_derived(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) override
	{
		return with(copy, [&](auto &c) { return c.check_derived(segment, first, n_rows, n_different); });
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

	bool keeps_on_host(engine::CopyKind kind) const override
	{
		return kind == engine::CopyKind::kHashedGraph || kind == engine::CopyKind::kMatch;
	}

	Status attach(engine::CopyId copy) override
	{
		return with_kept(copy, [](auto &c) { return c.attach(); });
	}

	Status detach(engine::CopyId copy) override
	{
		return with_kept(copy, [](auto &c) { return c.detach(); });
	}

	uint64_t host_bytes(engine::CopyId copy) const override
	{
		const AnyCopy held = find(copy);

		// The others lie on the device alone.
		return held.match != nullptr ? held.match->host_bytes()
			: held.hashed != nullptr ? held.hashed->memory_bytes()
									 : 0;
	}

	engine::EngineStats stats() const override
	{
		engine::EngineStats stats;
		const std::shared_lock lock(mutex_);

		stats.resident_bytes = budget_->used();
		stats.budget_bytes = budget_->most();
		stats.n_copies = copies_.size();
		stats.n_searches = n_searches_;
		stats.n_batches = n_batches_;
		stats.n_rescored = n_rescored_;
		return stats;
	}

	uint64_t n_one_pass() const override { return n_one_pass_; }
	uint64_t n_graph_alone() const override { return n_graph_alone_; }
	uint64_t n_graph_blocks() const override { return n_graph_blocks_; }
	uint64_t n_one_pass_given_up() const override { return n_given_up_; }
	uint64_t n_few_lists() const override { return n_few_lists_; }
	uint64_t n_few_real_lists() const override { return n_few_real_lists_; }
	uint64_t n_hashed() const override { return n_hashed_; }
	uint64_t n_matched() const override { return n_matched_; }

	uint64_t n_rescored() const override { return n_rescored_; }

	bool computes_elsewhere() const override { return true; }

private:
	static bool append_small(Copy *copy, uint64_t position, const engine::RowBlock &rows, Status *status)
	{
		return rows.n_rows * copy->shape().row_bytes <= kSmallAppendBytes &&
			copy->append_at_once(position, rows, status);
	}

	static bool append_small(DeviceMatchCopy *copy, uint64_t position, const engine::RowBlock &rows, Status *status)
	{
		return rows.n_rows * copy->spec().dim <= kSmallAppendBytes &&
			copy->try_append_delta(position, rows, status); // in host memory
	}

	static bool append_small(HashedCopy *copy, uint64_t position, const engine::RowBlock &rows, Status *status)
	{
		const engine::DistanceSpec &spec = copy->spec();

		return rows.n_rows * vector_bytes(spec.element, spec.dim) <= kSmallAppendBytes &&
			copy->try_append_delta(position, rows, status);
	}

	/// A copy, of one kind or the other.
	struct AnyCopy
	{
		std::shared_ptr<Copy> rows;
		std::shared_ptr<DeviceMatchCopy> match;
		std::shared_ptr<HashedCopy> hashed;
	};

	Status create_hashed(const engine::CopySpec &spec, engine::CopyId *copy)
	{
		if (spec.distance.element == ElementType::kBit || !engine::graph::hash_supports(spec.distance.metric))
			return Status::error(StatusCode::kUnsupported, "the metric has no angles");
		if (!ways_.holds_hashed)
			return Status::error(StatusCode::kUnsupported, "graphs are not searched by codes on this GPU");
		std::call_once(pool_made_, [this]
			{ pool_ = std::make_unique<engine::ThreadPool>(std::min<size_t>(count_cores(), kMostHostThreads)); });
		return add(
			{nullptr, nullptr, std::make_shared<HashedCopy>(spec, budget_.get(), &uploader_, pool_.get())}, copy);
	}

	Status create_match(const engine::CopySpec &spec, engine::CopyId *copy)
	{
		if (spec.distance.element != ElementType::kSet || !engine::match_metric(spec.distance.metric))
			return Status::error(StatusCode::kUnsupported, "matches are counted in sets only");
		if (!ways_.holds_matches)
			return Status::error(StatusCode::kUnsupported, "matches are not counted on this GPU");
		if (spec.distance.dim < sizeof(uint32_t) || spec.distance.dim > kMaxDimensions)
			return Status::error(StatusCode::kInvalidArgument, "the size of a slot is out of range");
		return add({nullptr, std::make_shared<DeviceMatchCopy>(spec, budget_.get()), nullptr}, copy);
	}

	Status add(AnyCopy made, engine::CopyId *copy)
	{
		const std::unique_lock lock(mutex_);

		copies_.emplace(next_copy_, std::move(made));
		*copy = next_copy_++;
		return Status::ok();
	}

	Status search_rows(Copy *copy, SearchContext *context, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control)
	{
		const std::shared_ptr<const Snapshot> snapshot = copy->snapshot();
		const bool candidates_only = copy->kind() == engine::CopyKind::kCodes;
		const SearchOptions search_options = {&lane_, ways_.filter_min_queries, ways_.graph_tuning, ways_.graph_alone,
			ways_.graph_choice, ways_.one_pass ? &one_pass_ : nullptr, ways_.few_lists, ways_.few_real_lists,
			ways_.few_real_pairs, candidates_only, ways_.bins};
		const bool has_lists = copy->kind() == engine::CopyKind::kLists || engine::has_codes(copy->kind());
		const auto search = has_lists                  ? search_lists
			: copy->kind() == engine::CopyKind::kGraph ? search_graphs
													   : search_snapshot;
		SearchCounts counts;

		if (candidates_only &&
			std::any_of(
				queries.begin(), queries.end(), [](const engine::SearchQuery &query) { return query.probes.empty(); }))
			return Status::error(StatusCode::kInvalidArgument, "the copy has no vectors to score");
		VECTORGPU_TRY(search({&device_, context, copy->spec(), copy->shape(), *snapshot, queries, search_options,
			results, &counts, control}));
		n_rescored_ += counts.n_rescored;
		n_one_pass_ += counts.n_one_pass;
		n_graph_alone_ += counts.n_graph_alone;
		n_graph_blocks_ += counts.n_graph_blocks;
		n_given_up_ += counts.n_given_up;
		n_few_lists_ += counts.n_few_lists;
		n_few_real_lists_ += counts.n_few_real_lists;
		return Status::ok();
	}

	Status search_match(DeviceMatchCopy *copy, SearchContext *context, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control)
	{
		MatchWorkspace workspace(&context->stream, &context->workspace);
		MatchCounts counts;

		VECTORGPU_TRY(device_.provoke(context->stream.get()));
		VECTORGPU_TRY(copy->search(queries, &workspace, results, &counts, control));
		n_matched_ += counts.n_on_device;
		n_rescored_ += counts.n_compared;
		return Status::ok();
	}

	Status search_hashed(HashedCopy *copy, SearchContext *context, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control)
	{
		HashedCounts counts;

		VECTORGPU_TRY(copy->search(&device_, context, queries, results, &counts, control));
		n_rescored_ += counts.n_rescored;
		n_hashed_ += counts.n_on_device;
		return Status::ok();
	}

	/// The watchdog's thread: a kernel that never ends is noticed by nobody else, since whoever waits for it waits in
	/// the driver.
	void watch()
	{
		const uint64_t limit_ns = static_cast<uint64_t>(options_.hang_limit_ms) * 1000 * 1000;
		const auto pause = std::chrono::milliseconds(std::clamp(options_.hang_limit_ms / 8, 10u, 1000u));
		std::unique_lock lock(contexts_mutex_);

		while (!watch_ended_.wait_for(lock, pause, [this] { return stopping_; }))
		{
			const uint64_t now = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
				std::chrono::steady_clock::now().time_since_epoch())
					.count());
			const uint64_t since = device_.waiting_since_ns();

			if (since != 0 && now > since && now - since > limit_ns)
				device_.lose("a kernel does not end");
		}
	}

	/// What the device has left when all workspaces are made.
	Status make_budget()
	{
		size_t free_bytes = 0;
		size_t total_bytes = 0;

		VECTORGPU_TRY(device_.check(cudaMemGetInfo(&free_bytes, &total_bytes), "ask for the GPU's free memory"));

		const uint64_t left = free_bytes > kReserveBytes ? free_bytes - kReserveBytes : 1;

		budget_ = std::make_unique<Budget>(&device_, left);
		return Status::ok();
	}

	/// A context for one search; waits until one is free.
	class ContextLease
	{
	public:
		explicit ContextLease(Impl *engine) : engine_(engine)
		{
			std::unique_lock lock(engine->contexts_mutex_);

			engine->context_freed_.wait(lock, [&] { return !engine->free_contexts_.empty(); });
			context_ = engine->free_contexts_.back();
			engine->free_contexts_.pop_back();
		}

		~ContextLease()
		{
			{
				const std::lock_guard lock(engine_->contexts_mutex_);

				engine_->free_contexts_.push_back(context_); // has the room it had before
			}
			engine_->context_freed_.notify_one();
		}

		ContextLease(const ContextLease &) = delete;
		ContextLease &operator=(const ContextLease &) = delete;

		SearchContext *get() const { return context_; }

	private:
		Impl *engine_;
		SearchContext *context_;
	};

	static Status not_resident() { return Status::error(StatusCode::kNotFound, "the copy is not resident"); }

	/// Runs what may throw, on our device; no exception passes an Engine call.
	template <class Work>
	Status guarded(Work work)
	{
		try
		{
			VECTORGPU_TRY(device_.use());
			return work();
		}
		catch (const std::bad_alloc &)
		{
			return Status::error(StatusCode::kOutOfMemory, "out of memory in the CUDA engine");
		}
		catch (const std::length_error &) // a size that no allocation has
		{
			return Status::error(StatusCode::kOutOfMemory, "out of memory in the CUDA engine");
		}
		catch (const std::exception &failure)
		{
			return Status::error(StatusCode::kInternal, failure.what());
		}
	}

	template <class Work>
	Status with(engine::CopyId id, Work work)
	{
		return guarded(
			[&]
			{
				const AnyCopy copy = find(id); // stays alive if it is dropped meanwhile

				if (copy.match != nullptr)
					return work(*copy.match);
				if (copy.hashed != nullptr)
					return work(*copy.hashed);
				return copy.rows != nullptr ? work(*copy.rows) : not_resident();
			});
	}

	/// Of a kind that keeps_on_host().
	template <class Work>
	Status with_kept(engine::CopyId id, Work work)
	{
		return guarded(
			[&]
			{
				const AnyCopy copy = find(id);

				if (copy.match != nullptr)
					return work(*copy.match);
				return copy.hashed != nullptr ? work(*copy.hashed) : not_resident();
			});
	}

	AnyCopy find(engine::CopyId id) const
	{
		const std::shared_lock lock(mutex_);
		const auto found = copies_.find(id);

		return found == copies_.end() ? AnyCopy{} : found->second;
	}

	const CudaEngineOptions options_;
	Ways ways_; // from start() on
	OnePassUse one_pass_;
	Device device_; // before what it owns
	std::unique_ptr<Budget> budget_;
	Copy::Uploader uploader_;
	AppendLane lane_;
	std::once_flag pool_made_;
	std::unique_ptr<engine::ThreadPool> pool_; // of copies of graphs with codes
	std::vector<std::unique_ptr<SearchContext>> contexts_;
	std::mutex contexts_mutex_;
	std::condition_variable context_freed_;
	std::vector<SearchContext *> free_contexts_;
	bool stopping_ = false; // under contexts_mutex_
	std::condition_variable watch_ended_;
	std::thread watchdog_;
	mutable std::shared_mutex mutex_; // copies_ and next_copy_; never held during work on a copy
	std::map<engine::CopyId, AnyCopy> copies_;
	engine::CopyId next_copy_ = 1;
	std::atomic<uint64_t> n_searches_{0};
	std::atomic<uint64_t> n_batches_{0};
	std::atomic<uint64_t> n_rescored_{0};
	std::atomic<uint64_t> n_one_pass_{0};
	std::atomic<uint64_t> n_graph_alone_{0};
	std::atomic<uint64_t> n_graph_blocks_{0};
	std::atomic<uint64_t> n_given_up_{0};
	std::atomic<uint64_t> n_few_lists_{0};
	std::atomic<uint64_t> n_few_real_lists_{0};
	std::atomic<uint64_t> n_hashed_{0};
	std::atomic<uint64_t> n_matched_{0};
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
