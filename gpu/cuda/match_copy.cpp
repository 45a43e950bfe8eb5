// See match_copy.hpp.
#include "cuda/match_copy.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/cpu/selection.hpp"

namespace vectorgpu::cuda
{

using engine::match::CodeRange;
using engine::match::MatchIndex;

DeviceMatchCopy::Segment::~Segment()
{
	if (budget != nullptr)
		budget->give(charged);
}

DeviceMatchCopy::DeviceMatchCopy(const engine::CopySpec &spec, Budget *budget)
	: MatchCopy(
		  spec, [this](engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made) { return load(id, made); },
		  [this](engine::SegmentId id) { forget(id); }),
	  budget_(budget)
{
}

Status
DeviceMatchCopy::load(engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made)
{
	auto segment = std::make_shared<Segment>();

	VECTORGPU_TRY(segment->index.load(budget_->device(), made->index.tiles(), made->index.n_rows(), made->index.n_keys(), 0));
	VECTORGPU_TRY(budget_->take(segment->index.device_bytes() + (made->index.n_rows() + 7) / 8));
	segment->charged = segment->index.device_bytes() + (made->index.n_rows() + 7) / 8;
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

Status
DeviceMatchCopy::search_segment(const engine::MatchSegmentView &view, std::span<const engine::SearchQuery> queries,
	MatchWorkspace *workspace, std::span<engine::TopK *const> topks)
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
	{
		const std::lock_guard lock(segment->mutex);

		if (segment->dead != view.dead)
		{
			VECTORGPU_TRY(segment->index.set_dead(view.dead == nullptr ? std::span<const uint8_t>() : std::span<const uint8_t>(*view.dead)));
			segment->dead = view.dead;
		}
		VECTORGPU_TRY(segment->index.search(requests, workspace, &found));
	}
	for (size_t i = 0; i < found.size(); i++)
		for (const MatchFound &one : found[i])
		{
			const double score = one.count == 0 ? 0.0 : -static_cast<double>(one.count); // 0.0 - count is -0 with some compilers

			engine::topk_push(topks[i], &score, &row_ids[one.row], 1, nullptr, 0);
		}
	return Status::ok();
}

Status
DeviceMatchCopy::search(std::span<const engine::SearchQuery> queries, MatchWorkspace *workspace,
	std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control)
{
	const std::shared_ptr<const engine::MatchSnapshot> now = snapshot();
	std::vector<engine::Selection> selections(queries.size());
	std::vector<engine::TopK *> topks;

	VECTORGPU_TRY(engine::check_match_queries(queries));
	for (size_t i = 0; i < queries.size(); i++)
	{
		selections[i].start(queries[i], now->n_rows);
		topks.push_back(selections[i].topk());
	}
	for (const engine::MatchSegmentView &view : now->segments)
	{
		if (control != nullptr && control->stop.load(std::memory_order_relaxed))
			return Status::error(StatusCode::kCancelled, "the search was stopped");
		VECTORGPU_TRY(search_segment(view, queries, workspace, topks));
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
