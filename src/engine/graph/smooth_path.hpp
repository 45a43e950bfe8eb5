// The smoothest path between two nodes: of all paths the one whose largest edge is smallest (Johnson, Douze, Jégou
// 2017, "Billion-scale similarity search with GPUs", section 6.6, equation 12). Such paths lie in a minimum spanning
// forest (Hu 1961, "The maximum capacity route problem"), which is kept while edges come in any number: memory is
// linear in the nodes, whatever the edges are. Plain functions over the caller's memory: no allocation, no exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::graph
{

/// Undirected. Sorts by (length, lower node, higher node), so that ties are decided the same way in whatever order
/// edges come.
struct PathEdge
{
	double length; // not NaN
	uint32_t a;
	uint32_t b;
};

class SmoothPath
{
public:
	/// Bytes of memory for so many nodes, aligned as PathEdge.
	static size_t bytes(uint32_t n_nodes);

	/// pause: called several times a second while edges are sorted and followed; may leave by longjmp, and the object
	/// is then of no more use. May be null.
	SmoothPath(uint32_t n_nodes, void *memory, void (*pause)() = nullptr);

	/// Takes an edge between two different nodes. Every n_nodes edges or so sorts O(n_nodes) of them.
	void add(const PathEdge &edge);

	/// After the last edge: the nodes on the way from `from` to `to`, both included, into nodes [n_nodes], and the
	/// length of the edge that leads to each, into lengths [n_nodes] (0 for the first). Returns how many; 0 if no path
	/// leads there. Every part of the path is itself the smoothest between its ends.
	uint32_t find(uint32_t from, uint32_t to, uint32_t *nodes, double *lengths);

private:
	/// A step of something that takes n_nodes of them or more.
	void step()
	{
		if (++n_steps_ % kStepsPerPause == 0 && pause_ != nullptr)
			pause_();
	}
	void shrink();
	uint32_t root(uint32_t node);
	void hang(uint32_t from);

	static size_t capacity(uint32_t n_nodes) { return 2 * static_cast<size_t>(n_nodes) + 64; }

	static constexpr uint32_t kStepsPerPause = 1 << 16; // some milliseconds

	uint32_t n_nodes_;
	size_t n_edges_ = 0;
	PathEdge *edges_;   // [capacity]: the forest of those before, then new ones
	size_t *first_;     // [n_nodes + 1]: of its edges in ends_
	uint32_t *ends_;    // [2 * n_nodes]: numbers of edges
	uint32_t *parents_; // [n_nodes]: of the union-find structure; then the edge that leads back to `from`
	uint32_t *queue_;   // [n_nodes]
	void (*pause_)();
	uint32_t n_steps_ = 0;
};

} // namespace vectorgpu::engine::graph
