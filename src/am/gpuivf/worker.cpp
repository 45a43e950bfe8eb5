// What the worker's copies of gpuivf need from the pages: how many lists a round looks at, and the description of a segment's
// lists (engine/lists_layout.hpp). PG dialect.
#include "am/gpuivf/ivf.hpp"

#include "am/shared/stream.hpp"
#include "engine/lists_layout.hpp"

namespace vectorgpu::am
{

namespace
{

/// The worker scans lists of vectors as they are; codes are scanned from the pages.
bool
holds(const MetaData *meta)
{
	const IvfOptions *options = ivf_options(meta);

	return options->storage == IvfStorage::kPlain && options->refine == IvfRefine::kFull;
}

uint32
n_lists(const MetaData *meta, const SegmentEntry *segment)
{
	const uint64 n_bytes = segment->streams[static_cast<int>(kCentroidStream)].n_bytes;

	return static_cast<uint32>(n_bytes / (meta->dim * sizeof(float)));
}

uint64
n_bytes(const MetaData *meta, const SegmentEntry *segment)
{
	return engine::ListsLayout{n_lists(meta, segment), meta->dim, segment->n_rows}.bytes();
}

bool
probes(Relation index, const MetaData *meta, const SegmentEntry *segment, uint32 round, uint64 wanted, uint64 n_before,
	const void *query,
	BufferAccessStrategy strategy, uint32 *n_probes)
{
	IvfModel model;

	if (!ivf_read_model(index, meta, segment, &model, strategy))
		return false;
	*n_probes = ivf_round_probes(meta, &model, round, wanted, query);
	return true;
}

bool
read(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes, char *dest,
	BufferAccessStrategy strategy)
{
	const engine::ListsLayout layout = {n_lists(meta, segment), meta->dim, segment->n_rows};
	const struct
	{
		StreamKind kind;
		uint64 first;
		uint64 end;
	} parts[] = {
		{kOffsetStream, 0, layout.centroids_at()},
		{kCentroidStream, layout.centroids_at(), layout.numbers_at()},
		{kListRowStream, layout.numbers_at(), layout.bytes()},
	};

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

} // namespace

const WorkerStructure kIvfWorkerStructure = {
	.kind = wire::CopyKind::kLists,
	.holds = holds,
	.parameter = n_lists,
	.n_bytes = n_bytes,
	.probes = probes,
	.read = read,
	.query = nullptr,
};

} // namespace vectorgpu::am
