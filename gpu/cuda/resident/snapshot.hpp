// The rows that one search of a copy in device memory reads.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/device/block.hpp"
#include "cuda/resident/append_lane.hpp"
#include "engine/interface/engine.hpp"
#include "kernels/filter/scaled.hpp"
#include "kernels/ivf/ivf.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::cuda
{

struct DeviceLists;  // ivf_lists.hpp
struct DeviceGraph;  // device_graph.hpp
struct PassingLists; // ../passing/passing_device.hpp

/// Part of a snapshot: rows [first, first + n_rows) of a block.
struct Source
{
	std::shared_ptr<const Block> block;
	uint32_t first = 0;
	uint32_t n_rows = 0;
	std::shared_ptr<const Held> dead;
	uint64_t dead_bits = 0;
	int64_t dead_start = 0; // bit of row `first`
	bool rows_ascending = false;
	engine::SegmentId segment = engine::kDeltaSegment;
	uint64_t position = 0;             // of the delta: of row `first`
	std::shared_ptr<const void> alive; // of a segment: names it and `dead`, for what searches keep of both; see Passing
	std::shared_ptr<const DeviceLists> lists;    // of a copy of lists: the block's rows and `dead` are by place
	std::shared_ptr<const PassingLists> passing; // of a masked source with lists: what `cut` refers to
	kernels::IvfCut cut;
	std::shared_ptr<const DeviceGraph> graph; // of a copy of graphs
	double max_norm = 0;                      // this and the next four: as in the block's Filled
	double max_inverse = 0;
	uint32_t n_untrusted = 0;
	bool filterable = false;
	RoundedForms rounded;
	AppendLane::Ticket ticket = 0; // of the delta: a stream must wait for it (NewRows) before it reads any row of this

	kernels::Rows rows() const;

	/// Bytes of the vectors if these are in host memory, which the device reads over the bus; else 0.
	uint64_t host_bytes() const { return block->on_host() ? uint64_t{n_rows} * block->pitch_bytes : 0; }

	/// The rows as the filter reads them in a search of n_queries for up to k rows. Of scaled rows many are candidates
	/// where k is large: then it reads those in binary16, or the rows themselves.
	kernels::Rows filter_rows(uint32_t n_queries, uint32_t k) const { return rows_of(filter_form(n_queries, k)); }
	kernels::Form filter_form(uint32_t n_queries, uint32_t k) const;

	/// The rows as PartialReduce reads them: it has no kernel for scaled rows.
	kernels::Rows bins_rows() const { return rows_of(bins_form()); }
	kernels::Form bins_form() const { return rounded.halves != nullptr ? kernels::Form::kFloat16 : block->form; }

	/// The source's part of kernels::ScaledPass: no queries yet. There are scaled rows.
	kernels::ScaledPass scaled_pass(const engine::DistanceSpec &spec) const;

private:
	kernels::Rows rows_of(kernels::Form form) const;
};

/// The rows of a copy as one search sees them. Immutable; kept until the search's stream is idle.
struct Snapshot
{
	std::vector<Source> sources; // segments, then the delta
	uint64_t n_rows = 0;         // dead ones included

	uint64_t host_bytes() const
	{
		uint64_t bytes = 0;

		for (const Source &source : sources)
			bytes += source.host_bytes();
		return bytes;
	}
};

} // namespace vectorgpu::cuda
