// See table_size.hpp.
#include "am/filtered/table_size.hpp"

#include "am/filtered/bitmap_path.hpp"
#include "am/filtered/range_clauses.hpp"

extern "C"
{
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
}

#include <utility>

namespace vectorgpu::am
{

namespace
{

void
scale_rows(List *paths, double factor)
{
	ListCell *cell;

	foreach (cell, paths)
	{
		Path *path = static_cast<Path *>(lfirst(cell));

		path->rows = clamp_row_est(path->rows * factor);
	}
}

/// Compute the costs of the paths in order of a distance anew.
void
cost_orders(PlannerInfo *root, RelOptInfo *rel)
{
	List *paths = NIL;
	ListCell *cell;

	// add_path() frees the paths that it drops, but index paths.
	foreach (cell, rel->pathlist)
	{
		const IndexPath *path = static_cast<const IndexPath *>(lfirst(cell));

		if (IsA(path, IndexPath) && path->indexorderbys != NIL && is_ours(path->indexinfo))
			paths = lappend(paths, lfirst(cell));
	}
	foreach (cell, paths)
	{
		IndexPath *path = lfirst_node(IndexPath, cell);

		rel->pathlist = list_delete_ptr(rel->pathlist, path);
		cost_index(path, root, range_loops(root, PATH_REQ_OUTER(&path->path)), false);
		add_path(rel, &path->path);
	}
}

/// Compute the costs of the list's paths, and make the list anew. partial: it is that of partial paths.
void
cost_list(PlannerInfo *root, RelOptInfo *rel, List **paths, bool partial)
{
	const List *before = std::exchange(*paths, NIL);
	const ListCell *cell;

	foreach (cell, before)
	{
		Path *path = static_cast<Path *>(lfirst(cell));
		BitmapHeapPath *heap = reinterpret_cast<BitmapHeapPath *>(path);

		if (PATH_REQ_OUTER(path) == nullptr && IsA(path, IndexPath))
			cost_index(reinterpret_cast<IndexPath *>(path), root, 1, partial);
		else if (PATH_REQ_OUTER(path) == nullptr && IsA(path, BitmapHeapPath) && IsA(heap->bitmapqual, IndexPath))
		{
			cost_index(reinterpret_cast<IndexPath *>(heap->bitmapqual), root, 1, false);
			cost_bitmap_heap_scan(path, root, rel, path->param_info, heap->bitmapqual, 1);
		}
		if (partial)
			add_partial_path(rel, path);
		else
			add_path(rel, path);
	}
}

} // namespace

void
size_anew(PlannerInfo *root, RelOptInfo *rel)
{
	const double before = rel->rows;
	ListCell *cell;

	set_baserel_size_estimates(root, rel);
	foreach (cell, rel->ppilist)
	{
		ParamPathInfo *parameters = lfirst_node(ParamPathInfo, cell);

		parameters->ppi_rows = clamp_row_est(parameters->ppi_rows * rel->rows / before);
	}
	scale_rows(rel->pathlist, rel->rows / before);
	scale_rows(rel->partial_pathlist, rel->rows / before);
	cost_orders(root, rel);
}

void
cost_anew(PlannerInfo *root, RelOptInfo *rel)
{
	cost_list(root, rel, &rel->pathlist, false);
	cost_list(root, rel, &rel->partial_pathlist, true);
	add_path(rel, create_seqscan_path(root, rel, rel->lateral_relids, 0));
}

} // namespace vectorgpu::am
