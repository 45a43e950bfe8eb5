// Lloyd's algorithm in the caller's memory, shared by kmeans.cpp (seeding, the whole training) and kmeans_balance.cpp.
// Internal to the folder. All values that decide (labels, errors of rows, sums) are canonical or summed in a fixed
// order, so that the result depends on neither the instruction set nor the number of threads.
#pragma once

#include "engine/ivf/assign.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/kmeans_seed.hpp"

namespace vectorgpu::engine::ivf
{

/// Work memory. Each level has its own slice of the arrays over rows; the other arrays are used by one training at a
/// time.
struct LloydMemory
{
	uint32_t *labels;      // [n_rows]
	uint32_t *order;       // [n_rows] rows by cluster
	uint32_t *index;       // [n_rows] rows by cluster of the first level
	float *errors;         // [n_rows] squared distance to the centroid
	uint64_t *first;       // [n_clusters + 1] where a cluster begins in `order`
	double *sums;          // [n_clusters] errors by cluster
	uint64_t *first_level; // [n_clusters + 1] `first` of the first level, and its sizes
	float *first_level_centroids;
	uint8_t *marks;        // [n_rows] balancing: how often a row's cluster was dissolved, from 0; else null
	uint64_t *begin, *end; // [n_clusters] balancing: a cluster's rows in `order` while clusters are halved
	uint32_t *heap;        // [n_clusters] balancing: clusters by size
	float *kept;           // [n_clusters, dim] balancing: the best centroids so far
	void *packed;          // coarse_init's
	size_t packed_bytes;
	size_t n_threads;
	AssignScratch scratch[kMaxThreads];
	double *means[kMaxThreads]; // [dim]
};

/// Take the memory of a training from the arena.
void take_lloyd_memory(Arena *arena, const KMeansSpec &spec, LloydMemory *memory);

/// One training of Lloyd's algorithm: of all rows, of the first level, or of the rows of one cluster of it.
struct Lloyd
{
	const KMeansSpec &spec;
	RowSource source;
	size_t n_rows;
	uint32_t n_clusters;
	uint32_t max_iterations;
	float *centroids;
	LloydMemory &memory;
	size_t offset; // of this training's slice of the arrays over rows
	const Call &call;
	Progress *progress; // in rows times clusters
	Random *random;
	KMeansReport report{};

	uint32_t *labels() const { return memory.labels + offset; }
	uint32_t *order() const { return memory.order + offset; }
	float *errors() const { return memory.errors + offset; }
	uint64_t size(size_t cluster) const { return memory.first[cluster + 1] - memory.first[cluster]; }
};

/// Set labels, errors and groups of the rows for the present centroids, and inertia, largest and n_used of the report.
/// *n_empty: clusters without rows.
Outcome assign_and_group(Lloyd *run, uint32_t *n_empty);

/// Set centroids to the means of their rows; a centroid without rows is unchanged.
void update_centroids(Lloyd *run);

/// Set centroid to the mean of rows [n], summed in their order in `sum` [dim], and scaled to length 1 in a spherical
/// training. Rows that balancing leaves out do not count; false, and no change, if none counts.
bool mean_of_rows(const Lloyd &run, const uint32_t *rows, uint64_t n, double *sum, float *centroid);

/// Iterate from the given centroids. In the end labels, errors and groups are those of the centroids.
Outcome run_lloyd(Lloyd *run);

/// A row no longer counts in means once its clusters were dissolved this often.
constexpr uint8_t kMarksLeftOut = 2;

} // namespace vectorgpu::engine::ivf
