// See device_match_copy.hpp.
#include "cuda/resident/device_match_copy.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "cuda/device/host_team.hpp"
#include "cuda/device/stop.hpp"
#include "engine/copies/match_delta.hpp"
#include "engine/cpu/selection.hpp"

namespace vectorgpu::cuda
{

using engine::match::CodeRange;
using engine::match::MatchIndex;

namespace
{

constexpr uint64_t kPartsOfBudget = 4; // a part of an index that does not fit takes a fourth of the remaining budget

/// Return 0, 1, ... n - 1.
std::vector<size_t>
all_numbers(size_t n)
{
	std::vector<size_t> numbers(n);

	std::iota(numbers.begin(), numbers.end(), size_t{0});
	return numbers;
}

/// Restrict a request to rows after `after` by edit distance: set after_count and after_row, or k = 0.
void
continue_by_distance(
	const engine::Neighbor &after, uint32_t most_distance, std::span<const RowId> row_ids, MatchRequest *request)
{
	if (std::isnan(after.score) || after.score > most_distance)
		request->k = 0; // no distance is larger, and a NaN orders after all numbers
	else if (after.score >= 0)
	{
		const double distance = std::floor(after.score);

		// After a distance between two whole numbers come all rows at the larger one.
		request->has_after = true;
		if (distance < after.score && distance >= most_distance)
			request->k = 0;
		request->after_count =
			most_distance - static_cast<uint32_t>(std::min<double>(std::ceil(after.score), most_distance));
		request->after_row = distance < after.score
			? 0
			: static_cast<uint32_t>(std::upper_bound(row_ids.begin(), row_ids.end(), after.row) - row_ids.begin());
	}
}

/// Return the number of dead rows of the segment.
uint64_t
count_dead(const engine::MatchSegmentView &view)
{
	uint64_t n = 0;

	for (size_t i = 0; view.dead != nullptr && i < view.dead->size(); i++)
		n += static_cast<uint64_t>(std::popcount((*view.dead)[i]));
	return n;
}

/// True if the host counts the requests in less time than it takes to send the lists of an index in parts. Lists are
/// taken to have equal lengths.
bool
host_is_faster(const MatchIndex &index, std::span<const MatchRequest> requests)
{
	constexpr double kPostingsPerMs = 7e5; // of a thread
	constexpr double kRowsPerMs = 1e7;     // whose counters are cleared and read
	constexpr double kBytesPerMs = 1.2e7;  // from memory that is not pinned
	const double list =
		static_cast<double>(index.n_postings()) / static_cast<double>(std::max<size_t>(index.n_keys(), 1));
	const double threads = static_cast<double>(std::min(requests.size(), HostTeam::get().n_threads()));
	uint64_t n_rounds = 1; // of at most kMaxSelectK results
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

Status
MatchPart::search(const std::shared_ptr<const engine::Bitmap> &now_dead, std::span<const MatchRequest> requests,
	MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *found, engine::SearchControl *control)
{
	const std::lock_guard lock(mutex);

	if (dead != now_dead)
	{
		VECTORGPU_TRY(
			index.set_dead(now_dead == nullptr ? std::span<const uint8_t>() : std::span<const uint8_t>(*now_dead)));
		dead = now_dead;
	}
	return index.search(requests, workspace, found, control);
}

DeviceMatchCopy::DeviceMatchCopy(const engine::CopySpec &spec, Budget *budget)
	: HostBackedCopy(
		  spec,
		  [this](engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made)
		  {
			  const std::lock_guard writing(device_mutex_);

			  return take_prepared(id, made);
		  },
		  [this](engine::SegmentId id)
		  {
			  const std::lock_guard writing(device_mutex_);

			  forget(id);
		  }),
	  budget_(budget)
{
}

/// Return the budget less what the copy's other segments take. A segment that is larger would not fit if all other
/// copies left.
uint64_t
DeviceMatchCopy::left_beside(engine::SegmentId id) const
{
	const std::lock_guard lock(mutex_);
	uint64_t taken = 0;

	for (const auto &[other, part] : parts_)
		taken += other == id ? 0 : part->index.device_bytes();
	return budget_->most() == 0 ? UINT64_MAX : budget_->most() - std::min(taken, budget_->most());
}

Status
DeviceMatchCopy::upload(engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made)
{
	auto part = std::make_shared<MatchPart>();
	const MatchIndex &index = made->index;
	const uint64_t dead_bytes = (index.n_rows() + 7) / 8;
	const uint64_t list_bytes =
		DeviceMatchIndex::list_bytes(index.tiles(), index.n_keys()) + index.tiles().size() * sizeof(kernels::MatchTile);
	const uint64_t left = left_beside(id);

	(void) take_part(id); // goes first: the device never has a segment twice
	part->made = made;
	// Texts are compared with every query, which is faster than counting n-grams to find the few that need comparing.
	if (spec().metric != Metric::kEdit)
		VECTORGPU_TRY(part->index.load(budget_->device(), index.tiles(), index.n_rows(), index.n_keys(),
			list_bytes + dead_bytes <= left ? 0 : std::max<uint64_t>(1, left / kPartsOfBudget), budget_));
	else if (DeviceTexts::fits(index, left - std::min(left, dead_bytes)))
		VECTORGPU_TRY(part->index.load_texts(budget_->device(), index, budget_));
	put_part(id, std::move(part));
	return Status::ok();
}

/// Return null if the host has to search the segment.
std::shared_ptr<MatchPart>
DeviceMatchCopy::find(const engine::MatchSegmentView &view) const
{
	return find_part(view.id, view.segment.get());
}

uint64_t
DeviceMatchCopy::host_bytes() const
{
	const std::lock_guard lock(mutex_);
	uint64_t bytes = host_.host_bytes();

	for (const auto &[id, part] : parts_)
		bytes += part->index.host_bytes();
	return bytes;
}

Status
DeviceMatchCopy::check_derived(engine::SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	VECTORGPU_TRY(host_.check_derived(id, first, n_rows, n_different));

	const std::shared_ptr<MatchPart> part = find_part(id);

	if (part == nullptr)
		return Status::ok();

	// Lists and texts never change: searches run meanwhile.
	VECTORGPU_TRY(part->index.count_different(part->made->index, static_cast<size_t>(first), n_rows, n_different));

	const std::lock_guard lock(part->mutex);
	const std::span<const uint8_t> dead =
		part->dead == nullptr ? std::span<const uint8_t>() : std::span<const uint8_t>(*part->dead);

	return part->index.count_different_dead(dead, static_cast<size_t>(first), n_rows, n_different);
}

/// Search for the queries `numbers` with the host's index and all threads.
Status
DeviceMatchCopy::search_on_host(const engine::MatchSegmentView &view, Call *call, std::span<const size_t> numbers) const
{
	engine::SearchControl *const control = call->control;
	std::atomic<bool> refused{false};

	HostTeam::get().share_each(numbers.size(),
		[&](size_t first, size_t last)
		{
			for (size_t i = first; i < last; i++)
			{
				const engine::match::MatchQuery wanted = engine::match_query(spec(), call->queries[numbers[i]]);
				std::vector<std::vector<engine::Neighbor>> rows(1);

				if (is_stopped(control))
					return;
				uint64_t n_compared = 0;

				if (!view.segment->index.search({&wanted, 1}, view.dead == nullptr ? nullptr : view.dead->data(), &rows,
						engine::match_poll(control), &n_compared))
				{
					refused.store(true, std::memory_order_relaxed);
					return;
				}
				call->n_compared.fetch_add(n_compared, std::memory_order_relaxed);
				for (const engine::Neighbor &one : rows[0])
					engine::topk_push(call->topks[numbers[i]], &one.score, &one.row, 1, nullptr, 0);
				if (control != nullptr)
					control->progress.fetch_add(1, std::memory_order_relaxed);
			}
		});
	if (is_stopped(control)) // a query may be incomplete
		return stopped();
	if (refused)
		return Status::error(StatusCode::kInvalidArgument, "a malformed query");
	return Status::ok();
}

Status
DeviceMatchCopy::search_segment(const engine::MatchSegmentView &view, Call *call) const
{
	const std::span<const engine::SearchQuery> queries = call->queries;
	const MatchIndex &index = view.segment->index;
	const std::span<const RowId> row_ids = index.row_ids();
	const std::shared_ptr<MatchPart> part = find(view);
	std::vector<std::vector<CodeRange>> ranges;
	std::vector<MatchRequest> requests;
	std::vector<std::vector<MatchFound>> found;

	if (part == nullptr)
		return search_on_host(view, call, all_numbers(queries.size()));
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
			// Scores are minus counts: after a score s come counts below -s, and equal ones with a larger row id.
			const double count = -query.after.score;

			request.has_after = true;
			if (std::isnan(count) || count < 0)
				request.k = 0;
			else if (count < static_cast<double>(UINT32_MAX))
			{
				request.after_count = static_cast<uint32_t>(std::ceil(count));
				request.after_row = std::floor(count) < count
					? static_cast<uint32_t>(row_ids.size())
					: static_cast<uint32_t>(
						  std::upper_bound(row_ids.begin(), row_ids.end(), query.after.row) - row_ids.begin());
			}
			else
				request.has_after = false;
		}
		requests.push_back(request);
	}
	if (part->index.n_parts() > 1 && host_is_faster(index, requests))
		return search_on_host(view, call, all_numbers(queries.size()));
	if (const Status status = part->search(view.dead, requests, call->workspace, &found, call->control);
		!status.is_ok())
		return status.code == StatusCode::kOutOfMemory ? search_on_host(view, call, all_numbers(queries.size()))
													   : status;
	call->n_matched += found.size();
	for (size_t i = 0; i < found.size(); i++)
		for (const MatchFound &one : found[i])
		{
			const double score =
				one.count == 0 ? 0.0 : -static_cast<double>(one.count); // 0.0 - count is -0 with some compilers

			engine::topk_push(call->topks[i], &score, &row_ids[one.row], 1, nullptr, 0);
		}
	return Status::ok();
}

/// Sort queries into those that the device can compare, with their requests and symbols, and those for the host.
void
DeviceMatchCopy::take_texts(const engine::MatchSegmentView &view, const DeviceTexts &texts, Call *call,
	std::vector<std::vector<uint8_t>> *symbols, std::vector<MatchRequest> *requests, std::vector<size_t> *on_device,
	std::vector<size_t> *on_host)
{
	const std::span<const engine::SearchQuery> queries = call->queries;
	const uint32_t most = texts.most_distance();

	symbols->reserve(queries.size()); // requests point into it
	for (size_t i = 0; i < queries.size(); i++)
	{
		engine::match::Parts parts;
		engine::match::GramQuery grams;
		const uint8_t *codes;
		MatchRequest request;

		(void) engine::match::open_parts(queries[i].query, queries[i].query_bytes, &parts); // has been checked
		(void) engine::match::open_gram_query(parts, &grams, &codes);
		if (grams.size > kernels::kMatchTextQuery)
		{
			on_host->push_back(i);
			continue;
		}
		symbols->push_back(texts.symbols_of(codes, static_cast<size_t>(grams.size)));
		request.symbols = symbols->back();
		request.most_count = most;
		request.k = queries[i].k;
		if (queries[i].has_after)
			continue_by_distance(queries[i].after, most, view.segment->index.row_ids(), &request);
		requests->push_back(request);
		on_device->push_back(i);
	}
}

/// Search queries that the device can compare there, the others with the host's index.
Status
DeviceMatchCopy::search_texts(const engine::MatchSegmentView &view, Call *call) const
{
	const MatchIndex &index = view.segment->index;
	const std::shared_ptr<MatchPart> part = find(view);
	std::vector<std::vector<uint8_t>> symbols;
	std::vector<MatchRequest> requests;
	std::vector<size_t> on_device, on_host;
	std::vector<std::vector<MatchFound>> found;

	if (part == nullptr || !part->index.texts().loaded())
		return search_on_host(view, call, all_numbers(call->queries.size()));
	take_texts(view, part->index.texts(), call, &symbols, &requests, &on_device, &on_host);
	if (!requests.empty())
	{
		const Status status = part->search(view.dead, requests, call->workspace, &found, call->control);

		if (status.code == StatusCode::kOutOfMemory)
		{
			found.clear();
			on_host.insert(on_host.end(), on_device.begin(), on_device.end());
		}
		else
			VECTORGPU_TRY(status);
	}
	call->n_matched += found.size();
	if (!found.empty())
	{
		const auto n_asked =
			std::count_if(requests.begin(), requests.end(), [](const MatchRequest &one) { return one.k > 0; });

		call->n_compared.fetch_add(
			static_cast<uint64_t>(n_asked) * (index.n_rows() - count_dead(view)), std::memory_order_relaxed);
	}
	for (size_t i = 0; i < found.size(); i++)
		for (const MatchFound &one : found[i])
		{
			const double score = static_cast<double>(part->index.texts().most_distance() - one.count);

			engine::topk_push(call->topks[on_device[i]], &score, &index.row_ids()[one.row], 1, nullptr, 0);
		}
	return search_on_host(view, call, on_host);
}

Status
DeviceMatchCopy::search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
	std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts, engine::SearchControl *control)
{
	VECTORGPU_TRY(means.device->provoke(means.context->stream.get()));

	const std::shared_ptr<const engine::MatchSnapshot> now = host_.snapshot();
	MatchWorkspace workspace(&means.context->stream, &means.context->workspace);
	std::vector<engine::Selection> selections(queries.size());
	std::vector<engine::TopK *> topks;

	VECTORGPU_TRY(engine::check_match_queries(spec(), queries));
	for (size_t i = 0; i < queries.size(); i++)
	{
		selections[i].start(queries[i], now->n_rows);
		topks.push_back(selections[i].topk());
	}

	Call call = {queries, &workspace, topks, control};

	for (const engine::MatchSegmentView &view : now->segments)
	{
		if (is_stopped(control))
			return stopped();
		VECTORGPU_TRY(spec().metric == Metric::kEdit ? search_texts(view, &call) : search_segment(view, &call));
		if (control != nullptr)
			control->progress.fetch_add(1, std::memory_order_relaxed);
	}
	results->resize(queries.size());
	for (size_t i = 0; i < queries.size(); i++)
	{
		if (!engine::offer_match_delta(spec(), now->delta, queries[i], topks[i], control))
			return stopped();
		(*results)[i] = selections[i].finish();
	}
	counts->n_matched += call.n_matched;
	counts->n_rescored += call.n_compared;
	return is_stopped(control) ? stopped() : Status::ok(); // a text of the delta may be compared in part only
}

} // namespace vectorgpu::cuda
