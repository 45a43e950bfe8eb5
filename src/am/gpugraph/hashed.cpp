// Searches of a segment with codes: by codes, then scored by vectors (engine/graph/codes/code_scores.hpp).
// PG dialect; one content lock at a time.
#include "am/gpugraph/graph_search.hpp"

#include "engine/distance/distance.hpp"

#include <algorithm>
#include <cmath>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

using engine::graph::Candidate;

constexpr uint32 kJudgedRows = 64; // at a time

} // namespace

bool
graph_score_entry_codes(const SegmentSearch *search, const uint32 *numbers, KnownGraph *known)
{
	const GraphModel *model = &known->model;
	const uint32 dim = search->meta->dim;
	const Size code_bytes = engine::graph::code_bytes(model->code_bits, dim);
	engine::graph::CodeModel hash;
	uint8 *entry_codes;
	float *work;
	double *scores;

	if (!graph_read_hash(search->index, search->meta, search->segment, model, &hash, &entry_codes, search->strategy))
		return false;
	work = static_cast<float *>(palloc(engine::graph::code_work_floats(hash.spec) * sizeof(float)));
	scores = static_cast<double *>(MemoryContextAllocHuge(CurrentMemoryContext, model->n_entries * sizeof(double)));
	engine::graph::make_query_code(hash, search->query, known->code, work);
	engine::graph::compute_code_scores(
		model->code_bits, dim, known->code, entry_codes, code_bytes, model->n_entries, scores);
	for (uint32 i = 0; i < model->n_entries; i++)
		known->entries[i] = {scores[i], numbers[i]};
	*search->n_compared += model->n_entries;
	pfree(work);
	pfree(scores);
	graph_free_hash(&hash);
	return true;
}

PageGraph
graph_of_codes(const SegmentSearch *search, const KnownGraph *known)
{
	const uint32 bits = known->model.code_bits;
	const uint32 dim = search->meta->dim;
	const Size n_bytes = engine::graph::code_bytes(bits, dim);

	return {search, known->model.degree, kCodeStream, n_bytes, {Metric::kL2, ElementType::kFloat32, dim}, known->code,
		static_cast<char *>(palloc(n_bytes)), bits};
}

bool
graph_judge_found(const SegmentSearch *search, const KnownGraph *known, Candidate *found, uint32 n_found)
{
	PageGraph vectors = graph_of_vectors(search, known);
	uint32 nodes[kJudgedRows];
	double scores[kJudgedRows];

	for (uint32 first = 0; first < n_found; first += kJudgedRows)
	{
		const uint32 n = Min(kJudgedRows, n_found - first);

		CHECK_FOR_INTERRUPTS();
		for (uint32 i = 0; i < n; i++)
			nodes[i] = found[first + i].node;
		if (!graph_score_nodes(&vectors, nodes, n, scores))
			return false;
		for (uint32 i = 0; i < n; i++)
			found[first + i].score = std::isnan(scores[i]) ? HUGE_VAL : scores[i];
	}
	*search->n_named += n_found;
	*search->n_rescored += n_found;
	std::sort(found, found + n_found, engine::graph::before);
	pfree(vectors.scratch);
	return true;
}

} // namespace vectorgpu::am
