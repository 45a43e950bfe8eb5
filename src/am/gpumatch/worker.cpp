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

bool
holds(const MetaData *meta)
{
	return true;
}

MatchLayout
layout_of(const MetaData *meta, const SegmentEntry *segment)
{
	return {{segment->streams[static_cast<int>(kDictionary)].n_bytes / sizeof(DictionaryEntry),
				segment->streams[static_cast<int>(kPostings)].n_bytes / sizeof(uint32),
				segment->streams[static_cast<int>(kKeyBytes)].n_bytes},
		meta->metric == Metric::kEdit ? segment->n_rows : 0};
}

/// Bytes [position, position + n_bytes) of the sizes of rows, which stand in kValueEnds.
bool
read_sizes(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes, char *dest,
	BufferAccessStrategy strategy)
{
	const uint64 first = position / sizeof(uint16);
	const uint64 n = (position + n_bytes + sizeof(uint16) - 1) / sizeof(uint16) - first;
	uint64 *items = static_cast<uint64 *>(palloc_extended(n * sizeof(uint64), MCXT_ALLOC_HUGE));
	bool good;

	good = stream_read(index, meta, segment, kValueEnds, first * sizeof(uint64), n * sizeof(uint64), items, strategy);
	if (good)
	{
		uint16 *sizes = reinterpret_cast<uint16 *>(items);

		// A size's place lies before that of the item it is made from, or is its beginning.
		for (uint64 i = 0; i < n; i++)
			sizes[i] = static_cast<uint16>(value_size(items[i]));
		memcpy(dest, reinterpret_cast<char *>(sizes) + position % sizeof(uint16), n_bytes);
	}
	pfree(items);
	return good;
}

uint32
parameter(const MetaData *meta, const SegmentEntry *segment)
{
	return 1;
}

uint64
n_bytes(const MetaData *meta, const SegmentEntry *segment)
{
	return layout_of(meta, segment).bytes();
}

bool
read(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes, char *dest,
	BufferAccessStrategy strategy)
{
	const MatchLayout layout = layout_of(meta, segment);
	const struct
	{
		StreamKind kind;
		uint64 first;
		uint64 end;
	} parts[] = {
		{kDictionary, layout.entries_at(), layout.postings_at()},
		{kPostings, layout.postings_at(), layout.keys_at()},
		{kKeyBytes, layout.keys_at(), layout.sizes_at()},
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
	return n_bytes == 0 || read_sizes(index, meta, segment, position - layout.sizes_at(), n_bytes, dest, strategy);
}

const void *
query(const void *query, Size *n_bytes)
{
	const MatchSearch *search = static_cast<const MatchSearch *>(query);
	const engine::match::Parts *parts = &search->parts;
	const uint32 gram_length = static_cast<uint32>(search->options.elements.gram_length);
	const Size payload = search->options.source == types::ElementSource::kTextGrams ? sizeof(gram_length) : 0;
	const Size head = engine::match::head_bytes(parts->size, parts->body_bytes);
	uint8 *bytes = static_cast<uint8 *>(palloc_extended(head + parts->body_bytes + payload, MCXT_ALLOC_HUGE));

	*n_bytes = head + parts->body_bytes + payload;
	memcpy(engine::match::put_head(bytes, parts->size, parts->body_bytes), parts->body, parts->body_bytes);
	memcpy(bytes + head + parts->body_bytes, &gram_length, payload);
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
