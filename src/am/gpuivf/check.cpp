// vectorgpu_check for gpuivf: sizes of the streams; lists that hold every row once, in order; with heapallindexed also that
// every row is in the list of its nearest centroid. PG dialect.
#include "am/gpuivf/assign.hpp"
#include "am/gpuivf/ivf.hpp"

#include <cmath>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowsPerRead = 1024;

uint64
stream_size(const SegmentEntry *segment, StreamKind kind)
{
	return segment->streams[static_cast<int>(kind)].n_bytes;
}

[[noreturn]] void
stream_corrupted(Relation index, const SegmentEntry *segment, StreamKind kind, const char *what)
{
	page_corrupted(index, segment->streams[static_cast<int>(kind)].start_block, what);
}

void
must_be_intact(Relation index, bool intact)
{
	if (!intact)
		page_recycled(index, 0);
}

/// [n_lists + 1]
uint64 *
read_offsets(Relation index, const MetaData *meta, const SegmentEntry *segment, uint32 n_lists,
	BufferAccessStrategy strategy)
{
	uint64 *offsets =
		static_cast<uint64 *>(MemoryContextAllocHuge(CurrentMemoryContext, (n_lists + Size{1}) * sizeof(uint64)));

	must_be_intact(index,
		stream_read(index, meta, segment, kOffsetStream, 0, (n_lists + Size{1}) * sizeof(uint64), offsets, strategy));
	if (offsets[0] != 0 || offsets[n_lists] != segment->n_rows)
		stream_corrupted(index, segment, kOffsetStream, "The lists do not begin at the first row or end at the last.");
	for (uint32 i = 0; i < n_lists; i++)
		if (offsets[i] > offsets[i + 1])
			stream_corrupted(index, segment, kOffsetStream, "A list ends before it begins.");
	return offsets;
}

/// Rows ascend within a list, and the place of each is where it is: so that each is there once.
void
check_places(Relation index, const MetaData *meta, const SegmentEntry *segment, const uint64 *offsets,
	BufferAccessStrategy strategy)
{
	uint32 numbers[kRowsPerRead];
	uint32 places[kRowsPerRead];
	uint64 items[kRowsPerRead];
	uint64 last = 0;
	uint32 list = 0;

	for (uint64 first = 0; first < segment->n_rows; first += kRowsPerRead)
	{
		const uint64 n = Min(kRowsPerRead, segment->n_rows - first);

		CHECK_FOR_INTERRUPTS();
		must_be_intact(index,
			stream_read(index, meta, segment, kListRowStream, first * sizeof(uint32), n * sizeof(uint32), numbers, strategy));
		for (uint64 i = 0; i < n; i++)
		{
			bool begins = first + i == 0;

			while (offsets[list + 1] <= first + i)
			{
				list++;
				begins = true;
			}
			if (numbers[i] >= segment->n_rows || (!begins && numbers[i] <= last))
				stream_corrupted(index, segment, kListRowStream, psprintf("List %u is not in the order of its rows.", list));
			last = numbers[i];
			items[i] = numbers[i];
		}
		must_be_intact(index,
			stream_gather(index, meta, segment, kPlaceStream, sizeof(uint32), items, n, places, strategy));
		for (uint64 i = 0; i < n; i++)
			if (places[i] != first + i)
				stream_corrupted(index, segment, kPlaceStream, psprintf("Row %u of a segment is not in its place.", numbers[i]));
	}
}

/// Every row is in the list of its nearest centroid.
void
check_assignment(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfModel *model,
	const float *centroids, const uint64 *offsets, BufferAccessStrategy strategy)
{
	const Size vector_size = meta_vector_bytes(meta);
	Assigner assigner;
	uint32 list = 0;

	assigner_begin(&assigner, meta, centroids, model->n_lists);
	for (uint64 first = 0; first < segment->n_rows; first += assigner.batch_rows)
	{
		const uint64 n = Min(static_cast<uint64>(assigner.batch_rows), segment->n_rows - first);

		must_be_intact(index,
			stream_read(index, meta, segment, StreamKind::kVectors, first * vector_size, n * vector_size,
				assigner.vectors, strategy));
		(void) assigner_run(&assigner, n, nullptr, nullptr);
		for (uint64 i = 0; i < n; i++)
		{
			while (offsets[list + 1] <= first + i)
				list++;
			if (assigner.labels[i] != list)
				stream_corrupted(index, segment, StreamKind::kVectors,
					psprintf("A vector is in list %u instead of list %u.", list, assigner.labels[i]));
		}
	}
	assigner_end(&assigner);
}

} // namespace

const char *
ivf_check_entry(const MetaData *meta, const SegmentEntry *segment)
{
	const uint64 centroid_bytes = stream_size(segment, kCentroidStream);
	const uint64 stride = meta->dim * sizeof(float);
	const uint64 n_lists = centroid_bytes / stride;

	if (stream_size(segment, StreamKind::kVectors) != segment->n_rows * meta_vector_bytes(meta))
		return "Its vectors do not fit its number of rows.";
	if (stream_size(segment, kListRowStream) != segment->n_rows * sizeof(uint32) ||
		stream_size(segment, kPlaceStream) != segment->n_rows * sizeof(uint32))
		return "Its lists do not fit its number of rows.";
	for (uint32 i = static_cast<uint32>(kPlaceStream) + 1; i < kMaxStreams; i++)
		if (segment->streams[i].n_bytes != 0)
			return "It has a stream that no such index has.";
	if (segment->n_rows == 0)
		return centroid_bytes == 0 && stream_size(segment, kModelStream) == 0 && stream_size(segment, kOffsetStream) == 0
			? nullptr
			: "It has lists, but no rows.";
	if (stream_size(segment, kModelStream) != sizeof(IvfModel) || n_lists == 0 || n_lists > kMaxLists ||
		centroid_bytes % stride != 0 || stream_size(segment, kOffsetStream) != (n_lists + 1) * sizeof(uint64))
		return "The streams that describe its lists do not fit each other.";
	return nullptr;
}

void
ivf_check(Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy)
{
	IvfModel model;
	float *centroids;
	uint64 *offsets;
	Size n_bytes;

	if (segment->n_rows == 0)
		return;
	must_be_intact(index, ivf_read_model(index, meta, segment, &model, strategy));
	n_bytes = static_cast<Size>(model.n_lists) * meta->dim * sizeof(float);
	centroids = static_cast<float *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
	must_be_intact(index, stream_read(index, meta, segment, kCentroidStream, 0, n_bytes, centroids, strategy));
	for (Size i = 0; i < n_bytes / sizeof(float); i++)
		if (!std::isfinite(centroids[i]))
			stream_corrupted(index, segment, kCentroidStream, "A centroid has an element that is not finite.");
	offsets = read_offsets(index, meta, segment, model.n_lists, strategy);
	check_places(index, meta, segment, offsets, strategy);
	if (deep)
		check_assignment(index, meta, segment, &model, centroids, offsets, strategy);
	pfree(offsets);
	pfree(centroids);
}

} // namespace vectorgpu::am
