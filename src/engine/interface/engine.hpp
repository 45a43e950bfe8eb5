// The interface of all engines (CPU, CUDA): resident copies of indexes and batched search over them. No PostgreSQL and
// no CUDA here. See README.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/status.hpp"
#include "common/types.hpp"
#include "engine/distance/distance.hpp"
#include "engine/interface/key_codes.hpp"
#include "engine/interface/lists_layout.hpp"
#include "engine/interface/passing.hpp"
#include "engine/interface/segment_id.hpp"
#include "engine/distance/topk.hpp"
#include "engine/graph/helper.hpp"

namespace vectorgpu::engine
{

/// Identifies a resident copy inside one engine; assigned by Engine::create, never reused.
using CopyId = uint64_t;

/// The contents of a copy's segments.
enum class CopyKind : uint8_t
{
	kRows = 0,       // rows in order of their ids
	kLists = 1,      // rows in inverted lists (lists_layout.hpp)
	kGraph = 2,      // rows in order of their ids, and a graph over them
	kCodedLists = 3, // rows in inverted lists, and codes of them (codes_layout.hpp)
	// Sets, by element (match/match_layout.hpp): segments have no vectors, the delta has slots of `dim` bytes.
	kMatch = 4,
	// Rows in order of their ids, a graph over them, and codes that its searches compare (graph/codes/hash.hpp).
	kHashedGraph = 5,
	// Row ids in inverted lists, and codes of the rows (codes_layout.hpp): segments have no vectors, searches find
	// candidates.
	kCodes = 6,
	// Sparse vectors (copies/sparse_rows.hpp): segments have them in their structure, the delta has slots of `dim`
	// bytes.
	kSparse = 7,
};

struct CopySpec
{
	CopySpec() = default;
	CopySpec(const DistanceSpec &spec, CopyKind copy_kind = CopyKind::kRows)
		: distance(spec), kind(copy_kind) {} // implicit
	CopySpec(Metric metric, ElementType element, uint32_t dim) : distance{metric, element, dim} {}

	DistanceSpec distance;
	CopyKind kind = CopyKind::kRows;
	bool rounded = false;      // segments keep rounded rows, where the engine has such (Engine::rounded_row_bytes)
	bool rows_on_host = false; // Engine::may_keep_rows_on_host(): vectors of segments begin in host memory
};

/// Whether the copy has lists with codes, which choose rows.
inline bool
has_codes(CopyKind kind)
{
	return kind == CopyKind::kCodedLists || kind == CopyKind::kCodes;
}

/// Whether searches of the copy may look at a part of a segment.
inline bool
takes_probes(CopyKind kind)
{
	return kind != CopyKind::kRows && kind != CopyKind::kSparse;
}

/// Bytes of a row's vector in the copy's segments; 0 if they have row ids alone.
inline size_t
segment_vector_bytes(const CopySpec &spec)
{
	return spec.kind == CopyKind::kMatch || spec.kind == CopyKind::kCodes || spec.kind == CopyKind::kSparse
		? 0
		: vector_bytes(spec.distance.element, spec.distance.dim);
}

/// Rows handed to an engine: row_ids [n_rows] ascending within a segment, vectors [n_rows, dim] row-major, host memory.
/// In segments with lists vectors go by place instead: vector i of a segment belongs to row numbers[i]
/// (lists_layout.hpp). If segments have no vectors (segment_vector_bytes), a segment's block's are not read. The engine
/// copies what it keeps before it returns.
struct RowBlock
{
	std::span<const RowId> row_ids;
	const void *vectors = nullptr;
	size_t n_rows = 0;
};

/// The effort of a query in a segment. Lists: how many are scanned, the nearest first; more than there are: all.
/// Graphs: the width of the search, at least (engine/copies/segment_graph.hpp); in hashed ones also the number of rows
/// whose scores are computed.
struct SegmentProbes
{
	SegmentId segment;
	uint32_t probes; // from 1
	// has_codes(), from 1: number of rows of the lists with the best estimates. kCodedLists computes their canonical
	// scores, kCodes returns them.
	uint32_t candidates = 0;
};

/// A row of a sealed segment, by its number in the order in which the segment's rows came.
struct SegmentRow
{
	SegmentId segment = kDeltaSegment; // of the delta: no row
	uint32_t number = 0;
};

/// One query of a batch. query: [dim] of the copy's element type, host memory.
struct SearchQuery
{
	const void *query = nullptr;
	size_t k = 0;
	bool has_after = false; // continue strictly after `after`
	Neighbor after{};
	float recall_target = 1; // in (0, 1]; the expected share of the k first that is found may be as low as this

	// Copies with a structure only. Empty: every row is looked at. Else so much of each segment and the whole delta
	// are, and rows with a NaN score are left out. A segment that is not named (after a concurrent merge) counts as the
	// largest named one.
	std::span<const SegmentProbes> probes{};
	Coverage *coverage = nullptr; // if not null, set to what was looked at
	size_t query_bytes = 0;       // kMatch, kSparse: bytes of the query, as stored (match/element_set.hpp,
								  // copies/sparse_rows.hpp)

	// Not kMatch, kCodes. Null: every row passes. Else rows that fail are left out as dead ones are. Probes then say
	// how wide a search without conditions would be; the engine widens it until it has seen enough rows that pass.
	const Passing *passing = nullptr;
	FilterWay *filter_way = nullptr; // if not null, set to how rows that pass were found

	// kRows only. A row of this copy that has the elements of `query`, bit for bit: the engine may read these there
	// instead, where that is nearer. `query` is valid all the same.
	SegmentRow own_row{};
};

/// Shared by the caller of a search and the engine while it runs. Consecutive searches may use the same object.
struct SearchControl
{
	std::atomic<uint64_t> progress{0}; // the engine increments it as it works, at least several times a second
	std::atomic<bool> stop{false};     // the caller no longer wants results: the engine may return kCancelled
};

struct EngineStats
{
	uint64_t resident_bytes = 0;
	uint64_t n_copies = 0;
	uint64_t n_searches = 0; // queries answered
	uint64_t n_batches = 0;
	// Rows of segments whose canonical score was computed because a filter, codes or a bound of the edit distance chose
	// them (for a device that compares every text: all live rows); dead ones included if codes chose them.
	uint64_t n_rescored = 0;
	uint64_t budget_bytes = 0; // most resident bytes; 0: no limit of its own
	uint64_t host_bytes = 0;   // of host memory that copies take, where the engine knows it
};

/// A device of an engine that is made of several, for the views.
struct DeviceStats
{
	std::string name; // as the setting names it: cuda:0
	bool usable = true;
	uint64_t resident_bytes = 0; // of copies, as counted by the rows given
	uint64_t budget_bytes = 0;   // most of these; 0: no limit
};

class GraphBuilder;
class ListBuilder;
struct GraphBuildSpec;
struct ListBuildSpec;

/// The life of a copy: create -> load segments -> append / tombstone as the index changes -> drop. Thread safety: every
/// call may come from any thread; searches run beside appends and see a prefix of them.
class Engine
{
public:
	virtual ~Engine() = default;

	/// "cpu" or "cuda".
	virtual const char *name() const = 0;

	/// The hardware that it computes on, in words.
	virtual const char *description() const { return name(); }

	/// kUnsupported for a kind, or a type and metric, that the engine does not support.
	virtual Status create(const CopySpec &spec, CopyId *copy) = 0;

	/// Add rows to a segment. A segment is searched, and immutable, once it is sealed.
	virtual Status load_segment(CopyId copy, SegmentId segment, const RowBlock &rows) = 0;

	/// All kinds but kRows: append to the description of a segment's structure, whose layout depends on the kind
	/// (structure.hpp). `parameter` (number of lists, edges of a row) is the same in each call. Sealing a segment that
	/// has rows and no valid structure of all of them is kInvalidArgument.
	virtual Status load_structure(
		CopyId copy, SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) = 0;
	virtual Status seal_segment(CopyId copy, SegmentId segment) = 0;

	/// Optional: do the long part of sealing (checks, joining) ahead. Nothing may be loaded into the segment
	/// afterwards. It is not searched yet; seal_segment is quick then.
	virtual Status prepare_segment([[maybe_unused]] CopyId copy, [[maybe_unused]] SegmentId segment)
	{
		return Status::ok();
	}
	virtual Status drop_segment(CopyId copy, SegmentId segment) = 0;

	/// Append rows to the delta at `position` (rows since the index was built). Positions already held are skipped, so
	/// that several senders may send the same rows; a gap is kInvalidArgument.
	virtual Status append_delta(CopyId copy, uint64_t position, const RowBlock &rows) = 0;

	/// Drop delta rows before `position`: a merge has moved them into a segment. Beyond the last row the delta becomes
	/// empty and continues there.
	virtual Status trim_delta(CopyId copy, uint64_t position) = 0;

	/// Mark rows dead: bits [n_rows of the segment], bit i of byte i / 8 is 1 << (i % 8). Replaces the earlier bitmap.
	/// The delta's bitmap begins at first_position and may reach beyond the rows held: those bits apply to later rows.
	virtual Status set_tombstones(CopyId copy, SegmentId segment, std::span<const uint8_t> bits) = 0;
	virtual Status set_delta_tombstones(CopyId copy, uint64_t first_position, std::span<const uint8_t> bits) = 0;

	virtual Status drop(CopyId copy) = 0;

	/// Set results[i] to at most queries[i].k neighbours in (score, row) order with canonical scores, exact unless the
	/// query's recall target or probes allow less; fewer than k only if the rows looked at are fewer. An answer does
	/// not depend on the other queries of the batch. kCodes: the live candidates of all segments, with their estimates
	/// as scores, NaN last; the delta is not looked at, and a query without probes is kInvalidArgument.
	virtual Status search(CopyId copy, std::span<const SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results, SearchControl *control = nullptr) = 0;

	/// Read back, for checks, rows [first, first + n_rows) of a segment (sealed or not) or of the delta (positions)
	/// into row_ids [n_rows] and, if it has vectors, vectors [n_rows, dim]. kInvalidArgument if not all of them are
	/// held.
	virtual Status read_rows(
		CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) = 0;

	/// The same for bytes [first, first + n_bytes) of what load_structure was given.
	virtual Status read_structure(CopyId copy, SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) = 0;

	/// The same for tombstones: bits [ceil(n_rows / 8)] of rows [first, first + n_rows), bit 0 that of row `first`;
	/// bits behind the last row are 0.
	virtual Status read_tombstones(CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) = 0;

	/// Check the data that the engine derived for its searches of rows [first, first + n_rows) and of their structure,
	/// and that the three calls above do not read back: norms, second orders, a device's part of a copy in host memory.
	/// It is computed again, in the same way, and compared where it lies. *n_different: numbers that differ. A segment
	/// that is not sealed has none.
	virtual Status check_derived(
		CopyId copy, SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different) = 0;

	/// Whether an engine with a device keeps copies of this kind whole in host memory, and a part of them on the
	/// device: segments without data on the device are answered from host memory, and sealing one does not fail for
	/// want of device memory.
	virtual bool keeps_on_host([[maybe_unused]] CopyKind kind) const { return false; }

	/// Bytes that each row of a segment takes more with CopySpec::rounded; 0: the engine keeps no rounded rows of such
	/// copies.
	virtual size_t rounded_row_bytes([[maybe_unused]] const CopySpec &spec) const { return 0; }

	/// Whether an engine with a device may keep the vectors of such a copy's segments in host memory, which the device
	/// reads, and the rest of the copy on the device.
	virtual bool may_keep_rows_on_host([[maybe_unused]] const CopySpec &spec) const { return false; }

	/// Make room on the device for more of such a copy: move the vectors of one of its segments to host memory, those
	/// of a segment that is being loaded first, or let those of segments that come begin there. Searches continue
	/// meanwhile. most_bytes: of host memory that may be taken; kOutOfMemory: that is too little. kNotFound: nothing of
	/// the copy is left to move.
	virtual Status move_rows_to_host([[maybe_unused]] CopyId copy, [[maybe_unused]] uint64_t most_bytes)
	{
		return Status::error(StatusCode::kNotFound, "the engine has no rows to move");
	}

	/// For a copy of a kind that keeps_on_host(): upload what is missing on the device; segments sealed later are
	/// uploaded too. For one with rows that were moved to host memory: bring them back. kOutOfMemory: some segments
	/// found no room there, the others are there.
	virtual Status attach([[maybe_unused]] CopyId copy) { return Status::ok(); }

	/// The inverse for the first kind: free the copy's device memory, and upload nothing until attach().
	virtual Status detach([[maybe_unused]] CopyId copy) { return Status::ok(); }

	/// Bytes of host memory that a copy takes; 0 if there is no such copy.
	virtual uint64_t host_bytes([[maybe_unused]] CopyId copy) const { return 0; }

	/// Hold the codes of the key columns of a segment of the copy on the device, if rows that pass are found sooner
	/// there than on the host. They are copied. kUnsupported: they are not; kOutOfMemory.
	virtual Status hold_key_codes([[maybe_unused]] CopyId copy, [[maybe_unused]] const KeyArea &area,
		[[maybe_unused]] std::shared_ptr<KeyCodes> *codes)
	{
		return Status::error(StatusCode::kUnsupported, "the engine evaluates no conditions");
	}

	virtual EngineStats stats() const = 0;

	/// stats().n_rescored alone: read before and after every batch, so without a lock or a pass over the copies.
	virtual uint64_t n_rescored() const = 0;

	/// Make a builder for an index with inverted lists, independent of any copy. control: progress and stop of all that
	/// it does. It and the engine have to outlive the builder.
	virtual Status make_list_builder([[maybe_unused]] const ListBuildSpec &spec,
		[[maybe_unused]] SearchControl *control, [[maybe_unused]] std::unique_ptr<ListBuilder> *builder)
	{
		return Status::error(StatusCode::kUnsupported, "the engine builds no lists");
	}

	/// The same for an index with a graph. searcher, or null: another engine, whose exact searches find the nearest
	/// rows of each; it has to outlive the builder.
	virtual Status make_graph_builder([[maybe_unused]] const GraphBuildSpec &spec,
		[[maybe_unused]] SearchControl *control, [[maybe_unused]] Engine *searcher,
		[[maybe_unused]] std::unique_ptr<GraphBuilder> *builder)
	{
		return Status::error(StatusCode::kUnsupported, "the engine builds no graphs");
	}

	/// Choose the edges of a graph that another engine builds, on a device. After any failure but kUnavailable forward
	/// and edges are unchanged. control: progress and stop.
	virtual Status choose_graph_edges(
		[[maybe_unused]] const graph::EdgeJob &job, [[maybe_unused]] SearchControl *control)
	{
		return Status::error(StatusCode::kUnsupported, "the engine chooses no edges");
	}

	/// kRows: give a sealed segment of such a graph a graph over its rows, or replace it. Rows are numbered in the
	/// order in which they came, and these numbers are their ids. From then on queries with probes search it, and
	/// nothing else; the others look at all rows as before. kUnsupported, also where the segment is cut.
	virtual Status set_graph([[maybe_unused]] CopyId copy, [[maybe_unused]] SegmentId segment,
		[[maybe_unused]] const graph::GivenGraph &given)
	{
		return Status::error(StatusCode::kUnsupported, "the engine takes no graph for rows");
	}

	/// kRows of float32: for each row of a sealed segment, in the order in which they came, the nearest of centroids
	/// [n, dim] by squared distance, the first of equally near ones. The labels of a list builder, of rows that need
	/// not be sent again. kUnsupported: a list builder has to be asked. labels [rows].
	virtual Status label_rows([[maybe_unused]] CopyId copy, [[maybe_unused]] SegmentId segment,
		[[maybe_unused]] std::span<const float> centroids, [[maybe_unused]] uint32_t *labels,
		[[maybe_unused]] SearchControl *control)
	{
		return Status::error(StatusCode::kUnsupported, "the engine labels no rows");
	}

	/// The number of threads of a build, from which its memory follows.
	virtual size_t n_threads() const { return 1; }

	/// Whether a search leaves the processor free while it runs: the caller may then do other work on another thread.
	virtual bool computes_elsewhere() const { return false; }

	/// The number of batches that may run at a time without waiting for each other.
	virtual size_t n_batches_at_once() const { return 1; }

	/// The devices of an engine that is made of several; else empty.
	virtual std::vector<DeviceStats> devices() const { return {}; }

	/// Whether the engine has lost the copy, or a part of it, with a device: calls on it return kNotFound.
	virtual bool has_lost([[maybe_unused]] CopyId copy) const { return false; }

	/// Bytes of a copy on each of devices(); empty if it is on none or unknown.
	virtual std::vector<uint64_t> device_bytes([[maybe_unused]] CopyId copy) const { return {}; }

	/// Call append_delta and return true if that takes only a few microseconds and need not wait for a device or
	/// another writer; *status is its result. Otherwise return false and change nothing. For threads that must not
	/// block.
	virtual bool try_append_delta([[maybe_unused]] CopyId copy, [[maybe_unused]] uint64_t position,
		[[maybe_unused]] const RowBlock &rows, [[maybe_unused]] Status *status)
	{
		return false;
	}

	/// Whether a search of `n_queries` on the copy takes no longer than handing it to another thread would, a few
	/// microseconds, and never waits: the caller may then run it on a thread that must not be blocked.
	virtual bool answers_at_once([[maybe_unused]] CopyId copy, [[maybe_unused]] size_t n_queries) const
	{
		return false;
	}
};

} // namespace vectorgpu::engine
