// The one interface of all engines (CPU, CUDA): resident copies of indexes and batched search over them.
// No PostgreSQL and no CUDA here. See README.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "common/types.hpp"
#include "engine/distance/distance.hpp"
#include "engine/interface/lists_layout.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine
{

/// Names a resident copy inside one engine; given out by Engine::create, never reused.
using CopyId = uint64_t;

/// Names a segment inside a copy, as the index's manifest does: from 1.
using SegmentId = uint32_t;
constexpr SegmentId kDeltaSegment = 0; // for read_rows

/// What a copy's segments are.
enum class CopyKind : uint8_t
{
	kRows = 0,       // rows in order of their ids
	kLists = 1,      // rows in inverted lists (lists_layout.hpp)
	kGraph = 2,      // rows in order of their ids, and a graph over them
	kCodedLists = 3, // rows in inverted lists, and codes of them (codes_layout.hpp)
	kMatch =
		4, // sets, by element (match/match_layout.hpp): segments have no vectors, the delta has slots of `dim` bytes
	kHashedGraph =
		5,      // rows in order of their ids, a graph over them, and codes that its searches compare (graph/hash.hpp)
	kCodes = 6, // row ids in inverted lists, and codes of the rows (codes_layout.hpp): segments have no vectors,
				// searches find candidates
};

struct CopySpec
{
	CopySpec() = default;
	CopySpec(const DistanceSpec &spec, CopyKind copy_kind = CopyKind::kRows)
		: distance(spec), kind(copy_kind) {} // implicit
	CopySpec(Metric metric, ElementType element, uint32_t dim) : distance{metric, element, dim} {}

	DistanceSpec distance;
	CopyKind kind = CopyKind::kRows;
};

/// Lists whose rows codes choose from.
inline bool
has_codes(CopyKind kind)
{
	return kind == CopyKind::kCodedLists || kind == CopyKind::kCodes;
}

/// Bytes of a row's vector in the copy's segments; 0: they have row ids alone.
inline size_t
segment_vector_bytes(const CopySpec &spec)
{
	return spec.kind == CopyKind::kMatch || spec.kind == CopyKind::kCodes
		? 0
		: vector_bytes(spec.distance.element, spec.distance.dim);
}

/// Rows handed to an engine: row_ids [n_rows] ascending within a segment, vectors [n_rows, dim] row-major, host memory.
/// In segments of kind kLists vectors go by place instead: vector i of a segment belongs to row numbers[i]
/// (lists_layout.hpp). Where segments have no vectors (segment_vector_bytes), those of a segment's block are not looked
/// at. The engine copies what it keeps before it returns.
struct RowBlock
{
	std::span<const RowId> row_ids;
	const void *vectors = nullptr;
	size_t n_rows = 0;
};

/// How much of a segment a query looks at. Lists: how many, the nearest first; more than there are: all. Graphs: the
/// width of the search; of hashed ones so many rows have their scores computed.
struct SegmentProbes
{
	SegmentId segment;
	uint32_t probes;         // from 1
	uint32_t candidates = 0; // has_codes(), from 1: rows of the lists with the best estimates: kCodedLists computes
							 // their canonical scores, kCodes finds them
};

/// One query of a batch. query: [dim] of the copy's element type, host memory.
struct SearchQuery
{
	const void *query = nullptr;
	size_t k = 0;
	bool has_after = false; // continue strictly after `after`
	Neighbor after{};
	float recall_target = 1; // in (0, 1]; below 1 the expected share of the k first that is found may be that small

	// Copies with a structure only. Empty: every row is looked at. Otherwise so much of each segment is, and the whole
	// delta, and rows whose score is NaN are left out. A segment that is not named (a merge was faster) counts as the
	// largest that is.
	std::span<const SegmentProbes> probes{};
	Coverage *coverage = nullptr; // if not null, set to what was looked at
	size_t query_bytes = 0;       // copies of kind kMatch: of the query, a stored one (match/element_set.hpp)
};

/// What the caller of a search and the engine tell each other while it runs. May be shared by searches in a row.
struct SearchControl
{
	std::atomic<uint64_t> progress{0}; // the engine counts up as work gets done, several times a second at least
	std::atomic<bool> stop{false};     // the caller wants no results any more: the engine may return kCancelled
};

struct EngineStats
{
	uint64_t resident_bytes = 0;
	uint64_t n_copies = 0;
	uint64_t n_searches = 0; // queries answered
	uint64_t n_batches = 0;
	uint64_t n_rescored = 0; // rows of segments whose canonical score was computed because a filter, codes or a bound
							 // of the edit distance named them (a device that compares every text: all that live); dead
							 // ones included where codes name them
	uint64_t budget_bytes = 0; // most resident bytes; 0: no limit of its own
};

class GraphBuilder;
class ListBuilder;
struct GraphBuildSpec;
struct ListBuildSpec;

/// Life of a copy: create -> load segments -> append / tombstone as the index changes -> drop.
/// Thread safety: every call may come from any thread; searches run beside appends and see a prefix of them.
class Engine
{
public:
	virtual ~Engine() = default;

	/// "cpu" or "cuda".
	virtual const char *name() const = 0;

	/// What it computes on, in words.
	virtual const char *description() const { return name(); }

	/// kUnsupported for a kind, or a type and metric, that the engine does not have.
	virtual Status create(const CopySpec &spec, CopyId *copy) = 0;

	/// Adds rows to an immutable segment; a segment is searched once it is sealed.
	virtual Status load_segment(CopyId copy, SegmentId segment, const RowBlock &rows) = 0;

	/// All kinds but kRows: appends to the description of a segment's structure, whose layout is the kind's
	/// (structure.hpp); `parameter` (how many lists, edges of a row) the same each time. Sealing a segment that has
	/// rows and no good structure of all of them is kInvalidArgument.
	virtual Status load_structure(
		CopyId copy, SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) = 0;
	virtual Status seal_segment(CopyId copy, SegmentId segment) = 0;

	/// The part of sealing that takes long (checks, joining), ahead of it: nothing may be loaded into the segment
	/// afterwards. It is not searched yet; seal_segment is quick then. May be left out.
	virtual Status prepare_segment([[maybe_unused]] CopyId copy, [[maybe_unused]] SegmentId segment)
	{
		return Status::ok();
	}
	virtual Status drop_segment(CopyId copy, SegmentId segment) = 0;

	/// Appends rows to the delta at `position` (rows since the index was built). Positions already held are passed
	/// over, so that several senders may send the same rows; a gap is kInvalidArgument.
	virtual Status append_delta(CopyId copy, uint64_t position, const RowBlock &rows) = 0;

	/// Forgets delta rows before `position`: a merge has moved them into a segment. Beyond the last row the delta is
	/// empty and goes on there.
	virtual Status trim_delta(CopyId copy, uint64_t position) = 0;

	/// Marks rows dead: bits [n_rows of the segment], bit i of byte i / 8 is 1 << (i % 8). Replaces the earlier bitmap.
	/// The delta's bitmap begins at first_position and may reach beyond the rows held: those bits count once they come.
	virtual Status set_tombstones(CopyId copy, SegmentId segment, std::span<const uint8_t> bits) = 0;
	virtual Status set_delta_tombstones(CopyId copy, uint64_t first_position, std::span<const uint8_t> bits) = 0;

	virtual Status drop(CopyId copy) = 0;

	/// results[i]: at most queries[i].k neighbours in (score, row) order, exact unless the query's recall target or its
	/// probes allow less, canonical scores; fewer than k only if there are no more rows (in what it looks at). Nothing
	/// in an answer depends on the other queries of the batch. kCodes: the candidates of all segments but dead ones,
	/// with their estimates as scores, NaN last. The delta is not looked at, nor is there an answer to a query without
	/// probes (kInvalidArgument).
	virtual Status search(CopyId copy, std::span<const SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results, SearchControl *control = nullptr) = 0;

	/// Reads back what is held, for checks: rows [first, first + n_rows) of a segment (sealed or not) or of the delta
	/// (positions) into row_ids [n_rows] and, where it has vectors, vectors [n_rows, dim]. kInvalidArgument if it does
	/// not hold all of them.
	virtual Status read_rows(
		CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) = 0;

	/// The same for bytes [first, first + n_bytes) of what load_structure was given.
	virtual Status read_structure(CopyId copy, SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) = 0;

	/// The same for tombstones: bits [ceil(n_rows / 8)] of rows [first, first + n_rows), bit 0 that of row `first`,
	/// those behind the last 0.
	virtual Status read_tombstones(CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) = 0;

	/// Looks at what the engine has made for its searches of rows [first, first + n_rows) and of the structure that
	/// goes with them, and what the three calls above do not read back: norms, second orders, what a device has of a
	/// copy in host memory. It is made again, in the same way, of what is held, and compared where it lies.
	/// *n_different: how many numbers are not what they would be now; 0: none. Of a segment that is not sealed there is
	/// nothing to look at.
	virtual Status check_derived(
		CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) = 0;

	/// True of kinds whose copies an engine with a device keeps whole in host memory, with a part beside it on the
	/// device: segments of which the device has nothing are answered from host memory, and sealing one does not fail
	/// for want of device memory.
	virtual bool keeps_on_host([[maybe_unused]] CopyKind kind) const { return false; }

	/// Of such a copy: brings to the device what it has not got, and from here on what is sealed. kOutOfMemory: some
	/// segments found no room there, the others are there.
	virtual Status attach([[maybe_unused]] CopyId copy) { return Status::ok(); }

	/// The other way: frees what the device has of the copy, and brings nothing more until attach().
	virtual Status detach([[maybe_unused]] CopyId copy) { return Status::ok(); }

	/// Host memory that a copy takes, in bytes; 0 if there is no such copy.
	virtual uint64_t host_bytes([[maybe_unused]] CopyId copy) const { return 0; }

	virtual EngineStats stats() const = 0;

	/// stats().n_rescored alone: read round every batch, so without a lock or a look at the copies.
	virtual uint64_t n_rescored() const = 0;

	/// Work on the build of an index with inverted lists, which has nothing to do with a copy. control: progress and
	/// stop of all that it does; outlives the builder, as the engine does.
	virtual Status make_list_builder([[maybe_unused]] const ListBuildSpec &spec,
		[[maybe_unused]] SearchControl *control, [[maybe_unused]] std::unique_ptr<ListBuilder> *builder)
	{
		return Status::error(StatusCode::kUnsupported, "the engine builds no lists");
	}

	/// The same for an index with a graph. searcher: another engine, whose exact searches find the nearest rows of
	/// each; null: none. Outlives the builder.
	virtual Status make_graph_builder([[maybe_unused]] const GraphBuildSpec &spec,
		[[maybe_unused]] SearchControl *control, [[maybe_unused]] Engine *searcher,
		[[maybe_unused]] std::unique_ptr<GraphBuilder> *builder)
	{
		return Status::error(StatusCode::kUnsupported, "the engine builds no graphs");
	}

	/// Threads that a build has beside others, for what it takes in memory.
	virtual size_t n_threads() const { return 1; }

	/// True if a search leaves the processor to others while it runs: the caller may then do other work beside it on a
	/// thread of its own.
	virtual bool computes_elsewhere() const { return false; }

	/// Call append_delta and return true if that takes only a few microseconds and need not wait for a device or
	/// another writer; *status is its result. Otherwise return false and change nothing. For threads that must not
	/// block.
	virtual bool try_append_delta([[maybe_unused]] CopyId copy, [[maybe_unused]] uint64_t position,
		[[maybe_unused]] const RowBlock &rows, [[maybe_unused]] Status *status)
	{
		return false;
	}

	/// True if a search of `n_queries` on the copy takes no longer than handing it to another thread would, a few
	/// microseconds, and never waits: the caller may then run it on a thread that must not be held up.
	virtual bool answers_at_once([[maybe_unused]] CopyId copy, [[maybe_unused]] size_t n_queries) const
	{
		return false;
	}
};

} // namespace vectorgpu::engine
