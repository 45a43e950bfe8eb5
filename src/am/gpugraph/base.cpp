// See base.hpp.
#include "am/gpugraph/base.hpp"

#include <algorithm>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kReadBytes = 1024 * 1024; // of edges, between two looks at interrupts

void
must_be_intact(const SegmentPlan *plan, bool intact)
{
	if (!intact)
		page_recycled(plan->index, 0);
}

} // namespace

GraphBase *
graph_base_begin(const SegmentPlan *plan)
{
	const GraphOptions *options = graph_options(plan->meta);
	const SegmentEntry *largest = nullptr;
	GraphBase *base;

	for (uint32 i = 0; i < plan->n_sources; i++)
	{
		const SegmentEntry *segment = &plan->meta->segments[plan->sources[i]];

		if (largest == nullptr || segment->n_rows > largest->n_rows)
			largest = segment;
	}
	// The smallest base for which the other rows are few enough.
	if (options->code_bits != 0 || largest == nullptr ||
		largest->n_rows < engine::graph::kLeastInsertRows * uint64{100 - engine::graph::kInsertPercent} / 100 ||
		largest->n_rows >= engine::graph::kNoNode)
		return nullptr;
	base = static_cast<GraphBase *>(palloc0(sizeof(GraphBase)));
	base->segment = largest;
	base->strategy = GetAccessStrategy(BAS_BULKREAD);
	must_be_intact(plan, graph_read_model(plan->index, plan->meta, largest, &base->model, base->strategy));
	// Without room for an insertion, which keeps three quarters of these rows at least, there is none for their
	// numbers.
	if (base->model.n_parts != 1 || base->model.code_bits != 0 ||
		(options->degree != 0 && base->model.degree != options->degree) ||
		largest->n_rows / 4 * 3 * (meta_vector_bytes(plan->meta) + 2 * sizeof(uint32) * (base->model.degree + 1)) >
			static_cast<Size>(maintenance_work_mem) * 1024)
	{
		FreeAccessStrategy(base->strategy);
		pfree(base);
		return nullptr;
	}
	base->numbers =
		static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, largest->n_rows * sizeof(uint32)));
	for (uint64 i = 0; i < largest->n_rows; i++)
		base->numbers[i] = engine::graph::kNoNode;
	base->most_newcomers = 2 * largest->n_rows;
	return base;
}

void
graph_base_row(GraphBase *base, const RowOrigin &origin, uint64 number, const void *vector, Size vector_bytes)
{
	if (origin.segment != base->segment)
	{
		graph_base_newcomer(base, number, vector, vector_bytes);
		return;
	}
	base->numbers[origin.number] = static_cast<uint32>(number);
	base->n_kept++;
}

uint64
graph_base_changes(const GraphBase *base, uint64 n_rows)
{
	return engine::graph::changed_rows(n_rows - base->n_kept, base->segment->n_rows - base->n_kept);
}

uint64
graph_base_changed(const GraphBase *base, uint64 n_rows)
{
	return graph_changed_rows(&base->model) + graph_base_changes(base, n_rows);
}

bool
graph_base_is_whole(const GraphBase *base, uint64 n_rows)
{
	return base->n_kept == n_rows && base->segment->n_rows == n_rows;
}

void
graph_base_renumber(const GraphBase *base, const engine::graph::BaseGraph &graph, uint32 *edges, uint32 *entries)
{
	const uint64 degree = base->model.degree;

	for (uint64 row = 0; row < graph.n_rows; row++)
	{
		const uint32 *old_edges = graph.edges + row * degree;
		uint32 *new_edges = edges + graph.numbers[row] * degree;

		for (uint64 i = 0; i < degree; i++)
			new_edges[i] =
				old_edges[i] == engine::graph::kNoNode ? engine::graph::kNoNode : graph.numbers[old_edges[i]];
	}
	for (uint32 i = 0; i < graph.n_entries; i++)
		entries[i] = graph.numbers[graph.entries[i]];
	std::sort(entries, entries + graph.n_entries);
}

void
graph_base_forget(GraphBase **base)
{
	if (*base == nullptr)
		return;
	FreeAccessStrategy((*base)->strategy);
	pfree((*base)->numbers);
	if ((*base)->newcomers != nullptr)
		pfree((*base)->newcomers);
	pfree(*base);
	*base = nullptr;
}

engine::graph::BaseGraph
graph_base_read(const SegmentPlan *plan, const GraphBase *base)
{
	const uint64 n_bytes = base->segment->n_rows * base->model.degree * sizeof(uint32);
	char *edges = static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
	engine::graph::BaseGraph graph;
	GraphPart *parts;
	uint32 *entries;

	graph.n_rows = static_cast<uint32>(base->segment->n_rows);
	graph.edges = reinterpret_cast<const uint32 *>(edges);
	for (uint64 first = 0; first < n_bytes; first += kReadBytes)
	{
		const uint64 last = Min(first + kReadBytes, n_bytes);

		CHECK_FOR_INTERRUPTS();
		must_be_intact(plan,
			stream_read(plan->index, plan->meta, base->segment, kEdgeStream, first, last - first, edges + first,
				base->strategy));
		for (uint64 i = first / sizeof(uint32); i < last / sizeof(uint32); i++)
			if (graph.edges[i] >= graph.n_rows && graph.edges[i] != engine::graph::kNoNode)
				page_corrupted(plan->index,
					base->segment->streams[static_cast<int>(kEdgeStream)].start_block +
						static_cast<BlockNumber>(i * sizeof(uint32) / kPayloadBytes),
					"An edge leads out of its segment.");
	}
	must_be_intact(plan,
		graph_read_entries(plan->index, plan->meta, base->segment, &base->model, &parts, &entries, base->strategy));
	graph.entries = entries;
	graph.n_entries = base->model.n_entries;
	graph.numbers = base->numbers;
	return graph;
}

} // namespace vectorgpu::am
