// What the worker's copies of an index need from its pages if its segments have a structure. PG dialect.
#pragma once

#include "am/method/segment_search.hpp"
#include "storage/segment_format.hpp"
#include "storage/shape.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::am
{

/// How a round looks at a segment.
struct RoundLook
{
	bool whole;          // at every row; if so for all segments, the request has no probes
	uint32 width;        // note_width; 0: at every row
	MissedTarget missed; // why at every row
};

/// Functions that return bool and read pages return false if a page was foreign.
struct WorkerStructure
{
	/// The kind of copies of an index with such storage parameters.
	wire::CopyKind (*kind)(const MetaData *meta);

	/// True if the worker can hold copies of an index with such storage parameters.
	bool (*holds)(const MetaData *meta);

	/// For an error: the indexes that are not held, behind "copies of ... indexes", and a hint; null where all are
	/// held.
	const char *not_held;
	const char *not_held_hint;

	/// wire::StructureRequest::parameter of a segment with rows, and the bytes of the structure's description.
	uint32 (*parameter)(const MetaData *meta, const SegmentEntry *segment);
	uint64 (*n_bytes)(const MetaData *meta, const SegmentEntry *segment);

	/// How much of a segment with rows a round of a scan for `wanted` rows behind n_before others looks at
	/// (ApproximateSearch): fills in *probes except the segment's id, and *look. Null: it looks at all rows.
	bool (*probes)(Relation index, const MetaData *meta, const SegmentEntry *segment, uint32 round, uint64 wanted,
		uint64 n_before, const void *query, BufferAccessStrategy strategy, wire::SegmentProbes *probes,
		RoundLook *look);

	/// Bytes [position, position + n_bytes) of the description of a segment's structure, as its kind is laid out.
	bool (*read)(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes,
		char *dest, BufferAccessStrategy strategy);

	/// The bytes of a query that is no vector (ElementType::kSet), palloc'd, and their number. Null for vectors.
	const void *(*query)(const void *query, Size *n_bytes);

	/// False for a query that may take long. It is answered from the pages, where interrupts end it and no other
	/// session waits for it. Null: the worker takes all queries.
	bool (*takes)(const void *query);

	/// The metric of the worker's copies. Null: the index's.
	Metric (*metric)(const MetaData *meta);

	/// For approximate access methods whose search begins with the rows that are first by the copies' metric: how many
	/// of them a round for `wanted` rows looks at (ApproximateSearch::candidates); 0: all rows. Null: the worker's rows
	/// are the answer, unless finds_candidates.
	uint64 (*n_candidates)(const MetaData *meta, uint32 round, uint64 wanted);

	/// True for indexes whose copies find the number of candidates that the probes name for each segment
	/// (wire::CopyKind::kCodes), as ApproximateSearch::candidates. Null: false.
	bool (*finds_candidates)(const MetaData *meta);
};

/// The metric of an index's copies in the worker.
inline Metric
copy_metric(const WorkerStructure *structure, const MetaData *meta)
{
	return structure != nullptr && structure->metric != nullptr ? structure->metric(meta) : meta->metric;
}

} // namespace vectorgpu::am
