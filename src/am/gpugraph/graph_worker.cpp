// kGraphWorkerStructure: the width of a round, and the description of a segment's graph
// (engine/interface/graph_layout.hpp). PG dialect.
#include "am/gpugraph/graph.hpp"

#include "storage/stream.hpp"
#include "engine/graph/search.hpp"
#include "engine/interface/graph_layout.hpp"

namespace vectorgpu::am
{

namespace
{

// The description begins as the model does.
static_assert(offsetof(GraphModel, degree) == offsetof(engine::GraphHeader, degree) &&
	offsetof(GraphModel, n_parts) == offsetof(engine::GraphHeader, n_parts) &&
	offsetof(GraphModel, n_entries) == offsetof(engine::GraphHeader, n_entries) &&
	offsetof(GraphModel, code_bits) == offsetof(engine::GraphHeader, code_bits));
static_assert(sizeof(GraphPart) == sizeof(engine::GraphPartLayout));

// Without codes the last two are empty.
constexpr StreamKind kDescription[] = {kGraphStream, kPartStream, kEntryStream, kEdgeStream, kHashStream, kCodeStream};

wire::CopyKind
kind(const MetaData *meta)
{
	return graph_options(meta)->code_bits > 0 ? wire::CopyKind::kHashedGraph : wire::CopyKind::kGraph;
}

bool
holds(const MetaData *meta)
{
	return true;
}

/// Bytes of a stream in the description.
uint64
described_bytes(const MetaData *meta, const SegmentEntry *segment, StreamKind kind)
{
	const uint64 n_bytes = segment->streams[static_cast<int>(kind)].n_bytes;

	if (kind == kHashStream)
		return Min(n_bytes, graph_code_model_bytes(graph_options(meta)->code_bits, meta->dim));
	return kind == kGraphStream ? sizeof(engine::GraphHeader) : n_bytes;
}

uint32
degree(const MetaData *meta, const SegmentEntry *segment)
{
	return static_cast<uint32>(described_bytes(meta, segment, kEdgeStream) / (segment->n_rows * sizeof(uint32)));
}

uint64
n_bytes(const MetaData *meta, const SegmentEntry *segment)
{
	uint64 sum = 0;

	for (const StreamKind kind : kDescription)
		sum += described_bytes(meta, segment, kind);
	return sum;
}

/// A segment's model as this process has read it. Segments do not change, and no other segment of the same file has its
/// number. A file that was rolled back (SET TABLESPACE copies the uuid) may have had another one of that number.
struct KnownModel
{
	pg::RelationFile file;
	IndexUuid uuid;
	uint32 segment;
	GraphModel model;
};

constexpr uint32 kKnownModels = 16;

KnownModel known_models[kKnownModels]; // segment ids begin at 1

/// Cached, since each search would read the same page. Null if a page was foreign.
const GraphModel *
known_model(Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy)
{
	KnownModel *known = &known_models[segment->id % kKnownModels];
	GraphModel model;

	if (known->segment != segment->id || !pg::same_file(known->file, pg::file_of(index)) ||
		!uuid_equal(known->uuid, meta->uuid))
	{
		if (!graph_read_model(index, meta, segment, &model, strategy))
			return nullptr;
		*known = {pg::file_of(index), meta->uuid, segment->id, model};
	}
	return &known->model;
}

bool
width(Relation index, const MetaData *meta, const SegmentEntry *segment, uint32 round, uint64 wanted, uint64 n_before,
	const void *query, BufferAccessStrategy strategy, wire::SegmentProbes *probes, RoundLook *look)
{
	const double n_rows = static_cast<double>(segment->n_rows);
	const GraphModel *model = known_model(index, meta, segment, strategy);
	bool all;

	if (model == nullptr)
		return false;
	probes->probes = static_cast<uint32>(
		Min(graph_width(meta, model, segment, n_before, wanted, round), static_cast<double>(PG_UINT32_MAX)));
	all = engine::graph::looks_at_all(probes->probes, n_rows); // graph_width is at least n_rows where that is cheaper
	// With codes the GPU has no vectors. Else its engine chooses, since it looks at all rows sooner and knows their
	// place and form.
	look->whole = model->code_bits == 0 && all;
	look->width = all ? 0 : probes->probes;
	look->missed = graph_missed_target(model, static_cast<double>(n_before + wanted));
	return true;
}

bool
read(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 position, Size n_bytes, char *dest,
	BufferAccessStrategy strategy)
{
	uint64 first = 0;

	for (const StreamKind kind : kDescription)
	{
		const uint64 end = first + described_bytes(meta, segment, kind);
		const uint64 here = n_bytes > 0 && position < end ? Min(end - position, n_bytes) : 0;

		if (here > 0 && !stream_read(index, meta, segment, kind, position - first, here, dest, strategy))
			return false;
		position += here;
		n_bytes -= here;
		dest += here;
		first = end;
	}
	return true;
}

} // namespace

const WorkerStructure kGraphWorkerStructure = {
	.kind = kind,
	.holds = holds,
	.parameter = degree,
	.n_bytes = n_bytes,
	.probes = width,
	.read = read,
	.query = nullptr,
};

} // namespace vectorgpu::am
