// Groups of rows near each other, and for each group the rows among which the nearest rows of its rows are looked for:
// an engine that searches some rows exactly, such as a GPU's, then finds a k-NN graph of many rows without comparing
// all pairs. Rows are in small clusters by k-means; these are cut into groups of about as many rows each, in halves
// again and again. A group's candidates are its own clusters, those nearest to each of them, and the clusters that a
// sample's true nearest rows lie in; other rows of the sample tell whether they are enough. Without the second, rows of
// which none is in the sample would lose all of their nearest rows at once, and the graph paths to them. Deterministic,
// whatever the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "engine/cpu/near_groups_tuning.hpp"
#include "engine/graph/knn_graph.hpp"
#include "engine/interface/engine.hpp"
#include "engine/interface/passing.hpp"

namespace vectorgpu::engine
{

class NearGroups
{
public:
	/// Whether groups pay for these rows.
	static bool serve(const graph::GraphRows &rows, const NearGroupsTuning &tuning);

	/// Find the middles of clusters, by the engine's list builder, from a sample of the rows. kCancelled if control
	/// says stop. Throws bad_alloc, as all of these.
	Status train(Engine *engine, const graph::GraphRows &rows, const NearGroupsTuning &tuning, SearchControl *control);

	/// Then make clusters and groups. copy: one of the engine, whose sealed segment has the rows; 0: there is none.
	Status group(Engine *engine, const graph::GraphRows &rows, CopyId copy, SegmentId segment, SearchControl *control);

	/// The sample's rows, ascending.
	const std::vector<uint32_t> &sample() const { return sample_; }

	/// Choose the candidates. nearest [sample().size(), k]: the true nearest rows of the sample, kNoNode behind the
	/// last of one. False: there would be too many. Call it once, after group().
	bool choose(const uint32_t *nearest, uint32_t k);

	uint32_t n_groups() const { return static_cast<uint32_t>(group_first_.size()) - 1; }

	/// The rows of a group. Each row is in one group.
	std::span<const uint32_t> rows(uint32_t group) const;

	/// The most candidates of a group.
	uint64_t most_candidates() const;

	/// The candidates of a group as the conditions of a search of one segment, which has all rows. The group's own rows
	/// are among them. Throws bad_alloc.
	std::shared_ptr<const Passing> candidates(uint32_t group, SegmentId segment) const;

	/// Of all pairs, the share that groups compare.
	double pairs() const;

private:
	struct Candidate
	{
		uint32_t group;
		uint32_t cluster;
		uint32_t n_chosen_by; // of nearest rows of the first half of the sample that lie in the cluster
		uint32_t n_judged_by; // of the second half
	};

	Status assign(Engine *engine, const DistanceSpec &spec, const uint8_t *rows, uint32_t n, SearchControl *control,
		uint32_t *labels, float *scores) const;
	void move_centroids(const std::vector<float> &floats, uint32_t dim, const std::vector<uint32_t> &labels,
		const std::vector<float> &scores);
	Status label(Engine *engine, const graph::GraphRows &rows, CopyId copy, SegmentId segment, SearchControl *control);
	void make_groups(uint32_t dim);
	Status find_near_clusters(Engine *engine, uint32_t dim, SearchControl *control);
	std::vector<Candidate> count(const uint32_t *nearest, uint32_t k) const;
	double pairs_of(uint32_t group, uint32_t cluster) const;
	bool is_candidate(uint32_t group, uint32_t cluster) const
	{
		return is_candidate_[size_t{group} * n_clusters_ + cluster] != 0;
	}

	NearGroupsTuning tuning_;
	uint32_t n_rows_ = 0;
	uint32_t n_clusters_ = 0;
	std::vector<float> centroids_;        // [n_clusters, dim], until groups are made
	std::vector<uint32_t> labels_;        // [n_rows] clusters
	std::vector<uint32_t> cluster_first_; // [n_clusters + 1] into by_cluster_
	std::vector<uint32_t> by_cluster_;    // [n_rows] rows, ascending within a cluster
	std::vector<uint32_t> group_of_;      // [n_clusters]
	std::vector<uint32_t> group_first_;   // [n_groups + 1] into by_group_
	std::vector<uint32_t> by_group_;      // [n_rows] rows, cluster by cluster within a group
	std::vector<uint32_t> near_clusters_; // [n_clusters, tuning.near_clusters]; itself where there are fewer
	std::vector<uint32_t> sample_;
	std::vector<uint8_t> is_candidate_; // [n_groups, n_clusters]
};

} // namespace vectorgpu::engine
