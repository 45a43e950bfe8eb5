// Queries that calibration does not cover. It measures with rows as queries: the number of candidates is known for
// queries among the rows. To a query far from them very many rows are nearly as near as the nearest: their distances
// differ by less than the error of their codes. PG dialect.
//
// Every scan of codes asks, also scans that the worker answers: so a process keeps centroids of the models that it met
// last.
#include "am/gpuivf/ivf.hpp"

#include "storage/stream.hpp"

#include <algorithm>
#include <cmath>

extern "C"
{
#include "utils/memutils.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kRemembered = 32;      // models: enough for partitions of a table, which are searched in turns
constexpr uint32 kSampleFloats = 65536; // of the centroids of a model
constexpr uint32 kLeastSample = 8;      // centroids
constexpr uint32 kMeasured = 64;        // centroids whose distance to their nearest other one is measured
constexpr double kShare = 0.9;          // the share of them with distances below the reference of "far"
// Times the reference, squared. Of 1,000 queries each of SIFT and Fashion-MNIST, with the lists of the default, 1 % are
// more than 1.4 times as far, none more than 1.9 times.
constexpr double kFar = 3;

/// A sample of a model's centroids, and the distance to all of them from which on a query is far.
struct CentroidSample
{
	uint64 model; // its id; 0: none
	uint32 n_lists;
	uint32 dim;
	uint32 n;
	double limit;  // squared
	float *values; // [n, dim], in TopMemoryContext
};

CentroidSample samples[kRemembered];
uint32 next_sample; // to be replaced

constexpr engine::DistanceSpec
squared(uint32 dim)
{
	return {Metric::kL2, ElementType::kFloat32, dim};
}

/// The squared distance from which a query is far, by the distances between centroids, and of rows to centroids.
double
limit_of(const CentroidSample *sample, double mean_error)
{
	double distances[kMeasured];
	const uint32 n = Min(sample->n, kMeasured);
	double *scores = static_cast<double *>(palloc(sample->n * sizeof(double)));

	for (uint32 i = 0; i < n; i++)
	{
		const uint32 own = static_cast<uint32>(static_cast<uint64>(i) * sample->n / n);

		engine::compute_scores(squared(sample->dim), sample->values + static_cast<Size>(own) * sample->dim,
			sample->values, sample->dim * sizeof(float), sample->n, scores);
		distances[i] = HUGE_VAL;
		for (uint32 other = 0; other < sample->n; other++)
			if (other != own && scores[other] < distances[i]) // false for NaN
				distances[i] = scores[other];
	}
	pfree(scores);
	std::sort(distances, distances + n);
	return kFar * (distances[static_cast<uint32>(kShare * (n - 1))] + mean_error);
}

/// Reads an even sample of the centroids. False if a page was foreign.
bool
read_sample(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfModel *model,
	CentroidSample *sample, BufferAccessStrategy strategy)
{
	const Size stride = meta->dim * sizeof(float);

	sample->n_lists = model->n_lists;
	sample->dim = meta->dim;
	sample->n = Min(model->n_lists, Max(kSampleFloats / meta->dim, kLeastSample));
	sample->values = static_cast<float *>(MemoryContextAllocHuge(TopMemoryContext, sample->n * stride));
	for (uint32 i = 0; i < sample->n; i++)
	{
		const uint64 list = static_cast<uint64>(i) * model->n_lists / sample->n;

		if (!stream_read(index, meta, segment, kCentroidStream, list * stride, stride,
				sample->values + static_cast<Size>(i) * meta->dim, strategy))
			return false;
	}
	sample->limit = limit_of(sample, model->mean_error);
	return true;
}

/// Null if a page was foreign.
const CentroidSample *
sample_of(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfModel *model,
	BufferAccessStrategy strategy)
{
	CentroidSample *sample;

	for (const CentroidSample &known : samples)
		if (known.model == model->id && known.n_lists == model->n_lists && known.dim == meta->dim &&
			known.values != nullptr)
			return &known;
	sample = &samples[next_sample];
	next_sample = (next_sample + 1) % kRemembered;
	sample->model = 0; // an error leaves it invalid until it is whole
	if (sample->values != nullptr)
		pfree(sample->values);
	sample->values = nullptr;
	if (!read_sample(index, meta, segment, model, sample, strategy))
		return nullptr;
	sample->model = model->id;
	return sample;
}

} // namespace

bool
ivf_query_is_far(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfModel *model,
	const float *query, BufferAccessStrategy strategy, bool *far)
{
	const CentroidSample *sample;

	*far = false;
	// Inner products order rows by the query's direction: a query has no place among them.
	if (meta->metric == Metric::kInnerProduct || model->n_lists < 2 || model->id == 0)
		return true;
	sample = sample_of(index, meta, segment, model, strategy);
	if (sample == nullptr)
		return false;
	*far = true;
	for (uint32 i = 0; i < sample->n && *far; i++)
	{
		double score;

		engine::compute_scores(squared(meta->dim), query, sample->values + static_cast<Size>(i) * meta->dim,
			meta->dim * sizeof(float), 1, &score);
		*far = !(score <= sample->limit);
	}
	return true;
}

bool
ivf_stored_query_is_far(Relation index, const MetaData *meta, const SegmentEntry *segment, const IvfModel *model,
	const void *query, BufferAccessStrategy strategy, bool *far)
{
	const engine::DistanceSpec spec = {meta->metric, meta->element, meta->dim};
	float *floats = static_cast<float *>(palloc(meta->dim * sizeof(float)));
	bool intact;

	ivf_rows_to_floats(spec, static_cast<const char *>(query), 1, floats);
	intact = ivf_query_is_far(index, meta, segment, model, floats, strategy, far);
	pfree(floats);
	return intact;
}

} // namespace vectorgpu::am
