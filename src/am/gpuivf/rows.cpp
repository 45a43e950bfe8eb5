// Reading a segment of gpuivf: its model, its vectors by TID. PG dialect.
#include "am/gpuivf/stored_rows.hpp"

#include "engine/distance/distance.hpp"
#include "engine/ivf/list_metric.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kPlacesPerRead = 1024;

} // namespace

void
ivf_rows_to_floats(const engine::DistanceSpec &spec, const char *vectors, uint64 n, float *floats)
{
	engine::ivf::list_floats(spec, vectors, n, floats);
	if (engine::ivf::list_kind(spec.metric) == engine::ivf::ClusterKind::kSpherical)
		engine::ivf::normalise_rows(floats, n, spec.dim);
}

bool
ivf_read_model(
	Relation index, const MetaData *meta, const SegmentEntry *segment, IvfModel *model, BufferAccessStrategy strategy)
{
	const uint64 n_bytes = segment->streams[static_cast<int>(kCentroidStream)].n_bytes;
	const uint64 model_bytes = segment->streams[static_cast<int>(kModelStream)].n_bytes;

	if (model_bytes != sizeof(IvfModel) && model_bytes != kShortModelBytes)
		page_corrupted(index, 0, "A segment has no model of its lists.");
	model->depths = {};
	if (!stream_read(index, meta, segment, kModelStream, 0, model_bytes, model, strategy))
		return false;
	if (model->n_lists == 0 || n_bytes != static_cast<uint64>(model->n_lists) * meta->dim * sizeof(float) ||
		segment->streams[static_cast<int>(kOffsetStream)].n_bytes !=
			(model->n_lists + UINT64CONST(1)) * sizeof(uint64) ||
		model->calibration.n_points > engine::ivf::kMaxCalibrationPoints ||
		model->depths.n_depths > engine::ivf::kMaxDepths)
		page_corrupted(index, segment->streams[static_cast<int>(kModelStream)].start_block,
			"The model of the lists contradicts the metapage.");
	return true;
}

bool
ivf_describe_lists(Relation index, const MetaData *meta, ListStatistics *statistics)
{
	uint64 n_rows = 0;

	for (uint32 i = 0; i < meta->n_segments; i++)
	{
		const SegmentEntry *segment = &meta->segments[i];
		IvfModel model;

		if (segment->n_rows == 0)
			continue;
		if (!ivf_read_model(index, meta, segment, &model, nullptr))
			return false;
		statistics->drift = Max(statistics->drift, ivf_drift(&model, segment->n_rows));
		if (segment->n_rows <= n_rows)
			continue;
		n_rows = segment->n_rows;
		statistics->n_lists = model.n_lists;
		statistics->imbalance = model.imbalance;
	}
	return true;
}

bool
ivf_read_vectors(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 first, uint64 n, char *dest,
	BufferAccessStrategy strategy)
{
	const Size vector_size = meta_vector_bytes(meta);
	const IvfLayout layout = ivf_layout(meta);
	uint32 places[kPlacesPerRead];
	RowId rows[kPlacesPerRead];
	bool found[kPlacesPerRead] = {};

	for (uint64 done = 0; done < n;)
	{
		const uint64 part = Min(n - done, kPlacesPerRead);

		if (!stream_read(index, meta, segment, kPlaceStream, (first + done) * sizeof(uint32), part * sizeof(uint32),
				places, strategy))
			return false;
		if (layout.kept_bytes == 0)
		{
			if (!stream_read(index, meta, segment, StreamKind::kRowIds, (first + done) * sizeof(RowId),
					part * sizeof(RowId), rows, strategy))
				return false;
			ivf_read_table(index, meta, rows, part, dest + done * vector_size, found);
		}
		for (uint64 i = 0; i < part; i++)
		{
			if (found[i])
				continue;
			if (places[i] >= segment->n_rows)
				page_corrupted(index, segment->streams[static_cast<int>(kPlaceStream)].start_block,
					"A row's place lies behind the last list.");
			if (refines_in_full(&layout)
					? !stream_read(index, meta, segment, StreamKind::kVectors, places[i] * vector_size, vector_size,
						  dest + (done + i) * vector_size, strategy)
					: !ivf_read_stored(
						  index, meta, segment, &layout, places[i], dest + (done + i) * vector_size, strategy))
				return false;
		}
		done += part;
	}
	return true;
}

} // namespace vectorgpu::am
