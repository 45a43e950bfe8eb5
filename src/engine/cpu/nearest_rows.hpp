// The rows of a graph that is built, in a temporary copy of another engine, such as a GPU's: its exact searches find
// the nearest rows of each, and it helps with the rest of the build.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

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

	/// Hand the rows to the searcher. kNo: it has no room or has failed, which does not fail the build.
	graph::Found load();

	/// Fill the lists as knn_graph does. kNo as above.
	graph::Found find(const graph::KnnLists &lists);

	// As graph::Helper. When the searcher has failed, they return kNo.
	graph::Helped choose_edges(const graph::EdgeJob &job);
	graph::Helped give_graph(const graph::GivenGraph &graph);
	graph::Helped search(const graph::NodeSearch &search);
	graph::Helped leave_out(const uint32_t *rows, uint32_t n);

private:
	bool has_room() const;
	Status load_rows();
	Status search_all(const graph::KnnLists &lists);
	Status search_batches(const graph::KnnLists &lists);
	bool take_list(uint32_t node, const std::vector<Neighbor> &found, const graph::KnnLists &lists) const;
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
	bool usable_ = false; // the copy is whole, and nothing has failed
	std::atomic<size_t> next_{0};
	std::vector<SearchQuery> queries_; // of search_nodes
	std::vector<std::vector<Neighbor>> results_;
};

} // namespace vectorgpu::engine
