// Chooses a row's edges among rows near to it whose lists of nearest rows are not known. Internal to the folder, for
// insertion.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/graph/prune.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

/// A row and its score.
struct Near
{
	float score;
	uint32_t node;
};

inline bool
nearer(const Near &a, const Near &b)
{
	return a.score != b.score ? a.score < b.score : a.node < b.node;
}

/// Chooses edges; one object per task.
class Chooser
{
public:
	bool take(ivf::Arena *arena, const GraphRows &rows, uint32_t most)
	{
		most_ = most;
		rows_ = &rows;
		vectors_ = arena->take<unsigned char>(size_t{most} * rows.row_stride);
		scores_ = arena->take<double>(most);
		detours_ = arena->take<uint32_t>(most);
		order_ = arena->take<uint32_t>(most);
		return order_ != nullptr;
	}

	/// Set forward [degree] to the most useful of near [n], best first, kNoNode behind them. near is sorted; n: at most
	/// `most`.
	void choose(const Near *near, uint32_t n, PruneKind kind, uint32_t degree, uint32_t *forward)
	{
		for (uint32_t i = 0; i < n; i++)
			memcpy(vector(i), rows_->row(near[i].node), rows_->row_stride);

		const uint32_t n_chosen =
			kind == PruneKind::kRank ? by_detours(near, n, degree, forward) : by_rng(near, n, degree, forward);

		std::fill(forward + n_chosen, forward + degree, kNoNode);
	}

private:
	unsigned char *vector(uint32_t i) const { return vectors_ + i * rows_->row_stride; }

	/// A detour of the edge u → w is u → v → w of two shorter edges. A build counts detours by ranks in the lists of
	/// nearest rows, which an insertion does not have; ranks stand for distances there (CAGRA, section 3.2).
	uint32_t by_detours(const Near *near, uint32_t n, uint32_t degree, uint32_t *forward)
	{
		const uint32_t *detours = detours_;

		for (uint32_t i = 0; i < n; i++)
		{
			order_[i] = i;
			detours_[i] = 0;
			compute_scores(rows_->spec, vector(i), vectors_, rows_->row_stride, i, scores_, 0);
			for (uint32_t j = 0; j < i; j++)
				detours_[i] += static_cast<float>(scores_[j]) < near[i].score && near[j].score < near[i].score;
		}
		std::sort(order_, order_ + n,
			[detours](uint32_t a, uint32_t b) { return detours[a] != detours[b] ? detours[a] < detours[b] : a < b; });
		for (uint32_t i = 0; i < std::min(n, degree); i++)
			forward[i] = near[order_[i]].node;
		return std::min(n, degree);
	}

	/// As in prune: a neighbour is kept if no kept one is nearer to it than the row is; then, while there is room, the
	/// others.
	uint32_t by_rng(const Near *near, uint32_t n, uint32_t degree, uint32_t *forward)
	{
		uint32_t *kept = order_;
		uint32_t *left = detours_;
		uint32_t n_kept = 0;
		uint32_t n_left = 0;

		for (uint32_t i = 0; i < n && n_kept < degree; i++)
		{
			bool keep = true;

			for (uint32_t j = 0; j < n_kept && keep; j++)
			{
				compute_scores(rows_->spec, vector(i), vector(kept[j]), rows_->row_stride, 1, scores_, 0);
				keep = !(static_cast<float>(scores_[0]) < near[i].score);
			}
			if (keep)
				kept[n_kept++] = i;
			else
				left[n_left++] = i;
		}
		for (uint32_t i = 0; i < n_kept; i++)
			forward[i] = near[kept[i]].node;
		for (uint32_t i = 0; i < n_left && n_kept < degree; i++)
			forward[n_kept++] = near[left[i]].node;
		return n_kept;
	}

	const GraphRows *rows_;
	uint32_t most_;
	unsigned char *vectors_; // [most, row_stride]
	double *scores_;         // [most]
	uint32_t *detours_;      // [most]
	uint32_t *order_;        // [most]
};

} // namespace vectorgpu::engine::graph
