// The calibration of a model: rows of the table are queries; an exact search finds their true neighbours; the rank of
// the list of each neighbour is measured. PG dialect.
#include "am/gpuivf/writer.hpp"

#include "engine/distance/distance.hpp"
#include "engine/ivf/list_metric.hpp"
#include "engine/recall/near_copies.hpp"
#include "engine/recall/stratified.hpp"
#include "pg/fault.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kNeighbors = kCalibrationNeighbors;
// Elements compared in all: the limit of the number of queries.
constexpr double kWork = 3e10;         // about 3 s of one processor
constexpr double kGpuWork = 2e12;      // a GPU compares some 10^13 a second
constexpr double kBitShare = 1.0 / 16; // a bit's work, of an element's
constexpr uint64 kMinQueries = 100;
constexpr uint64 kMaxQueries = 1000;
constexpr uint64 kPassedOver = kCalibrationPassedOver;
constexpr uint64 kRowsPerQuery = 20; // rows of a table for each of its queries, at least
constexpr Size kMemoryShare = 8;     // of maintenance_work_mem, for the lists of all rows
constexpr uint64 kQuerySeed = 1;     // other than that of the training's sample (stratified_row)

using Queries = CalibrationQueries;

/// The exact search: one pass over the rows. False: it gave way.
bool
search_all(IvfWriter *writer, Queries *queries)
{
	const engine::DistanceSpec spec = writer->rows;
	const uint64 batch = Max(UINT64CONST(1), Min(UINT64CONST(256), 128 * 1024 / writer->vector_bytes)); // fits a cache
	char *vectors = static_cast<char *>(palloc(batch * writer->vector_bytes));
	double *scores = static_cast<double *>(palloc(batch * sizeof(double)));
	RowId *numbers = static_cast<RowId *>(palloc(batch * sizeof(RowId)));

	for (uint64 first = 0; first < writer->n_rows; first += batch)
	{
		const uint64 n = Min(batch, writer->n_rows - first);

		if (ivf_gives_way(writer))
			return false;
		ivf_report_rows(writer, first);
		ivf_read_spooled(writer, first, n, vectors);
		for (uint64 i = 0; i < n; i++)
			numbers[i] = first + i;
		for (uint64 i = 0; i < queries->n; i++)
		{
			engine::compute_scores(
				spec, queries->vectors + i * writer->vector_bytes, vectors, writer->vector_bytes, n, scores, 0);
			if (engine::topk_wants(&queries->topks[i], scores, n))
				engine::topk_push(&queries->topks[i], scores, numbers, n, nullptr, 0);
		}
	}
	pfree(vectors);
	pfree(scores);
	pfree(numbers);
	return true;
}

/// The lists of all rows [n_rows], palloc'd; null if they do not fit memory.
uint32 *
read_labels(IvfWriter *writer)
{
	const Size n_bytes = writer->n_rows * sizeof(uint32);
	uint32 *labels;

	if (n_bytes > writer->memory / kMemoryShare)
		return nullptr;
	labels = static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
	spool_seek(writer->labels, 0);
	spool_read(writer->labels, labels, n_bytes);
	return labels;
}

uint32
label_of(IvfWriter *writer, const uint32 *labels, uint64 number)
{
	uint32 label;

	if (labels != nullptr)
		return labels[number];
	spool_seek(writer->labels, number * sizeof(label));
	spool_read(writer->labels, &label, sizeof(label));
	return label;
}

void
find_ranks(IvfWriter *writer, Queries *queries)
{
	uint32 *list_ranks = static_cast<uint32 *>(palloc(writer->model.n_lists * sizeof(uint32)));
	uint32 *labels = read_labels(writer);
	uint32 ranks[kCalibrationFound];

	for (uint64 i = 0; i < queries->n; i++)
	{
		TrueNeighbors neighbors;
		uint32 *first = queries->ranks + i * kNeighbors;
		uint32 *nearest = queries->nearest_ranks + i * kNeighbors;
		uint32 *near = queries->near_ranks + i * kNearDepth;

		CHECK_FOR_INTERRUPTS();
		ivf_true_neighbors(writer, queries, i, &neighbors);
		ivf_rank_lists(writer, queries->vectors + i * writer->vector_bytes, list_ranks);

		const uint64 n_near = Min(neighbors.n_found - neighbors.n_passed_over, static_cast<uint64>(kNearDepth));
		const uint64 n_found = neighbors.n_passed_over + Max(neighbors.n_as_near, n_near);

		std::fill(first, first + kNeighbors, PG_UINT32_MAX);
		std::fill(nearest, nearest + kNeighbors, PG_UINT32_MAX);
		std::fill(near, near + kNearDepth, PG_UINT32_MAX);
		for (uint64 n = 0; n < n_found; n++)
			ranks[n] = list_ranks[label_of(writer, labels, neighbors.nearest[n])];
		std::copy_n(ranks, Min(neighbors.n_passed_over + neighbors.n_as_near, kNeighbors), nearest);
		std::copy_n(ranks + neighbors.n_passed_over, n_near, near);

		// Some of the rows that are as near as the last neighbour stand for all of them, by even steps of the order in
		// which they are found. The first ones found would be enough for ten rows, but not for searches for more rows,
		// whose probes up to the next depth follow from these and are never fewer (probes_for_rows).
		uint32 *all = ranks + neighbors.n_passed_over;
		const uint64 n_last = neighbors.n - neighbors.n_nearer;

		std::sort(all + neighbors.n_nearer, all + neighbors.n_as_near);
		std::copy(all, all + neighbors.n_nearer, first);
		for (uint64 n = 0; n < n_last; n++)
			first[neighbors.n_nearer + n] =
				all[neighbors.n_nearer + (2 * n + 1) * (neighbors.n_as_near - neighbors.n_nearer) / (2 * n_last)];
	}
	pfree(list_ranks);
	if (labels != nullptr)
		pfree(labels);
}

/// Rows that are passed over may be harder to find than those behind them: by inner product a row longer than all
/// others is the nearest of half of all queries. So no recall is above that of the very nearest ten, nor above that of
/// the nearest one by more than chance may be.
void
heed_nearest(const Queries *queries, engine::ivf::Calibration *calibration)
{
	engine::ivf::Calibration ten = *calibration;
	engine::ivf::Calibration one = *calibration;
	uint32 *ranks = static_cast<uint32 *>(palloc(queries->n * sizeof(uint32)));

	for (uint64 i = 0; i < queries->n; i++)
		ranks[i] = queries->nearest_ranks[i * kNeighbors];
	engine::ivf::calibrate_by_rank(queries->nearest_ranks, queries->n, kNeighbors, &ten);
	engine::ivf::calibrate_by_rank(ranks, queries->n, 1, &one);
	for (uint32 p = 0; p < calibration->n_points; p++)
	{
		const float chance =
			2 * std::sqrt(one.recall[p] * (1 - one.recall[p]) / static_cast<float>(Max(queries->n, UINT64CONST(1))));

		calibration->recall[p] = Min(calibration->recall[p], Min(ten.recall[p], one.recall[p] + chance));
	}
	pfree(ranks);
}

uint64
queries_for(const IvfWriter *writer, double work)
{
	const double elements = static_cast<double>(writer->n_rows) * ivf_compared_elements(writer);
	const uint64 affordable = static_cast<uint64>(Min(work / elements, static_cast<double>(kMaxQueries)));

	return Min(Max(affordable, kMinQueries), writer->n_rows / kRowsPerQuery);
}

/// Keeps n of the queries, evenly, before the search.
void
keep_queries(const IvfWriter *writer, Queries *queries, uint64 n)
{
	for (uint64 i = 0; i < n; i++)
	{
		const uint64 from = i * queries->n / n; // not below i

		queries->numbers[i] = queries->numbers[from];
		memmove(queries->vectors + i * writer->vector_bytes, queries->vectors + from * writer->vector_bytes,
			writer->vector_bytes);
		queries->topks[i] = queries->topks[from];
	}
	queries->n = n;
}

} // namespace

double
ivf_compared_elements(const IvfWriter *writer)
{
	return writer->meta->dim * (writer->meta->element == ElementType::kBit ? kBitShare : 1);
}

uint64
ivf_calibration_queries(const IvfWriter *writer)
{
	return queries_for(writer, writer->worker.by_gpu ? kGpuWork : kWork);
}

uint64
ivf_own_queries(const IvfWriter *writer)
{
	return queries_for(writer, kWork);
}

void
ivf_begin_calibration(IvfWriter *writer, Queries *queries)
{
	const uint64 k = kCalibrationFound;
	const Size buffer_bytes = engine::topk_buffer_bytes(k);

	queries->numbers = static_cast<uint64 *>(palloc(queries->n * sizeof(uint64)));
	queries->vectors =
		static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, queries->n * writer->vector_bytes));
	queries->topks = static_cast<engine::TopK *>(palloc(queries->n * sizeof(engine::TopK)));
	for (uint64 i = 0; i < queries->n; i++)
	{
		queries->numbers[i] = engine::stratified_row(i, queries->n, writer->n_rows, kQuerySeed);
		ivf_read_spooled(writer, queries->numbers[i], 1, queries->vectors + i * writer->vector_bytes);
		engine::topk_init(&queries->topks[i], k, static_cast<engine::Neighbor *>(palloc(buffer_bytes)),
			buffer_bytes / sizeof(engine::Neighbor), nullptr);
	}
	ivf_begin_depths(writer, queries, &writer->depths);
}

void
ivf_rank_lists(const IvfWriter *writer, const char *vector, uint32 *ranks)
{
	const uint32 n_lists = writer->model.n_lists;
	const Size stride = writer->meta->dim * sizeof(float);
	float *query = static_cast<float *>(palloc(stride));
	double *scores = static_cast<double *>(palloc(n_lists * sizeof(double)));
	uint32 *order = static_cast<uint32 *>(palloc(n_lists * sizeof(uint32)));

	ivf_rows_to_floats(writer->rows, vector, 1, query);
	engine::ivf::centroid_scores(writer->rows, query, writer->centroids, stride, n_lists, scores, 0);
	for (uint32 i = 0; i < n_lists; i++)
		order[i] = i;
	std::sort(order, order + n_lists,
		[scores](uint32 a, uint32 b) { return engine::neighbor_less({scores[a], a}, {scores[b], b}); });
	for (uint32 i = 0; i < n_lists; i++)
		ranks[order[i]] = i;
	pfree(query);
	pfree(scores);
	pfree(order);
}

void
ivf_true_neighbors(const IvfWriter *writer, const CalibrationQueries *queries, uint64 i, TrueNeighbors *neighbors)
{
	const engine::TopK *topk = &queries->topks[i];
	const char *query = queries->vectors + i * writer->vector_bytes;
	double scores[kCalibrationFound];
	double own_score;
	uint64 n = 0;

	for (uint64 j = 0; j < topk->size; j++)
		if (topk->buffer[j].row != queries->numbers[i] && !std::isnan(topk->buffer[j].score))
		{
			neighbors->nearest[n] = topk->buffer[j].row;
			scores[n++] = topk->buffer[j].score;
		}
	engine::compute_scores(writer->rows, query, query, writer->vector_bytes, 1, &own_score, 0);

	const uint64 copies =
		engine::near_copies(writer->rows.metric, own_score, scores, Min(n, engine::kCopiesAmong), kNeighbors);
	const uint64 passed = Min(Max(copies, kPassedOver), n);

	neighbors->n_found = n;
	neighbors->n_passed_over = passed;
	neighbors->n = neighbors->n_as_near = Min(n - passed, kNeighbors);
	neighbors->n_nearer = 0;
	while (
		neighbors->n_nearer < neighbors->n && scores[passed + neighbors->n_nearer] < scores[passed + neighbors->n - 1])
		neighbors->n_nearer++;
	// Codes, and halves in place of rows, choose among equally far rows: then not every choice is right.
	while (!has_codes(&writer->layout) && passed + neighbors->n_as_near < n &&
		scores[passed + neighbors->n_as_near] == scores[passed + neighbors->n - 1])
		neighbors->n_as_near++;
}

bool
ivf_calibrate(IvfWriter *writer)
{
	Queries *queries = &writer->queries;
	engine::ivf::Calibration *calibration = &writer->model.calibration;

	ivf_start_phase(writer, kPhaseCalibrate);
	(void) VG_FAULT("ivf_calibrate");
	if (!worker_build_neighbors(writer, queries, kCalibrationFound))
	{
		keep_queries(writer, queries, Min(queries->n, ivf_own_queries(writer)));
		if (!search_all(writer, queries))
			return false;
		for (uint64 i = 0; i < queries->n; i++)
			queries->topks[i].size = engine::topk_finish(&queries->topks[i]);
	}
	queries->ranks = static_cast<uint32 *>(palloc(queries->n * kNeighbors * sizeof(uint32)));
	queries->nearest_ranks = static_cast<uint32 *>(palloc(queries->n * kNeighbors * sizeof(uint32)));
	queries->near_ranks = static_cast<uint32 *>(palloc(queries->n * kNearDepth * sizeof(uint32)));
	find_ranks(writer, queries);
	engine::ivf::calibration_points(writer->model.n_lists, calibration);
	engine::ivf::calibrate_by_rank(queries->ranks, queries->n, kNeighbors, calibration);
	heed_nearest(queries, calibration);
	engine::ivf::lower_by_chance(queries->ranks, queries->n, kNeighbors, calibration);
	if (!ivf_calibrate_depths(writer, queries) || (has_codes(&writer->layout) && !ivf_calibrate_codes(writer, queries)))
		return false;
	queries->n = 0;
	return true;
}

} // namespace vectorgpu::am
