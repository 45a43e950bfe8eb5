// What recall how wide a search has: rows of the part as queries, each left out of its own search as if it were not in the
// graph, against an exact search. PG dialect.
#include "am/gpugraph/writer.hpp"

#include "engine/graph/search.hpp"

#include <cmath>

namespace vectorgpu::am
{

namespace
{

using engine::graph::Candidate;
using engine::graph::GraphView;
using engine::graph::MemoryGraph;
using engine::graph::SearchSpec;
using engine::graph::SearchStats;

constexpr uint32 kNeighbors = 10;
constexpr double kWork = 2e10; // elements compared by the exact search, about 2 s of one processor: decides how many queries
constexpr uint64 kMinQueries = 100;
constexpr uint64 kMaxQueries = 400;
constexpr uint64 kRowsPerQuery = 20; // a part has so many rows for each query, at least
constexpr double kEnough = 0.9995;   // recall that needs no wider search
constexpr uint32 kWideSearch = 128;  // wider ones are measured with a quarter of the queries: recall hardly differs among them
constexpr uint32 kWidths[] = {10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024};

static_assert(lengthof(kWidths) <= engine::ivf::kMaxCalibrationPoints);

struct Queries
{
	uint64 n;
	uint32 *numbers;   // [n] of the rows that they are
	double *last_score; // [n] of the kNeighbors nearest rows; the query is none of them
	uint32 *n_true;     // [n] how many neighbours there are, at most kNeighbors: others have no number for a score
};

uint64
query_count(const HeldPart *part)
{
	const double work = static_cast<double>(part->rows.n_rows) * part->rows.spec.dim;
	const uint64 affordable = static_cast<uint64>(Min(kWork / work, static_cast<double>(kMaxQueries)));

	return Min(Max(affordable, kMinQueries), part->rows.n_rows / kRowsPerQuery);
}

/// The exact search. False: it gave way.
bool
find_truth(GraphWriter *writer, const HeldPart *part, Queries *queries)
{
	const engine::graph::GraphRows *rows = &part->rows;
	const engine::graph::Call call = graph_call(writer);
	const uint64 batch = Max(UINT64CONST(1), Min(UINT64CONST(256), 128 * 1024 / rows->row_stride)); // fits a cache
	const Size buffer_bytes = engine::topk_buffer_bytes(kNeighbors + 1); // a query finds itself
	double *scores = static_cast<double *>(palloc(batch * sizeof(double)));
	RowId *numbers = static_cast<RowId *>(palloc(batch * sizeof(RowId)));
	engine::TopK *topks = static_cast<engine::TopK *>(palloc(queries->n * sizeof(engine::TopK)));

	for (uint64 i = 0; i < queries->n; i++)
		engine::topk_init(&topks[i], kNeighbors + 1, static_cast<engine::Neighbor *>(palloc(buffer_bytes)),
			buffer_bytes / sizeof(engine::Neighbor), nullptr);
	for (uint64 first = 0; first < rows->n_rows; first += batch)
	{
		const uint64 n = Min(batch, rows->n_rows - first);

		if (!call.progress(call.progress_context, first, rows->n_rows))
			return false;
		for (uint64 i = 0; i < n; i++)
			numbers[i] = first + i;
		for (uint64 i = 0; i < queries->n; i++)
		{
			engine::compute_scores(rows->spec, rows->row(queries->numbers[i]), rows->row(static_cast<uint32>(first)),
				rows->row_stride, n, scores, 0);
			if (engine::topk_wants(&topks[i], scores, n))
				engine::topk_push(&topks[i], scores, numbers, n, nullptr, 0);
		}
	}
	for (uint64 i = 0; i < queries->n; i++)
	{
		const uint64 found = engine::topk_finish(&topks[i]);

		queries->n_true[i] = 0;
		for (uint64 j = 0; j < found && queries->n_true[i] < kNeighbors; j++)
			if (topks[i].buffer[j].row != queries->numbers[i] && !std::isnan(topks[i].buffer[j].score))
			{
				queries->n_true[i]++;
				queries->last_score[i] = topks[i].buffer[j].score;
			}
	}
	return true;
}

/// The entry points nearest to the query come first; its own row is not among them.
uint32
choose_entries(const HeldPart *part, const void *query, uint32 number, Candidate *entries, double *scores)
{
	uint32 n = 0;

	engine::graph::score_rows(part->rows, query, part->entries, part->n_entries, scores);
	for (uint32 i = 0; i < part->n_entries; i++)
		if (part->entries[i] != number)
			entries[n++] = {scores[i], part->entries[i]};
	engine::graph::first_candidates(entries, n, engine::graph::kSearchEntries);
	return Min(n, engine::graph::kSearchEntries);
}

/// Mean recall of searches so wide. *gave_way.
double
recall_at(GraphWriter *writer, const HeldPart *part, const Queries *queries, uint32 width, bool *gave_way)
{
	const engine::graph::Call call = graph_call(writer);
	MemoryGraph memory = {part->rows, part->edges, writer->model.degree, nullptr};
	const GraphView view = engine::graph::memory_view(&memory);
	Candidate *found = static_cast<Candidate *>(palloc(width * sizeof(Candidate)));
	Candidate *entries = static_cast<Candidate *>(palloc(part->n_entries * sizeof(Candidate)));
	double *scores = static_cast<double *>(palloc(part->n_entries * sizeof(double)));
	SearchSpec spec;
	SearchStats stats;
	uint64 hits = 0;
	uint64 wanted = 0;
	const uint64 step = width > kWideSearch ? 4 : 1;

	spec.width = width;
	const Size work_bytes = engine::graph::graph_search_bytes(view, spec);
	void *work = palloc(work_bytes);

	for (uint64 i = 0; i < queries->n && !*gave_way; i += step)
	{
		uint32 n_found;

		memory.query = part->rows.row(queries->numbers[i]);
		spec.excluded = queries->numbers[i];
		const uint32 n_entries = choose_entries(part, memory.query, spec.excluded, entries, scores);

		(void) graph_check_outcome(
			engine::graph::graph_search(view, spec, entries, n_entries, found, &n_found, &stats, work, work_bytes));
		for (uint32 j = 0; j < Min(n_found, queries->n_true[i]); j++)
			hits += found[j].score <= queries->last_score[i];
		wanted += queries->n_true[i];
		*gave_way = !call.progress(call.progress_context, i, queries->n);
	}
	pfree(found);
	pfree(entries);
	pfree(scores);
	pfree(work);
	return wanted == 0 ? 1 : static_cast<double>(hits) / static_cast<double>(wanted);
}

} // namespace

bool
graph_calibrate(GraphWriter *writer, const HeldPart *part)
{
	engine::ivf::Calibration *calibration = &writer->model.calibration;
	Queries queries = {query_count(part), nullptr, nullptr, nullptr};
	bool gave_way = false;
	double best = 0;

	if (queries.n == 0)
		return true;
	graph_start_phase(writer, kPhaseMeasure);
	queries.numbers = static_cast<uint32 *>(palloc(queries.n * sizeof(uint32)));
	queries.last_score = static_cast<double *>(palloc(queries.n * sizeof(double)));
	queries.n_true = static_cast<uint32 *>(palloc(queries.n * sizeof(uint32)));
	for (uint64 i = 0; i < queries.n; i++)
		queries.numbers[i] = static_cast<uint32>((2 * i + 1) * part->rows.n_rows / (2 * queries.n));
	if (!find_truth(writer, part, &queries))
		return false;
	calibration->n_queries = static_cast<uint32>(queries.n);
	for (uint32 width : kWidths)
	{
		best = Max(best, recall_at(writer, part, &queries, width, &gave_way));
		if (gave_way)
			return false;
		calibration->probes[calibration->n_points] = width;
		calibration->recall[calibration->n_points++] = static_cast<float>(best);
		if (best >= kEnough || engine::graph::looks_at_all(width, part->rows.n_rows))
			break;
	}
	return true;
}

} // namespace vectorgpu::am
