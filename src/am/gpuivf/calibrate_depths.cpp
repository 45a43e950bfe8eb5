// The calibration for more rows than ten: the lists of the nearest hundred, thousand and ten thousand rows of a query.
// A sample stands for the rows: the 64 nearest of every sixteenth row are as far away as the 1,024 nearest of all, and
// lie in the same lists. So this costs a sixteenth of the exact search of calibrate.cpp, with as many queries. PG
// dialect.
#include "am/gpuivf/writer.hpp"

#include "engine/distance/distance.hpp"
#include "engine/match/hash_family.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kStep = 16;
constexpr uint64 kStrides[kDepthSamples] = {kStep, kStep *kStep};
constexpr uint64 kFound = 64 + 1; // of a sample, which may have the query itself

/// The nearest rows that are measured, in a sample by its stride; stride 1: all rows.
struct Depth
{
	uint32 stride;
	uint32 n;
};

constexpr Depth kDepths[] = {{1, 32}, {1, kNearDepth}, {16, 8}, {16, 16}, {16, 32}, {16, 64}, {256, 16}, {256, 64}};

static_assert(lengthof(kDepths) <= engine::ivf::kMaxDepths && kNearDepth > engine::ivf::kCalibratedRows);

constexpr uint64 kRowsPerDepth =
	2;                        // rows of a table for each of the nearest: the lists of almost all rows tell nothing
constexpr double kWork = 4e8; // elements compared, about 0.1 s of one processor: the limit of the number of queries
constexpr uint64 kMinQueries = 100; // whatever they cost
constexpr Size kMemoryShare = 8;    // of maintenance_work_mem, for more queries
constexpr Size kSelected =
	2 * kFound; // neighbours that a selection holds: cut now and then, which is cheap beside the distances
constexpr uint64 kRowSeed = 2; // for drawing sampled rows; other than those of the queries and of the training's sample
constexpr Size kBatchBytes = 128 * 1024; // of rows, compared with one query after another: fits a cache

/// Draws one of every 16 rows for the first sample, and one of every 16 of these for the next: samples have exact
/// sizes, and periodic rows are in them as often as in the table.
bool
in_sample(uint64 number, uint64 stride)
{
	for (uint64 step = 1; step < stride; step *= kStep)
		if (number / step % kStep != engine::stream64(kRowSeed + step, number / (step * kStep)) % kStep)
			return false;
	return true;
}

uint64
affordable_queries(const IvfWriter *writer)
{
	const double work =
		static_cast<double>(writer->n_rows) * ivf_compared_elements(writer) / static_cast<double>(kStrides[0]);
	const Size bytes =
		writer->vector_bytes + kDepthSamples * (sizeof(engine::TopK) + kSelected * sizeof(engine::Neighbor));
	const uint64 fit = writer->memory / kMemoryShare / bytes;

	return Max(static_cast<uint64>(Min(kWork / work, static_cast<double>(fit))), kMinQueries);
}

/// Compares the waiting rows with all queries.
void
compare_waiting(const IvfWriter *writer, DepthQueries *depths)
{
	for (uint64 i = 0; i < depths->n && depths->n_waiting > 0; i++)
	{
		engine::compute_scores(writer->rows, depths->vectors + i * writer->vector_bytes, depths->waiting,
			writer->vector_bytes, depths->n_waiting, depths->scores, 0);
		for (uint32 s = 0; s < kDepthSamples; s++)
			if (engine::topk_wants(&depths->topks[s][i], depths->scores, depths->n_waiting))
				engine::topk_push(&depths->topks[s][i], depths->scores, depths->ids, depths->n_waiting,
					s > 0 ? depths->left_out[s] : nullptr, 0);
	}
	depths->n_waiting = 0;
	memset(depths->left_out, 0, sizeof(depths->left_out));
}

/// Notes that a row of the first sample is the next waiting one, and compares them if they are enough.
void
add_waiting(const IvfWriter *writer, DepthQueries *depths, uint64 number, uint32 label)
{
	const uint64 to = depths->n_waiting++;

	depths->ids[to] = number << 32 | label;
	for (uint32 s = 1; s < kDepthSamples; s++)
		if (!in_sample(number, kStrides[s]))
			depths->left_out[s][to / 8] |= static_cast<uint8>(1 << (to % 8));
	if (depths->n_waiting == depths->batch)
		compare_waiting(writer, depths);
}

/// Compares the rows of the first sample. False: it gave way.
bool
compare_all(IvfWriter *writer, DepthQueries *depths)
{
	uint32 labels[kMostWaiting * kStep];

	spool_seek(writer->labels, 0);
	for (uint64 first = 0; first < writer->n_rows && depths->n > 0; first += lengthof(labels))
	{
		const uint64 n = Min(lengthof(labels), writer->n_rows - first);

		if (ivf_gives_way(writer))
			return false;
		spool_read(writer->labels, labels, n * sizeof(uint32));
		for (uint64 i = 0; i < n; i++)
		{
			if (!in_sample(first + i, kStrides[0]))
				continue;
			ivf_read_spooled(writer, first + i, 1, depths->waiting + depths->n_waiting * writer->vector_bytes);
			add_waiting(writer, depths, first + i, labels[i]);
		}
	}
	return true;
}

/// Ranks [n] of the lists of a query's nearest rows in a sample, then PG_UINT32_MAX.
void
ranks_in_sample(DepthQueries *depths, uint32 sample, uint64 i, const uint32 *list_ranks, uint32 *ranks)
{
	engine::TopK *topk = &depths->topks[sample][i];
	const uint64 n = engine::topk_finish(topk);
	uint64 kept = 0;

	for (uint64 j = 0; j < n && kept < kFound - 1; j++)
		if (topk->buffer[j].row >> 32 != depths->numbers[i] && !std::isnan(topk->buffer[j].score))
			ranks[kept++] = list_ranks[topk->buffer[j].row & PG_UINT32_MAX];
	std::fill(ranks + kept, ranks + kFound - 1, PG_UINT32_MAX);
}

/// Adds a depth: the first of each query's ranks [n, stride].
void
add_depth(IvfWriter *writer, const Depth *depth, const uint32 *ranks, uint64 stride, uint64 n)
{
	engine::ivf::DepthCalibration *measured = &writer->model.depths;
	engine::ivf::Calibration curve = writer->model.calibration; // its points
	uint32 *first = static_cast<uint32 *>(palloc(n * depth->n * sizeof(uint32)));

	for (uint64 i = 0; i < n; i++)
		std::copy_n(ranks + i * stride, depth->n, first + i * depth->n);
	engine::ivf::calibrate_by_rank(first, n, depth->n, &curve);
	engine::ivf::lower_by_chance(first, n, depth->n, &curve);
	std::copy_n(curve.recall, curve.n_points, measured->recall[measured->n_depths]);
	measured->depths[measured->n_depths++] = depth->stride * depth->n;
	pfree(first);
}

void
end_depths(DepthQueries *depths)
{
	for (uint32 s = 0; s < kDepthSamples; s++)
	{
		pfree(depths->topks[s]);
		pfree(depths->selected[s]);
	}
	pfree(depths->numbers);
	pfree(depths->vectors);
	pfree(depths->waiting);
	pfree(depths->ids);
	pfree(depths->scores);
	*depths = {};
}

} // namespace

void
ivf_begin_depths(const IvfWriter *writer, const CalibrationQueries *queries, DepthQueries *depths)
{
	const uint64 n = Min(queries->n, affordable_queries(writer));

	depths->n = n;
	depths->later = row_store_in_memory(&writer->vectors);
	depths->batch = Max(UINT64CONST(1), Min(static_cast<uint64>(kMostWaiting), kBatchBytes / writer->vector_bytes));
	depths->numbers = static_cast<uint64 *>(palloc(n * sizeof(uint64)));
	depths->vectors = static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, n * writer->vector_bytes));
	for (uint64 i = 0; i < n; i++)
	{
		const uint64 from = i * queries->n / n;

		depths->numbers[i] = queries->numbers[from];
		memcpy(depths->vectors + i * writer->vector_bytes, queries->vectors + from * writer->vector_bytes,
			writer->vector_bytes);
	}
	for (uint32 s = 0; s < kDepthSamples; s++)
	{
		depths->topks[s] = static_cast<engine::TopK *>(palloc(n * sizeof(engine::TopK)));
		depths->selected[s] = static_cast<engine::Neighbor *>(
			MemoryContextAllocHuge(CurrentMemoryContext, n * kSelected * sizeof(engine::Neighbor)));
		for (uint64 i = 0; i < n; i++)
			engine::topk_init(&depths->topks[s][i], kFound, depths->selected[s] + i * kSelected, kSelected, nullptr);
	}
	depths->waiting = static_cast<char *>(palloc(depths->batch * writer->vector_bytes));
	depths->ids = static_cast<RowId *>(palloc(depths->batch * sizeof(RowId)));
	depths->scores = static_cast<double *>(palloc(depths->batch * sizeof(double)));
}

void
ivf_sample_depths(
	const IvfWriter *writer, DepthQueries *depths, uint64 first, const char *vectors, const uint32 *labels, uint64 n)
{
	for (uint64 i = 0; i < n && depths->n > 0 && !depths->later; i++)
	{
		if (!in_sample(first + i, kStrides[0]))
			continue;
		memcpy(depths->waiting + depths->n_waiting * writer->vector_bytes, vectors + i * writer->vector_bytes,
			writer->vector_bytes);
		add_waiting(writer, depths, first + i, labels[i]);
	}
}

bool
ivf_calibrate_depths(IvfWriter *writer, const CalibrationQueries *queries)
{
	DepthQueries *depths = &writer->depths;
	const uint64 each = kFound - 1;
	uint32 *list_ranks =
		static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, writer->model.n_lists * sizeof(uint32)));
	uint32 *ranks[kDepthSamples];

	if (depths->later && !compare_all(writer, depths))
		return false;
	compare_waiting(writer, depths);
	for (uint32 *&of_sample : ranks)
		of_sample = static_cast<uint32 *>(palloc(depths->n * each * sizeof(uint32)));
	for (uint64 i = 0; i < depths->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ivf_rank_lists(writer, depths->vectors + i * writer->vector_bytes, list_ranks);
		for (uint32 s = 0; s < kDepthSamples; s++)
			ranks_in_sample(depths, s, i, list_ranks, ranks[s] + i * each);
	}
	writer->model.depths = {};
	writer->model.depths.n_queries = static_cast<uint32>(depths->n);
	for (const Depth &depth : kDepths)
	{
		if (static_cast<uint64>(depth.stride) * depth.n * kRowsPerDepth > writer->n_rows)
			continue;
		if (depth.stride == 1)
			add_depth(writer, &depth, queries->near_ranks, kNearDepth, queries->n);
		for (uint32 s = 0; s < kDepthSamples; s++)
			if (depth.stride == kStrides[s])
				add_depth(writer, &depth, ranks[s], each, depths->n);
	}
	for (uint32 *of_sample : ranks)
		pfree(of_sample);
	pfree(list_ranks);
	end_depths(depths);
	return true;
}

} // namespace vectorgpu::am
