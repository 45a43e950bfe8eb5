// What an access method fills in, and the callbacks that it shares with the others. An access method is a handler that
// returns shared_routine<&its AccessMethod>() with what it has of its own. PG dialect.
#pragma once

#include "storage/segment_format.hpp"
#include "storage/shape.hpp"
#include "am/maintain/vacuum.hpp"
#include "engine/interface/lists_layout.hpp"
#include "engine/distance/topk.hpp"
#include "wire/copy_messages.hpp"

extern "C"
{
#include "access/amapi.h"
#include "nodes/execnodes.h"
}

namespace vectorgpu::am
{

/// How much of the rows a search has looked at. After kPart a later round looks at more.
using engine::Coverage;

/// One query against one segment.
struct SegmentSearch
{
	Relation index;
	const MetaData *meta;
	const SegmentEntry *segment;
	BufferAccessStrategy strategy;
	const void *query;  // one vector of the index's element type, as stored in streams
	engine::TopK *topk; // takes the candidates: scores of engine::compute_scores, row ids
	uint64
		*n_compared; // to be increased by the rows that were looked at: by their distance, an estimate of it or a count
	uint64 *n_named; // where that was an estimate or a count: by the rows whose exact distance is wanted then,
	uint64 *n_rescored; // and by those whose exact distance was computed

	// For approximate access methods; others look at every row and leave these alone.
	uint32 round;    // how wide to search: from 0, one more whenever a round has not given enough rows
	bool exact;      // look at every row
	uint64 wanted;   // rows that the batch asks for
	uint64 n_before; // rows that earlier batches returned
	Relation heap;   // the table, for those that have to look there
	Snapshot snapshot;
	void **am_state; // of this query, in am_context: null in the beginning, and after the manifest was read again
	MemoryContext am_context;
	const RowId *returned; // [n_returned] ascending: rows to leave out (search_offer does)
	uint64 n_returned;
	const RowId *candidates; // [n_candidates] ascending: what the worker has found to look at; null: it was not asked,
							 // or cannot say
	uint64 n_candidates;
	Coverage *coverage;   // to be lowered if the search leaves rows out
	uint32 *width;        // ScanCounters::pass_width
	uint64 *n_up_to_last; // for EXPLAIN: to be increased by the rows that do not come after the last one returned
						  // (search_offer does); null: nobody asks
};

/// scan/batch.cpp. Offers candidates that have no tombstone to the selection, but for those that were returned before
/// and, unless the search is exact, those whose score is NaN (*coverage is lowered for them). Compacts both arrays in
/// place.
void search_offer(const SegmentSearch *search, double *scores, RowId *rows, uint64 n);

/// False if search_offer would pass over all of scores [n], whatever their rows: the caller need not read those.
inline bool
search_wants(const SegmentSearch *search, const double *scores, uint64 n)
{
	if (engine::topk_wants(search->topk, scores, n))
		return true;
	if (search->n_up_to_last != nullptr)
		for (uint64 i = 0; i < n; i++)
			if (scores[i] <= search->topk->after.score)
				return true;
	return false;
}

/// Notes for EXPLAIN how wide the round searches a segment that it does not look at whole: *pass_width is the largest.
inline void
note_width(uint32 *pass_width, uint32 width)
{
	*pass_width = Max(*pass_width, width);
}

struct ValueFormat;

/// How a round looks at a segment.
struct RoundLook
{
	bool whole;   // at every row of it, which the worker is told by no probes at all
	uint32 width; // note_width; 0: at every row of it
};

/// What the worker's copies of an index whose segments have a structure need from its pages. Functions with a result of
/// type bool return false if a page was foreign.
struct WorkerStructure
{
	/// Of copies of an index with such storage parameters.
	wire::CopyKind (*kind)(const MetaData *meta);

	/// True if the worker can hold copies of an index with such storage parameters.
	bool (*holds)(const MetaData *meta);

	/// Which indexes are not held, behind "copies of ... indexes", and a hint what to do; null where all are.
	const char *not_held;
	const char *not_held_hint;

	/// Of a segment with rows: wire::StructureRequest::parameter, and the bytes of the structure's description.
	uint32 (*parameter)(const MetaData *meta, const SegmentEntry *segment);
	uint64 (*n_bytes)(const MetaData *meta, const SegmentEntry *segment);

	/// How much of a segment with rows a round of a scan for `wanted` rows behind n_before others looks at
	/// (SegmentSearch): fills in all of *probes but the segment's id, and *look. Null: at all of it.
	bool (*probes)(Relation index, const MetaData *meta, const SegmentEntry *segment, uint32 round, uint64 wanted,
		uint64 n_before, const void *query, BufferAccessStrategy strategy, wire::SegmentProbes *probes,
		RoundLook *look);

	/// Bytes [position, position + n_bytes) of the description of a segment's structure, as its kind is laid out.
	bool (*read)(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes,
		char *dest, BufferAccessStrategy strategy);

	/// The bytes of a query that is no vector (ElementType::kSet), and how many, palloc'd. Null for vectors.
	const void *(*query)(const void *query, Size *n_bytes);

	/// False for a query whose answer may take long, which then comes from the pages: there it ends where it is
	/// interrupted, and keeps nobody else waiting. Null: all may be asked.
	bool (*takes)(const void *query);

	/// By what the worker's copies score, if that is not the index's metric. Null: it is.
	Metric (*metric)(const MetaData *meta);

	/// For approximate access methods whose search begins with the rows of the segments that are first by the copies'
	/// metric: how many of them a round for `wanted` rows looks at (SegmentSearch::candidates); 0: all rows. Null: what
	/// the worker returns is the answer, but for finds_candidates.
	uint64 (*n_candidates)(const MetaData *meta, uint32 round, uint64 wanted);

	/// True of indexes whose copies find of each segment the candidates that its probes name (wire::CopyKind::kCodes):
	/// they are SegmentSearch::candidates. Null: of none.
	bool (*finds_candidates)(const MetaData *meta);
};

/// The metric of an index's copies in the worker.
inline Metric
copy_metric(const WorkerStructure *structure, const MetaData *meta)
{
	return structure != nullptr && structure->metric != nullptr ? structure->metric(meta) : meta->metric;
}

/// Inverted lists of the rows of an index.
struct ListStatistics
{
	uint64 n_lists;   // of the largest segment; 0: no segment has rows
	double imbalance; // of the largest segment: 1 if all lists are of one size
	double drift;     // the greatest of all segments: 1 if rows lie as near to their centroids as those trained for
};

struct AccessMethod
{
	const char *name;
	AmId id;

	/// True if the access method can search such an index.
	bool (*supports)(ElementType element, Metric metric);

	/// Offers the rows of a segment that have a value and no tombstone. Called in a context that is reset soon after;
	/// holds no content lock when it returns. Returns false if a page was foreign (see page_read): what it offered till
	/// then is thrown away. The delta and the NULL rows are the scan driver's.
	bool (*search_segment)(const SegmentSearch *search);

	/// Approximate: a search may look at a part of a segment and has rounds (SegmentSearch::round).
	bool approximate;

	/// The worker can hold copies of such an index and search them. Else every scan is answered from the pages.
	bool in_worker;

	/// What its copies in the worker have beside rows; null: nothing.
	const WorkerStructure *worker_structure;

	/// How its segments differ from plain ones; null: not at all.
	const SegmentFormat *format;

	/// The values of its indexes, if they are no vectors (ElementType::kSet); else null.
	const ValueFormat *values;

	/// The number of the support function that defines options of operator classes; 0: there is none.
	int16 options_support;

	/// That of the function (query, integer) that makes the argument of search operators, of type bytea; 0: there is
	/// none.
	int16 condition_support;

	/// Fills MetaData::am_options [kAmOptionBytes, zero before] of a new index from its storage parameters. May raise
	/// errors for what does not fit the shape. Null: there are none.
	void (*store_options)(Relation index, const IndexShape *shape, uint8 *options);

	/// What is wrong with MetaData::am_options of such an index, as a sentence, or null. May be null:
	/// SegmentFormat::check_entry says.
	const char *(*check_options)(Relation index, const MetaData *meta);

	/// A build has written its rows and goes on to SegmentFormat::prepare and write: names of its phases of
	/// pg_stat_progress_create_index, from kPhaseOfAm (build.hpp) on. May be null.
	const char *(*phase_name)(int64 phase);

	/// What the view vectorgpu_indexes shows of its lists. May be null. False: a page was foreign.
	bool (*describe_lists)(Relation index, const MetaData *meta, ListStatistics *statistics);

	/// A step of ranks (batch_plan.hpp) that ends at this rank or before searches from the first row; a longer one goes
	/// on behind the last row returned. Chosen by which takes a GPU less time.
	uint64 most_from_first;

	/// What of a segment each round has more of, as EXPLAIN calls it (note_width). Null: nothing that can be told.
	const char *width_name;

	/// True if scans want what this intact index of an earlier release has not got, so that it is to be rebuilt. May be
	/// null.
	bool (*needs_reindex)(const MetaData *meta);

	/// The session's recall target, in (0, 1], which goes to the worker with each search; null: 1.
	const double *recall_target;
};

/// True if the worker can hold a copy of the index.
inline bool
worker_holds(const AccessMethod *am, const MetaData *meta)
{
	return am->in_worker && (am->worker_structure == nullptr || am->worker_structure->holds(meta));
}

/// registry.cpp. Makes an access method known by its id; called once for each, from _PG_init.
void register_access_method(const AccessMethod *am);

/// The access method of an index. Raises ERRCODE_INDEX_CORRUPTED if the metapage names none that is known.
const AccessMethod *access_method(Relation index, const MetaData *meta);

/// value_format.hpp. The values of the index, or null for vectors.
const ValueFormat *value_format(const IndexShape *shape);

/// Support function 1 of every operator class returns this code: element << 8 | metric; what is above is the access
/// method's.
constexpr int16 kShapeSupport = 1;

constexpr int32
shape_code(ElementType element, Metric metric)
{
	return static_cast<int32>(element) << 8 | static_cast<int32>(metric);
}

/// The strategy of the one ordering operator of every operator class.
constexpr int16 kDistanceStrategy = 1;

/// The strategy of search operators: (value, bytea), see AccessMethod::condition_support.
constexpr int16 kConditionStrategy = 2;

/// shape.cpp. The shape of a new index. Raises 22023 if the column has no dimensions, 54000 if it has too many, 0A000
/// if the access method cannot search it.
IndexShape index_shape(const AccessMethod *am, Relation index);

/// shape.cpp. The IndexAmRoutine of an access method without boolean operators, the shared callbacks not yet set.
IndexAmRoutine *new_routine();

/// shape.cpp. amoptions of an access method without storage parameters: refuses all of them.
bytea *no_options(Datum reloptions, bool validate);

/// validate.cpp. amvalidate.
bool shared_validate(const AccessMethod *am, Oid opclass_oid);

/// scan/scan.cpp. Defines vectorgpu.scan_order and vectorgpu.stable_pages; called by _PG_init.
void scan_define_gucs();

/// scan/scan.cpp. vectorgpu.stable_pages.
bool scan_pages_are_stable();

/// scan/scan.cpp. True if scans leave out what they find too late (vectorgpu.scan_order = strict).
bool scan_drops_late_rows();

/// build/build.cpp. ambuild, ambuildempty, ambuildphasename.
IndexBuildResult *shared_build(const AccessMethod *am, Relation heap, Relation index, IndexInfo *info);
void shared_build_empty(const AccessMethod *am, Relation index);
char *shared_build_phase_name(const AccessMethod *am, int64 phase);

/// build/insert.cpp. aminsert.
bool shared_insert(const AccessMethod *am, Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap);

/// scan/scan.cpp. ambeginscan, amrescan, amgettuple, amendscan.
IndexScanDesc shared_begin_scan(const AccessMethod *am, Relation index, int n_keys, int n_orderbys);
void shared_rescan(IndexScanDesc scan, ScanKey keys, int n_keys, ScanKey orderbys, int n_orderbys);
bool shared_get_tuple(IndexScanDesc scan, ScanDirection direction);
/// amgetbitmap, for access methods with index conditions (ValueFormat::condition).
int64 shared_get_bitmap(IndexScanDesc scan, TIDBitmap *bitmap);
void shared_end_scan(IndexScanDesc scan);

/// The callbacks that core calls without saying for which access method.
template <const AccessMethod *am>
struct Callbacks
{
	static IndexBuildResult *build(Relation heap, Relation index, IndexInfo *info)
	{
		return shared_build(am, heap, index, info);
	}

	static void build_empty(Relation index) { shared_build_empty(am, index); }

	static bool insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
		IndexUniqueCheck check_unique, bool index_unchanged, IndexInfo *info)
	{
		return shared_insert(am, index, values, isnull, tid, heap);
	}

	static char *build_phase_name(int64 phase) { return shared_build_phase_name(am, phase); }

	static bool validate(Oid opclass_oid) { return shared_validate(am, opclass_oid); }

	static IndexScanDesc begin_scan(Relation index, int n_keys, int n_orderbys)
	{
		return shared_begin_scan(am, index, n_keys, n_orderbys);
	}
};

/// The IndexAmRoutine of an access method with all that is shared. Its handler sets amcostestimate, and what it has of
/// its own.
template <const AccessMethod *am>
IndexAmRoutine *
shared_routine()
{
	IndexAmRoutine *routine = new_routine();

	routine->ambuild = Callbacks<am>::build;
	routine->ambuildempty = Callbacks<am>::build_empty;
	routine->aminsert = Callbacks<am>::insert;
	routine->ambulkdelete = shared_bulkdelete;
	routine->amvacuumcleanup = shared_vacuumcleanup;
	routine->amoptions = no_options;
	routine->ambuildphasename = Callbacks<am>::build_phase_name;
	routine->amvalidate = Callbacks<am>::validate;
	routine->ambeginscan = Callbacks<am>::begin_scan;
	routine->amrescan = shared_rescan;
	routine->amgettuple = shared_get_tuple;
	routine->amendscan = shared_end_scan;
	return routine;
}

} // namespace vectorgpu::am
