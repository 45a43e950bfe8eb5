// See cpu_engine.hpp: the registry of copies, argument checks, and the border where exceptions become a Status.
#include "engine/cpu/cpu_engine.hpp"

#include <atomic>
#include <cblas.h>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/limits.hpp"
#include "engine/copies/match_copy.hpp"
#include "engine/cpu/cpu_engine_coded.hpp"
#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/cpu_engine_graph.hpp"
#include "engine/cpu/cpu_engine_graph_builder.hpp"
#include "engine/cpu/cpu_engine_hashed.hpp"
#include "engine/cpu/cpu_engine_list_builder.hpp"
#include "engine/cpu/cpu_engine_lists.hpp"
#include "engine/cpu/cpu_engine_match.hpp"
#include "engine/cpu/cpu_engine_search.hpp"
#include "engine/cpu/cpu_engine_sparse.hpp"
#include "engine/cpu/passing_groups.hpp"
#include "engine/cpu/thread_pool.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kSmallAppendBytes = 16 * 1024; // copied, with norms, in less time than it takes to wake a thread

/// Run work(); exceptions become a status, since none may pass an Engine call.
template <class Work>
Status
guarded(Work work)
{
	try
	{
		return work();
	}
	catch (const std::bad_alloc &)
	{
		return Status::error(StatusCode::kOutOfMemory, "out of memory in the CPU engine");
	}
	catch (const std::length_error &) // a size that no allocation has
	{
		return Status::error(StatusCode::kOutOfMemory, "out of memory in the CPU engine");
	}
	catch (const std::exception &failure)
	{
		return Status::error(StatusCode::kInternal, failure.what());
	}
}

class CpuEngine final : public Engine
{
public:
	explicit CpuEngine(const CpuEngineOptions &options) : options_(options), pool_(options.n_threads)
	{
		// The engine's threads are the only ones: products of several searches run side by side and do not queue for
		// BLAS's.
		openblas_set_num_threads(1);
	}

	const char *name() const override { return "cpu"; }

	size_t rounded_row_bytes(const CopySpec &copy_spec) const override { return CpuCopy::rounded_row_bytes(copy_spec); }

	Status create(const CopySpec &copy_spec, CopyId *copy) override
	{
		return guarded(
			[&]
			{
				const DistanceSpec &spec = copy_spec.distance;
				const uint32_t most = spec.element == ElementType::kBit ? kMaxBitDimensions : kMaxDimensions;

				if (copy_spec.kind == CopyKind::kMatch)
					return create_match(copy_spec, copy);
				if (copy_spec.kind == CopyKind::kSparse)
					return create_sparse(copy_spec, copy);
				if (!metric_supports(spec.metric, spec.element))
					return Status::error(StatusCode::kUnsupported, "the element type does not have the metric");
				if (spec.dim < 1 || spec.dim > most)
					return Status::error(StatusCode::kInvalidArgument, "the number of dimensions is out of range");

				if (copy_spec.kind != CopyKind::kRows && copy_spec.kind != CopyKind::kLists &&
					copy_spec.kind != CopyKind::kGraph && spec.element == ElementType::kBit)
					return Status::error(StatusCode::kUnsupported, "bits have neither codes nor angles");
				if (copy_spec.kind == CopyKind::kHashedGraph && !graph::codes_support(spec.metric))
					return Status::error(StatusCode::kUnsupported, "the metric has no codes");

				return add({std::make_shared<CpuCopy>(copy_spec, &populator_), nullptr}, copy);
			});
	}

	Status load_segment(CopyId copy, SegmentId segment, const RowBlock &rows) override
	{
		return with(copy, [&](StoredCopy &c) { return c.load_segment(segment, rows); });
	}

	Status load_structure(CopyId copy, SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return with(copy, [&](StoredCopy &c) { return c.load_structure(segment, parameter, bytes); });
	}

	Status seal_segment(CopyId copy, SegmentId segment) override
	{
		return with(copy, [&](StoredCopy &c) { return c.seal_segment(segment); });
	}

	Status prepare_segment(CopyId copy, SegmentId segment) override
	{
		return with(copy, [&](StoredCopy &c) { return c.prepare_segment(segment); });
	}

	Status drop_segment(CopyId copy, SegmentId segment) override
	{
		return with(copy, [&](StoredCopy &c) { return c.drop_segment(segment); });
	}

	Status append_delta(CopyId copy, uint64_t position, const RowBlock &rows) override
	{
		return with(copy, [&](StoredCopy &c) { return c.append_delta(position, rows); });
	}

	Status trim_delta(CopyId copy, uint64_t position) override
	{
		return with(copy, [&](StoredCopy &c) { return c.trim_delta(position); });
	}

	Status set_tombstones(CopyId copy, SegmentId segment, std::span<const uint8_t> bits) override
	{
		return with(copy, [&](StoredCopy &c) { return c.set_tombstones(segment, bits); });
	}

	Status set_delta_tombstones(CopyId copy, uint64_t first_position, std::span<const uint8_t> bits) override
	{
		return with(copy, [&](StoredCopy &c) { return c.set_delta_tombstones(first_position, bits); });
	}

	Status drop(CopyId copy) override
	{
		const std::unique_lock lock(mutex_);

		if (copies_.erase(copy) == 0)
			return not_resident();
		return Status::ok();
	}

	Status search(CopyId copy, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results,
		SearchControl *control) override
	{
		results->clear();
		return guarded(
			[&]
			{
				const Held held = find(copy); // stays alive if it is dropped meanwhile

				if (held.get() == nullptr)
					return not_resident();
				if (Status status = held.match != nullptr ? search_one(*held.match, queries, results, control)
														  : search_one(*held.rows, queries, results, control);
					!status.is_ok())
					return status;
				if (control != nullptr && control->stop.load(std::memory_order_relaxed))
					return Status::error(StatusCode::kCancelled, "the search was stopped");
				n_searches_ += queries.size();
				n_batches_ += 1;
				return Status::ok();
			});
	}

	Status read_rows(
		CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) override
	{
		return with(copy, [&](StoredCopy &c) { return c.read_rows(segment, first, n_rows, row_ids, vectors); });
	}

	Status read_structure(CopyId copy, SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) override
	{
		return with(copy, [&](StoredCopy &c) { return c.read_structure(segment, first, n_bytes, bytes); });
	}

	Status read_tombstones(CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) override
	{
		return with(copy, [&](StoredCopy &c) { return c.read_tombstones(segment, first, n_rows, bits); });
	}

	Status check_derived(CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) override
	{
		return with(copy, [&](StoredCopy &c) { return c.check_derived(segment, first, n_rows, n_different); });
	}

	bool try_append_delta(CopyId copy, uint64_t position, const RowBlock &rows, Status *status) override
	{
		bool at_once = true;
		const Status done = with(copy,
			[&](StoredCopy &c)
			{
				Status appended;

				at_once = rows.n_rows <= kSmallAppendBytes / vector_bytes(c.spec().element, c.spec().dim) &&
					c.try_append_delta(position, rows, &appended);
				return appended;
			});

		*status = done;
		return at_once;
	}

	Status make_list_builder(
		const ListBuildSpec &spec, SearchControl *control, std::unique_ptr<ListBuilder> *builder) override
	{
		return guarded(
			[&]
			{
				const Status good = check_list_build(spec);

				if (good.is_ok())
					*builder = make_cpu_list_builder(spec, &build_pool(), control);
				return good;
			});
	}

	Status make_graph_builder(const GraphBuildSpec &spec, SearchControl *control, Engine *searcher,
		std::unique_ptr<GraphBuilder> *builder) override
	{
		return guarded(
			[&]
			{
				const Status good = check_graph_build(spec);

				if (good.is_ok())
					*builder = make_cpu_graph_builder(spec, &build_pool(), control, searcher, options_.near_groups);
				return good;
			});
	}

	size_t n_threads() const override { return pool_.n_threads(); }

	uint64_t host_bytes(CopyId copy) const override
	{
		const Held held = find(copy);

		return held.get() != nullptr ? held.get()->host_bytes() : 0;
	}

	EngineStats stats() const override
	{
		EngineStats stats;
		const std::shared_lock lock(mutex_);

		for (const auto &[id, copy] : copies_)
			stats.resident_bytes += copy.get()->host_bytes();
		stats.host_bytes = stats.resident_bytes;
		stats.n_copies = copies_.size();
		stats.n_searches = n_searches_;
		stats.n_batches = n_batches_;
		stats.n_rescored = n_rescored_;
		return stats;
	}

	uint64_t n_rescored() const override { return n_rescored_; }

private:
	/// Search graphs for queries that name widths, and score all rows for the others.
	void search_graph_copy(const CpuCopy &copy, const Snapshot &snapshot, std::span<const SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results, SearchControl *control)
	{
		const DistanceSpec &spec = copy.spec();
		std::vector<SearchQuery> exact;
		std::vector<SearchQuery> narrow;
		std::vector<size_t> exact_places;
		std::vector<std::vector<Neighbor> *> narrow_results;
		std::vector<std::vector<Neighbor>> exact_results;

		results->resize(queries.size());
		for (size_t i = 0; i < queries.size(); i++)
		{
			if (!queries[i].probes.empty())
			{
				narrow.push_back(queries[i]);
				narrow_results.push_back(&(*results)[i]);
				continue;
			}
			exact.push_back(queries[i]);
			exact_places.push_back(i);
			if (queries[i].coverage != nullptr)
				*queries[i].coverage = Coverage::kAll;
		}
		if (!narrow.empty() && copy.kind() == CopyKind::kHashedGraph)
			n_rescored_ += search_hashed_graphs(spec, snapshot, narrow, pool_, narrow_results, control);
		else if (!narrow.empty())
			n_rescored_ += search_graphs(spec, snapshot, narrow, pool_, narrow_results, control);
		if (exact.empty())
			return;
		n_rescored_ += search_snapshot(spec, snapshot, exact, options_, pool_, &exact_results, control);
		for (size_t i = 0; i < exact.size(); i++)
			(*results)[exact_places[i]] = std::move(exact_results[i]);
	}

	/// A copy: one of the two, or none.
	struct Held
	{
		std::shared_ptr<CpuCopy> rows;
		std::shared_ptr<MatchCopy> match;

		StoredCopy *get() const
		{
			return match != nullptr ? static_cast<StoredCopy *>(match.get()) : static_cast<StoredCopy *>(rows.get());
		}
	};

	Status create_match(const CopySpec &spec, CopyId *copy)
	{
		if (spec.distance.element != ElementType::kSet || !match_metric(spec.distance.metric))
			return Status::error(StatusCode::kUnsupported, "matches are counted in sets only");
		if (spec.distance.dim < sizeof(uint32_t) || spec.distance.dim > kMaxDimensions)
			return Status::error(StatusCode::kInvalidArgument, "the size of a slot is out of range");
		return add({nullptr, std::make_shared<MatchCopy>(spec)}, copy);
	}

	Status create_sparse(const CopySpec &spec, CopyId *copy)
	{
		if (spec.distance.element != ElementType::kSet || !sparse_metric(spec.distance.metric))
			return Status::error(StatusCode::kUnsupported, "sparse vectors do not have the metric");
		if (spec.distance.dim < sizeof(uint32_t) || spec.distance.dim > kMaxDimensions)
			return Status::error(StatusCode::kInvalidArgument, "the size of a slot is out of range");
		return add({std::make_shared<CpuCopy>(spec, &populator_), nullptr}, copy);
	}

	Status add(Held made, CopyId *copy)
	{
		const std::unique_lock lock(mutex_);

		copies_.emplace(next_copy_, std::move(made));
		*copy = next_copy_++;
		return Status::ok();
	}

	Status search_one(CpuCopy &copy, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results,
		SearchControl *control)
	{
		for (const SearchQuery &query : queries)
			if (query.query == nullptr)
				return Status::error(StatusCode::kInvalidArgument, "a query without a vector");
			else if (copy.kind() == CopyKind::kCodes && query.probes.empty())
				return Status::error(StatusCode::kInvalidArgument, "the copy has no vectors to score");
		if (copy.kind() == CopyKind::kSparse)
			if (Status status = check_sparse_queries(queries); !status.is_ok())
				return status;

		const std::shared_ptr<const Snapshot> snapshot = copy.snapshot();

		for (const SearchQuery &query : queries)
			if (query.filter_way != nullptr)
				*query.filter_way = FilterWay::kNone;
		if (!has_conditions(queries))
		{
			search_snapshot_of(copy, *snapshot, queries, results, control);
			return Status::ok();
		}
		if (copy.kind() == CopyKind::kCodes)
			return Status::error(StatusCode::kUnsupported, "candidates have no conditions");

		const Status status = search_groups(
			*snapshot, queries,
			[&](const Snapshot &masked, std::span<const SearchQuery> group, std::vector<std::vector<Neighbor>> *found)
			{ search_snapshot_of(copy, masked, group, found, control); }, results, control);

		if (copy.kind() == CopyKind::kLists || copy.kind() == CopyKind::kCodedLists)
			copy.recount();
		return status;
	}

	/// All queries have the same conditions, those of the snapshot.
	void search_snapshot_of(const CpuCopy &copy, const Snapshot &snapshot, std::span<const SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results, SearchControl *control)
	{
		if (copy.kind() == CopyKind::kLists)
			n_rescored_ += search_lists(copy.spec(), snapshot, queries, pool_, results, control);
		else if (copy.kind() == CopyKind::kCodedLists)
			n_rescored_ +=
				search_coded_lists(copy.spec(), snapshot, queries, CodedAnswer::kNearest, pool_, results, control);
		else if (copy.kind() == CopyKind::kCodes)
			(void) search_coded_lists(
				copy.spec(), snapshot, queries, CodedAnswer::kCandidates, pool_, results, control);
		else if (copy.kind() == CopyKind::kGraph || copy.kind() == CopyKind::kHashedGraph)
			search_graph_copy(copy, snapshot, queries, results, control);
		else if (copy.kind() == CopyKind::kSparse)
			n_rescored_ += search_sparse(copy.spec(), snapshot, queries, pool_, results, control);
		else
			n_rescored_ += search_snapshot(copy.spec(), snapshot, queries, options_, pool_, results, control);
	}

	Status search_one(MatchCopy &copy, std::span<const SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results, SearchControl *control)
	{
		if (Status status = check_match_queries(copy.spec(), queries); !status.is_ok())
			return status;
		n_rescored_ += search_match(copy.spec(), *copy.snapshot(), queries, pool_, results, control);
		return Status::ok();
	}

	static Status not_resident() { return {StatusCode::kNotFound, "the copy is not resident"}; }

	template <class Work>
	Status with(CopyId id, Work work)
	{
		return guarded(
			[&]
			{
				const Held held = find(id); // stays alive if it is dropped meanwhile

				return held.get() != nullptr ? work(*held.get()) : not_resident();
			});
	}

	Held find(CopyId id) const
	{
		const std::shared_lock lock(mutex_);
		const auto found = copies_.find(id);

		return found == copies_.end() ? Held{} : found->second;
	}

	/// Return the pool of builds, made for the first one. Throws bad_alloc.
	ThreadPool &build_pool()
	{
		const std::lock_guard lock(build_pool_mutex_);

		if (build_pool_ == nullptr)
			build_pool_ = std::make_unique<ThreadPool>(options_.n_threads);
		return *build_pool_;
	}

	const CpuEngineOptions options_;
	ThreadPool pool_;     // of searches
	Populator populator_; // of segments being loaded
	std::mutex build_pool_mutex_;
	std::unique_ptr<ThreadPool>
		build_pool_; // of builds: a stage holds its helpers for minutes, and searches do not wait for it
	mutable std::shared_mutex mutex_; // copies_ and next_copy_; never held during work on a copy
	std::map<CopyId, Held> copies_;
	CopyId next_copy_ = 1;
	std::atomic<uint64_t> n_searches_{0};
	std::atomic<uint64_t> n_batches_{0};
	std::atomic<uint64_t> n_rescored_{0};
};

} // namespace

std::unique_ptr<Engine>
make_cpu_engine(const CpuEngineOptions &options)
{
	try
	{
		return std::make_unique<CpuEngine>(options);
	}
	catch (const std::bad_alloc &)
	{
		return nullptr;
	}
}

} // namespace vectorgpu::engine
