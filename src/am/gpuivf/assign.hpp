// The engine's k-means and assignment, with memory, progress and interrupts of a backend. PG dialect.
#pragma once

#include "am/gpuivf/ivf.hpp"
#include "am/method/engine_call.hpp"
#include "engine/ivf/coarse.hpp"

namespace vectorgpu::am
{

/// Raises the error that an outcome stands for; false if the operation was stopped by give_way.
bool check_outcome(const engine::ivf::Outcome &outcome);

/// Assigns rows to lists, a batch at a time.
struct Assigner
{
	engine::DistanceSpec rows; // the type of vectors
	engine::ivf::Coarse coarse;
	uint32 batch_rows;
	char *vectors;  // [batch_rows] of the element: the caller's to fill
	float *floats;  // [batch_rows, dim]
	uint32 *labels; // [batch_rows]
	float *scores;  // [batch_rows] squared distances to the centroids
	void *memory;
	void *work;
	Size work_bytes;
};

/// centroids [n_lists, dim], alive as long as the assigner. least_rows: that a batch should have room for. Memory in
/// the current context.
void assigner_begin(Assigner *assigner, const engine::DistanceSpec &rows, const float *centroids, uint32 n_lists,
	uint32 least_rows = 0);

/// Computes labels and scores of the n vectors in assigner->vectors, and converts them to assigner->floats. False: it
/// gave way.
bool assigner_run(Assigner *assigner, uint64 n, bool (*give_way)(void *), void *give_way_state);

void assigner_end(Assigner *assigner);

} // namespace vectorgpu::am
