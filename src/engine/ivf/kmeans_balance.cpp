// See kmeans_balance.hpp. Small clusters are dissolved, and the largest ones are halved in their place; iterations of
// Lloyd's algorithm follow each round.
#include "engine/ivf/kmeans_balance.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr uint32_t kSettleIterations = 3; // of Lloyd between two rounds of dissolving: halves find their places
constexpr int kDirections = 4;            // tried to halve a cluster
constexpr int kPairs = 8;                 // of rows drawn for a direction until two differ

struct Balancing
{
	Lloyd &run;
	const uint32_t n_wanted; // clusters
	const double least;      // rows of a cluster
	uint32_t n_kept = 0; // clusters of the best state so far that are large enough; their centroids are in memory.kept
	double kept_inertia = std::numeric_limits<double>::infinity();
	bool kept_is_present = false; // the present centroids are those kept

	bool is_small(uint64_t size) const { return static_cast<double>(size) < least; }
};

uint32_t
count_small(const Balancing &job)
{
	uint32_t n = 0;

	for (size_t c = 0; c < job.run.n_clusters; c++)
		n += job.is_small(job.run.size(c));
	return n;
}

/// Inertia of the rows that count in means: what Lloyd's algorithm lowers.
double
counted_inertia(const Lloyd &run)
{
	double sum = 0;

	for (size_t i = 0; i < run.n_rows; i++)
		if (run.memory.marks[i] < kMarksLeftOut)
			sum += static_cast<double>(run.errors()[i]);
	return sum;
}

/// Keep the centroids of the clusters that are large enough, if there are more of them than in any earlier state, or as
/// many with less inertia. Without the small clusters they only gain rows, so that they stay large enough.
void
keep_if_best(Balancing *job, uint32_t n_small, double inertia)
{
	const Lloyd &run = job->run;
	const size_t dim = run.spec.dim;
	const uint32_t n_good = run.n_clusters - n_small;
	float *to = run.memory.kept;

	job->kept_is_present = n_good > job->n_kept || (n_good == job->n_kept && inertia < job->kept_inertia);
	if (!job->kept_is_present)
		return;
	job->n_kept = n_good;
	job->kept_inertia = inertia;
	for (size_t c = 0; c < run.n_clusters; c++)
		if (!job->is_small(run.size(c)))
			to = std::copy_n(run.centroids + c * dim, dim, to);
	job->kept_is_present = n_small == 0;
}

/// Set direction [dim] to that through two random rows that differ, scaled so that no projection overflows; *from: one
/// of the two. False: none was found.
bool
draw_direction(const Lloyd &run, const uint32_t *rows, uint64_t n, double *direction, const float **from)
{
	const size_t dim = run.spec.dim;

	for (int pair = 0; pair < kPairs; pair++)
	{
		const float *a = run.source.row(rows[run.random->below(n)]);
		const float *b = run.source.row(rows[run.random->below(n)]);
		double largest = 0;

		for (size_t d = 0; d < dim; d++)
		{
			direction[d] = static_cast<double>(b[d]) - static_cast<double>(a[d]);
			largest = std::max(largest, std::fabs(direction[d]));
		}
		if (!(largest > 0))
			continue;
		for (size_t d = 0; d < dim; d++)
			direction[d] /=
				2 * largest * static_cast<double>(dim); // differences of two floats are below twice the largest float
		*from = a;
		return true;
	}
	return false;
}

/// Cut rows in two by their projections, each half large enough. Rows with equal projections stay together. *cut: size
/// of the first half, which is moved to the front of `rows`; each half is in the order of the rows. False: stopped, or
/// impossible (*cut is 0).
bool
halve_rows(const Balancing &job, uint32_t *rows, uint64_t n, const double *direction, const float *from, uint64_t *cut)
{
	constexpr uint64_t kRowsPerCheck = 4096;
	const Lloyd &run = job.run;
	const size_t dim = run.spec.dim;
	float *keys = run.errors(); // free until rows are assigned again
	uint64_t n_below = 0;
	uint64_t n_up_to = 0;

	*cut = 0;
	for (uint64_t i = 0; i < n; i++)
	{
		const float *row = run.source.row(rows[i]);
		double sum = 0;

		if (i % kRowsPerCheck == 0 && !go_on(run.call, *run.progress))
			return false;
		for (size_t d = 0; d < dim; d++)
			sum += (static_cast<double>(row[d]) - static_cast<double>(from[d])) * direction[d];
		keys[rows[i]] = static_cast<float>(sum);
	}
	std::nth_element(rows, rows + n / 2, rows + n, [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });

	const float middle = keys[rows[n / 2]];

	for (uint64_t i = 0; i < n; i++)
	{
		n_below += keys[rows[i]] < middle;
		n_up_to += keys[rows[i]] <= middle;
	}

	const bool up_to = n_up_to - n / 2 < n / 2 - n_below; // whichever is nearer to one half
	const uint64_t first = up_to ? n_up_to : n_below;

	if (first == 0 || first == n || job.is_small(std::min(first, n - first)))
		return false;
	std::partition(rows, rows + n, [&](uint32_t row) { return up_to ? keys[row] <= middle : keys[row] < middle; });
	std::sort(rows, rows + first);
	std::sort(rows + first, rows + n);
	*cut = first;
	return true;
}

/// Move half of the donor's rows to cluster c; both get their means. False: the donor cannot be halved, or stopped.
bool
halve_cluster(Balancing *job, uint32_t donor, uint32_t c)
{
	Lloyd &run = job->run;
	LloydMemory &memory = run.memory;
	const size_t dim = run.spec.dim;
	uint32_t *rows = run.order() + memory.begin[donor];
	const uint64_t n = memory.end[donor] - memory.begin[donor];
	double *scratch = memory.means[0];
	uint64_t cut = 0;

	for (int i = 0; i < kDirections && cut == 0; i++)
	{
		const float *from;

		if (!draw_direction(run, rows, n, scratch, &from))
			return false;
		if (!halve_rows(*job, rows, n, scratch, from, &cut) && !go_on(run.call, *run.progress))
			return false;
	}
	if (cut == 0)
		return false;
	memory.begin[c] = memory.begin[donor] + cut;
	memory.end[c] = memory.end[donor];
	memory.end[donor] = memory.begin[c];
	// If no row counts, one of them serves as the mean.
	if (!mean_of_rows(run, rows, cut, scratch, run.centroids + donor * dim))
		std::copy_n(run.source.row(rows[0]), dim, run.centroids + donor * dim);
	if (!mean_of_rows(run, rows + cut, n - cut, scratch, run.centroids + c * dim))
		std::copy_n(run.source.row(rows[cut]), dim, run.centroids + c * dim);
	return true;
}

/// Remove the small clusters, and mark their rows. The others move together; begin, end: their rows.
void
dissolve_small(Balancing *job)
{
	Lloyd &run = job->run;
	LloydMemory &memory = run.memory;
	const size_t dim = run.spec.dim;
	uint32_t n = 0;

	for (size_t c = 0; c < run.n_clusters; c++)
	{
		if (job->is_small(run.size(c)))
		{
			for (uint64_t i = memory.first[c]; i < memory.first[c + 1]; i++)
				memory.marks[run.order()[i]] += memory.marks[run.order()[i]] < kMarksLeftOut;
			continue;
		}
		if (c != n)
			std::copy_n(run.centroids + c * dim, dim, run.centroids + n * dim);
		memory.begin[n] = memory.first[c];
		memory.end[n] = memory.first[c + 1];
		n++;
	}
	run.report.n_splits += run.n_clusters - n;
	run.n_clusters = n;
}

/// Halve the largest clusters until there are as many as wanted, or none can be halved into two large enough ones.
/// Return the number of halvings.
uint32_t
halve_largest(Balancing *job)
{
	Lloyd &run = job->run;
	LloydMemory &memory = run.memory;
	uint32_t *heap = memory.heap;
	uint32_t n_heap = run.n_clusters;
	uint32_t n_halved = 0;
	const auto size_of = [&](uint32_t c) { return memory.end[c] - memory.begin[c]; };
	const auto less = [&](uint32_t a, uint32_t b)
	{ return size_of(a) != size_of(b) ? size_of(a) < size_of(b) : a > b; };

	for (uint32_t c = 0; c < n_heap; c++)
		heap[c] = c;
	std::make_heap(heap, heap + n_heap, less);
	while (n_heap > 0 && run.n_clusters < job->n_wanted)
	{
		const uint32_t donor = heap[0];

		if (static_cast<double>(size_of(donor)) < 2 * job->least)
			break;
		std::pop_heap(heap, heap + n_heap, less);
		n_heap--;
		if (!halve_cluster(job, donor, run.n_clusters))
			continue;
		heap[n_heap++] = donor;
		std::push_heap(heap, heap + n_heap, less);
		heap[n_heap++] = run.n_clusters++;
		std::push_heap(heap, heap + n_heap, less);
		n_halved++;
	}
	return n_halved;
}

/// Restore the best state, without its small clusters.
Outcome
restore_kept(Balancing *job)
{
	Lloyd &run = job->run;
	uint32_t n_empty;

	if (job->kept_is_present)
		return {};
	std::copy_n(run.memory.kept, size_t{job->n_kept} * run.spec.dim, run.centroids);
	run.n_clusters = job->n_kept;
	return assign_and_group(&run, &n_empty);
}

} // namespace

Outcome
balance_clusters(Lloyd *run)
{
	Balancing job = {*run, run->n_clusters,
		static_cast<double>(run->n_rows) /
			(static_cast<double>(run->n_clusters) * static_cast<double>(run->spec.balance))};
	uint32_t n_small = count_small(job);
	uint32_t settled = kSettleIterations; // iterations since clusters were dissolved
	double before = std::numeric_limits<double>::infinity();
	bool exhausted = false; // the last round had no small clusters, and found none that could be halved

	if (n_small == run->n_clusters - run->report.n_used) // except empty ones, for which no rows can be found
		return {};
	run->report.converged = false;
	for (uint32_t iteration = 0;; iteration++)
	{
		const double inertia = counted_inertia(*run);
		uint32_t n_empty;

		keep_if_best(&job, n_small, inertia);
		if (iteration >= run->max_iterations)
			break;

		const bool is_short = n_small > 0 || run->n_clusters < job.n_wanted;

		if (is_short && settled >= kSettleIterations)
		{
			dissolve_small(&job);
			exhausted = halve_largest(&job) == 0 && n_small == 0;
			if (exhausted)
				update_centroids(run); // no further clusters can be made
			settled = 0;
			before = std::numeric_limits<double>::infinity();
		}
		else
		{
			const bool is_stable = n_small == 0 && std::isfinite(before) &&
				before - inertia <= static_cast<double>(run->spec.tolerance) * before;

			run->report.converged = is_stable && !is_short;
			if (is_stable && (!is_short || exhausted))
				break;
			update_centroids(run);
			settled++;
			before = inertia;
		}

		const Outcome assigned = assign_and_group(run, &n_empty);

		if (!assigned.is_ok())
			return assigned;
		run->report.n_iterations++;
		n_small = count_small(job);
	}
	return restore_kept(&job);
}

} // namespace vectorgpu::engine::ivf
