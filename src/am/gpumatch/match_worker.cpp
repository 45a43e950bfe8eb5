// kMatchWorkerStructure: the description of a segment's inverted index (engine/match/match_layout.hpp), which is its
// streams one behind the other, and a query's items. PG dialect.
#include "am/gpumatch/gpumatch.hpp"

#include "storage/stream.hpp"
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
	const MatchOptions options = match_options(meta->am_options);

	return options.source != types::ElementSource::kTextGrams || options.has_texts;
}

MatchLayout
layout_of(const MetaData *meta, const SegmentEntry *segment)
{
	const StreamKind lists = match_lists(segment);

	return {{segment->streams[static_cast<int>(kDictionary)].n_bytes / sizeof(DictionaryEntry),
				segment->streams[static_cast<int>(lists)].n_bytes / match_list_item_bytes(lists),
				segment->streams[static_cast<int>(kKeyBytes)].n_bytes,
				lists == kTileLists ? engine::match::kListsOfTiles : engine::match::kListsOfRows},
		segment->streams[static_cast<int>(kTextItems)].n_bytes / sizeof(uint64),
		segment->streams[static_cast<int>(kTexts)].n_bytes};
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
		{match_lists(segment), layout.postings_at(), layout.keys_at()},
		{kKeyBytes, layout.keys_at(), layout.text_items_at()},
		{kTextItems, layout.text_items_at(), layout.texts_at()},
		{kTexts, layout.texts_at(), layout.bytes()},
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
	return n_bytes == 0;
}

const void *
query(const void *query, Size *n_bytes)
{
	const MatchSearch *search = static_cast<const MatchSearch *>(query);
	const engine::match::Parts *parts = &search->parts;
	const Size payload =
		search->pattern != nullptr ? parts->payload_bytes : 0; // the worker needs no payload of signatures
	const Size head = engine::match::head_bytes(parts->size, parts->body_bytes);
	uint8 *bytes = static_cast<uint8 *>(palloc_extended(head + parts->body_bytes + payload, MCXT_ALLOC_HUGE));

	*n_bytes = head + parts->body_bytes + payload;
	memcpy(engine::match::put_head(bytes, parts->size, parts->body_bytes), parts->body, parts->body_bytes);
	if (payload > 0)
		memcpy(bytes + head + parts->body_bytes, parts->payload, payload);
	return bytes;
}

/// True for texts that fit a pattern of one word; longer ones take a table of both lengths for each text.
bool
takes(const void *query)
{
	const MatchSearch *search = static_cast<const MatchSearch *>(query);

	return search->pattern == nullptr || search->pattern->n <= kTextWord;
}

} // namespace

const WorkerStructure kMatchWorkerStructure = {
	.kind = kind,
	.holds = holds,
	.not_held = "of texts that were built by release 0.1",
	.not_held_hint = "Rebuild the index with REINDEX INDEX.",
	.parameter = parameter,
	.n_bytes = n_bytes,
	.probes = nullptr,
	.read = read,
	.query = query,
	.takes = takes,
	.metric = match_copy_metric,
	.n_candidates = match_n_candidates,
};

Metric
match_copy_metric(const MetaData *meta)
{
	return meta->metric == Metric::kEdit ? Metric::kEdit : Metric::kMatchCount;
}

} // namespace vectorgpu::am
