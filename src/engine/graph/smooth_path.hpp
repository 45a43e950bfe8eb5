// The smoothest path between two nodes: the one whose largest edge is smallest (Johnson, Douze, Jégou 2017,
// "Billion-scale similarity search with GPUs", section 6.6, equation 12). Such paths lie in a minimum spanning forest
// (Hu 1961, "The maximum capacity route problem"), which is maintained while edges are added in any number: memory is
// linear in the nodes, however many edges come. Plain functions over the caller's memory: no allocation, no exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine::graph
{

/// An undirected edge. Edges are sorted by (length, lower node, higher node), so that ties do not depend on the order
/// in which edges come.
struct PathEdge
{
	double length; // not NaN
	uint32_t a;
	uint32_t b;
};

class SmoothPath
{
public:
	/// Bytes of memory for n_nodes, aligned as PathEdge.
	static size_t bytes(uint32_t n_nodes);

	/// pause: called several times a second while edges are sorted and followed; may be null. It may leave by longjmp;
	/// the object is useless then.
	SmoothPath(uint32_t n_nodes, void *memory, void (*pause)() = nullptr);

	/// Add an edge between two different nodes. Every n_nodes edges or so this sorts O(n_nodes) of them.
	void add(const PathEdge &edge);

	/// After the last edge: set nodes [n_nodes] to the path from `from` to `to`, both included, and lengths [n_nodes]
	/// to the length of the edge that leads to each (0 for the first). Return the number of nodes; 0 if there is no
	/// path. Every part of the path is itself the smoothest between its ends.
	uint32_t find(uint32_t from, uint32_t to, uint32_t *nodes, double *lengths);

private:
	/// Count a step of a loop of n_nodes steps or more; calls pause.
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
	PathEdge *edges_;   // [capacity]: the forest of earlier edges, then new ones
	size_t *first_;     // [n_nodes + 1]: where a node's edges begin in ends_
	uint32_t *ends_;    // [2 * n_nodes]: numbers of edges
	uint32_t *parents_; // [n_nodes]: of the union-find structure; then the edge that leads back to `from`
	uint32_t *queue_;   // [n_nodes]
	void (*pause_)();
	uint32_t n_steps_ = 0;
};

} // namespace vectorgpu::engine::graph
