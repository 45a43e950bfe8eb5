// Vectors of a segment without full vectors: widened halves, decoded codes. For merges, which write such rows again,
// and vectorgpu_check. The data for decoding is kept until the transaction ends, since rows are read batch by batch. PG
// dialect.
#include "am/gpuivf/stored_rows.hpp"

#include "am/gpuivf/codec.hpp"
#include "engine/distance/distance.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kBlockRows = engine::ivf::kCodeBlockRows;
constexpr int kKeptSources = 16; // segments of a merge, at most

/// The data for decoding a segment of one file. A subtransaction that moved the index to another file (SET TABLESPACE)
/// and was rolled back may have made a segment there whose number the old file gives to another one, under the same
/// uuid.
struct Source
{
	pg::RelationFile file;
	IndexUuid uuid;
	uint32 segment;
	Codec codec;
	uint32 n_lists;
	float *centroids; // codes of residuals only
	uint64 *offsets;  // the same
};

/// Lives in a child of TopTransactionContext.
struct Sources
{
	MemoryContext context;
	MemoryContextCallback callback;
	int n;
	Source *sources[kKeptSources];
};

Sources *kept_sources = nullptr;

void
forget_sources(void *)
{
	kept_sources = nullptr;
}

Sources *
all_sources()
{
	if (kept_sources == nullptr)
	{
		MemoryContext context =
			AllocSetContextCreate(TopTransactionContext, "vectorgpu decoded segments", ALLOCSET_DEFAULT_SIZES);
		Sources *sources = static_cast<Sources *>(MemoryContextAllocZero(context, sizeof(Sources)));

		sources->context = context;
		sources->callback.func = forget_sources;
		MemoryContextRegisterResetCallback(context, &sources->callback);
		kept_sources = sources;
	}
	return kept_sources;
}

/// False if a page was foreign.
bool
read_source(
	Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy, Source *source)
{
	IvfModel model;

	if (!ivf_read_model(index, meta, segment, &model, strategy) ||
		!codec_read(&source->codec, index, meta, segment, strategy))
		return false;
	source->n_lists = model.n_lists;
	if (engine::ivf::code_is_residual(source->codec.layout.codes))
	{
		const Size centroid_bytes = static_cast<Size>(model.n_lists) * meta->dim * sizeof(float);
		const Size offset_bytes = (model.n_lists + Size{1}) * sizeof(uint64);

		source->centroids = static_cast<float *>(MemoryContextAllocHuge(CurrentMemoryContext, centroid_bytes));
		source->offsets = static_cast<uint64 *>(MemoryContextAllocHuge(CurrentMemoryContext, offset_bytes));
		if (!stream_read(index, meta, segment, kCentroidStream, 0, centroid_bytes, source->centroids, strategy) ||
			!stream_read(index, meta, segment, kOffsetStream, 0, offset_bytes, source->offsets, strategy))
			return false;
	}
	source->file = pg::file_of(index);
	source->uuid = meta->uuid;
	source->segment = segment->id;
	return true;
}

/// Null if a page was foreign.
const Source *
source_of(Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy)
{
	Sources *sources = all_sources();
	MemoryContext old;
	Source *source;
	bool intact;

	for (int i = 0; i < sources->n; i++)
		if (sources->sources[i]->segment == segment->id &&
			pg::same_file(sources->sources[i]->file, pg::file_of(index)) &&
			uuid_equal(sources->sources[i]->uuid, meta->uuid))
			return sources->sources[i];
	if (sources->n == kKeptSources)
	{
		MemoryContextDelete(sources->context);
		sources = all_sources();
	}
	old = MemoryContextSwitchTo(sources->context);
	source = static_cast<Source *>(palloc0(sizeof(Source)));
	intact = read_source(index, meta, segment, strategy, source);
	MemoryContextSwitchTo(old);
	if (!intact)
		return nullptr;
	sources->sources[sources->n++] = source;
	return source;
}

/// The list of a place.
uint32
list_of(const Source *source, uint64 place)
{
	const uint64 *offsets = source->offsets;

	return static_cast<uint32>(std::upper_bound(offsets, offsets + source->n_lists + 1, place) - offsets - 1);
}

} // namespace

bool
ivf_read_code(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfLayout *layout, uint64 place,
	uint8 *code, BufferAccessStrategy strategy)
{
	const Size block_bytes = kBlockRows * layout->code_bytes;
	uint8 *block;
	bool intact;

	if (engine::ivf::code_unit_rows(layout->codes) == 1)
		return stream_read(
			index, meta, segment, kCodeStream, place * layout->code_bytes, layout->code_bytes, code, strategy);
	block = static_cast<uint8 *>(palloc(block_bytes));
	intact =
		stream_read(index, meta, segment, kCodeStream, place / kBlockRows * block_bytes, block_bytes, block, strategy);
	if (intact)
		engine::ivf::code_read_block(layout->codes, block, place % kBlockRows, code);
	pfree(block);
	return intact;
}

bool
ivf_read_stored(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfLayout *layout,
	uint64 place, char *dest, BufferAccessStrategy strategy)
{
	const Source *source;
	uint32 label = 0;
	float *floats;
	uint8 *code;

	if (layout->kept_bytes > 0)
	{
		char *kept = static_cast<char *>(palloc(layout->kept_bytes));
		const bool intact = stream_read(
			index, meta, segment, StreamKind::kVectors, place * layout->kept_bytes, layout->kept_bytes, kept, strategy);

		if (intact)
			engine::widen_halves(kept, meta->dim, reinterpret_cast<float *>(dest));
		pfree(kept);
		return intact;
	}
	source = source_of(index, meta, segment, strategy);
	if (source == nullptr)
		return false;
	code = static_cast<uint8 *>(palloc(layout->code_bytes));
	floats = static_cast<float *>(palloc(meta->dim * sizeof(float)));
	if (!ivf_read_code(index, meta, segment, layout, place, code, strategy))
		return false;
	if (source->offsets != nullptr)
		label = list_of(source, place);
	if (label >= source->n_lists)
		page_corrupted(index, segment->streams[static_cast<int>(kOffsetStream)].start_block,
			"The lists do not begin at the first row or end at the last.");
	codec_decode(&source->codec, source->centroids, code, &label, 1, floats);
	if (meta->element == ElementType::kFloat16)
		(void) engine::ivf::narrow_to_halves(floats, meta->dim, reinterpret_cast<uint16 *>(dest));
	else
		memcpy(dest, floats, meta->dim * sizeof(float));
	pfree(code);
	pfree(floats);
	return true;
}

bool
ivf_matches(const MetaData *meta, const char *vector, const char *stored)
{
	const IvfLayout layout = ivf_layout(meta);
	uint16 *halves;
	float *floats;
	bool same;

	if (layout.refine == IvfRefine::kFull)
		return memcmp(vector, stored, meta_vector_bytes(meta)) == 0;
	if (layout.refine == IvfRefine::kNone)
		return true; // codes are of an approximation, and after merges of an approximation of that
	floats = static_cast<float *>(palloc(Size{2} * meta->dim * sizeof(float)));
	halves = static_cast<uint16 *>(palloc(Size{2} * meta->dim * sizeof(uint16)));
	memcpy(floats, vector, meta->dim * sizeof(float));
	memcpy(floats + meta->dim, stored, meta->dim * sizeof(float));
	(void) engine::ivf::narrow_to_halves(floats, Size{2} * meta->dim, halves);
	same = memcmp(halves, halves + meta->dim, meta->dim * sizeof(uint16)) == 0;
	pfree(floats);
	pfree(halves);
	return same;
}

} // namespace vectorgpu::am
