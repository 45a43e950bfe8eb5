// See spread_search.hpp. Scores are canonical and (score, row) is a total order, so neither the choice of a replica nor
// the cut of a batch nor the merge of shards changes an answer.
#include "worker/devices/spread_search.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "worker/devices/side_by_side.hpp"

namespace vectorgpu::worker
{
namespace
{

using engine::Coverage;
using engine::FilterWay;
using engine::Neighbor;
using engine::SearchQuery;
using Results = std::vector<std::vector<Neighbor>>;

constexpr size_t kMergedTogether = 512;                      // queries
constexpr size_t kMostKeptScratch = 2;                       // batches of shards whose memory is kept
constexpr size_t kMostKeptAnswers = size_t{2} * 1024 * 1024; // of one of them

/// Adds the time of its life to a sum.
class Timed
{
public:
	explicit Timed(std::atomic<uint64_t> *sum) : sum_(sum), begun_(std::chrono::steady_clock::now()) {}
	~Timed()
	{
		const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begun_;

		sum_->fetch_add(static_cast<uint64_t>(took.count()), std::memory_order_relaxed);
	}
	Timed(const Timed &) = delete;
	Timed &operator=(const Timed &) = delete;

private:
	std::atomic<uint64_t> *const sum_;
	const std::chrono::steady_clock::time_point begun_;
};

/// True if another device that has the same rows may succeed.
bool
is_failure_of_device(const Status &status)
{
	return status.code == StatusCode::kUnavailable || status.code == StatusCode::kInternal ||
		status.code == StatusCode::kOutOfMemory || status.code == StatusCode::kNotFound;
}

Status
other_number()
{
	return Status::error(StatusCode::kInternal, "a device gave another number of answers");
}

/// Exchange the vectors of a piece's answers with those of the batch from `first` on.
void
exchange(Results *piece, Results *batch, size_t first)
{
	std::swap_ranges(piece->begin(), piece->end(), batch->begin() + static_cast<ptrdiff_t>(first));
}

/// A piece of a batch as one shard gets it, and its answers.
struct ShardCall
{
	std::vector<SearchQuery> queries;
	std::vector<Coverage> coverage;
	std::vector<FilterWay> ways;
	std::vector<std::shared_ptr<const engine::Passing>> passing; // keeps what queries point at
	Results results;
};

void
prepare(const SpreadView &view, PassingCuts *cuts, const DevicePlace *place, std::span<const SearchQuery> queries,
	ShardCall *call)
{
	std::map<const engine::Passing *, const engine::Passing *> known;

	call->queries.assign(queries.begin(), queries.end());
	call->coverage.assign(queries.size(), Coverage::kAll);
	call->ways.assign(queries.size(), FilterWay::kNone);
	call->passing.clear();
	for (size_t i = 0; i < queries.size(); i++)
	{
		SearchQuery &query = call->queries[i];

		query.own_row = {}; // a shard numbers its rows by itself
		query.coverage = &call->coverage[i];
		query.filter_way = &call->ways[i];
		if (query.passing == nullptr)
			continue;

		const auto [found, is_new] = known.emplace(query.passing, nullptr);

		if (is_new)
		{
			call->passing.push_back(cuts->cut(view, *query.passing, place));
			found->second = call->passing.back().get();
		}
		query.passing = found->second;
	}
}

/// Merge further answers into a result, which keeps at most k. scratch: any vector, whose memory is used.
void
merge_into(std::vector<Neighbor> *result, const std::vector<Neighbor> &others, size_t k, std::vector<Neighbor> *scratch)
{
	const size_t n = std::min(k, result->size() + others.size());
	const Neighbor *own = result->data();
	const Neighbor *const own_end = own + result->size();
	const Neighbor *other = others.data();
	const Neighbor *const other_end = other + others.size();

	scratch->resize(n);
	for (Neighbor &to : *scratch)
		to = own != own_end && (other == other_end || !engine::neighbor_less(*other, *own)) ? *own++ : *other++;
	result->swap(*scratch);
}

} // namespace

/// The memory of a batch of shards, used again: fresh memory costs a fault for each of its pages.
struct ShardScratch
{
	std::vector<ShardCall> calls; // piece by piece, shard by shard
};

SpreadSearch::SpreadSearch(DeviceSet &devices, const SpreadCuts &cuts)
	: devices_(devices), cuts_(cuts),
	  pool_(devices.size() * devices.size() * std::max<size_t>(cuts.pieces_of_device, 1))
{
}

SpreadSearch::~SpreadSearch() = default;

SpreadTimes
SpreadSearch::times() const
{
	return {spent_.whole, spent_.in_devices, spent_.copying, spent_.merging, spent_.waiting};
}

Status
SpreadSearch::search(const SpreadView &view, PassingCuts *cuts, std::span<const SearchQuery> queries,
	std::vector<std::vector<Neighbor>> *results, engine::SearchControl *control)
{
	const Timed timed(&spent_.whole);

	return view.sharded && view.places.size() > 1 ? search_shards(view, cuts, queries, results, control)
												  : search_replicas(view, queries, results, control);
}

Status
SpreadSearch::call_device(
	const DevicePlace &place, std::span<const SearchQuery> queries, Results *results, engine::SearchControl *control)
{
	const Timed timed(&spent_.in_devices);
	const Status status = devices_.run_search(place.device.get(), queries.size(),
		[&](engine::Engine &engine) { return engine.search(place.id, queries, results, control); });

	return status.is_ok() && results->size() != queries.size() ? other_number() : status;
}

Status
SpreadSearch::search_replicas(
	const SpreadView &view, std::span<const SearchQuery> queries, Results *results, engine::SearchControl *control)
{
	struct Busy
	{
		uint64_t n_running;
		uint64_t n_done;
		const PlacePtr *place;
	};
	std::vector<Busy> order;
	std::vector<PlacePtr> places;
	bool idle = true;

	for (const PlacePtr &place : view.places)
		if (!place->device->lost)
			order.push_back({place->device->n_queries.load(), place->device->n_done.load(), &place});
	if (order.empty())
		return DeviceSet::gone();
	std::stable_sort(order.begin(), order.end(), [](const Busy &a, const Busy &b)
		{ return std::pair(a.n_running, a.n_done) < std::pair(b.n_running, b.n_done); });
	for (const Busy &busy : order)
	{
		places.push_back(*busy.place);
		idle = idle && busy.n_running == 0;
	}

	// With other batches beside it, host and devices have enough to do.
	const size_t most = places.size() > 1 && idle ? places.size() * cuts_.pieces_of_device : places.size();
	const size_t n_pieces = std::clamp<size_t>(queries.size() / cuts_.least_piece, 1, most);

	if (n_pieces == 1)
		return search_piece(places, queries, results, control);

	const auto begin_of = [&](size_t i) { return i * queries.size() / n_pieces; };

	results->resize(queries.size());
	return run_side_by_side(&pool_, n_pieces, n_pieces,
		[&](size_t i)
		{
			const size_t first = begin_of(i);
			const auto own = queries.subspan(first, begin_of(i + 1) - first);
			std::vector<PlacePtr> order_of_piece = places; // piece i begins with device i
			Results part(own.size());
			Status status;

			std::rotate(order_of_piece.begin(), order_of_piece.begin() + static_cast<ptrdiff_t>(i % places.size()),
				order_of_piece.end());
			exchange(&part, results, first);
			status = search_piece(order_of_piece, own, &part, control);

			const Timed timed(&spent_.copying);

			if (status.is_ok())
				exchange(&part, results, first);
			return status;
		});
}

/// Search in the first place whose device does not fail.
Status
SpreadSearch::search_piece(std::span<const PlacePtr> places, std::span<const SearchQuery> queries, Results *results,
	engine::SearchControl *control)
{
	Status status;

	for (const PlacePtr &place : places)
	{
		status = call_device(*place, queries, results, control);
		if (!is_failure_of_device(status))
			return status;
	}
	return status;
}

/// A batch over shards. All shards search a piece, and then it is merged. Threads take these steps in an order in which
/// the shards never wait for a merge, and a merge waits for pieces that other threads have begun.
class SpreadSearch::ShardBatch
{
public:
	ShardBatch(SpreadSearch *search, const SpreadView &view, PassingCuts *cuts, std::span<const SearchQuery> queries,
		Results *results, engine::SearchControl *control, size_t n_pieces, ShardScratch *scratch)
		: search_(*search), view_(view), cuts_(cuts), queries_(queries), results_(*results), control_(control),
		  n_pieces_(n_pieces), n_shards_(view.places.size()), calls_(scratch->calls), open_(n_pieces)
	{
		if (calls_.size() < n_pieces_ * n_shards_)
			calls_.resize(n_pieces_ * n_shards_);
		for (std::atomic<size_t> &open : open_)
			open.store(n_shards_, std::memory_order_relaxed);
		for (size_t piece = 0; piece < n_pieces_; piece++)
		{
			for (size_t shard = 0; shard < n_shards_; shard++)
				steps_.push_back({piece, shard, false});
			if (piece >= kAhead)
				add_merges(piece - kAhead);
		}
		for (size_t piece = n_pieces_ - std::min(n_pieces_, kAhead); piece < n_pieces_; piece++)
			add_merges(piece);
	}

	size_t n_steps() const { return steps_.size(); }

	Status run(size_t i)
	{
		const Step &step = steps_[i];

		return step.merges ? merge(step.piece, step.at) : search(step.piece, step.at);
	}

private:
	static constexpr size_t kAhead = 2; // pieces that are searched before the first is merged

	struct Step
	{
		size_t piece;
		size_t at; // the shard, or the first query of the piece
		bool merges;
	};

	size_t begin_of(size_t piece) const { return piece * queries_.size() / n_pieces_; }
	size_t size_of(size_t piece) const { return begin_of(piece + 1) - begin_of(piece); }

	void add_merges(size_t piece)
	{
		for (size_t at = 0; at < size_of(piece); at += kMergedTogether)
			steps_.push_back({piece, at, true});
	}

	Status search(size_t piece, size_t shard)
	{
		/// Whatever happens, also an exception, the threads that wait for the piece go on.
		struct End
		{
			~End()
			{
				if (!good)
					failed.store(true, std::memory_order_relaxed);
				if (open.fetch_sub(1, std::memory_order_acq_rel) == 1)
					open.notify_all();
			}
			std::atomic<size_t> &open;
			std::atomic<bool> &failed;
			bool good;
		};

		End end{open_[piece], failed_, false};
		ShardCall &call = calls_[piece * n_shards_ + shard];
		const DevicePlace &place = *view_.places[shard];
		Status status;

		if (failed_.load(std::memory_order_relaxed))
			return Status::ok(); // the step that failed has said so
		{
			const Timed timed(&search_.spent_.copying);

			prepare(view_, cuts_, &place, queries_.subspan(begin_of(piece), size_of(piece)), &call);
		}
		status = search_.call_device(place, call.queries, &call.results, control_);
		end.good = status.is_ok();
		return status;
	}

	Status merge(size_t piece, size_t first)
	{
		std::vector<Neighbor> scratch;

		{
			const Timed timed(&search_.spent_.waiting);

			for (size_t n = open_[piece].load(std::memory_order_acquire); n > 0;
				n = open_[piece].load(std::memory_order_acquire))
				open_[piece].wait(n, std::memory_order_acquire);
		}
		if (failed_.load(std::memory_order_relaxed))
			return Status::ok();

		const Timed timed(&search_.spent_.merging);

		for (size_t i = first; i < std::min(first + kMergedTogether, size_of(piece)); i++)
			merge_query(piece, i, &scratch);
		return Status::ok();
	}

	/// Merge the answers to query i of a piece. Those of the first shard have the batch's memory, and the other way
	/// round.
	void merge_query(size_t piece, size_t i, std::vector<Neighbor> *scratch)
	{
		const SearchQuery &query = queries_[begin_of(piece) + i];
		const std::span<ShardCall> calls = std::span(calls_).subspan(piece * n_shards_, n_shards_);
		std::vector<Neighbor> &result = results_[begin_of(piece) + i];
		Coverage coverage = Coverage::kAll;
		FilterWay way = FilterWay::kNone;

		result.swap(calls[0].results[i]);
		for (const ShardCall &call : calls)
		{
			coverage = std::min(coverage, call.coverage[i]);
			way = std::max(way, call.ways[i]);
		}
		for (const ShardCall &call : calls.subspan(1))
			merge_into(&result, call.results[i], query.k, scratch);
		if (query.coverage != nullptr)
			*query.coverage = coverage;
		if (query.filter_way != nullptr)
			*query.filter_way = way;
	}

	SpreadSearch &search_;
	const SpreadView &view_;
	PassingCuts *const cuts_;
	const std::span<const SearchQuery> queries_;
	Results &results_;
	engine::SearchControl *const control_;
	const size_t n_pieces_;
	const size_t n_shards_;
	std::vector<ShardCall> &calls_;
	std::vector<std::atomic<size_t>> open_; // shards that have not searched the piece
	std::vector<Step> steps_;
	std::atomic<bool> failed_{false};
};

std::unique_ptr<ShardScratch>
SpreadSearch::take_scratch()
{
	const std::lock_guard lock(mutex_);

	if (scratch_.empty())
		return std::make_unique<ShardScratch>();

	std::unique_ptr<ShardScratch> scratch = std::move(scratch_.back());

	scratch_.pop_back();
	return scratch;
}

/// Keep the memory for the next batch, unless it is much.
void
SpreadSearch::keep_scratch(std::unique_ptr<ShardScratch> scratch)
{
	size_t n_answers = 0;

	for (ShardCall &call : scratch->calls)
	{
		call.passing.clear();
		for (const std::vector<Neighbor> &result : call.results)
			n_answers += result.capacity();
	}
	if (n_answers > kMostKeptAnswers)
		return;

	const std::lock_guard lock(mutex_);

	if (scratch_.size() < kMostKeptScratch)
		scratch_.push_back(std::move(scratch));
}

Status
SpreadSearch::search_shards(const SpreadView &view, PassingCuts *cuts, std::span<const SearchQuery> queries,
	Results *results, engine::SearchControl *control)
{
	const size_t n_shards = view.places.size();
	const bool idle = std::all_of(view.places.begin(), view.places.end(),
		[](const PlacePtr &place) { return place->device->n_queries.load() == 0; });
	const size_t n_pieces =
		std::clamp<size_t>(queries.size() / cuts_.least_piece, 1, idle ? cuts_.pieces_of_shards : 1);
	const size_t n_workers = n_shards * (queries.size() > kMergedTogether ? cuts_.pieces_of_device : 1);
	std::unique_ptr<ShardScratch> scratch = take_scratch();

	results->resize(queries.size());

	ShardBatch batch(this, view, cuts, queries, results, control, n_pieces, scratch.get());
	const Status status = run_side_by_side(&pool_, n_workers, batch.n_steps(), [&](size_t i) { return batch.run(i); });

	keep_scratch(std::move(scratch));
	return status;
}

} // namespace vectorgpu::worker
