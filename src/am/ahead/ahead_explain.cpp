// What EXPLAIN shows of the node that reads ahead: with ANALYZE, what it has done in this process.
#include "am/ahead/ahead_node.hpp"

#include "pg/explain_hook.hpp"

namespace vectorgpu::am
{

void
ahead_explain(CustomScanState *node, [[maybe_unused]] List *ancestors, ExplainState *es)
{
	const AheadNodeState *state = reinterpret_cast<const AheadNodeState *>(node);
	uint64 n_searches = 0;
	uint64 n_hits = 0;

	if (!es->analyze)
		return;
	for (uint32 i = 0; i < state->n_scans; i++)
	{
		n_searches += state->scans[i].table->n_searches;
		n_hits += state->scans[i].table->n_hits;
	}
	ExplainPropertyUInteger("Batches", nullptr, state->n_batches, es);
	ExplainPropertyUInteger("Searches", nullptr, n_searches, es);
	ExplainPropertyUInteger("Hits", nullptr, n_hits, es);
}

} // namespace vectorgpu::am
