// The model of a new segment: that of the rows' old segment, or one trained on a sample of the rows. PG dialect.
#include "am/gpuivf/build_phases.hpp"
#include "am/gpuivf/writer.hpp"

#include "engine/ivf/list_metric.hpp"
#include "engine/recall/stratified.hpp"

#include <cstring>

extern "C"
{
#include "commands/progress.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kSeed = 1;
constexpr uint64 kGrowth = 2;      // a segment that has grown by this factor since its model was trained gets a new one
constexpr Size kTrainingShare = 2; // of maintenance_work_mem: the sample and what k-means needs beside it
constexpr double kSmallTraining = 5e9; // products of elements, less than a second: iterations go on to the end
constexpr uint32 kMostIterations = 100;
constexpr float kSmallTolerance = 1e-5f;

/// Lists of a new model, and the rows of its training, as memory allows. Of lists that were asked for a build fails
/// where memory has no room for them; a merge makes fewer, since a VACUUM that fails would fail each time.
uint32
plan_training(const IvfWriter *writer, uint64 *n_training)
{
	const IvfOptions *options = ivf_options(writer->meta);
	const Size budget = writer->memory / kTrainingShare;
	uint32 n_lists = ivf_lists_for(options, writer->n_rows);

	for (;;)
	{
		*n_training = engine::ivf::kmeans_training_rows(writer->n_rows, n_lists, writer->meta->dim, budget);
		if (*n_training >= Min(writer->n_rows, static_cast<uint64>(n_lists)) || n_lists == 1)
			return n_lists;
		if (options->lists > 0 && writer->plan.mode == WriteMode::kBulk)
			ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					errmsg(
						"maintenance_work_mem is too small for %u lists of %u dimensions", n_lists, writer->meta->dim),
					errdetail("It has room for " UINT64_FORMAT " rows to train the lists on.", *n_training),
					errhint("Increase maintenance_work_mem, or choose fewer lists.")));
		n_lists /= 2;
	}
}

/// Has a small training iterate further: few lists of many rows gain by it. SIFT, 50,000 rows, 10 of 50 lists: 0.977 of
/// the ten nearest rows instead of 0.973.
void
iterate_further(engine::ivf::KMeansSpec *spec)
{
	const double products = static_cast<double>(spec->n_rows) * spec->n_clusters * spec->dim;
	const double iterations = Min(kSmallTraining / Max(products, 1.0), static_cast<double>(kMostIterations));

	if (iterations <= spec->max_iterations)
		return;
	spec->max_iterations = static_cast<uint32>(iterations);
	spec->tolerance = kSmallTolerance;
}

/// Tells in a notice that the rows make fewer lists than were asked for.
void
tell_of_lists(const IvfWriter *writer)
{
	const uint32 asked = ivf_options(writer->meta)->lists;
	const uint32 made = writer->model.n_lists;

	if (made >= asked || !writer->watch.report)
		return;
	ereport(NOTICE,
		(errmsg_plural("index \"%s\" has %u list instead of %u", "index \"%s\" has %u lists instead of %u", made,
			 RelationGetRelationName(writer->plan.index), made, asked),
			writer->n_rows == made
				? errdetail_plural("The index has %u row with a value, and a list holds at least one.",
					  "The index has %u rows with a value, and a list holds at least one.", made, made)
				: errdetail("The rows that the lists were trained on do not have more different values."),
			errhint("For the default number of lists, leave out lists (of an existing index: ALTER INDEX ... RESET "
					"(lists)). "
					"A merge that finds twice the rows makes new lists.")));
}

/// The training by this process; centroids have room. False: it gave way.
bool
train_here(IvfWriter *writer, const engine::ivf::KMeansSpec &spec, uint32 *n_used)
{
	float *sample = ivf_read_sample(writer, spec.n_rows);
	const Size work_bytes = engine::ivf::kmeans_work_bytes(spec);
	void *work = MemoryContextAllocHuge(CurrentMemoryContext, Max(work_bytes, 1));
	engine::ivf::KMeansReport report;
	const engine::ivf::Outcome outcome = engine::ivf::kmeans_train(
		spec, {sample, spec.dim}, writer->centroids, nullptr, &report, work, work_bytes, watched_call(&writer->watch));

	pfree(work);
	pfree(sample);
	*n_used = report.n_used;
	return check_outcome(outcome);
}

} // namespace

const SegmentEntry *
ivf_model_source(const IvfWriter *writer)
{
	const SegmentPlan *plan = &writer->plan;
	const SegmentEntry *best = nullptr;

	for (uint32 i = 0; i < plan->n_sources; i++)
	{
		const SegmentEntry *segment = &plan->meta->segments[plan->sources[i]];

		if (segment->n_rows > 0 && (best == nullptr || segment->n_rows > best->n_rows))
			best = segment;
	}
	if (best != nullptr)
		return best;
	for (uint32 i = 0; i < plan->meta->n_segments; i++)
		if (plan->meta->segments[i].n_rows > 0 && (best == nullptr || plan->meta->segments[i].n_rows > best->n_rows))
			best = &plan->meta->segments[i];
	return best;
}

float *
ivf_read_sample(IvfWriter *writer, uint64 n)
{
	const uint32 dim = writer->meta->dim;
	float *sample = static_cast<float *>(MemoryContextAllocHuge(CurrentMemoryContext, Max(n * dim, 1) * sizeof(float)));
	char *vector = static_cast<char *>(palloc(writer->vector_bytes));

	for (uint64 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ivf_read_spooled(writer, engine::stratified_row(i, n, writer->n_rows), 1, vector);
		ivf_rows_to_floats(writer->rows, vector, 1, sample + i * dim);
	}
	pfree(vector);
	return sample;
}

bool
ivf_take_model(IvfWriter *writer)
{
	const SegmentEntry *source = ivf_model_source(writer);
	const MetaData *meta = writer->plan.meta;
	Size n_bytes;
	bool intact;

	if (source == nullptr)
		return false;
	intact = ivf_read_model(writer->plan.index, meta, source, &writer->model, nullptr);
	if (intact && writer->n_rows / kGrowth >= writer->model.n_trained_rows)
		return false;
	// After large deletes the lists are too many.
	if (intact && writer->n_rows < writer->model.n_trained_rows / kGrowth && writer->plan.n_sources == meta->n_segments)
		return false;
	if (intact)
	{
		n_bytes = static_cast<Size>(writer->model.n_lists) * meta->dim * sizeof(float);
		writer->centroids = static_cast<float *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
		intact =
			stream_read(writer->plan.index, meta, source, kCentroidStream, 0, n_bytes, writer->centroids, nullptr) &&
			codec_read(&writer->codec, writer->plan.index, meta, source, nullptr);
	}
	if (!intact)
		page_recycled(writer->plan.index, 0);
	return true;
}

bool
ivf_train(IvfWriter *writer)
{
	const uint32 dim = writer->meta->dim;
	engine::ivf::KMeansSpec spec;
	uint32 n_used;

	if (writer->watch.report)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, kPhaseTrain);
	spec.dim = dim;
	spec.n_clusters = plan_training(writer, &spec.n_rows);
	spec.kind = engine::ivf::list_kind(writer->meta->metric);
	spec.seed = kSeed;
	iterate_further(&spec);
	ivf_reserve(writer, engine::ivf::kmeans_work_bytes(spec) + spec.n_rows * dim * sizeof(float));
	if (writer->centroids != nullptr)
		pfree(writer->centroids);
	writer->centroids = static_cast<float *>(
		MemoryContextAllocHuge(CurrentMemoryContext, static_cast<Size>(spec.n_clusters) * dim * sizeof(float)));
	writer->model = IvfModel();
	if (!pg_strong_random(&writer->model.id, sizeof(writer->model.id)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate a random identifier")));
	writer->has_codec = false;
	if (!worker_build_train(writer, &spec, writer->centroids, &n_used))
	{
		writer->worker.by_gpu = false;
		if (!train_here(writer, spec, &n_used))
			return false;
	}

	// Clusters behind n_used are copies of the first one: there are fewer different rows than lists.
	writer->model.n_lists = Max(n_used, 1u);
	writer->model.n_trained_rows = static_cast<uint32>(writer->n_rows);
	tell_of_lists(writer);
	return true;
}

} // namespace vectorgpu::am
