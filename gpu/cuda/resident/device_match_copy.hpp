// A resident copy of kind kMatch. All of it is in host memory, where items become codes and the delta's values are
// counted; the lists of its segments, or their texts, are on the device as well, which counts or compares them.
//
// Lists that are larger than the budget, together with the copy's other segments, go to the device in parts for each
// search (GENIE, section III-E), unless the host counts the batch sooner; such texts are compared by the host.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cuda/resident/host_backed_copy.hpp"
#include "cuda/resident/match_index.hpp"
#include "engine/copies/match_copy.hpp"

namespace vectorgpu::cuda
{

/// The device's part of a segment. Searches of it take turns.
struct MatchPart
{
	/// Count, without the rows that are dead now.
	Status search(const std::shared_ptr<const engine::Bitmap> &now_dead, std::span<const MatchRequest> requests,
		MatchWorkspace *workspace, std::vector<std::vector<MatchFound>> *found, engine::SearchControl *control);

	std::shared_ptr<const engine::MatchSegment> made; // what it was made of
	std::mutex mutex;
	DeviceMatchIndex index;
	std::shared_ptr<const engine::Bitmap> dead; // what the device has
};

class DeviceMatchCopy final : public HostBackedCopy<engine::MatchCopy, engine::MatchSegment, MatchPart>
{
public:
	DeviceMatchCopy(const engine::CopySpec &spec, Budget *budget);

	/// Includes lists that are sent to the device in parts.
	uint64_t host_bytes() const override;

	/// Also compares the device's part with the host's index.
	Status check_derived(
		engine::SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const override;
	Status search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts,
		engine::SearchControl *control) override;

private:
	/// A search of some queries.
	struct Call
	{
		std::span<const engine::SearchQuery> queries;
		MatchWorkspace *workspace;
		std::span<engine::TopK *const> topks; // of the queries
		engine::SearchControl *control;
		uint64_t n_matched = 0;              // pairs of a query and a segment that the device searched
		std::atomic<uint64_t> n_compared{0}; // texts of segments, for each query; by the device all that live
	};

	Status upload(engine::SegmentId id, const std::shared_ptr<const engine::MatchSegment> &made) override;
	std::shared_ptr<MatchPart> find(const engine::MatchSegmentView &view) const;
	uint64_t left_beside(engine::SegmentId id) const;
	Status search_on_host(const engine::MatchSegmentView &view, Call *call, std::span<const size_t> numbers) const;
	Status search_segment(const engine::MatchSegmentView &view, Call *call) const;
	Status search_texts(const engine::MatchSegmentView &view, Call *call) const;
	static void take_texts(const engine::MatchSegmentView &view, const DeviceTexts &texts, Call *call,
		std::vector<std::vector<uint8_t>> *symbols, std::vector<MatchRequest> *requests, std::vector<size_t> *on_device,
		std::vector<size_t> *on_host);

	Budget *const budget_;
};

} // namespace vectorgpu::cuda
