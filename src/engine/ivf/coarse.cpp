// See coarse.hpp. The bound of find_label is proven in README.md, "Assignment".
#include "engine/ivf/coarse.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/distance/distance.hpp"
#include "engine/ivf/assign.hpp"
#include "engine/ivf/ivf_kernels.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kWidestPanel = 32; // every panel width divides it
constexpr size_t kMostLanes = 16;
constexpr double kUnit = 0x1p-24;       // unit roundoff of fp32
constexpr double kLargestNorm = 0x1p60; // sums of such vectors cannot overflow

constexpr size_t
padded_lists(size_t n_lists)
{
	return (n_lists + kWidestPanel - 1) / kWidestPanel * kWidestPanel;
}

/// The error bound of n roundings in fp32: n u / (1 - n u).
double
gamma(double n)
{
	return n * kUnit / (1 - n * kUnit);
}

struct CoarseMemory
{
	float *panels;
	float *half_norms;
};

CoarseMemory
take_coarse_memory(Arena *arena, uint32_t dim, uint32_t n_lists)
{
	CoarseMemory memory;

	memory.panels = arena->take<float>(padded_lists(n_lists) * dim);
	memory.half_norms = arena->take<float>(padded_lists(n_lists));
	return memory;
}

DistanceSpec
l2_spec(const Coarse &coarse)
{
	return {Metric::kL2, ElementType::kFloat32, coarse.dim};
}

float
canonical_score(const Coarse &coarse, const float *row, size_t list)
{
	double score;

	compute_scores(l2_spec(coarse), row, coarse.centroids + list * coarse.dim, 0, 1, &score, 0);
	return static_cast<float>(score); // a sum in fp32: exact
}

struct Label
{
	uint32_t list;
	float score;
};

/// The definition: the first of the smallest canonical scores of all lists.
Label
label_by_definition(const Coarse &coarse, const float *row)
{
	constexpr size_t kChunk = 64;
	double scores[kChunk];
	Neighbor best = {std::numeric_limits<double>::quiet_NaN(), 0};

	for (size_t first = 0; first < coarse.n_lists; first += kChunk)
	{
		const size_t n = std::min<size_t>(kChunk, coarse.n_lists - first);

		compute_scores(
			l2_spec(coarse), row, coarse.centroids + first * coarse.dim, coarse.dim * sizeof(float), n, scores);
		for (size_t i = 0; i < n; i++)
			if (neighbor_less({scores[i], first + i}, best))
				best = {scores[i], first + i};
	}
	return {static_cast<uint32_t>(best.row), static_cast<float>(best.score)};
}

/// At least |x|², from a sum in binary32: n + 2 roundings, and products that underflow. NaN and overflow stay.
double
upper_square_norm(float rough, double dim)
{
	return static_cast<double>(rough) * (1 + 2 * gamma(dim + 2)) + dim * 0x1p-126;
}

/// The definition's label, from the kernel's results for a row. squares: an upper bound on its square norm. The score
/// is set only if wanted.
Label
find_label(const Coarse &coarse, const float *row, double squares, const float *best, const uint32_t *group,
	const float *second, size_t lanes, bool want_score)
{
	const double dim = coarse.dim;
	const double underflow = (4 * dim + 32) * 0x1p-126;
	float smallest = best[0];

	if (!coarse.trusted || !(squares <= kLargestNorm * kLargestNorm))
		return label_by_definition(coarse, row);
	for (size_t i = 1; i < lanes; i++)
		smallest = std::min(smallest, best[i]);

	const double norm = std::sqrt(squares);
	const double norms = norm * coarse.largest_norm;
	const double error =
		gamma(dim + 4) * norms + 3 * kUnit * (coarse.largest_norm * coarse.largest_norm + norms) + 2 * underflow;
	const double nearest = squares + 2 * (static_cast<double>(smallest) + error); // at least |x - c|² of that list
	const double limit = static_cast<double>(smallest) + 2 * error +
		1.1 * gamma(std::ceil(dim / 32) + 8) * std::max(nearest, 0.0) + 4 * underflow;
	size_t n_lanes = 0;
	size_t only = 0;

	for (size_t i = 0; i < lanes; i++)
	{
		if (static_cast<double>(second[i]) <= limit)
			return label_by_definition(coarse, row); // a lane has two candidates
		if (static_cast<double>(best[i]) <= limit)
		{
			n_lanes++;
			only = i;
		}
	}
	if (n_lanes == 1)
	{
		const uint32_t list = static_cast<uint32_t>(group[only] * lanes + only);

		return {list, want_score ? canonical_score(coarse, row, list) : 0};
	}

	Neighbor first = {std::numeric_limits<double>::quiet_NaN(), coarse.n_lists};

	for (size_t i = 0; i < lanes; i++)
		if (static_cast<double>(best[i]) <= limit)
		{
			const uint32_t list = static_cast<uint32_t>(group[i] * lanes + i);
			const Neighbor candidate = {canonical_score(coarse, row, list), list};

			if (neighbor_less(candidate, first))
				first = candidate;
		}
	return {static_cast<uint32_t>(first.row), static_cast<float>(first.score)};
}

/// Short rows are compared with all lists by their canonical scores, which takes less time than a product and the
/// search for what it leaves open.
bool
compares_all(const Coarse &coarse, size_t lanes)
{
	return coarse.dim <= kMostShortElements && coarse.n_lists % lanes == 0;
}

/// The first of the smallest of a row's scores by lane.
Label
label_of_lanes(const Coarse &coarse, const float *row, const float *best, const uint32_t *group, size_t lanes)
{
	uint64_t least = ~uint64_t{0};

	for (size_t i = 0; i < lanes; i++) // bits of scores, which are not negative, order as these do
	{
		const uint64_t key = uint64_t{std::bit_cast<uint32_t>(best[i])} << 32 | (group[i] * lanes + i);

		least = key < least ? key : least;
	}

	const float score = std::bit_cast<float>(static_cast<uint32_t>(least >> 32));

	return score < std::numeric_limits<float>::infinity() ? Label{static_cast<uint32_t>(least), score}
														  : label_by_definition(coarse, row);
}

} // namespace

size_t
coarse_bytes(uint32_t dim, uint32_t n_lists)
{
	Arena arena;

	take_coarse_memory(&arena, dim, n_lists);
	return arena.bytes_needed();
}

Outcome
coarse_init(const float *centroids, uint32_t n_lists, uint32_t dim, void *memory, size_t memory_bytes, Coarse *coarse)
{
	Arena arena(memory, memory_bytes);
	const CoarseMemory taken = take_coarse_memory(&arena, dim, n_lists);
	const IvfKernels &kernels = ivf_kernels();
	const size_t width = kernels.panel_width;
	double largest = 0;

	if (arena.is_short())
		return work_memory_short();
	if (n_lists == 0 || dim == 0)
		return {StatusCode::kInvalidArgument, "there must be at least one list and one dimension"};
	for (size_t list = 0; list < padded_lists(n_lists); list++)
	{
		const float *centroid = centroids + list * dim;
		float *column = taken.panels + list / width * width * dim + list % width;

		if (list >= n_lists)
		{
			taken.half_norms[list] = std::numeric_limits<float>::infinity();
			for (size_t d = 0; d < dim; d++)
				column[d * width] = 0;
			continue;
		}

		const double squares = kernels.square_norm(centroid, dim);

		taken.half_norms[list] = static_cast<float>(squares / 2);
		largest = std::isnan(squares) ? squares : std::max(largest, squares); // NaN stays: max(NaN, x) is NaN
		for (size_t d = 0; d < dim; d++)
			column[d * width] = centroid[d];
	}
	coarse->dim = dim;
	coarse->n_lists = n_lists;
	coarse->centroids = centroids;
	coarse->panel_width = static_cast<uint32_t>(width);
	coarse->panels = taken.panels;
	coarse->half_norms = taken.half_norms;
	coarse->largest_norm = std::sqrt(largest);
	coarse->trusted = largest <= kLargestNorm * kLargestNorm; // false for NaN
	return {};
}

AssignScratch
take_assign_scratch(Arena *arena, size_t dim)
{
	const size_t n = assign_block_rows(dim);
	AssignScratch scratch;

	scratch.rows = arena->take<float>(n * dim);
	scratch.best = arena->take<float>(n * kMostLanes);
	scratch.group = arena->take<uint32_t>(n * kMostLanes);
	scratch.second = arena->take<float>(n * kMostLanes);
	return scratch;
}

void
assign_block(const Coarse &coarse, const RowSource &source, size_t first, size_t n_rows, const AssignScratch &scratch,
	uint32_t *labels, float *scores)
{
	const IvfKernels &kernels = ivf_kernels_of_width(coarse.panel_width);
	const size_t lanes = kernels.lanes;
	ProductRows rows = {source.row(first), source.row_stride, 1, n_rows, coarse.dim};

	if (source.indices != nullptr)
	{
		for (size_t i = 0; i < n_rows; i++)
			std::copy_n(source.row(first + i), coarse.dim, scratch.rows + i * coarse.dim);
		rows.rows = scratch.rows;
		rows.row_stride = coarse.dim;
	}

	const Panels panels = {coarse.panels, padded_lists(coarse.n_lists) / kernels.panel_width};
	const NearestState state = {scratch.best, scratch.group, scratch.second};
	const bool compare_all = compares_all(coarse, lanes);

	if (compare_all)
		kernels.nearest_short(rows, panels, coarse.n_lists, state);
	else
		kernels.nearest(rows, panels, coarse.half_norms, state);
	for (size_t i = 0; i < n_rows; i++)
	{
		const float *row = rows.rows + i * rows.row_stride;
		const size_t at = i * lanes;
		const Label label = compare_all
			? label_of_lanes(coarse, row, scratch.best + at, scratch.group + at, lanes)
			: find_label(coarse, row, upper_square_norm(kernels.rough_square_norm(row, coarse.dim), coarse.dim),
				  scratch.best + at, scratch.group + at, scratch.second + at, lanes, scores != nullptr);

		labels[i] = label.list;
		if (scores != nullptr)
			scores[i] = label.score;
	}
}

namespace
{

struct AssignJob
{
	const Coarse &coarse;
	const RowSource &source;
	size_t n_rows;
	uint32_t *labels;
	float *scores;
	const AssignScratch *scratch;
	const Call &call;
	Progress progress;
	Share share;
};

void
assign_worker(void *argument, size_t worker)
{
	AssignJob &job = *static_cast<AssignJob *>(argument);
	const size_t rows_per_block = assign_block_rows(job.coarse.dim);
	const size_t n_blocks = (job.n_rows + rows_per_block - 1) / rows_per_block;
	size_t block;

	while ((block = job.share.take(n_blocks)) < n_blocks)
	{
		const size_t first = block * rows_per_block;

		if (worker == 0 && !go_on(job.call, {job.progress.done + first, job.progress.total}))
			job.share.stop.store(true, std::memory_order_relaxed);
		assign_block(job.coarse, job.source, first, std::min(rows_per_block, job.n_rows - first), job.scratch[worker],
			job.labels + first, job.scores == nullptr ? nullptr : job.scores + first);
	}
}

} // namespace

bool
assign_rows(const Coarse &coarse, const RowSource &source, size_t n_rows, uint32_t *labels, float *scores,
	const AssignScratch *scratch, const Call &call, Progress progress)
{
	AssignJob job = {coarse, source, n_rows, labels, scores, scratch, call, progress, {}};

	run_workers(call, call.n_threads, assign_worker, &job);
	return !job.share.stop.load(std::memory_order_relaxed);
}

size_t
coarse_assign_work_bytes(const Coarse &coarse, size_t n_threads)
{
	Arena arena;

	for (size_t i = 0; i < std::clamp<size_t>(n_threads, 1, kMaxThreads); i++)
		take_assign_scratch(&arena, coarse.dim);
	return arena.bytes_needed();
}

Outcome
coarse_assign(const Coarse &coarse, const float *rows, size_t row_stride, size_t n_rows, uint32_t *labels,
	float *scores, void *work, size_t work_bytes, const Call &call)
{
	Arena arena(work, work_bytes);
	AssignScratch scratch[kMaxThreads];
	Call usable = call;

	usable.n_threads = usable_threads(call, kMaxThreads);
	for (size_t i = 0; i < usable.n_threads; i++)
		scratch[i] = take_assign_scratch(&arena, coarse.dim);
	if (arena.is_short())
		return work_memory_short();
	if (n_rows > 0 &&
		!assign_rows(coarse, {rows, row_stride, nullptr}, n_rows, labels, scores, scratch, usable, {0, n_rows}))
		return cancelled();
	return {};
}

void
coarse_rank(const Coarse &coarse, Metric metric, const float *query, size_t n_probes, uint32_t *lists, double *scores)
{
	const auto before = [&](uint32_t a, uint32_t b) { return neighbor_less({scores[a], a}, {scores[b], b}); };

	compute_scores({metric, ElementType::kFloat32, coarse.dim}, query, coarse.centroids, coarse.dim * sizeof(float),
		coarse.n_lists, scores);
	for (uint32_t i = 0; i < coarse.n_lists; i++)
		lists[i] = i;
	n_probes = std::min<size_t>(n_probes, coarse.n_lists);
	if (n_probes < coarse.n_lists)
		std::nth_element(lists, lists + n_probes, lists + coarse.n_lists, before);
	std::sort(lists, lists + n_probes, before);
}

} // namespace vectorgpu::engine::ivf
