// See smooth_path.hpp.
#include "engine/graph/smooth_path.hpp"

#include <algorithm>

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kNone = UINT32_MAX;

bool
shorter(const PathEdge &x, const PathEdge &y)
{
	if (x.length != y.length)
		return x.length < y.length;
	const uint32_t x_low = std::min(x.a, x.b);
	const uint32_t y_low = std::min(y.a, y.b);

	return x_low != y_low ? x_low < y_low : std::max(x.a, x.b) < std::max(y.a, y.b);
}

} // namespace

size_t
SmoothPath::bytes(uint32_t n_nodes)
{
	const size_t n = n_nodes;

	return capacity(n_nodes) * sizeof(PathEdge) + (n + 1) * sizeof(size_t) + 4 * n * sizeof(uint32_t);
}

SmoothPath::SmoothPath(uint32_t n_nodes, void *memory, void (*pause)())
	: n_nodes_(n_nodes), edges_(static_cast<PathEdge *>(memory)),
	  first_(reinterpret_cast<size_t *>(edges_ + capacity(n_nodes))),
	  ends_(reinterpret_cast<uint32_t *>(first_ + n_nodes + 1)), parents_(ends_ + 2 * static_cast<size_t>(n_nodes)),
	  queue_(parents_ + n_nodes), pause_(pause)
{
}

void
SmoothPath::add(const PathEdge &edge)
{
	if (n_edges_ == capacity(n_nodes_))
		shrink(); // to n_nodes - 1 at most
	edges_[n_edges_++] = edge;
}

uint32_t
SmoothPath::root(uint32_t node)
{
	while (parents_[node] != node)
	{
		parents_[node] = parents_[parents_[node]];
		node = parents_[node];
	}
	return node;
}

/// Kruskal (1956): keep those edges, shortest first, that join two trees.
void
SmoothPath::shrink()
{
	size_t kept = 0;

	for (uint32_t i = 0; i < n_nodes_; i++)
		parents_[i] = i;
	std::sort(edges_, edges_ + n_edges_,
		[this](const PathEdge &x, const PathEdge &y)
		{
			step();
			return shorter(x, y);
		});
	for (size_t i = 0; i < n_edges_; i++)
	{
		step();

		const uint32_t a = root(edges_[i].a);
		const uint32_t b = root(edges_[i].b);

		if (a == b)
			continue;
		parents_[std::max(a, b)] = std::min(a, b);
		edges_[kept++] = edges_[i];
	}
	n_edges_ = kept;
}

/// Root the tree of `from` at it: parents_ become edges, kNone for `from` and for nodes of other trees.
void
SmoothPath::hang(uint32_t from)
{
	size_t head = 0;
	size_t tail = 0;

	std::fill(first_, first_ + n_nodes_ + 1, 0);
	for (size_t i = 0; i < n_edges_; i++)
	{
		first_[edges_[i].a]++;
		first_[edges_[i].b]++;
	}
	for (uint32_t i = 1; i <= n_nodes_; i++)
		first_[i] += first_[i - 1]; // the end of each
	for (size_t i = n_edges_; i-- > 0;)
	{
		ends_[--first_[edges_[i].a]] = static_cast<uint32_t>(i);
		ends_[--first_[edges_[i].b]] = static_cast<uint32_t>(i);
	}
	std::fill(parents_, parents_ + n_nodes_, kNone);
	queue_[tail++] = from;
	while (head < tail)
	{
		const uint32_t node = queue_[head++];

		step();

		for (size_t i = first_[node]; i < first_[node + 1]; i++)
		{
			const PathEdge &edge = edges_[ends_[i]];
			const uint32_t other = edge.a == node ? edge.b : edge.a;

			if (ends_[i] == parents_[node])
				continue; // the edge to its parent; a tree has no other way back
			parents_[other] = ends_[i];
			queue_[tail++] = other;
		}
	}
}

uint32_t
SmoothPath::find(uint32_t from, uint32_t to, uint32_t *nodes, double *lengths)
{
	uint32_t n = 0;

	shrink();
	hang(from);
	for (uint32_t node = to;;)
	{
		const uint32_t edge = parents_[node];

		nodes[n] = node;
		lengths[n++] = node == from ? 0 : edge == kNone ? 0 : edges_[edge].length;
		if (node == from)
			break;
		if (edge == kNone)
			return 0;
		node = edges_[edge].a == node ? edges_[edge].b : edges_[edge].a;
	}
	std::reverse(nodes, nodes + n);
	std::reverse(lengths, lengths + n);
	return n;
}

} // namespace vectorgpu::engine::graph
