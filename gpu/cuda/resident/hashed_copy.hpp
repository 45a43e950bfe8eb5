// A resident copy of kind kHashedGraph: all of it is in host memory, where what was found is judged, and edges and
// codes of its segments lie on the device as well, which finds nodes by them. So an index may be as large as the host's
// memory. A segment of which the device has nothing, for want of room or while the copy is detached, is searched by the
// host.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "cuda/resident/copy.hpp"
#include "cuda/search/search.hpp"
#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/cpu_engine_hashed.hpp"
#include "engine/cpu/thread_pool.hpp"

namespace vectorgpu::cuda
{

/// What searches of such a copy have done.
struct HashedCounts
{
	uint64_t n_rescored = 0;  // rows judged because of their codes, or passed on by a filter
	uint64_t n_on_device = 0; // searches of a segment by codes, a query's of a segment one, that the device did
};

class HashedCopy
{
public:
	/// pool: of the host's threads; outlives the copy.
	HashedCopy(const engine::CopySpec &spec, Budget *budget, Copy::Uploader *uploader, engine::ThreadPool *pool);

	const engine::DistanceSpec &spec() const { return host_.spec(); }
	uint64_t memory_bytes() const { return host_.memory_bytes(); }

	// As Engine's functions of these names. After a failure the copy is as before; what the device refuses is no
	// failure of the first five.
	Status load_segment(engine::SegmentId segment, const engine::RowBlock &rows)
	{
		return host_.load_segment(segment, rows);
	}
	Status load_structure(engine::SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes)
	{
		return host_.load_structure(segment, parameter, bytes);
	}
	Status prepare_segment(engine::SegmentId segment);
	Status seal_segment(engine::SegmentId segment);
	Status drop_segment(engine::SegmentId segment);
	Status attach();
	Status detach();
	Status append_delta(uint64_t position, const engine::RowBlock &rows) { return host_.append_delta(position, rows); }
	bool try_append_delta(uint64_t position, const engine::RowBlock &rows, Status *status)
	{
		return host_.try_append_delta(position, rows, status);
	}
	Status trim_delta(uint64_t position) { return host_.trim_delta(position); }
	Status set_tombstones(engine::SegmentId segment, std::span<const uint8_t> bits)
	{
		return host_.set_tombstones(segment, bits);
	}
	Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits)
	{
		return host_.set_delta_tombstones(first_position, bits);
	}
	Status read_rows(engine::SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const
	{
		return host_.read_rows(segment, first, n_rows, row_ids, vectors);
	}
	Status read_structure(engine::SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const
	{
		return host_.read_structure(segment, first, n_bytes, bytes);
	}

	Status read_tombstones(engine::SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const
	{
		return host_.read_tombstones(segment, first, n_rows, bits);
	}

	/// As Engine's: the host's norms, and what the device has, against what the host has.
	Status check_derived(engine::SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) const;

	/// See Engine::search. kCancelled if control says stop. Waits for the context's stream.
	Status search(const Device *device, SearchContext *context, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, HashedCounts *counts, engine::SearchControl *control);

private:
	/// What the device has of a segment. Immutable.
	struct DeviceSegment
	{
		std::shared_ptr<const engine::SegmentGraph> graph; // what it was made of
		bool unsupported = false;                          // the device never has any of it
		Held edges;                                        // [n_rows, degree] uint32
		Held codes;                                        // [n_rows, code_bytes]
		Held entry_nodes;                                  // [n_entries] uint32
		Held entry_codes;                                  // [n_entries, code_bytes]
	};

	struct Wave;

	Status prepare(engine::SegmentId segment);
	Status upload(engine::SegmentId segment);
	std::shared_ptr<const DeviceSegment> find(const engine::RowsView &view) const;
	Status search_device(const Device *device, SearchContext *context, const engine::RowsView &view,
		const DeviceSegment &segment, std::span<const engine::SearchQuery> queries, std::span<const uint32_t> numbers,
		std::span<std::unique_ptr<engine::HashedAnswer>> answers, engine::SearchControl *control);

	engine::CpuEngineCopy host_;
	Budget *const budget_;
	Copy::Uploader *const uploader_;
	engine::ThreadPool *const pool_;
	std::mutex device_mutex_;              // writers of what the device has: held across uploads, taken before mutex_
	std::set<engine::SegmentId> prepared_; // under device_mutex_, as the next one
	bool attached_ = true;
	mutable std::mutex mutex_; // segments_
	std::map<engine::SegmentId, std::shared_ptr<const DeviceSegment>> segments_;
};

} // namespace vectorgpu::cuda
