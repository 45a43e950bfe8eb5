// Training of the codec, on a sample of the rows. PG dialect.
#include "am/gpuivf/writer.hpp"
#include "engine/ivf/pq_train.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "commands/progress.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kSampleRows = 65536; // of SQ8 and RaBitQ
constexpr uint64 kPqRows = 16384;     // 64 for each of 256 codewords, as k-means takes for each list
constexpr uint64 kMinPqRows = 256;
constexpr Size kTrainingShare = 2;    // of maintenance_work_mem
constexpr Size kLeastSampleShare = 4; // that is left beside waiting rows (ivf_room_for_rows)

engine::ivf::PqTraining
pq_training(uint64 n_rows)
{
	engine::ivf::PqTraining training;

	training.n_rows = n_rows;
	return training;
}

/// Bytes of a training on n rows.
Size
pq_bytes(const IvfWriter *writer, uint64 n_rows)
{
	return engine::ivf::pq_train_work_bytes(writer->layout.codes.pq, pq_training(n_rows)) +
		n_rows * (writer->meta->dim + 1) * sizeof(float);
}

/// The rows that a product quantiser is trained on, as memory allows. Without room for the least number a build fails;
/// a merge, whose failure no user would see, exceeds the memory.
uint64
plan_pq_rows(const IvfWriter *writer)
{
	const Size budget = writer->memory / kTrainingShare;
	const uint64 least = Min(writer->n_rows, kMinPqRows);
	uint64 n = Min(writer->n_rows, kPqRows);

	while (n > least && pq_bytes(writer, n) > budget)
		n = Max(n / 2, least);
	if (pq_bytes(writer, n) > budget && writer->plan.mode == WriteMode::kBulk)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("maintenance_work_mem is too small to train a product quantiser of %u dimensions",
					writer->meta->dim),
				errdetail(
					"It takes %zu kB, and maintenance_work_mem has to be twice that.", pq_bytes(writer, n) / 1024 + 1),
				errhint("Increase maintenance_work_mem%s.", writer->layout.codes.pq.opq ? ", or leave out opq" : "")));
	return n;
}

/// Lists of the sample's rows [n], palloc'd; null: it gave way.
uint32 *
label_sample(IvfWriter *writer, const float *sample, uint64 n)
{
	const uint32 dim = writer->meta->dim;
	const Size memory_bytes = engine::ivf::coarse_bytes(dim, writer->model.n_lists);
	void *memory = MemoryContextAllocHuge(CurrentMemoryContext, memory_bytes);
	uint32 *labels = static_cast<uint32 *>(palloc(Max(n, 1) * sizeof(uint32)));
	engine::ivf::Coarse coarse;
	Size work_bytes;
	void *work;
	bool done;

	(void) check_outcome(
		engine::ivf::coarse_init(writer->centroids, writer->model.n_lists, dim, memory, memory_bytes, &coarse));
	work_bytes = engine::ivf::coarse_assign_work_bytes(coarse, 1);
	work = MemoryContextAllocHuge(CurrentMemoryContext, Max(work_bytes, 1));
	done = check_outcome(engine::ivf::coarse_assign(
		coarse, sample, dim, n, labels, nullptr, work, work_bytes, watched_call(&writer->watch)));
	pfree(work);
	pfree(memory);
	return done ? labels : nullptr;
}

bool
train_pq(IvfWriter *writer)
{
	engine::ivf::PqTraining training = pq_training(plan_pq_rows(writer));
	float *sample;
	uint32 *labels;
	Size work_bytes;
	void *work;
	bool done;

	ivf_reserve(writer, pq_bytes(writer, training.n_rows));
	if (worker_build_train_codec(writer, training.n_rows))
		return true;
	sample = ivf_read_sample(writer, training.n_rows);
	labels = label_sample(writer, sample, training.n_rows);
	if (labels == nullptr)
		return false;
	training.rows = sample;
	training.labels = labels;
	training.centroids = writer->centroids;
	work_bytes = engine::ivf::pq_train_work_bytes(writer->layout.codes.pq, training);
	work = MemoryContextAllocHuge(CurrentMemoryContext, work_bytes);
	done = check_outcome(engine::ivf::pq_train(
		writer->codec.model.pq, training, nullptr, work, work_bytes, watched_call(&writer->watch)));
	pfree(work);
	pfree(labels);
	pfree(sample);
	return done;
}

/// Rows of a sample that is looked at once: beside waiting rows in memory no more than these leave, which is a quarter
/// of it or more, since otherwise they had to move to a file.
uint64
sample_rows(const IvfWriter *writer)
{
	const Size held = row_store_held(&writer->vectors) + row_store_held(&writer->codes);
	const Size left = Max(writer->memory - Min(writer->memory, held), writer->memory / kLeastSampleShare);
	const uint64 fitting = Min(writer->memory / kTrainingShare, left) / (writer->meta->dim * sizeof(float));

	return Max(Min(Min(writer->n_rows, kSampleRows), fitting), UINT64CONST(1));
}

} // namespace

void
ivf_train_codec_alone(IvfWriter *writer)
{
	const IvfStorage storage = writer->layout.storage;
	uint64 n;
	float *sample;

	if (writer->has_codec || (storage != IvfStorage::kSq8 && storage != IvfStorage::kRabitq))
		return;
	n = sample_rows(writer);
	ivf_reserve(writer, n * writer->meta->dim * sizeof(float));
	codec_begin(&writer->codec, writer->meta);
	sample = ivf_read_sample(writer, n);
	if (storage == IvfStorage::kSq8)
		engine::ivf::sq8_train(sample, n, writer->meta->dim, writer->codec.model.sq8);
	else // the centre is the mean of the rows, and the seed of the rotation is the training's
		engine::ivf::rabitq_train(writer->codec.model.rabitq, sample, n, writer->model.id);
	pfree(sample);
	writer->has_codec = true;
}

bool
ivf_train_codec(IvfWriter *writer)
{
	if (!has_codes(&writer->layout))
		return true;
	if (writer->watch.report)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, kPhaseTrainCodes);
	(void) VG_FAULT("ivf_train_codec");
	ivf_train_codec_alone(writer);
	if (writer->has_codec)
	{
		worker_build_take_codec(writer);
		return true;
	}
	codec_begin(&writer->codec, writer->meta);
	return writer->layout.storage != IvfStorage::kPq || train_pq(writer);
}

} // namespace vectorgpu::am
