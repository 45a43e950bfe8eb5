// See match_copy.hpp.
#include "cuda/match_copy.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <utility>

#include "cuda/host_team.hpp"
#include "engine/cpu/selection.hpp"

namespace vectorgpu::cuda
{

using engine::match::CodeRange;
using engine::match::MatchIndex;

namespace
{

constexpr uint64_t kPartsOfBudget = 4; // of what is left of the budget a part of an index that does not fit takes a fourth

/// What comes behind `after` by edit distance: request->after_count and after_row, or nothing.
void
continue_by_distance(const engine::Neighbor &after, uint32_t most_distance, std::span<const RowId> row_ids, MatchRequest *request)
{
	if (std::isnan(after.score) || after.score > most_distance)
		request->k = 0; // distances end there, and rows at a NaN would come before
	else if (after.score >= 0)
	{
		const double distance = std::floor(after.score);

		// Behind a distance between two whole numbers come those of the larger one, all of them.
		request->has_after = true;
		if (distance < after.score && distance >= most_distance)
			request->k = 0;
		request->after_count = most_distance - static_cast<uint32_t>(std::min<double>(std::ceil(after.score), most_distance));
		request->after_row = distance < after.score
								 ? 0
								 : static_cast<uint32_t>(std::upper_bound(row_ids.begin(), row_ids.end(), after.row) - row_ids.begin());
	}
}

/// True if the host counts the requests before the lists of an index in parts have come to the device. Lists count as of equal length.
bool
host_is_faster(const MatchIndex &index, std::span<const MatchRequest> requests)
{
	constexpr double kPostingsPerMs = 7e5; // of a thread
	constexpr double kRowsPerMs = 1e7;     // whose counters are cleared and looked at
	constexpr double kBytesPerMs = 1.2e7;  // from memory that is not pinned
	const double list = static_cast<double>(index.n_postings()) / static_cast<double>(std::max<size_t>(index.n_keys(), 1));
	const double threads = static_cast<double>(std::min(requests.size(), HostTeam::get().n_threads()));
	uint64_t n_rounds = 1; // of k in pieces
	double host_ms = static_cast<double>(requests.size()) * static_cast<double>(index.n_rows()) / kRowsPerMs;

	for (const MatchRequest &request : requests)
	{
		n_rounds = std::max<uint64_t>(n_rounds, std::min(request.k, index.n_rows()) / kernels::kMaxSelectK + 1);
		for (const CodeRange &range : request.ranges)
			host_ms += static_cast<double>(range.last - range.first) * list / kPostingsPerMs;
	}
	return host_ms / threads <
		   static_cast<double>(n_rounds * DeviceMatchIndex::list_bytes(index.tiles(), index.n_keys())) / kBytesPerMs;
}

} // namespace

DeviceMatchCopy::Segment::~Segment()
{
	if (budget != nullptr)
		budget->give(charged);
}

Status
DeviceMatchCopy::Segment::search(const std::shared_ptr<const engine::Bitmap> &now_dead, std::span<const MatchRequest> requests,
	MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *found, engine::SearchControl *control)
{
	const std::lock_guard lock(mutex);

	if (dead != now_dead)
	{
		VECTORGPU_TRY(index.set_dead(now_dead == nullptr ? std::span<const uint8_t>() : std::span<const uint8_t>(*now_dead)));
		dead = now_dead;
	}
	return index.search(requests, workspace, found, control);
}

DeviceMatchCopy::DeviceMatchCopy(const engine::CopySpec &spec, Budget *budget)
	: MatchCopy(
		  spec, [this](engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made) { return load(id, made); },
		  [this](engine::SegmentId id) { forget(id); }),
	  budget_(budget)
{
}

/// What the budget has for a segment if nobody but the copy's other segments takes of it. What does not fit that would not fit if all other
/// copies left.
uint64_t
DeviceMatchCopy::left_beside(engine::SegmentId id) const
{
	const std::lock_guard lock(mutex_);
	uint64_t taken = 0;

	for (const auto &[other, segment] : segments_)
		taken += other == id ? 0 : segment->charged;
	return budget_->most() == 0 ? UINT64_MAX : budget_->most() - std::min(taken, budget_->most());
}

Status
DeviceMatchCopy::load(engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made)
{
	auto segment = std::make_shared<Segment>();
	const MatchIndex &index = made->index;
	const uint64_t dead_bytes = (index.n_rows() + 7) / 8;
	const uint64_t left = left_beside(id);

	// Texts are compared with every query, which is faster than to count what few of them it is enough to compare.
	if (spec().metric != Metric::kEdit)
	{
		const bool whole = DeviceMatchIndex::list_bytes(index.tiles(), index.n_keys()) + dead_bytes <= left;

		VECTORGPU_TRY(segment->index.load(
			budget_->device(), index.tiles(), index.n_rows(), index.n_keys(), whole ? 0 : std::max<uint64_t>(1, left / kPartsOfBudget)));
	}
	else if (DeviceTexts::fits(index, left - std::min(left, dead_bytes)))
		VECTORGPU_TRY(segment->index.load_texts(budget_->device(), index));
	VECTORGPU_TRY(budget_->take(segment->index.device_bytes() + dead_bytes));
	segment->charged = segment->index.device_bytes() + dead_bytes;
	segment->budget = budget_;

	const std::lock_guard lock(mutex_);

	segments_[id].swap(segment); // the old one goes after the lock
	return Status::ok();
}

void
DeviceMatchCopy::forget(engine::SegmentId id)
{
	std::shared_ptr<Segment> gone; // searches under way may hold it
	const std::lock_guard lock(mutex_);

	if (const auto found = segments_.find(id); found != segments_.end())
	{
		gone = std::move(found->second);
		segments_.erase(found);
	}
}

std::shared_ptr<DeviceMatchCopy::Segment>
DeviceMatchCopy::find(engine::SegmentId id) const
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	return found == segments_.end() ? nullptr : found->second;
}

/// The queries `numbers` by the host's index, with all threads.
Status
DeviceMatchCopy::search_on_host(const engine::MatchSegmentView &view, std::span<const engine::SearchQuery> queries, std::span<const size_t> numbers,
	std::span<engine::TopK *const> topks, engine::SearchControl *control) const
{
	std::atomic<bool> refused{false};
	std::atomic<bool> stopped{false};

	HostTeam::get().share_each(numbers.size(),
		[&](size_t first, size_t last)
		{
			for (size_t i = first; i < last; i++)
			{
				const engine::match::MatchQuery wanted = engine::match_query(spec(), queries[numbers[i]]);
				std::vector<std::vector<engine::Neighbor>> rows(1);

				if (control != nullptr && control->stop.load(std::memory_order_relaxed))
				{
					stopped.store(true, std::memory_order_relaxed);
					return;
				}
				if (!view.segment->index.search({&wanted, 1}, view.dead == nullptr ? nullptr : view.dead->data(), &rows, engine::match_poll(control)))
				{
					refused.store(true, std::memory_order_relaxed);
					return;
				}
				for (const engine::Neighbor &one : rows[0])
					engine::topk_push(topks[numbers[i]], &one.score, &one.row, 1, nullptr, 0);
				if (control != nullptr)
					control->progress.fetch_add(1, std::memory_order_relaxed);
			}
		});
	if (stopped)
		return Status::error(StatusCode::kCancelled, "the search was stopped");
	if (refused)
		return Status::error(StatusCode::kInvalidArgument, "a query that is not one");
	return Status::ok();
}

Status
DeviceMatchCopy::search_segment(const engine::MatchSegmentView &view, std::span<const engine::SearchQuery> queries,
	MatchWorkspace *workspace, std::span<engine::TopK *const> topks, engine::SearchControl *control)
{
	const MatchIndex &index = view.segment->index;
	const std::span<const RowId> row_ids = index.row_ids();
	const std::shared_ptr<Segment> segment = find(view.id);
	std::vector<std::vector<CodeRange>> ranges;
	std::vector<MatchRequest> requests;
	std::vector<std::vector<MatchFound>> found;

	// Dropped since the snapshot was taken: a segment's number is not used again, so that there is no other one.
	if (segment == nullptr)
		return Status::error(StatusCode::kNotFound, "the segment has gone");
	ranges.reserve(queries.size());
	for (const engine::SearchQuery &query : queries)
	{
		engine::match::Parts parts;
		MatchRequest request;

		(void) engine::match::open_parts(query.query, query.query_bytes, &parts); // has been checked
		ranges.push_back(index.resolve(parts));
		request.ranges = ranges.back();
		request.most_count = index.most_count(ranges.back());
		request.k = query.k;
		if (query.has_after)
		{
			// Scores are minus counts: what comes after a score s counts less than -s, or as much and has a larger row id.
			const double count = -query.after.score;

			request.has_after = true;
			if (std::isnan(count) || count < 0)
				request.k = 0;
			else if (count < static_cast<double>(UINT32_MAX))
			{
				request.after_count = static_cast<uint32_t>(std::ceil(count));
				request.after_row = std::floor(count) < count
										? static_cast<uint32_t>(row_ids.size())
										: static_cast<uint32_t>(std::upper_bound(row_ids.begin(), row_ids.end(), query.after.row) - row_ids.begin());
			}
			else
				request.has_after = false;
		}
		requests.push_back(request);
	}
	if (segment->index.n_parts() > 1 && host_is_faster(index, requests))
	{
		std::vector<size_t> all(queries.size());

		std::iota(all.begin(), all.end(), size_t{0});
		return search_on_host(view, queries, all, topks, control);
	}
	VECTORGPU_TRY(segment->search(view.dead, requests, workspace, &found, control));
	for (size_t i = 0; i < found.size(); i++)
		for (const MatchFound &one : found[i])
		{
			const double score = one.count == 0 ? 0.0 : -static_cast<double>(one.count); // 0.0 - count is -0 with some compilers

			engine::topk_push(topks[i], &score, &row_ids[one.row], 1, nullptr, 0);
		}
	return Status::ok();
}

/// Queries and segments that the device can compare are searched there, the others by the host's index.
Status
DeviceMatchCopy::search_texts(const engine::MatchSegmentView &view, std::span<const engine::SearchQuery> queries,
	MatchWorkspace *workspace, std::span<engine::TopK *const> topks, engine::SearchControl *control)
{
	const MatchIndex &index = view.segment->index;
	const std::shared_ptr<Segment> segment = find(view.id);
	std::vector<std::vector<uint8_t>> symbols;
	std::vector<MatchRequest> requests;
	std::vector<size_t> on_device, on_host;
	std::vector<std::vector<MatchFound>> found;

	if (segment == nullptr)
		return Status::error(StatusCode::kNotFound, "the segment has gone");

	const DeviceTexts &texts = segment->index.texts();
	const uint32_t most = texts.most_distance();

	symbols.reserve(queries.size());
	for (size_t i = 0; i < queries.size(); i++)
	{
		engine::match::Parts parts;
		engine::match::GramQuery grams;
		const uint8_t *codes;
		MatchRequest request;

		(void) engine::match::open_parts(queries[i].query, queries[i].query_bytes, &parts); // has been checked
		(void) engine::match::open_gram_query(parts, &grams, &codes);
		if (!texts.loaded() || grams.size > kernels::kMatchTextQuery)
		{
			on_host.push_back(i);
			continue;
		}
		symbols.push_back(texts.symbols_of(codes, static_cast<size_t>(grams.size)));
		request.symbols = symbols.back();
		request.most_count = most;
		request.k = queries[i].k;
		if (queries[i].has_after)
			continue_by_distance(queries[i].after, most, index.row_ids(), &request);
		requests.push_back(request);
		on_device.push_back(i);
	}
	if (!requests.empty())
		VECTORGPU_TRY(segment->search(view.dead, requests, workspace, &found, control));
	for (size_t i = 0; i < found.size(); i++)
		for (const MatchFound &one : found[i])
		{
			const double score = static_cast<double>(most - one.count);

			engine::topk_push(topks[on_device[i]], &score, &index.row_ids()[one.row], 1, nullptr, 0);
		}
	return search_on_host(view, queries, on_host, topks, control);
}

Status
DeviceMatchCopy::search(std::span<const engine::SearchQuery> queries, MatchWorkspace *workspace,
	std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control)
{
	const std::shared_ptr<const engine::MatchSnapshot> now = snapshot();
	std::vector<engine::Selection> selections(queries.size());
	std::vector<engine::TopK *> topks;

	VECTORGPU_TRY(engine::check_match_queries(spec(), queries));
	for (size_t i = 0; i < queries.size(); i++)
	{
		selections[i].start(queries[i], now->n_rows);
		topks.push_back(selections[i].topk());
	}
	for (const engine::MatchSegmentView &view : now->segments)
	{
		if (control != nullptr && control->stop.load(std::memory_order_relaxed))
			return Status::error(StatusCode::kCancelled, "the search was stopped");
		VECTORGPU_TRY(spec().metric == Metric::kEdit ? search_texts(view, queries, workspace, topks, control)
													 : search_segment(view, queries, workspace, topks, control));
		if (control != nullptr)
			control->progress.fetch_add(1, std::memory_order_relaxed);
	}
	results->resize(queries.size());
	for (size_t i = 0; i < queries.size(); i++)
	{
		if (!engine::offer_match_delta(spec(), now->delta, queries[i], topks[i], control))
			return Status::error(StatusCode::kCancelled, "the search was stopped");
		(*results)[i] = selections[i].finish();
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
