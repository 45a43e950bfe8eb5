// A resident copy as the CUDA engine sees it: what every engine stores of an index, the device's part of it, and its
// search.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/search/search.hpp"
#include "engine/copies/stored_copy.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

struct Ways; // cuda/search/ways.hpp

/// What the engine lends a search.
struct SearchMeans
{
	const Device *device;
	SearchContext *context; // for this search alone
	const Ways *ways;
	OnePassUse *one_pass;
	AppendLane *lane;
	PackedPool *packed; // null: rows that pass are not packed
};

/// What a batch has done.
struct BatchCounts : SearchCounts
{
	uint64_t n_hashed = 0;  // pairs of a query and a segment that the device searched by codes of a graph
	uint64_t n_matched = 0; // pairs of a query and a segment of sets or texts that the device searched
	uint64_t n_sparse = 0;  // pairs of a query and a segment of sparse vectors that the device bounded
};

class ResidentCopy : public engine::StoredCopy
{
public:
	/// Engine::attach() and detach(), of copies that are in host memory as a whole, attach() also of those with rows
	/// there. Others have nothing to detach.
	virtual Status attach() { return Status::error(StatusCode::kNotFound, "the copy is not resident"); }
	virtual Status detach() { return Status::error(StatusCode::kNotFound, "the copy is not resident"); }

	/// Engine::move_rows_to_host().
	virtual Status move_rows_to_host(uint64_t /*most_bytes*/)
	{
		return Status::error(StatusCode::kNotFound, "the copy has no rows that may lie in host memory");
	}

	/// Engine::set_graph().
	virtual Status set_graph(engine::SegmentId /*segment*/, const engine::graph::GivenGraph & /*given*/)
	{
		return Status::error(StatusCode::kUnsupported, "the copy takes no graph for its rows");
	}

	/// The rows of a sealed segment of a copy of rows, in the order in which they came.
	virtual Status sealed_rows(
		engine::SegmentId /*segment*/, std::shared_ptr<const Block> * /*block*/, uint32_t * /*n_rows*/) const
	{
		return Status::error(StatusCode::kUnsupported, "the copy's rows are not in one block");
	}

	/// Give memory back that only makes searches faster: rows rounded for the filter, all of them or the second form of
	/// those that have two. False if there was none.
	virtual bool drop_rounded(bool /*all*/) { return false; }

	/// prepare_segment() where memory lacks, even after others have given way: through host memory, if that helps.
	virtual Status prepare_through_host(engine::SegmentId /*segment*/)
	{
		return Status::error(StatusCode::kOutOfMemory, "the device has no room for the segment");
	}

	/// Segments with rows rounded to signed bytes.
	virtual uint64_t n_scaled_segments() const { return 0; }

	/// True if the device answers searches with conditions, so that rows that pass are of use there.
	virtual bool takes_passing() const { return false; }

	/// Engine::search(): results [queries.size()]. kCancelled if control says stop. Waits for the context's stream.
	/// counts: added to; of no meaning after a failure.
	virtual Status search(const SearchMeans &means, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, BatchCounts *counts, engine::SearchControl *control) = 0;
};

} // namespace vectorgpu::cuda
