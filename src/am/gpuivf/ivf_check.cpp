// vectorgpu_check for gpuivf: sizes of the streams; lists that hold every row once, in order; with heapallindexed also
// that every row is in the list of its nearest centroid. PG dialect.
#include "am/gpuivf/codec.hpp"
#include "am/gpuivf/stored_rows.hpp"
#include "engine/distance/distance.hpp"
#include "storage/stream_check.hpp"

#include <cmath>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowsPerRead = 1024;

/// [n_lists + 1]
uint64 *
read_offsets(
	Relation index, const MetaData *meta, const SegmentEntry *segment, uint32 n_lists, BufferAccessStrategy strategy)
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

/// Checks that rows ascend within a list, and that kPlaceStream names the place of each: so each row is there once.
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
			stream_read(
				index, meta, segment, kListRowStream, first * sizeof(uint32), n * sizeof(uint32), numbers, strategy));
		for (uint64 i = 0; i < n; i++)
		{
			bool begins = first + i == 0;

			while (offsets[list + 1] <= first + i)
			{
				list++;
				begins = true;
			}
			if (numbers[i] >= segment->n_rows || (!begins && numbers[i] <= last))
				stream_corrupted(
					index, segment, kListRowStream, psprintf("List %u is not in the order of its rows.", list));
			last = numbers[i];
			items[i] = numbers[i];
		}
		must_be_intact(
			index, stream_gather(index, meta, segment, kPlaceStream, sizeof(uint32), items, n, places, strategy));
		for (uint64 i = 0; i < n; i++)
			if (places[i] != first + i)
				stream_corrupted(
					index, segment, kPlaceStream, psprintf("Row %u of a segment is not in its place.", numbers[i]));
	}
}

/// Checks codes and row terms of places [first, first + n) against the vectors.
void
check_codes(Relation index, const MetaData *meta, const SegmentEntry *segment, CodeEncoder *encoder,
	const Assigner *assigner, uint64 first, uint64 n, BufferAccessStrategy strategy)
{
	const IvfLayout *layout = &encoder->codec->layout;
	const CodeArrays made = {static_cast<uint8 *>(MemoryContextAllocHuge(CurrentMemoryContext, n * layout->code_bytes)),
		static_cast<float *>(palloc(n * sizeof(float))), static_cast<uint8 *>(palloc(n))};
	uint8 *stored = static_cast<uint8 *>(palloc(layout->code_bytes));
	const Watch watch = {nullptr, nullptr, false};

	(void) encoder_run(encoder, assigner->floats, assigner->labels, n, &made, &watch);
	for (uint64 i = 0; i < n; i++)
	{
		float term;

		must_be_intact(index, ivf_read_code(index, meta, segment, layout, first + i, stored, strategy));
		if (memcmp(stored, made.codes + i * layout->code_bytes, layout->code_bytes) != 0)
			stream_corrupted(index, segment, kCodeStream, "A code is not that of its vector.");
		if (!layout->row_terms)
			continue;
		must_be_intact(index,
			stream_read(
				index, meta, segment, kRowTermStream, (first + i) * sizeof(float), sizeof(term), &term, strategy));
		if (memcmp(&term, &made.terms[i], sizeof(term)) != 0)
			stream_corrupted(index, segment, kRowTermStream, "The term of a row is not that of its vector.");
	}
	pfree(made.codes);
	pfree(made.terms);
	pfree(made.is_out);
	pfree(stored);
}

/// Checks that every row is in the list of its nearest centroid, and has the code of its vector, by the vectors that
/// the segment keeps.
void
check_assignment(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfModel *model,
	const float *centroids, const uint64 *offsets, BufferAccessStrategy strategy)
{
	const IvfLayout layout = ivf_layout(meta);
	const engine::DistanceSpec rows = {meta->metric, layout.kept, meta->dim};
	Assigner assigner;
	const Watch watch = {nullptr, nullptr, false};
	CodeEncoder encoder;
	Codec codec;
	uint32 list = 0;

	if (layout.kept_bytes == 0)
		return;
	assigner_begin(&assigner, rows, centroids, model->n_lists);
	must_be_intact(index, codec_read(&codec, index, meta, segment, strategy));
	(void) encoder_begin(&encoder, &codec, centroids, model->n_lists, &watch);
	for (uint64 first = 0; first < segment->n_rows; first += assigner.batch_rows)
	{
		const uint64 n = Min(static_cast<uint64>(assigner.batch_rows), segment->n_rows - first);

		must_be_intact(index,
			stream_read(index, meta, segment, StreamKind::kVectors, first * layout.kept_bytes, n * layout.kept_bytes,
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
		if (has_codes(&layout))
			check_codes(index, meta, segment, &encoder, &assigner, first, n, strategy);
	}
	encoder_end(&encoder);
	assigner_end(&assigner);
}

/// Checks that all floats of a stream are finite.
void
check_floats(Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind kind, const char *problem,
	BufferAccessStrategy strategy)
{
	float floats[kRowsPerRead];
	const uint64 n_floats = stream_size(segment, kind) / sizeof(float);

	for (uint64 first = 0; first < n_floats; first += kRowsPerRead)
	{
		const uint64 n = Min(kRowsPerRead, n_floats - first);

		CHECK_FOR_INTERRUPTS();
		must_be_intact(
			index, stream_read(index, meta, segment, kind, first * sizeof(float), n * sizeof(float), floats, strategy));
		for (uint64 i = 0; i < n; i++)
			if (!std::isfinite(floats[i]))
				stream_corrupted(index, segment, kind, problem);
	}
}

/// True if the storage parameters are valid: ivf_layout does not check them.
bool
options_are_known(const MetaData *meta)
{
	const IvfOptions *options = ivf_options(meta);

	if (options->lists > kMaxLists || options->storage > IvfStorage::kRabitq || options->refine > IvfRefine::kNone)
		return false;
	if (meta->element == ElementType::kBit &&
		(options->storage != IvfStorage::kPlain || options->refine != IvfRefine::kFull))
		return false;
	if (options->storage == IvfStorage::kRabitq)
		return meta->metric != Metric::kL1 && options->bits >= 1 && options->bits <= engine::ivf::kMaxRabitqBits;
	if (options->storage != IvfStorage::kPq)
		return true;
	return (options->pq_bits == 4 || options->pq_bits == 8) && options->pq_m >= 1 && options->pq_m <= meta->dim &&
		(options->opq == 0 || (options->opq == 1 && meta->dim <= engine::ivf::kMaxOpqDimensions));
}

} // namespace

const char *
ivf_check_entry(const MetaData *meta, const SegmentEntry *segment)
{
	const uint64 centroid_bytes = stream_size(segment, kCentroidStream);
	const uint64 stride = meta->dim * sizeof(float);
	const uint64 n_lists = centroid_bytes / stride;
	IvfLayout layout;

	if (!options_are_known(meta))
		return "The metapage has storage parameters that do not exist.";
	layout = ivf_layout(meta);
	if (stream_size(segment, StreamKind::kVectors) != segment->n_rows * layout.kept_bytes)
		return "Its vectors do not fit its number of rows.";
	if (stream_size(segment, kCodeStream) != code_stream_bytes(&layout, segment->n_rows) ||
		stream_size(segment, kRowTermStream) != (layout.row_terms ? segment->n_rows * sizeof(float) : 0))
		return "Its codes do not fit its number of rows.";
	if (stream_size(segment, kListRowStream) != segment->n_rows * sizeof(uint32) ||
		stream_size(segment, kPlaceStream) != segment->n_rows * sizeof(uint32))
		return "Its lists do not fit its number of rows.";
	if (stream_size(segment, kCodecStream) != (segment->n_rows > 0 ? layout.codec_floats * sizeof(float) : 0))
		return "The parameters of its codes have a wrong size.";
	if (segment->n_rows == 0)
		return centroid_bytes == 0 && stream_size(segment, kModelStream) == 0 &&
				stream_size(segment, kOffsetStream) == 0
			? nullptr
			: "It has lists, but no rows.";
	if ((stream_size(segment, kModelStream) != sizeof(IvfModel) &&
			stream_size(segment, kModelStream) != kShortModelBytes) ||
		n_lists == 0 || n_lists > kMaxLists || centroid_bytes % stride != 0 ||
		stream_size(segment, kOffsetStream) != (n_lists + 1) * sizeof(uint64))
		return "The streams that describe its lists do not fit each other.";
	return nullptr;
}

void
ivf_check(Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy)
{
	IvfModel model;
	const char *problem;
	float *centroids;
	uint64 *offsets;
	Size n_bytes;

	if (segment->n_rows == 0)
		return;
	must_be_intact(index, ivf_read_model(index, meta, segment, &model, strategy));
	problem = engine::ivf::calibration_problem(model.calibration, model.depths, model.n_lists);
	if (problem != nullptr)
		stream_corrupted(index, segment, kModelStream, problem);
	n_bytes = static_cast<Size>(model.n_lists) * meta->dim * sizeof(float);
	centroids = static_cast<float *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
	must_be_intact(index, stream_read(index, meta, segment, kCentroidStream, 0, n_bytes, centroids, strategy));
	for (Size i = 0; i < n_bytes / sizeof(float); i++)
		if (!std::isfinite(centroids[i]))
			stream_corrupted(index, segment, kCentroidStream, "A centroid has an element that is not finite.");
	offsets = read_offsets(index, meta, segment, model.n_lists, strategy);
	check_places(index, meta, segment, offsets, strategy);
	check_floats(index, meta, segment, kCodecStream, "The parameters of the codes have an element that is not finite.",
		strategy);
	if (deep)
		check_assignment(index, meta, segment, &model, centroids, offsets, strategy);
	pfree(offsets);
	pfree(centroids);
}

} // namespace vectorgpu::am
