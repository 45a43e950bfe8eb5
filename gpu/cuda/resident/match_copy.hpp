// A resident copy of kind kMatch: all of it is in host memory, where items become codes and the delta's values are
// counted; the lists of its segments, or their texts, lie on the device as well, which counts them or compares them. A
// segment of which the device has nothing, for want of room or while the copy is detached, is searched by the host.
//
// Lists that are larger than the budget, together with the copy's other segments, go to the device in parts for each
// search (GENIE, section III-E), unless the host counts the batch sooner; such texts are compared by the host.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/resident/copy.hpp"
#include "cuda/resident/match_index.hpp"
#include "engine/cpu/cpu_engine_match.hpp"

namespace vectorgpu::cuda
{

/// What searches of such a copy have done.
struct MatchCounts
{
	uint64_t n_on_device = 0;            // searches of a segment, a query's of a segment one, that the device did
	std::atomic<uint64_t> n_compared{0}; // texts of segments with a query; by the device all that live
};

class DeviceMatchCopy : public engine::MatchCopy
{
public:
	DeviceMatchCopy(const engine::CopySpec &spec, Budget *budget);

	/// As Engine's functions of these names.
	Status attach();
	Status detach();

	/// As Engine's: what the host has derived, and what the device has, against what is made of the host's index now.
	Status check_derived(engine::SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const;

	/// Of the host's memory: what the copy takes there, and lists that the device gets in parts.
	uint64_t host_bytes() const;

	/// results [queries.size()]: see Engine::search. kCancelled if control says stop.
	Status search(std::span<const engine::SearchQuery> queries, MatchWorkspace *workspace,
		std::vector<std::vector<engine::Neighbor>> *results, MatchCounts *counts, engine::SearchControl *control);

private:
	/// What the device has of a segment. Searches of it take turns.
	struct Segment
	{
		/// Counts, without the rows that are dead now.
		Status search(const std::shared_ptr<const engine::Bitmap> &now_dead, std::span<const MatchRequest> requests,
			MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *found, engine::SearchControl *control);

		std::shared_ptr<const engine::MatchSegment> made; // what it was made of
		std::mutex mutex;
		DeviceMatchIndex index;
		std::shared_ptr<const engine::Bitmap> dead; // what the device has
	};

	/// A search of some queries.
	struct Call
	{
		std::span<const engine::SearchQuery> queries;
		MatchWorkspace *workspace;
		std::span<engine::TopK *const> topks; // of the queries
		MatchCounts *counts;
		engine::SearchControl *control;
	};

	Status prepared(engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made);
	Status upload(engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made);
	void forget(engine::SegmentId id);
	std::shared_ptr<Segment> find(const engine::MatchSegmentView &view) const;
	uint64_t left_beside(engine::SegmentId id) const;
	Status search_on_host(
		const engine::MatchSegmentView &view, const Call &call, std::span<const size_t> numbers) const;
	Status search_segment(const engine::MatchSegmentView &view, const Call &call);
	Status search_texts(const engine::MatchSegmentView &view, const Call &call);

	Budget *const budget_;
	std::mutex device_mutex_; // writers of what the device has: held across uploads, taken before mutex_
	std::map<engine::SegmentId, std::shared_ptr<const engine::MatchSegment>>
		prepared_; // under device_mutex_, as the next one
	bool attached_ = true;
	mutable std::mutex mutex_; // segments_
	std::map<engine::SegmentId, std::shared_ptr<Segment>> segments_;
};

} // namespace vectorgpu::cuda
