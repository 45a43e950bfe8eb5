// The loss of codes: a search finds a true neighbour if it looks at its list and few enough rows there have a better
// estimate. Chooses the number of candidates, and corrects the recall of the calibration. PG dialect.
#include "am/gpuivf/writer.hpp"

#include "engine/distance/distance.hpp"
#include "engine/ivf/halves.hpp"
#include "engine/ivf/kmeans.hpp"

extern "C"
{
#include "common/pg_prng.h"
}

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kNeighbors = kCalibrationNeighbors;
// Codes scored for one query after another: enough to pay for fetching the query's table (m * 1 KB), and few enough to
// stay in a second-level cache.
constexpr uint64 kMaxBatchRows = 64 * engine::ivf::kCodeBlockRows;
constexpr uint64 kMinBatchRows = 8 * engine::ivf::kCodeBlockRows;
constexpr Size kBatchBytes = 256 * 1024;
// Bytes of codes compared in all, about 1 s of one processor: the limit of the number of queries. 100 queries have
// 1,000 neighbours; a loss of kLoss is 2 of these. (SIFT, 200,000 rows, 32 parts: 6 candidates by 156 queries and by
// 312, 8 by 1,000.)
constexpr double kCodeWork = 1e9;
constexpr uint64 kWantedQueries = 100; // whatever they cost
constexpr uint64 kMinQueries = 20;     // where memory is short
// Of many rows those in the lists near a query are compared, a kNearShare-th of the lists, and of the others every
// kFarStride-th batch, whose rows then count for as many: hardly any of them has a better estimate than a neighbour.
constexpr double kMostCodeWork = 5e8; // bytes of codes that are compared without this
constexpr uint32 kNearShare = 16;
constexpr uint64 kFarStride = 16;
constexpr Size kMemoryShare = 4; // of maintenance_work_mem, for each query's lists
constexpr double kLoss = 0.002;  // of the true neighbours: the loss of codes when all lists are looked at
// The candidates for each wanted row that are tried; the loss of the last one is accepted.
constexpr uint16 kFactors[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};

/// A query and its counts.
struct CodedQuery
{
	CodeQuery codes;
	engine::ivf::CountedQuery counted;
	float *constants; // of counted
	uint8 *points;
	double worst; // estimate of the neighbours
	uint32 neighbor_points[kNeighbors];
};

static_assert(kCalibrationNeighbors == engine::ivf::kCountedNeighbors && kCalibrationFound <= engine::ivf::kMostCopies);

/// Waiting codes of the file, split into their parts, or some of these.
struct CodeRows
{
	uint64 batch;    // capacity in rows
	uint64 n;        // of rows
	uint64 *numbers; // [batch]
	char *rows;      // [batch, coded_bytes]
	uint8 *codes;    // [batch, code_bytes]
	uint8 *blocks;   // the same in blocks; null unless codes are scored so
	float *terms;    // [batch]; null: no terms
	uint32 *labels;
	double *constants; // [batch] of the rows' lists, for a query
};

void
begin_rows(const IvfWriter *writer, CodeRows *rows)
{
	const bool blocks = engine::ivf::code_unit_rows(writer->layout.codes) > 1;
	const uint64 fitting =
		kBatchBytes / writer->layout.code_bytes / engine::ivf::kCodeBlockRows * engine::ivf::kCodeBlockRows;

	rows->batch = Max(Min(fitting, kMaxBatchRows), kMinBatchRows);
	rows->n = 0;
	rows->numbers = static_cast<uint64 *>(palloc(rows->batch * sizeof(uint64)));
	rows->rows = static_cast<char *>(palloc(rows->batch * writer->coded_bytes));
	rows->codes = static_cast<uint8 *>(palloc(rows->batch * writer->layout.code_bytes));
	rows->blocks = blocks ? static_cast<uint8 *>(palloc(rows->batch * writer->layout.code_bytes)) : nullptr;
	rows->terms = writer->layout.row_terms ? static_cast<float *>(palloc(rows->batch * sizeof(float))) : nullptr;
	rows->labels = static_cast<uint32 *>(palloc(rows->batch * sizeof(uint32)));
	rows->constants = static_cast<double *>(palloc0(rows->batch * sizeof(double)));
}

/// Sets code and term i to those of a row in IvfWriter::codes.
void
split_row(const IvfWriter *writer, CodeRows *rows, uint64 i, const char *row)
{
	const Size code_bytes = writer->layout.code_bytes;

	memcpy(rows->codes + i * code_bytes, row, code_bytes);
	if (rows->terms != nullptr)
		memcpy(&rows->terms[i], row + code_bytes, sizeof(float));
}

/// Reads the next n rows of both files, from number `first` on.
void
read_rows(IvfWriter *writer, CodeRows *rows, uint64 first, uint64 n)
{
	row_store_read(&writer->codes, first, n, rows->rows);
	spool_read(writer->labels, rows->labels, n * sizeof(uint32));
	rows->n = n;
	for (uint64 i = 0; i < n; i++)
	{
		rows->numbers[i] = first + i;
		split_row(writer, rows, i, rows->rows + i * writer->coded_bytes);
	}
	if (rows->blocks != nullptr)
		engine::ivf::code_make_blocks(writer->layout.codes, rows->codes, n, rows->blocks);
}

/// Takes n rows of a list by their numbers. Codes are in memory.
void
take_rows(const IvfWriter *writer, CodeRows *rows, const uint32 *numbers, uint64 n, uint32 list)
{
	rows->n = n;
	for (uint64 i = 0; i < n; i++)
	{
		rows->numbers[i] = numbers[i];
		rows->labels[i] = list;
		split_row(writer, rows, i, row_store_row(&writer->codes, numbers[i]));
	}
	if (rows->blocks != nullptr)
		engine::ivf::code_make_blocks(writer->layout.codes, rows->codes, n, rows->blocks);
}

bool
is_near(const CodedQuery *query, uint32 list)
{
	return engine::ivf::is_near(query->counted, list);
}

/// Sets `near` to those of the rows that are in lists near the query.
void
take_near_rows(const IvfWriter *writer, const CodedQuery *query, const CodeRows *rows, CodeRows *near)
{
	const Size code_bytes = writer->layout.code_bytes;

	near->n = 0;
	for (uint64 i = 0; i < rows->n; i++)
	{
		if (!is_near(query, rows->labels[i]))
			continue;
		memcpy(near->codes + near->n * code_bytes, rows->codes + i * code_bytes, code_bytes);
		if (rows->terms != nullptr)
			near->terms[near->n] = rows->terms[i];
		near->labels[near->n] = rows->labels[i];
		near->numbers[near->n++] = rows->numbers[i];
	}
	if (near->blocks != nullptr && near->n > 0)
		engine::ivf::code_make_blocks(writer->layout.codes, near->codes, near->n, near->blocks);
}

engine::ivf::CountedRows
counted_rows(const CodeRows *rows)
{
	return {rows->n, rows->numbers, rows->labels, rows->blocks != nullptr ? rows->blocks : rows->codes, rows->terms,
		rows->constants};
}

/// Constants and points of the lists.
void
look_at_lists(const IvfWriter *writer, CodedQuery *query, const float *floats)
{
	const MetaData *meta = writer->meta;
	const uint32 n_lists = writer->model.n_lists;
	const engine::ivf::Calibration *calibration = &writer->model.calibration;
	const engine::DistanceSpec spec = {meta->metric, ElementType::kFloat32, meta->dim};
	double *scores = static_cast<double *>(MemoryContextAllocHuge(CurrentMemoryContext, n_lists * sizeof(double)));
	engine::Neighbor *order = static_cast<engine::Neighbor *>(
		MemoryContextAllocHuge(CurrentMemoryContext, engine::topk_buffer_bytes(n_lists)));
	engine::TopK topk;
	uint32 point = 0;

	engine::compute_scores(spec, floats, writer->centroids, meta->dim * sizeof(float), n_lists, scores, 0);
	engine::topk_init(&topk, n_lists, order, engine::topk_buffer_bytes(n_lists) / sizeof(engine::Neighbor), nullptr);
	for (RowId list = 0; list < n_lists; list++)
		engine::topk_push(&topk, &scores[list], &list, 1, nullptr, 0);
	(void) engine::topk_finish(&topk);
	for (uint32 i = 0; i < n_lists; i++)
	{
		while (point + 1 < calibration->n_points && calibration->probes[point] <= i)
			point++;
		query->points[order[i].row] = static_cast<uint8>(point);
	}

	uint32 *near_point = &query->counted.neighbors.near_point;

	*near_point = 0;
	while (*near_point + 1 < calibration->n_points && uint64{calibration->probes[*near_point]} * kNearShare < n_lists)
		++*near_point;
	for (uint32 i = 0; query->constants != nullptr && i < n_lists; i++)
		query->constants[i] = static_cast<float>(engine::ivf::pq_list_constant(meta->metric, scores[i]));
	pfree(order);
	pfree(scores);
}

/// The penalty of a row's score for rounding, in scores: spooled rows are halves, and so are the sources of codes and
/// true neighbours. The score of a truly near row by its halves, and so its estimate, is off by the deviation of the
/// halves; never to its advantage, since among many rows that round alike the near ones do not come first. NaN where
/// halves overflow.
double
rounding_error(IvfWriter *writer, const char *query, uint64 number, pg_prng_state *random)
{
	const MetaData *meta = writer->meta;
	char *row = static_cast<char *>(palloc(writer->vector_bytes));
	float *floats = static_cast<float *>(palloc(2 * Size{meta->dim} * sizeof(float)));
	double score;
	double error;

	ivf_read_spooled(writer, number, 1, row);
	engine::compute_scores(writer->rows, query, row, writer->vector_bytes, 1, &score, 0);
	engine::widen_halves(query, meta->dim, floats);
	engine::widen_halves(row, meta->dim, floats + meta->dim);
	error = engine::ivf::score_deviation_of_halves(meta->metric, floats, floats + meta->dim, meta->dim, score);
	// normally distributed, as a sum of many: by Box and Muller
	const double radius = std::sqrt(-2 * std::log(1 - pg_prng_double(random)));

	error *= std::fabs(radius * std::cos(2 * M_PI * pg_prng_double(random)));
	pfree(row);
	pfree(floats);
	return error;
}

/// The estimates of a query's true neighbours.
void
look_at_neighbors(IvfWriter *writer, CodedQuery *query, const CalibrationQueries *queries, uint64 i, CodeRows *rows)
{
	const bool rounded = writer->layout.refine == IvfRefine::kFp16;
	engine::ivf::CountedNeighbors *counted = &query->counted.neighbors;
	TrueNeighbors neighbors;
	pg_prng_state random;

	pg_prng_seed(&random, queries->numbers[i]);
	ivf_true_neighbors(writer, queries, i, &neighbors);
	counted->n = static_cast<uint32>(neighbors.n);
	counted->n_copies = static_cast<uint32>(neighbors.n_copies());
	std::copy_n(neighbors.nearest, counted->n_copies, counted->copies);
	std::copy_n(neighbors.numbers(), counted->n, counted->numbers);
	for (uint32 n = 0; n < counted->n; n++)
	{
		const uint64 number = counted->numbers[n];

		spool_seek(writer->labels, number * sizeof(uint32));
		read_rows(writer, rows, number, 1);
		engine::ivf::score_counted(query->counted, counted_rows(rows), HUGE_VAL, &counted->limits[n]);
		query->neighbor_points[n] = query->points[rows->labels[0]];
		if (rounded)
			counted->limits[n] += rounding_error(writer, queries->vectors + i * writer->vector_bytes, number, &random);
	}
	query->worst = engine::ivf::worst_estimate(*counted);
}

void
begin_query(IvfWriter *writer, CodedQuery *query, const CalibrationQueries *queries, uint64 i, CodeRows *rows)
{
	const MetaData *meta = writer->meta;
	const uint32 n_lists = writer->model.n_lists;
	float *floats = static_cast<float *>(palloc(meta->dim * sizeof(float)));

	ivf_rows_to_floats(writer->rows, queries->vectors + i * writer->vector_bytes, 1, floats);
	query->constants = nullptr;
	if (engine::ivf::code_is_residual(writer->layout.codes))
		query->constants = static_cast<float *>(MemoryContextAllocHuge(CurrentMemoryContext, n_lists * sizeof(float)));
	query->points = static_cast<uint8 *>(MemoryContextAllocHuge(CurrentMemoryContext, n_lists));
	code_query_begin(&query->codes, &writer->codec, floats);
	query->counted = engine::ivf::CountedQuery();
	query->counted.codes = query->codes.query;
	query->counted.constants = query->constants;
	query->counted.points = query->points;
	look_at_lists(writer, query, floats);
	look_at_neighbors(writer, query, queries, i, rows);
}

void
count_better(CodedQuery *query, const CodeRows *rows, const engine::ivf::CountWeights &weights, double *scores)
{
	engine::ivf::count_better(&query->counted, counted_rows(rows), query->worst, weights, scores);
}

/// Counts the rows of a list for the queries that are near it.
void
count_list(IvfWriter *writer, CodedQuery *queries, uint64 n_queries, uint32 list, const uint32 *order, CodeRows *rows,
	double *scores)
{
	for (uint64 first = writer->offsets[list]; first < writer->offsets[list + 1]; first += rows->batch)
	{
		bool taken = false;

		for (uint64 i = 0; i < n_queries; i++)
		{
			if (!is_near(&queries[i], list))
				continue;
			if (!taken)
				take_rows(writer, rows, order + first, Min(rows->batch, writer->offsets[list + 1] - first), list);
			taken = true;
			count_better(&queries[i], rows, {1, 0}, scores);
		}
	}
}

/// Counts the rows of all lists for the queries near them. Codes are in memory: those of a list are put together once,
/// for all queries. False: it gave way.
bool
count_near_lists(IvfWriter *writer, CodedQuery *queries, uint64 n_queries, CodeRows *rows, double *scores)
{
	uint32 *order = ivf_order_rows(writer);
	bool done = true;

	for (uint32 list = 0; done && list < writer->model.n_lists; list++)
	{
		done = !ivf_gives_way(writer);
		if (done)
			count_list(writer, queries, n_queries, list, order, rows, scores);
	}
	pfree(order);
	return done;
}

/// Which of the rows far from a query are counted.
engine::ivf::CountSampling
count_sampling(const IvfWriter *writer, uint64 n_queries, const CodeRows *rows)
{
	const double work = static_cast<double>(n_queries) * static_cast<double>(writer->n_rows) *
		static_cast<double>(writer->layout.code_bytes);
	const uint64 n_batches = (writer->n_rows + rows->batch - 1) / rows->batch;

	return {static_cast<uint32>(rows->batch),
		work > kMostCodeWork ? static_cast<uint32>(Max(Min(kFarStride, n_batches), UINT64CONST(1))) : 1};
}

/// Passes over the codes. held: bytes of the queries. False: it gave way.
bool
scan_codes(IvfWriter *writer, const engine::ivf::CountSampling &sampling, CodedQuery *queries, uint64 n_queries,
	Size held, CodeRows *rows)
{
	const uint32 stride = sampling.stride;
	const uint64 n_batches = (writer->n_rows + rows->batch - 1) / rows->batch;
	const bool by_lists = stride > 1 && ivf_are_in_memory(writer, held);
	double *scores = static_cast<double *>(palloc(rows->batch * sizeof(double)));
	CodeRows near;

	if (by_lists && !count_near_lists(writer, queries, n_queries, rows, scores))
		return false;
	begin_rows(writer, &near);
	spool_seek(writer->labels, 0);
	for (uint64 batch = 0; batch < n_batches; batch++)
	{
		const uint64 first = batch * rows->batch;

		if (ivf_gives_way(writer))
			return false;
		read_rows(writer, rows, first, Min(rows->batch, writer->n_rows - first));
		for (uint64 i = 0; i < n_queries; i++)
		{
			if (engine::ivf::is_sampled(sampling, batch, i))
			{
				count_better(&queries[i], rows, {by_lists ? 0u : 1u, stride}, scores);
				continue;
			}
			if (by_lists)
				continue;
			take_near_rows(writer, &queries[i], rows, &near);
			if (near.n > 0)
				count_better(&queries[i], &near, {1, 0}, scores);
		}
	}
	pfree(scores);
	return true;
}

/// The number of neighbours found with the lists of a point and n candidates; *in_lists: those in these lists.
uint64
found_at(const CodedQuery *queries, uint64 n_queries, uint32 point, uint64 candidates, uint64 *in_lists)
{
	uint64 found = 0;

	*in_lists = 0;
	for (uint64 i = 0; i < n_queries; i++)
	{
		const engine::ivf::CountedQuery *counted = &queries[i].counted;

		for (uint32 j = 0; j < counted->neighbors.n; j++)
		{
			uint64 better = 0;

			if (queries[i].neighbor_points[j] > point)
				continue;
			for (uint32 p = 0; p <= point; p++)
				better += counted->better[j][p];
			++*in_lists;
			found += !std::isnan(counted->neighbors.limits[j]) && better < candidates;
		}
	}
	return found;
}

/// The share of neighbours in the lists of a point that this number of candidates for each wanted row finds.
float
found_share(const CodedQuery *queries, uint64 n_queries, uint32 point, uint16 factor)
{
	uint64 in_lists;
	const uint64 found = found_at(queries, n_queries, point, factor * kNeighbors, &in_lists);

	return in_lists > 0 ? static_cast<float>(static_cast<double>(found) / static_cast<double>(in_lists)) : 1;
}

void
correct_model(IvfModel *model, const CodedQuery *queries, uint64 n_queries)
{
	engine::ivf::Calibration *calibration = &model->calibration;
	const uint32 last = calibration->n_points - 1; // all lists; the point before it is all but one (calibration_points)
	uint64 in_lists;
	engine::ivf::DepthCalibration *depths = &model->depths;
	float best = 0;

	for (const uint16 factor : kFactors)
	{
		model->candidates = factor;
		const uint64 found = found_at(queries, n_queries, last, factor * kNeighbors, &in_lists);

		if (static_cast<double>(found) >= (1 - kLoss) * static_cast<double>(in_lists))
			break;
	}
	for (uint32 p = 0; p + 1 < last; p++)
	{
		const float share = found_share(queries, n_queries, p, model->candidates);

		calibration->recall[p] *= share;
		for (uint32 d = 0; d < depths->n_depths; d++)
			depths->recall[d][p] = Max(depths->recall[d][p] * share, p > 0 ? depths->recall[d][p - 1] : 0);
		best = calibration->recall[p] = Max(calibration->recall[p], best);
	}
	// All lists are searched by the vectors, all but one by the codes. Where codes tell rows apart badly, all lists but
	// one may find less than fewer lists, which have fewer rows that seem better. A target above all of them is reached
	// by a share of searches of all lists.
	if (last > 0)
	{
		const float share = found_share(queries, n_queries, last, model->candidates);

		calibration->recall[last - 1] *= share;
		for (uint32 d = 0; d < depths->n_depths; d++)
			depths->recall[d][last - 1] *= share;
	}
	calibration->recall[last] = 1;
}

/// The number of queries that there is time for.
uint64
affordable_queries(const IvfWriter *writer)
{
	const double each = static_cast<double>(writer->n_rows) * static_cast<double>(writer->layout.code_bytes);

	return Max(static_cast<uint64>(Min(kCodeWork / each, static_cast<double>(PG_UINT32_MAX))), kWantedQueries);
}

Size
query_bytes(const IvfWriter *writer)
{
	return sizeof(CodedQuery) + writer->model.n_lists * (sizeof(float) + 1) + writer->meta->dim * sizeof(float) +
		code_query_bytes(&writer->codec);
}

/// The number of queries: those there is time and memory for.
uint64
queries_of_codes(const IvfWriter *writer, const CalibrationQueries *queries)
{
	const uint64 fitting = Max(writer->memory / kMemoryShare / query_bytes(writer), kMinQueries);

	return Min(Min(queries->n, affordable_queries(writer)), fitting);
}

/// Counts, by the worker or here. False: it gave way.
bool
count_codes(IvfWriter *writer, CodedQuery *queries, uint64 n, Size held, CodeRows *rows)
{
	const engine::ivf::CountSampling sampling = count_sampling(writer, n, rows);
	engine::ivf::CountedQuery **counted =
		static_cast<engine::ivf::CountedQuery **>(palloc(Max(n, 1) * sizeof(engine::ivf::CountedQuery *)));
	bool gave_way;
	bool done;

	for (uint64 i = 0; i < n; i++)
		counted[i] = &queries[i].counted;
	done = worker_count_codes(writer, &sampling, counted, n, &gave_way) ||
		(!gave_way && scan_codes(writer, sampling, queries, n, held, rows));
	pfree(counted);
	return done;
}

/// For a message: rows that codes rank before neighbours, of all queries.
uint64
sum_better(const CodedQuery *queries, uint64 n)
{
	uint64 sum = 0;

	for (uint64 i = 0; i < n; i++)
		for (const auto &by_point : queries[i].counted.better)
			for (const uint32 better : by_point)
				sum += better;
	return sum;
}

} // namespace

Size
ivf_code_calibration_bytes(const IvfWriter *writer, const CalibrationQueries *queries)
{
	return queries_of_codes(writer, queries) * query_bytes(writer);
}

bool
ivf_calibrate_codes(IvfWriter *writer, const CalibrationQueries *queries)
{
	const uint64 n = queries_of_codes(writer, queries);
	const Size held = n * query_bytes(writer);
	CodedQuery *coded = static_cast<CodedQuery *>(MemoryContextAllocHuge(CurrentMemoryContext, n * sizeof(CodedQuery)));
	CodeRows rows;

	ivf_reserve(writer, held);
	begin_rows(writer, &rows);
	for (uint64 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		begin_query(writer, &coded[i], queries, i * queries->n / n, &rows);
	}
	if (!count_codes(writer, coded, n, held, &rows))
		return false;
	correct_model(&writer->model, coded, n);
	ereport(DEBUG1,
		(errmsg_internal("codes of index \"%s\" take %u candidates for a row, by " UINT64_FORMAT
						 " queries with " UINT64_FORMAT " rows before their neighbors",
			RelationGetRelationName(writer->plan.index), writer->model.candidates, n, sum_better(coded, n))));
	pfree(coded);
	return true;
}

} // namespace vectorgpu::am
