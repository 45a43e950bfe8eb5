// kIvfWorkerStructure: the lists and candidates of a round, and the description of a segment's lists
// (engine/interface/lists_layout.hpp) and codes (engine/interface/codes_layout.hpp). PG dialect.
#include "am/gpuivf/storage.hpp"

#include "storage/stream.hpp"
#include "engine/interface/codes_layout.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

wire::CopyKind
kind(const MetaData *meta)
{
	if (ivf_options(meta)->storage == IvfStorage::kPlain)
		return wire::CopyKind::kLists;
	return ivf_options(meta)->refine == IvfRefine::kFull ? wire::CopyKind::kCodedLists : wire::CopyKind::kCodes;
}

bool
holds(const MetaData *)
{
	return true;
}

/// True if distances come from the table, which the worker does not see: it finds candidates to read there.
bool
finds_candidates(const MetaData *meta)
{
	return kind(meta) == wire::CopyKind::kCodes;
}

uint32
n_lists(const MetaData *meta, const SegmentEntry *segment)
{
	const uint64 n_bytes = segment->streams[static_cast<int>(kCentroidStream)].n_bytes;

	return static_cast<uint32>(n_bytes / (meta->dim * sizeof(float)));
}

engine::ListsLayout
lists_layout(const MetaData *meta, const SegmentEntry *segment)
{
	return {n_lists(meta, segment), meta->dim, segment->n_rows};
}

engine::CodesLayout
codes_layout(const MetaData *meta, const SegmentEntry *segment)
{
	return {ivf_layout(meta).codes, segment->n_rows};
}

uint64
n_bytes(const MetaData *meta, const SegmentEntry *segment)
{
	const uint64 lists = lists_layout(meta, segment).bytes();

	return kind(meta) == wire::CopyKind::kLists ? lists : lists + codes_layout(meta, segment).bytes();
}

bool
probes(Relation index, const MetaData *meta, const SegmentEntry *segment, uint32 round, uint64 wanted, uint64 n_before,
	const void *query, BufferAccessStrategy strategy, wire::SegmentProbes *probes, RoundLook *look)
{
	IvfModel model;

	if (!ivf_read_model(index, meta, segment, &model, strategy))
		return false;
	probes->probes = ivf_round_probes(meta, segment, &model, round, n_before, wanted, query, &look->missed);
	look->whole = probes->probes >= model.n_lists;
	look->width = look->whole ? 0 : probes->probes;
	if (look->whole && finds_candidates(meta))
		probes->candidates = 1; // the least number: the segment's rows are read from the table
	else if (kind(meta) != wire::CopyKind::kLists)
	{
		bool far;
		uint64 candidates;

		if (!ivf_stored_query_is_far(index, meta, segment, &model, query, strategy, &far))
			return false;
		candidates = ivf_segment_candidates(meta, segment, &model, wanted + n_before, far);
		probes->candidates = static_cast<uint32>(Max(Min(candidates, segment->n_rows), UINT64CONST(1)));
	}
	return true;
}

/// A part of the description.
struct DescribedPart
{
	StreamKind kind;
	uint64 end; // in the description
};

bool
read(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes, char *dest,
	BufferAccessStrategy strategy)
{
	constexpr StreamKind kHead = kModelStream; // no stream: ivf_worker.cpp makes it
	const engine::ListsLayout lists = lists_layout(meta, segment);
	const engine::CodesLayout codes = codes_layout(meta, segment);
	const engine::CodesHead head = engine::head_of(codes.spec);
	const uint64 codes_at = lists.bytes();
	const DescribedPart parts[] = {
		{kOffsetStream, lists.centroids_at()},
		{kCentroidStream, lists.numbers_at()},
		{kListRowStream, codes_at},
		{kHead, codes_at + codes.model_at()},
		{kCodecStream, codes_at + codes.terms_at()},
		{kRowTermStream, codes_at + codes.codes_at()},
		{kCodeStream, codes_at + codes.bytes()},
	};
	uint64 first = 0;

	for (const DescribedPart &part : parts)
	{
		const uint64 here = n_bytes > 0 && position < part.end ? Min(part.end - position, n_bytes) : 0;

		if (here > 0 && part.kind == kHead)
			memcpy(dest, reinterpret_cast<const char *>(&head) + (position - first), here);
		else if (here > 0 && !stream_read(index, meta, segment, part.kind, position - first, here, dest, strategy))
			return false;
		position += here;
		n_bytes -= here;
		dest += here;
		first = part.end;
	}
	return true;
}

} // namespace

const WorkerStructure kIvfWorkerStructure = {
	.kind = kind,
	.holds = holds,
	.not_held = nullptr,
	.not_held_hint = nullptr,
	.parameter = n_lists,
	.n_bytes = n_bytes,
	.probes = probes,
	.read = read,
	.query = nullptr,
	.finds_candidates = finds_candidates,
};

} // namespace vectorgpu::am
