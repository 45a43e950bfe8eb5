// The entry points nearest to rows, for many rows at a time: a matrix product chooses them, canonical scores judge
// them. Internal to the folder.
#pragma once

#include "engine/graph/graph.hpp"
#include "engine/graph/search.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::graph
{

/// Entry points as columns of a matrix. A plain struct over the caller's memory. add() is called by one thread, when no
/// other searches; choose() by any number of threads, each with a NearMemory of its own.
class EntryMatrix
{
public:
	/// What a thread chooses with.
	struct NearMemory
	{
		float *floats;   // [kNearRows, dim]
		float *products; // [kNearRows, kNearColumns]
	};

	static constexpr uint32_t kNearRows = 32;   // that choose() takes at a time
	static constexpr uint32_t kNearChosen = 16; // columns that it chooses for each: those nearest by a margin

	/// Take memory for up to most_entries columns and n_tasks threads. Without columns (is_usable() is false) if the
	/// metric is not one of floats whose order is that of L2, or the memory were more than that of the rows' lists.
	void take(ivf::Arena *arena, const GraphRows &rows, uint32_t most_entries, NearMemory *tasks, size_t n_tasks);
	bool is_usable() const { return usable_; }

	/// Add entries [n_entries], of which the first n_columns() are known already, by the caller's own thread. scratch:
	/// of any thread.
	void add(const GraphRows &rows, const uint32_t *entries, uint32_t n_entries, const NearMemory &scratch);
	uint32_t n_columns() const { return n_columns_; }

	/// near [n, kNearChosen]: for each of the rows nodes [n], n at most kNearRows, the columns nearest to it, in no
	/// order; kNoNode behind the last, and where products overflow. least [n]: no other column has a canonical score
	/// below it (-infinity: that is not known). The same on every instruction set.
	void choose(const GraphRows &rows, const uint32_t *nodes, uint32_t n, uint32_t *near, double *least,
		const NearMemory &memory) const;

private:
	static constexpr uint32_t kNearColumns = 512; // of the products of a block: these fit a processor's cache
	static constexpr uint32_t kWidestPanel = 32;  // every panel's width divides it

	void set_mean(const GraphRows &rows, const uint32_t *entries, uint32_t n_entries, const NearMemory &scratch);
	/// floats [n, dim]: the rows without the mean.
	void to_floats(const GraphRows &rows, const uint32_t *nodes, uint32_t n, const NearMemory &memory) const;
	double least_score(const GraphRows &rows, uint32_t node, const float *floats, float last) const;

	bool usable_ = false;
	bool odd_ = false; // a column is so long or so short that the bound on its score does not hold
	uint32_t dim_ = 0;
	size_t panel_width_ = 0;
	uint32_t n_columns_ = 0;
	float *panels_ = nullptr;     // [capacity / panel_width, dim, panel_width]
	float *half_norms_ = nullptr; // [capacity]
	float *mean_ = nullptr;       // [dim] of the first columns: products of rows far from zero would say little
	double *sums_ = nullptr;      // [dim]
	double largest_ = 0;          // of the columns' squared lengths
};

} // namespace vectorgpu::engine::graph
