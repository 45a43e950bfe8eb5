// A resident copy of kind kMatch: the lists of its segments are counted on the device, or their texts compared; all else (row ids, keys, the delta)
// is in host memory, where items become codes and the delta's values are counted.
//
// Lists that are larger than the budget, together with the copy's other segments, go to the device in parts for each search (GENIE, section III-E), unless the host
// counts the batch sooner; such texts are compared by the host.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/copy.hpp"
#include "cuda/match_index.hpp"
#include "engine/cpu/cpu_engine_match.hpp"

namespace vectorgpu::cuda
{

class DeviceMatchCopy : public engine::MatchCopy
{
public:
	DeviceMatchCopy(const engine::CopySpec &spec, Budget *budget);

	/// results [queries.size()]: see Engine::search. kCancelled if control says stop.
	Status search(std::span<const engine::SearchQuery> queries, MatchWorkspace *workspace,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control);

private:
	/// Of one segment. Searches of it take turns.
	struct Segment
	{
		~Segment();

		/// Counts, without the rows that are dead now.
		Status search(const std::shared_ptr<const engine::Bitmap> &now_dead, std::span<const MatchRequest> requests,
			MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *found, engine::SearchControl *control);

		Budget *budget = nullptr;
		uint64_t charged = 0;
		std::mutex mutex;
		DeviceMatchIndex index;
		std::shared_ptr<const engine::Bitmap> dead; // what the device has
	};

	Status load(engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made);
	void forget(engine::SegmentId id);
	std::shared_ptr<Segment> find(engine::SegmentId id) const;
	uint64_t left_beside(engine::SegmentId id) const;
	Status search_on_host(const engine::MatchSegmentView &view, std::span<const engine::SearchQuery> queries, std::span<const size_t> numbers,
		std::span<engine::TopK *const> topks, engine::SearchControl *control) const;
	Status search_segment(const engine::MatchSegmentView &view, std::span<const engine::SearchQuery> queries, MatchWorkspace *workspace,
		std::span<engine::TopK *const> topks, engine::SearchControl *control);
	Status search_texts(const engine::MatchSegmentView &view, std::span<const engine::SearchQuery> queries, MatchWorkspace *workspace,
		std::span<engine::TopK *const> topks, engine::SearchControl *control);

	Budget *const budget_;
	mutable std::mutex mutex_;
	std::map<engine::SegmentId, std::shared_ptr<Segment>> segments_;
};

} // namespace vectorgpu::cuda
