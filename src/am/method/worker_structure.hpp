// What the worker's copies of an index need from its pages, where segments have a structure. PG dialect.
#pragma once

#include "storage/segment_format.hpp"
#include "storage/shape.hpp"
#include "wire/messages.hpp"

namespace vectorgpu::am
{

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

} // namespace vectorgpu::am
