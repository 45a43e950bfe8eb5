// The rows of a graph that is built, in a temporary copy of another engine, such as a GPU's: its exact searches find
// the nearest rows of each, of all rows or of those near its group (near_groups.hpp), and it helps with the rest of the
// build.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/cpu/near_groups.hpp"
#include "engine/graph/build.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

class SearcherRows
{
public:
	/// go_on(rows searched for): false to cancel; called by several threads. The engine, the rows and the control
	/// outlive the object.
	SearcherRows(Engine *searcher, const graph::GraphRows &rows, SearchControl *control,
		const std::function<bool(uint64_t)> &go_on);

	/// Drop the copy.
	~SearcherRows();
	SearcherRows(const SearcherRows &) = delete;
	SearcherRows &operator=(const SearcherRows &) = delete;

	/// Hand the rows to the searcher: begin(), load_more() of rows that follow each other, until all of them are there,
	/// then end(). kNo: it has no room or has failed, which does not fail the build; nothing more is called then, and
	/// the searcher keeps none of the rows.
	graph::Found begin();
	graph::Found load_more(uint32_t first, uint32_t n);
	graph::Found end();

	/// All of this.
	graph::Found load();

	/// Fill the lists as knn_graph does, by the nearest of all rows. kNo as above.
	graph::Found find(const graph::KnnLists &lists);

	/// The same by the nearest of each group's candidates, where the groups pay: then *near, else as above. groups:
	/// trained.
	graph::Found find_near(NearGroups *groups, const graph::KnnLists &lists, bool *near);

	// As graph::Helper. When the searcher has failed, they return kNo.
	graph::Helped choose_edges(const graph::EdgeJob &job);
	graph::Helped give_graph(const graph::GivenGraph &graph);
	graph::Helped search(const graph::NodeSearch &search);
	graph::Helped leave_out(const uint32_t *rows, uint32_t n);

private:
	bool has_room(uint32_t n_rows) const;
	graph::Found whole_or_dropped(graph::Found found);
	Status load_rows(uint32_t first, uint32_t n);
	/// What one thread searches with.
	struct Batch
	{
		std::vector<uint32_t> nodes;
		std::vector<SearchQuery> queries;
		std::vector<std::vector<Neighbor>> found;
	};

	Status search_all(const graph::KnnLists &lists);
	Status search_near(NearGroups *groups, const graph::KnnLists &lists, bool *near);
	Status in_threads(const std::function<Status(Batch *)> &work, size_t n_before = 0);
	Status search_some(std::span<const uint32_t> nodes, const graph::KnnLists &lists);
	Status search_groups(
		const NearGroups &groups, const std::vector<bool> &has_list, const graph::KnnLists &lists, Batch *batch);
	Status search_batch(const Passing *passing, const graph::KnnLists &lists, Batch *batch);
	void set_query(uint32_t node, SearchQuery *query) const;
	bool has_room_for(const NearGroups &groups) const;
	void take_list(uint32_t node, const std::vector<Neighbor> &found, const graph::KnnLists &lists) const;
	Status search_nodes(const graph::NodeSearch &search);

	template <class Work>
	graph::Found guarded(Work work);

	template <class Work>
	graph::Helped helped(Work work);

	Engine *const searcher_;
	const graph::GraphRows rows_;
	SearchControl *const control_;
	const std::function<bool(uint64_t)> go_on_;
	CopyId copy_ = 0;
	bool usable_ = false;                 // the copy is whole, and nothing has failed
	std::atomic<size_t> next_{0};         // row, or group
	std::atomic<uint64_t> n_searched_{0}; // rows
	std::vector<SearchQuery> queries_;    // of search_nodes
	std::vector<std::vector<Neighbor>> results_;
};

/// What asks the rows that *held points to at that time, if there are some. held outlives it.
graph::Helper helper_of(std::unique_ptr<SearcherRows> *held);

} // namespace vectorgpu::engine
