// The description of an access method, which each one fills in. Its handler is shared_routine<&description>() of
// callbacks.hpp. PG dialect.
#pragma once

#include "am/method/segment_search.hpp"
#include "am/method/worker_structure.hpp"
#include "storage/segment_format.hpp"
#include "storage/shape.hpp"

namespace vectorgpu::am
{

struct ValueFormat;

/// Inverted lists of the rows of an index.
struct ListStatistics
{
	uint64 n_lists;   // of the largest segment; 0: no segment has rows
	double imbalance; // of the largest segment: 1 if all lists are of one size
	double drift;     // the greatest of all segments: 1 if rows lie as near to their centroids as those trained for
};

/// Of settings of a recall target.
constexpr double kDefaultRecallTarget = 0.95;

/// The recall of the 10 nearest rows that the searches of a segment were measured to find when it was written.
struct RecallReach
{
	bool measured;
	double recall;      // the highest of searches that do not look at all rows; above it a scan looks at all rows
	double margin;      // a target that is that much higher still counts as reached
	bool saves_nothing; // a look at all rows takes no longer than a search that reaches the default target usually does
	const char *of;     // for messages: "of its graph"
	const char *hint;   // for messages: a sentence
};

/// What an approximate access method has besides. Its searches may look at a part of a segment and have rounds
/// (ApproximateSearch::round).
struct ApproximateMethod
{
	/// A step of ranks (batch_plan.hpp) that ends at this rank or before searches from the first row; a longer one goes
	/// on behind the last row returned. Chosen by which takes a GPU less time.
	uint64 most_from_first;

	/// The name that EXPLAIN gives to the width of a round (note_width). Null: the width is not shown.
	const char *width_name;

	/// Lists for the view vectorgpu_indexes. May be null. False: a page was foreign.
	bool (*describe_lists)(Relation index, const MetaData *meta, ListStatistics *statistics);

	/// The recall that a segment with rows reaches. Null: there is no recall target. False: a page was foreign.
	bool (*describe_reach)(Relation index, const MetaData *meta, const SegmentEntry *segment, RecallReach *reach);

	/// The setting of the recall target; null with describe_reach.
	const char *target_setting;
};

struct AccessMethod
{
	const char *name;
	AmId id;

	/// The name is one of pgvector's: sessions set pgvector's settings for it.
	bool named_for_pgvector;

	/// True if the access method can search such an index.
	bool (*supports)(ElementType element, Metric metric);

	/// The description for operator classes of sparsevec (am/sparse); null: there are none.
	const AccessMethod *sparse;

	// Scans.

	/// Offers the rows of a segment that have a value and no tombstone. Called in a context that is reset soon after;
	/// holds no content lock when it returns. Returns false if a page was foreign (see page_read): the caller throws
	/// away what was offered. The scan itself offers the delta and the NULL rows.
	bool (*search_segment)(const SegmentSearch *search);

	/// Null for an exact access method.
	const ApproximateMethod *approximate;

	/// The session's recall target, in (0, 1], which goes to the worker with each search; null: 1.
	const double *recall_target;

	// Copies in the worker.

	/// The structure of copies beside their rows; null: none.
	const WorkerStructure *worker_structure;

	// Segments and values.

	/// The format of segments; null: plain ones.
	const SegmentFormat *format;

	/// The format of values that are no vectors (ElementType::kSet); null: vectors.
	const ValueFormat *values;

	/// The names of a build's phases in pg_stat_progress_create_index behind the scan of the table, from kPhaseOfAm
	/// (build.hpp) on. May be null.
	const char *(*phase_name)(int64 phase);

	// Operator classes and storage parameters.

	/// The number of the support function that defines options of operator classes; 0: none.
	int16 options_support;

	/// The number of the support function (query, integer) that makes the argument of search operators, of type bytea;
	/// 0: none.
	int16 condition_support;

	/// Fills MetaData::am_options [kAmOptionBytes, zero before] of a new index from its storage parameters. May raise
	/// errors for what does not fit the shape. Null: no options.
	void (*store_options)(Relation index, const IndexShape *shape, uint8 *options);

	/// Return the fault of MetaData::am_options of such an index, as a sentence, or null. May be null:
	/// SegmentFormat::check_entry checks them.
	const char *(*check_options)(Relation index, const MetaData *meta);

	/// True if scans need data that this intact index of an earlier release lacks: it needs REINDEX. May be null.
	bool (*needs_reindex)(const MetaData *meta);
};

/// True if the worker can hold a copy of the index.
inline bool
worker_holds(const AccessMethod *am, const MetaData *meta)
{
	return am->worker_structure == nullptr || am->worker_structure->holds(meta);
}

/// registry.cpp. Makes an access method known by its id; called once for each, from _PG_init.
void register_access_method(const AccessMethod *am);

/// The access method of an index. Raises ERRCODE_INDEX_CORRUPTED if the metapage names none that is known.
const AccessMethod *access_method(Relation index, const MetaData *meta);

/// shape.cpp. The description for an index of this access method: am, or am->sparse.
const AccessMethod *method_of_index(const AccessMethod *am, Relation index);

/// value_format.hpp. The values of the index, or null for vectors.
const ValueFormat *value_format(const IndexShape *shape);

/// Support function 1 of every operator class returns this code: element << 8 | metric; bits 16 to 23 are the access
/// method's; then kForeignDistance.
constexpr int16 kShapeSupport = 1;

constexpr int32
shape_code(ElementType element, Metric metric)
{
	return static_cast<int32>(element) << 8 | static_cast<int32>(metric);
}

/// The element in a code.
constexpr ElementType
shape_element(int32 code)
{
	return static_cast<ElementType>(code >> 8 & 0xFF);
}

/// In a code: another extension computes the operator's distance, which may differ from the canonical one in its last
/// bits.
constexpr int32 kForeignDistance = 1 << 24;

/// The strategy of the one ordering operator of every operator class.
constexpr int16 kDistanceStrategy = 1;

/// The strategy of search operators: (value, bytea), see AccessMethod::condition_support.
constexpr int16 kConditionStrategy = 2;

/// shape.cpp. The shape of a new index. Raises 22023 if the column has no dimensions, 54000 if it has too many, 0A000
/// if the access method cannot search it.
IndexShape index_shape(const AccessMethod *am, Relation index);

} // namespace vectorgpu::am
