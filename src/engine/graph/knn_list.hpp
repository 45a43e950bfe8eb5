// The neighbour list of one row, and the rows that are aside. Internal to the folder.
#pragma once

#include "engine/graph/knn_graph.hpp"

namespace vectorgpu::engine::graph
{

/// Whether row u is in no other row's list yet (KnnSpec::n_aside). aside: bitmap of the rows.
inline bool
is_aside(const uint8_t *aside, uint32_t u)
{
	return (aside[u / 8] >> (u % 8) & 1) != 0;
}

/// The list of row u, which better neighbours can be inserted into.
class KnnList
{
public:
	KnnList(const KnnLists &lists, uint32_t u)
		: ids_(lists.ids + static_cast<size_t>(u) * lists.k), scores_(lists.scores + static_cast<size_t>(u) * lists.k),
		  k_(lists.k)
	{
	}

	/// A node has to have a smaller score to be inserted.
	double worst() const { return scores_[k_ - 1]; }
	bool has(uint32_t node) const
	{
		bool found = false;

		for (uint32_t i = 0; i < k_; i++)
			found |= ids_[i] == node;
		return found;
	}
	/// Insert a node that is not in the list. score: smaller than worst().
	void insert(uint32_t node, double score)
	{
		const float s = static_cast<float>(score);
		uint32_t i = k_ - 1;

		for (; i > 0 && s < scores_[i - 1]; i--)
		{
			scores_[i] = scores_[i - 1];
			ids_[i] = ids_[i - 1];
		}
		scores_[i] = s;
		ids_[i] = node;
	}

private:
	uint32_t *ids_;
	float *scores_;
	uint32_t k_;
};

/// Insert node into the list of row `to` if it is near enough and not there yet.
inline void
offer(const KnnLists &lists, uint32_t to, uint32_t node, double score)
{
	KnnList list(lists, to);

	if (score < list.worst() && !list.has(node))
		list.insert(node, score);
}

} // namespace vectorgpu::engine::graph
