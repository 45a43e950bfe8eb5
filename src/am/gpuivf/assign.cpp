// See assign.hpp.
#include "am/gpuivf/assign.hpp"

namespace vectorgpu::am
{

namespace
{

constexpr Size kBatchBytes = 4 * 1024 * 1024; // of float32 rows
constexpr Size kMaxBatchRows = 2048;          // more are no faster

} // namespace

bool
check_outcome(const engine::ivf::Outcome &outcome)
{
	return check_engine_outcome(outcome, "train or use the lists and codes of the index");
}

void
assigner_begin(
	Assigner *assigner, const engine::DistanceSpec &rows, const float *centroids, uint32 n_lists, uint32 least_rows)
{
	const Size row_bytes = rows.dim * sizeof(float);
	const Size memory_bytes = engine::ivf::coarse_bytes(rows.dim, n_lists);

	assigner->rows = rows;
	assigner->batch_rows = static_cast<uint32>(Max(Max(Min(kBatchBytes / row_bytes, kMaxBatchRows), least_rows), 1));
	assigner->memory = MemoryContextAllocHuge(CurrentMemoryContext, memory_bytes);
	(void) check_outcome(
		engine::ivf::coarse_init(centroids, n_lists, rows.dim, assigner->memory, memory_bytes, &assigner->coarse));
	assigner->work_bytes = engine::ivf::coarse_assign_work_bytes(assigner->coarse, 1);
	assigner->work = MemoryContextAllocHuge(CurrentMemoryContext, Max(assigner->work_bytes, 1));
	assigner->vectors = static_cast<char *>(palloc(assigner->batch_rows * vector_bytes(rows.element, rows.dim)));
	assigner->floats =
		static_cast<float *>(MemoryContextAllocHuge(CurrentMemoryContext, assigner->batch_rows * row_bytes));
	assigner->labels = static_cast<uint32 *>(palloc(assigner->batch_rows * sizeof(uint32)));
	assigner->scores = static_cast<float *>(palloc(assigner->batch_rows * sizeof(float)));
}

bool
assigner_run(Assigner *assigner, uint64 n, bool (*give_way)(void *), void *give_way_state)
{
	const Watch watch = {give_way, give_way_state, false};

	CHECK_FOR_INTERRUPTS();
	ivf_rows_to_floats(assigner->rows, assigner->vectors, n, assigner->floats);
	return check_outcome(engine::ivf::coarse_assign(assigner->coarse, assigner->floats, assigner->rows.dim, n,
		assigner->labels, assigner->scores, assigner->work, assigner->work_bytes, watched_call(&watch)));
}

void
assigner_end(Assigner *assigner)
{
	pfree(assigner->memory);
	pfree(assigner->work);
	pfree(assigner->vectors);
	pfree(assigner->floats);
	pfree(assigner->labels);
	pfree(assigner->scores);
}

} // namespace vectorgpu::am
