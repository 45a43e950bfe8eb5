// See ahead_node.hpp. The node reads rows of its child in batches and hands them on one by one. Before it hands on the
// first one of a batch, the searches for all of them have been made.
#include "am/ahead/ahead_node.hpp"

#include "am/ahead/ahead_path.hpp"

extern "C"
{
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint32 kMostBatch = 4096;
constexpr uint32 kGrowth = 2;
constexpr uint32 kMostPauses = 6;      // the pause doubles up to this number of times
constexpr uint64 kLeastHitShare = 4;   // of the searches made: if a smaller part was asked for, no more are made
constexpr uint64 kEnoughToJudge = 256; // searches

AheadNodeState *
state_of(CustomScanState *node)
{
	return reinterpret_cast<AheadNodeState *>(node);
}

/// True if the scans ask for so little of what was searched for that it does not pay: their requests cannot be
/// foreseen.
bool
misses(const AheadNodeState *state)
{
	uint64 n_searches = 0;
	uint64 n_hits = 0;

	for (uint32 i = 0; i < state->n_scans; i++)
	{
		n_searches += state->scans[i].table->n_searches;
		n_hits += state->scans[i].table->n_hits;
	}
	return n_searches >= kEnoughToJudge && n_hits < n_searches / kLeastHitShare;
}

/// The rows of the next batch; 1: its searches are not made ahead.
uint32
batch_size(AheadNodeState *state)
{
	Size bytes;

	if (state->n_scans == 0 || state->given_up)
		return 1;
	if (state->pause > 0)
	{
		state->pause--;
		return 1;
	}
	bytes = ahead_attach(state);
	if (bytes == 0) // no scan has made a search yet
		return 1;
	return static_cast<uint32>(Max(Min(uint64{state->size}, ahead_bytes(kPartsOfAnswers) / bytes), UINT64CONST(1)));
}

/// Hand rows on before the node tries again, twice as many each time.
void
back_off(AheadNodeState *state)
{
	state->pause = kAheadFirstBatch << Min(state->n_failed++, kMostPauses);
}

/// Get the child's next row; null at its end.
TupleTableSlot *
next_row(AheadNodeState *state)
{
	const MemoryContext batch = MemoryContextSwitchTo(state->node.custom.ss.ps.state->es_query_cxt);
	TupleTableSlot *row = ExecProcNode(state->child); // what the child keeps outlives the batch

	MemoryContextSwitchTo(batch);
	state->done = TupIsNull(row);
	return state->done ? nullptr : row;
}

/// Read rows, up to `most`, noting the searches for each. first: a row of the batch that was read already; null: none.
void
read_rows(AheadNodeState *state, uint32 most, bool ahead, MinimalTuple first)
{
	TupleTableSlot *row = state->node.custom.ss.ss_ScanTupleSlot;
	Size bytes = 0;

	state->rows = static_cast<MinimalTuple *>(palloc(most * sizeof(MinimalTuple)));
	if (first != nullptr)
		ExecForceStoreMinimalTuple(first, row, false);
	while (state->n_rows < most && bytes < ahead_bytes(kPartsOfRows))
	{
		CHECK_FOR_INTERRUPTS();
		if (first == nullptr && (row = next_row(state)) == nullptr)
			break;
		state->rows[state->n_rows] = first != nullptr ? first : ExecCopySlotMinimalTuple(row);
		bytes += state->rows[state->n_rows++]->t_len;
		if (ahead)
			ahead_want_row(state, row);
		first = nullptr;
	}
}

/// Before the first batch: read its first row, and foresee the search for it. Returns the row, in the current context;
/// null if there is none.
MinimalTuple
foresee(AheadNodeState *state)
{
	TupleTableSlot *row = next_row(state);
	MinimalTuple copy;

	state->foreseen = true;
	if (row == nullptr)
		return nullptr;
	copy = ExecCopySlotMinimalTuple(row);
	ahead_foresee_first(state, row);
	return copy;
}

/// Read the next batch, and make its searches.
void
next_batch(AheadNodeState *state)
{
	const MemoryContext old = MemoryContextSwitchTo(state->batch);
	MinimalTuple first = nullptr;
	uint32 most;
	bool ahead;

	MemoryContextReset(state->batch);
	state->n_rows = state->next = 0;
	if (!state->foreseen && state->n_scans > 0)
		first = foresee(state);
	state->given_up = state->given_up || misses(state);
	most = batch_size(state);
	ahead = most > 1 && ahead_begin_batch(state, most);
	if (!ahead && most > 1)
	{
		most = 1;
		back_off(state);
	}
	if (!state->done)
		read_rows(state, most, ahead, first);
	if (ahead && state->n_rows > 1)
	{
		if (ahead_search_batch(state))
		{
			state->n_batches++;
			state->n_failed = 0;
			state->size = Min(state->size * kGrowth, kMostBatch);
		}
		else
			back_off(state);
	}
	MemoryContextSwitchTo(old);
}

TupleTableSlot *
exec(CustomScanState *node)
{
	AheadNodeState *state = state_of(node);
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (!state->prepared)
		ahead_find_scans(state);
	if (state->next == state->n_rows && !state->done)
		next_batch(state);
	if (state->next == state->n_rows)
		return ExecClearTuple(slot);
	ExecForceStoreMinimalTuple(state->rows[state->next++], slot, false);
	if (node->ss.ps.ps_ProjInfo == nullptr)
		return slot;
	ResetExprContext(node->ss.ps.ps_ExprContext);
	node->ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(node->ss.ps.ps_ProjInfo);
}

void
begin(CustomScanState *node, EState *estate, int eflags)
{
	AheadNodeState *state = state_of(node);
	const CustomScan *plan = reinterpret_cast<const CustomScan *>(node->ss.ps.plan);

	state->child = ExecInitNode(linitial_node(Plan, plan->custom_plans), estate, eflags);
	node->custom_ps = list_make1(state->child);
	state->batch = AllocSetContextCreate(estate->es_query_cxt, "vectorgpu read ahead", ALLOCSET_DEFAULT_SIZES);
	state->size = kAheadFirstBatch;
}

void
forget_rows(AheadNodeState *state)
{
	ExecClearTuple(state->node.custom.ss.ss_ScanTupleSlot);
	MemoryContextReset(state->batch);
	state->n_rows = state->next = 0;
	state->done = false;
}

void
end(CustomScanState *node)
{
	forget_rows(state_of(node));
	ExecEndNode(state_of(node)->child);
}

/// What was read is dropped: parameters from further out may have changed.
void
rescan(CustomScanState *node)
{
	AheadNodeState *state = state_of(node);

	forget_rows(state);
	if (node->ss.ps.chgParam != nullptr)
		UpdateChangedParamSet(state->child, node->ss.ps.chgParam);
	if (state->child->chgParam == nullptr)
		ExecReScan(state->child);
	state->size = kAheadFirstBatch;
}

const CustomExecMethods exec_methods = {pg::kReadAheadName, begin, exec, end, rescan, nullptr, nullptr, nullptr,
	nullptr, nullptr, nullptr, nullptr, ahead_explain};

Node *
create_state([[maybe_unused]] CustomScan *plan)
{
	AheadNodeState *state = static_cast<AheadNodeState *>(palloc0(sizeof(AheadNodeState)));

	NodeSetTag(state, T_CustomScanState);
	state->node.custom.methods = &exec_methods;
	return reinterpret_cast<Node *>(state);
}

} // namespace

const CustomScanMethods ahead_plan_methods = {pg::kReadAheadName, create_state};

void
ahead_node_install()
{
	RegisterCustomScanMethods(&ahead_plan_methods);
}

} // namespace vectorgpu::am
