// Whether the rows of a merge are still those that its model was trained for. New rows are judged alone: beside many
// old ones their error would hardly show in the mean of all. PG dialect.
#include "am/gpuivf/writer.hpp"

#include <cmath>
#include <cstring>

extern "C"
{
#include "utils/float.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr double kDrift = 1.2; // errors of rows over those of the rows trained for
constexpr double kOutOfRange =
	0.05; // added share of rows with elements that codes cannot express, or without a finite distance
constexpr double kNewShare = 0.05;  // of all rows: fewer new rows get few of the lists of a new model
constexpr double kSinceShare = 0.2; // of all rows: the mean of all does not tell the error of fewer rows

double
mean_error(const RowErrors *errors)
{
	return errors->n_finite > 0 ? errors->sum / static_cast<double>(errors->n_finite) : 0;
}

double
share(uint64 part, uint64 all)
{
	return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

/// The error of rows that came after the training, if n_trained_rows of the n_rows are old: the part that is not the
/// old rows'. The error of all rows where that is unknown.
double
error_since(const IvfModel *model, uint64 n_rows, double error)
{
	const double n = static_cast<double>(n_rows);
	const double n_trained = static_cast<double>(model->n_trained_rows);

	if (n - n_trained < kSinceShare * n)
		return error;
	return Max((error * n - model->mean_error * n_trained) / (n - n_trained), error);
}

/// The factor by which the error of new rows of the same kind is larger: a centroid lies nearer to the rows that it is
/// the mean of, the fewer these are. The training sees all rows up to some 64 a list.
double
error_of_others(const IvfModel *model)
{
	constexpr double kTrainedPerList = 64;
	constexpr double kMost = 3;
	const double rows = static_cast<double>(model->n_trained_rows) / model->n_lists;

	if (rows > kTrainedPerList)
		return model->mean_error;
	return model->mean_error * (rows > 2 ? (rows + 1) / (rows - 1) : kMost);
}

/// rows: new ones; others: rows that the model was used for before.
bool
new_rows_have_drifted(const IvfModel *model, const RowErrors *rows, const RowErrors *others)
{
	// Rows whose distance overflows are no part of the mean. Without other rows the training's share of them is
	// unknown.
	const double strays = share(rows->n - rows->n_finite, rows->n);
	const double strays_before = share(others->n - others->n_finite, others->n);

	return mean_error(rows) > kDrift * error_of_others(model) ||
		(others->n > 0 && strays > kDrift * strays_before + kOutOfRange) ||
		share(rows->n_out, rows->n) > kDrift * model->out_of_range / 1000 + kOutOfRange;
}

} // namespace

void
ivf_begin_drift(IvfWriter *writer)
{
	const SegmentPlan *plan = &writer->plan;
	const SegmentEntry *source = ivf_model_source(writer);
	IvfModel model;
	IvfModel other;

	if (plan->n_sources == 0 || source == nullptr)
		return;
	if (!ivf_read_model(plan->index, plan->meta, source, &model, nullptr))
		page_recycled(plan->index, 0);
	for (uint32 i = 0; i < plan->n_sources; i++)
	{
		const SegmentEntry *segment = &plan->meta->segments[plan->sources[i]];

		if (segment->n_rows == 0)
			continue;
		if (!ivf_read_model(plan->index, plan->meta, segment, &other, nullptr))
			page_recycled(plan->index, 0);
		writer->same_model[plan->sources[i]] = other.id == model.id;
		if (other.id == model.id && other.apart == 0)
			writer->has_trained_rows = true;
	}
}

void
ivf_note_source(IvfWriter *writer, const SegmentEntry *source)
{
	const uint64 byte = writer->n_rows / 8;

	if (writer->plan.n_sources == 0)
		return;
	if (byte >= writer->old_bytes)
	{
		const Size n_bytes = Max(2 * writer->old_bytes, 8192);

		writer->old_rows =
			static_cast<uint8 *>(writer->old_rows == nullptr ? MemoryContextAllocHuge(CurrentMemoryContext, n_bytes)
															 : repalloc_huge(writer->old_rows, n_bytes));
		memset(writer->old_rows + writer->old_bytes, 0, n_bytes - writer->old_bytes);
		writer->old_bytes = n_bytes;
	}
	if (source != nullptr && writer->same_model[source - writer->plan.meta->segments])
		writer->old_rows[byte] |= static_cast<uint8>(1 << writer->n_rows % 8);
}

void
ivf_add_errors(IvfWriter *writer, uint64 first, uint64 n, const float *scores, const uint8 *is_out)
{
	for (uint64 i = 0; i < n; i++)
	{
		const uint64 row = first + i;
		const bool is_old = writer->old_rows != nullptr && (writer->old_rows[row / 8] & 1 << row % 8) != 0;
		RowErrors *errors = is_old ? &writer->old_errors : &writer->new_errors;
		const bool finite = std::isfinite(scores[i]);

		errors->n++;
		errors->n_finite += finite;
		errors->sum += finite ? static_cast<double>(scores[i]) : 0;
		errors->n_out += is_out != nullptr && is_out[i] != 0;
	}
}

RowErrors
ivf_all_errors(const IvfWriter *writer)
{
	const RowErrors *a = &writer->old_errors;
	const RowErrors *b = &writer->new_errors;

	return {a->n + b->n, a->n_finite + b->n_finite, a->sum + b->sum, a->n_out + b->n_out};
}

double
ivf_mean_error(const IvfWriter *writer)
{
	const RowErrors all = ivf_all_errors(writer);

	return mean_error(&all);
}

bool
ivf_has_drifted(const IvfWriter *writer)
{
	const IvfModel *model = &writer->model;
	const RowErrors all = ivf_all_errors(writer);
	const bool has_trained = writer->has_trained_rows && writer->old_errors.n >= model->n_trained_rows;

	// A mean that is NaN tells nothing of the rows: the model is replaced.
	if (!std::isfinite(model->mean_error))
		return true;
	return mean_error(&all) > kDrift * model->mean_error ||
		(has_trained && error_since(model, all.n, mean_error(&all)) > kDrift * error_of_others(model)) ||
		share(all.n_out, all.n) > kDrift * model->out_of_range / 1000 + kOutOfRange ||
		(share(writer->new_errors.n, all.n) >= kNewShare &&
			new_rows_have_drifted(model, &writer->new_errors, &writer->old_errors));
}

double
ivf_drift(const IvfModel *model, uint64 n_rows)
{
	const double error = model->apart != 0 ? model->segment_error : error_since(model, n_rows, model->segment_error);

	if (std::isfinite(model->mean_error) && model->mean_error > 0)
		return error / model->mean_error;
	return model->segment_error > 0 ? get_float8_infinity() : 1;
}

} // namespace vectorgpu::am
