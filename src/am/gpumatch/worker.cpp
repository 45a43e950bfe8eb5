// What the worker's copies of gpumatch need from the pages: the description of a segment's inverted index (engine/match/match_layout.hpp),
// which is its streams one behind the other, and a query's items. PG dialect.
#include "am/gpumatch/gpumatch.hpp"

#include "am/shared/stream.hpp"
#include "engine/match/match_layout.hpp"

namespace vectorgpu::am
{

namespace
{

using engine::match::MatchHead;
using engine::match::MatchLayout;

static_assert(sizeof(DictionaryEntry) == sizeof(engine::match::MatchEntry) &&
			  offsetof(DictionaryEntry, key_end) == offsetof(engine::match::MatchEntry, key_end) &&
			  offsetof(DictionaryEntry, postings_end) == offsetof(engine::match::MatchEntry, postings_end));

wire::CopyKind
kind(const MetaData *meta)
{
	return wire::CopyKind::kMatch;
}

/// Where counts are the answer, or find the candidates. Bounds of edit distances need more of a row than its elements.
bool
holds(const MetaData *meta)
{
	return meta->metric != Metric::kEdit;
}

MatchLayout
layout_of(const SegmentEntry *segment)
{
	return {{segment->streams[static_cast<int>(kDictionary)].n_bytes / sizeof(DictionaryEntry),
		segment->streams[static_cast<int>(kPostings)].n_bytes / sizeof(uint32),
		segment->streams[static_cast<int>(kKeyBytes)].n_bytes}};
}

uint32
parameter(const MetaData *meta, const SegmentEntry *segment)
{
	return 1;
}

uint64
n_bytes(const MetaData *meta, const SegmentEntry *segment)
{
	return layout_of(segment).bytes();
}

bool
read(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes, char *dest,
	BufferAccessStrategy strategy)
{
	const MatchLayout layout = layout_of(segment);
	const struct
	{
		StreamKind kind;
		uint64 first;
		uint64 end;
	} parts[] = {
		{kDictionary, layout.entries_at(), layout.postings_at()},
		{kPostings, layout.postings_at(), layout.keys_at()},
		{kKeyBytes, layout.keys_at(), layout.bytes()},
	};

	if (position < sizeof(MatchHead))
	{
		const Size here = Min(sizeof(MatchHead) - position, n_bytes);

		memcpy(dest, reinterpret_cast<const char *>(&layout.head) + position, here);
		position += here;
		n_bytes -= here;
		dest += here;
	}
	for (const auto &part : parts)
	{
		const uint64 here = n_bytes > 0 && position < part.end ? Min(part.end - position, n_bytes) : 0;

		if (here > 0 && !stream_read(index, meta, segment, part.kind, position - part.first, here, dest, strategy))
			return false;
		position += here;
		n_bytes -= here;
		dest += here;
	}
	return true;
}

const void *
query(const void *query, Size *n_bytes)
{
	const engine::match::Parts *parts = &static_cast<const MatchSearch *>(query)->parts;
	const Size head = engine::match::head_bytes(parts->size, parts->body_bytes);
	uint8 *bytes = static_cast<uint8 *>(palloc_extended(head + parts->body_bytes, MCXT_ALLOC_HUGE));

	*n_bytes = head + parts->body_bytes;
	memcpy(engine::match::put_head(bytes, parts->size, parts->body_bytes), parts->body, parts->body_bytes);
	return bytes;
}

} // namespace

const WorkerStructure kMatchWorkerStructure = {
	.kind = kind,
	.holds = holds,
	.parameter = parameter,
	.n_bytes = n_bytes,
	.probes = nullptr,
	.read = read,
	.query = query,
	.metric = match_copy_metric,
	.n_candidates = match_n_candidates,
};

Metric
match_copy_metric(const MetaData *meta)
{
	return meta->metric == Metric::kEdit ? Metric::kEdit : Metric::kMatchCount;
}

} // namespace vectorgpu::am
