// SegmentFormat of gpuivf. Rows wait in memory or in a temporary file. When all have come, each is assigned to a list
// and coded (with the model of the segment that the rows come from, or a new one), and the stored data is written list
// by list. PG dialect.
#include "am/gpuivf/list_writers.hpp"
#include "am/gpuivf/stored_rows.hpp"
#include "pg/fault.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kMaxSegmentRows = PG_UINT32_MAX; // numbers of rows are stored in 32 bits
constexpr Size kStoreSlack = 2 * 1024 * 1024;     // a store has room for whole blocks of rows, of 1 MB

void *
format_begin(const SegmentPlan *plan)
{
	IvfWriter *writer = static_cast<IvfWriter *>(palloc0(sizeof(IvfWriter)));

	writer->plan = *plan;
	writer->meta = plan->meta;
	writer->watch = {plan->give_way, plan->give_way_state, plan->mode == WriteMode::kBulk};
	writer->layout = ivf_layout(plan->meta);
	writer->rows = {plan->meta->metric, plan->meta->element, plan->meta->dim};
	if (writer->layout.refine == IvfRefine::kFp16)
	{
		writer->rows.element = ElementType::kFloat16;
		writer->narrowed = palloc(writer->layout.kept_bytes);
	}
	writer->vector_bytes = vector_bytes(writer->rows.element, writer->rows.dim);
	writer->coded_bytes = writer->layout.code_bytes + (writer->layout.row_terms ? sizeof(float) : 0);
	writer->memory = static_cast<Size>(maintenance_work_mem) * 1024;
	row_store_begin(&writer->vectors, writer->vector_bytes, ivf_room_for_rows(writer));
	ivf_begin_drift(writer);
	return writer;
}

[[noreturn]] void
too_many_rows(const IvfWriter *writer)
{
	ereport(ERROR,
		(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			errmsg("index \"%s\" cannot have more than " UINT64_FORMAT " rows in one segment",
				RelationGetRelationName(writer->plan.index), kMaxSegmentRows),
			errhint("Partition the table.")));
	pg_unreachable();
}

const RowPaths *
format_share(void *state, double n_rows)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);

	const Size room = Min(ivf_room_for_rows(writer), kMostMappedBytes);

	if (writer->narrowed != nullptr || n_rows * static_cast<double>(writer->vector_bytes) > static_cast<double>(room))
		return nullptr;
	return row_store_share(&writer->vectors);
}

/// SegmentFormat::placed: the vectors are in the files of format_share.
void
format_placed(void *state, const SegmentEntry *entry)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);

	if (entry->n_rows > kMaxSegmentRows)
		too_many_rows(writer);
	writer->n_rows = entry->n_rows;
	row_store_take_shared(&writer->vectors, entry->n_rows);
}

void
format_put(void *state, RowId row, const void *vector, const RowOrigin &origin)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);

	if (writer->n_rows == kMaxSegmentRows)
		too_many_rows(writer);
	if (writer->narrowed != nullptr)
	{
		float *floats = static_cast<float *>(palloc(writer->meta->dim * sizeof(float)));

		memcpy(floats, vector, writer->meta->dim * sizeof(float)); // aligned
		(void) engine::ivf::narrow_to_halves(floats, writer->meta->dim, static_cast<uint16 *>(writer->narrowed));
		pfree(floats);
		vector = writer->narrowed;
	}
	row_store_put(&writer->vectors, vector);
	ivf_note_source(writer, origin.segment);
	writer->n_rows++;
}

/// Codes of a batch.
struct CodeBatch
{
	CodeEncoder encoder; // all zeros until this process codes rows
	CodeArrays arrays;   // [batch_rows]
	char *rows;          // [batch_rows, coded_bytes] codes with their terms; null: no terms
	bool placed;         // they go to shared files
};

/// Bytes that a calibration beside the lists' writers takes at most, but for what it takes with full vectors, too.
Size
calibration_bytes(const IvfWriter *writer)
{
	const Size numbers = writer->n_rows * sizeof(uint32); // once more: see scan_codes

	return has_codes(&writer->layout) ? numbers + ivf_code_calibration_bytes(writer, &writer->queries) : 0;
}

/// Begins the store of codes. True: they go to files that workers read who write the lists; these may take what memory
/// vectors and a calibration leave.
bool
begin_code_store(IvfWriter *writer)
{
	const Size n_bytes = writer->n_rows * writer->coded_bytes;
	bool shares;

	row_store_end(&writer->codes);
	shares = n_bytes <= kMostMappedBytes && ivf_writes_lists_beside(writer, n_bytes + calibration_bytes(writer));
	row_store_begin(&writer->codes, writer->coded_bytes,
		shares ? Max(n_bytes + kStoreSlack, ivf_room_for_rows(writer)) : ivf_room_for_rows(writer));
	return shares && row_store_share(&writer->codes) != nullptr;
}

void
begin_codes(IvfWriter *writer, CodeBatch *batch, uint32 batch_rows)
{
	*batch = {};
	batch->placed = begin_code_store(writer);
	if (writer->layout.row_terms)
		batch->rows =
			static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, batch_rows * writer->coded_bytes));
	batch->arrays.codes =
		static_cast<uint8 *>(MemoryContextAllocHuge(CurrentMemoryContext, batch_rows * writer->layout.code_bytes));
	batch->arrays.terms = static_cast<float *>(palloc(batch_rows * sizeof(float)));
	batch->arrays.is_out = static_cast<uint8 *>(palloc0(batch_rows));
}

/// Codes the batch, unless the worker has coded it. False: it gave way.
bool
make_codes(IvfWriter *writer, CodeBatch *batch, const Assigner *assigner, uint64 n, bool has_codes)
{
	const Watch watch = {writer->watch.give_way, writer->watch.give_way_state,
		false}; // the phase reports all rows, not those of a batch

	(void) VG_FAULT("ivf_encode");
	if (has_codes)
		return true;
	if (batch->encoder.codec == nullptr &&
		!encoder_begin(&batch->encoder, &writer->codec, writer->centroids, writer->model.n_lists, &watch))
		return false;
	return encoder_run(&batch->encoder, assigner->floats, assigner->labels, n, &batch->arrays, &watch);
}

/// Keeps the codes of rows [first, first + n): codes [n, code_bytes], and the batch's terms.
void
put_codes(IvfWriter *writer, const CodeBatch *batch, const uint8 *codes, uint64 first, uint64 n)
{
	const IvfLayout *layout = &writer->layout;
	const char *rows = reinterpret_cast<const char *>(codes);

	if (batch->rows != nullptr)
	{
		rows = batch->rows;
		for (uint64 i = 0; i < n; i++)
		{
			char *row = batch->rows + i * writer->coded_bytes;

			memcpy(row, codes + i * layout->code_bytes, layout->code_bytes);
			memcpy(row + layout->code_bytes, &batch->arrays.terms[i], sizeof(float));
		}
	}
	if (batch->placed)
		row_store_place(&writer->codes, first, rows, n);
	else
		for (uint64 i = 0; i < n; i++)
			row_store_put(&writer->codes, rows + i * writer->coded_bytes);
}

void
end_codes(IvfWriter *writer, CodeBatch *batch, bool done)
{
	if (batch->placed && done)
		row_store_take_shared(&writer->codes, writer->n_rows);
	encoder_end(&batch->encoder);
	pfree(batch->arrays.codes);
	pfree(batch->arrays.terms);
	pfree(batch->arrays.is_out);
	if (batch->rows != nullptr)
		pfree(batch->rows);
}

/// Gets labels of the next batch, from `first` on, from the worker or by itself; its rows as floats, unless the worker
/// has coded them. False: it gave way.
bool
next_batch(IvfWriter *writer, Assigner *assigner, WorkerAssign *by_worker, uint64 first, uint64 *n, bool *coded)
{
	if (worker_assign_next(by_worker, n, coded))
	{
		if (has_codes(&writer->layout) && !*coded)
			ivf_rows_to_floats(assigner->rows, assigner->vectors, *n, assigner->floats);
		return true;
	}
	*coded = false;
	*n = Min(static_cast<uint64>(assigner->batch_rows), writer->n_rows - first);
	ivf_read_spooled(writer, first, *n, assigner->vectors);
	return assigner_run(assigner, *n, writer->watch.give_way, writer->watch.give_way_state);
}

/// Assigns all rows, and codes them: labels, codes, offsets, errors, and the comparisons of calibration. False: it gave
/// way.
bool
assign_rows(IvfWriter *writer)
{
	uint64 *offsets = static_cast<uint64 *>(MemoryContextAllocExtended(
		CurrentMemoryContext, (writer->model.n_lists + Size{1}) * sizeof(uint64), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	const bool to_code = has_codes(&writer->layout);
	Assigner assigner;
	WorkerAssign by_worker;
	CodeBatch batch = {};
	bool done = true;
	uint64 first = 0;

	ivf_start_phase(writer, kPhaseAssign);
	spool_close(&writer->labels);
	writer->labels = BufFileCreateTemp(false);
	writer->offsets = offsets;
	writer->old_errors = writer->new_errors = {};
	assigner_begin(&assigner, writer->rows, writer->centroids, writer->model.n_lists,
		writer->worker.lists ? static_cast<uint32>(writer->worker.request_rows) : 0);
	if (to_code)
		begin_codes(writer, &batch, assigner.batch_rows);
	worker_assign_begin(&by_worker, writer, &assigner, to_code ? &batch.arrays : nullptr);
	while (done && first < writer->n_rows)
	{
		uint64 n = 0;
		bool coded = false;

		(void) VG_FAULT("ivf_assign");
		done = !ivf_gives_way(writer) && next_batch(writer, &assigner, &by_worker, first, &n, &coded) &&
			(!to_code || make_codes(writer, &batch, &assigner, n, coded));
		if (!done)
			break;
		if (to_code)
			put_codes(writer, &batch, coded ? by_worker.codes : batch.arrays.codes, first, n);
		for (uint64 i = 0; i < n; i++)
			offsets[assigner.labels[i] + 1]++;
		ivf_sample_depths(writer, &writer->depths, first, assigner.vectors, assigner.labels, n);
		ivf_add_errors(writer, first, n, assigner.scores, to_code ? batch.arrays.is_out : nullptr);
		BufFileWrite(writer->labels, assigner.labels, n * sizeof(uint32));
		first += n;
		ivf_report_rows(writer, first);
	}
	worker_assign_end(&by_worker);
	if (to_code)
		end_codes(writer, &batch, done);
	assigner_end(&assigner);
	for (uint32 i = 0; i < writer->model.n_lists; i++)
		offsets[i + 1] += offsets[i];
	return done;
}

/// True if there will be parallel workers for the lists: they write while recall is measured.
bool
calibrates_beside(const IvfWriter *writer)
{
	return ivf_writes_lists_beside(writer, calibration_bytes(writer));
}

/// Trains a model, assigns all rows, and calibrates it, unless it is still to be calibrated (IvfWriter::queries) when
/// the lists are written. False: it gave way.
bool
train_and_assign(IvfWriter *writer)
{
	RowErrors all;

	(void) VG_FAULT("ivf_train");
	if (!ivf_train(writer) || !ivf_train_codec(writer))
		return false;
	writer->queries.n = writer->model.n_lists > 1 ? ivf_calibration_queries(writer) : 0;
	if (writer->queries.n > 0)
	{
		ivf_begin_calibration(writer, &writer->queries);
		worker_build_queries(writer, &writer->queries, kCalibrationFound);
	}
	if (!assign_rows(writer))
		return false;
	all = ivf_all_errors(writer);
	writer->model.mean_error = ivf_mean_error(writer);
	writer->model.out_of_range = static_cast<uint16>(1000 * all.n_out / all.n);
	return writer->queries.n == 0 || calibrates_beside(writer) || ivf_calibrate(writer);
}

/// The imbalance of the lists.
double
list_imbalance(const IvfWriter *writer)
{
	const double n_rows = static_cast<double>(writer->n_rows);
	double squares = 0;

	for (uint32 i = 0; i < writer->model.n_lists; i++)
	{
		const double size = static_cast<double>(writer->offsets[i + 1] - writer->offsets[i]);

		squares += size * size;
	}
	return writer->model.n_lists * squares / (n_rows * n_rows);
}

bool
format_prepare(void *state, SegmentEntry *entry)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);
	const IvfLayout *layout = &writer->layout;
	StreamEntry *streams = entry->streams;
	bool done;

	if (writer->n_rows == 0)
		return true;
	if (ivf_take_model(writer))
	{
		if (worker_build_take_model(writer) && has_codes(&writer->layout))
			worker_build_take_codec(writer);
		writer->model.apart = writer->has_trained_rows ? 0 : 1;
		done = assign_rows(writer);
		if (done && ivf_has_drifted(writer))
			done = train_and_assign(writer);
	}
	else
		done = train_and_assign(writer);
	if (!done || writer->queries.n == 0)
		worker_build_end(writer);
	if (!done)
		return false;
	writer->model.segment_error = ivf_mean_error(writer);
	writer->model.imbalance = list_imbalance(writer);
	streams[static_cast<int>(kModelStream)].n_bytes = sizeof(IvfModel);
	streams[static_cast<int>(kCentroidStream)].n_bytes =
		static_cast<uint64>(writer->model.n_lists) * writer->meta->dim * sizeof(float);
	streams[static_cast<int>(kOffsetStream)].n_bytes = (writer->model.n_lists + UINT64CONST(1)) * sizeof(uint64);
	streams[static_cast<int>(StreamKind::kVectors)].n_bytes = writer->n_rows * layout->kept_bytes;
	streams[static_cast<int>(kListRowStream)].n_bytes = writer->n_rows * sizeof(uint32);
	streams[static_cast<int>(kPlaceStream)].n_bytes = writer->n_rows * sizeof(uint32);
	streams[static_cast<int>(kCodeStream)].n_bytes = code_stream_bytes(layout, writer->n_rows);
	streams[static_cast<int>(kRowTermStream)].n_bytes = layout->row_terms ? writer->n_rows * sizeof(float) : 0;
	streams[static_cast<int>(kCodecStream)].n_bytes = layout->codec_floats * sizeof(float);
	return true;
}

BlockNumber
format_write(void *state, SegmentEntry *entry, BlockNumber start)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);

	return writer->n_rows == 0 ? start : ivf_write_lists(writer, entry, start);
}

void
format_end(void *state)
{
	IvfWriter *writer = static_cast<IvfWriter *>(state);

	row_store_end(&writer->vectors);
	spool_close(&writer->labels);
	row_store_end(&writer->codes);
	spool_close(&writer->list_rows);
	spool_close(&writer->ordered_codes);
}

} // namespace

const char *
ivf_phase_name(int64 phase)
{
	switch (phase)
	{
		case kPhaseTrain:
			return "training lists";
		case kPhaseTrainCodes:
			return "training codes";
		case kPhaseAssign:
			return "assigning rows to lists";
		case kPhaseCalibrate:
			return "measuring recall";
		case kPhaseWriteLists:
			return "writing lists";
		default:
			return nullptr;
	}
}

const SegmentFormat kIvfFormat = {
	.begin = format_begin,
	.put = format_put,
	.placed = format_placed,
	.share = format_share,
	.prepare = format_prepare,
	.write = format_write,
	.end = format_end,
	.read_vectors = ivf_read_vectors,
	.matches = ivf_matches,
	.reads_back = [](const MetaData *meta) { return ivf_layout(meta).refine == IvfRefine::kFull; },
	.check_entry = ivf_check_entry,
	.check = ivf_check,
	.version = kSegmentVersion, // release 0.2 would take the codes for vectors
	.takes_version = [](const MetaData *meta) { return ivf_options(meta)->storage == IvfStorage::kRabitq; },
	.may_be_older = [](const MetaData *meta, const SegmentEntry *)
	{ return ivf_options(meta)->storage != IvfStorage::kRabitq; },
};

} // namespace vectorgpu::am
