// Searches of a segment with codes: by the Hamming distance of codes, then scored by vectors (engine/graph/hash.hpp).
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
	const Size code_bytes = engine::graph::hash_code_bytes(model->hash_bits);
	engine::graph::HashModel hash;
	uint8 *entry_codes;
	float *work;
	double *scores;

	if (!graph_read_hash(search->index, search->meta, search->segment, model, &hash, &entry_codes, search->strategy))
		return false;
	work = static_cast<float *>(palloc(engine::graph::hash_work_floats(hash.spec) * sizeof(float)));
	scores = static_cast<double *>(MemoryContextAllocHuge(CurrentMemoryContext, model->n_entries * sizeof(double)));
	engine::graph::hash_query(hash, search->query, known->code, work);
	engine::compute_scores(engine::graph::hash_distance(model->hash_bits), known->code, entry_codes, code_bytes,
		model->n_entries, scores, 0);
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
	const Size n_bytes = engine::graph::hash_code_bytes(known->model.hash_bits);

	return {search, known->model.degree, kCodeStream, n_bytes, engine::graph::hash_distance(known->model.hash_bits),
		known->code, static_cast<char *>(palloc(n_bytes))};
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
