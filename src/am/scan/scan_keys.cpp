// See scan_keys.hpp.
#include "am/scan/scan_keys.hpp"

#include "am/scan/few_rows.hpp"
#include "am/scan/scan_aliases.hpp"
#include "am/scan/scan_condition.hpp"
#include "am/scan/worker_scan.hpp"

#include <cstring>
#include <utility>

namespace vectorgpu::am
{

namespace
{

constexpr int kNullTests = SK_SEARCHNULL | SK_SEARCHNOTNULL;

/// The number of search operators on the first column.
int
scan_conditions(IndexScanDesc scan)
{
	int n = 0;

	for (int i = 0; i < scan->numberOfKeys; i++)
		n += scan->keyData[i].sk_attno == 1 && (scan->keyData[i].sk_flags & kNullTests) == 0;
	return n;
}

} // namespace

bool
scan_key_is_null(IndexScanDesc scan)
{
	for (int i = 0; i < scan->numberOfKeys; i++)
		if ((scan->keyData[i].sk_flags & SK_ISNULL) != 0 && (scan->keyData[i].sk_flags & kNullTests) == 0)
			return true;
	return false;
}

ScanKey
scan_condition(IndexScanDesc scan)
{
	for (int i = 0; i < scan->numberOfKeys; i++)
		if (scan->keyData[i].sk_attno == 1 && (scan->keyData[i].sk_flags & kNullTests) == 0)
			return &scan->keyData[i];
	return nullptr;
}

void
scan_keys_decide_recheck(IndexScanDesc scan, ScanState *state, pg::ScanWish *wish)
{
	const bool undecided = state->filter != nullptr && !key_filter_decides(state->filter);

	state->rechecks = state->rechecks || undecided || scan_conditions(scan) > (state->bounds.has_worst ? 1 : 0);
	wish->filtered = wish->filtered || undecided;
}

bool
scan_tests_null(IndexScanDesc scan, int null_test)
{
	for (int i = 0; i < scan->numberOfKeys; i++)
		if (scan->keyData[i].sk_attno == 1 && (scan->keyData[i].sk_flags & null_test) != 0)
			return true;
	return false;
}

void
scan_keys_start(IndexScanDesc scan, ScanState *state)
{
	const KeyCoder *coder = state->coder;
	MemoryContext old;
	int n = 0;

	state->not_null = scan_tests_null(scan, SK_SEARCHNOTNULL);
	for (int i = 0; i < scan->numberOfKeys; i++)
		n += scan->keyData[i].sk_attno > 1;
	if (n == 0 && state->tree == nullptr && state->rows == nullptr)
		return;
	if (coder != nullptr)
		key_coder_check(scan->indexRelation, coder, &state->meta.keys);
	old = MemoryContextSwitchTo(state->context);
	state->filter = static_cast<KeyFilter *>(palloc0(sizeof(KeyFilter)));
	state->filter->context = state->context;
	make_key_program(coder != nullptr ? coder->columns : nullptr, coder != nullptr ? coder->layout.n_columns : 0,
		scan->keyData, scan->numberOfKeys, state->tree, &state->filter->conditions);
	state->filter->rows = state->rows;
	if (state->rows != nullptr)
		state->filter->entries = *state->rows;
	state->counters->has_filter = true;
	MemoryContextSwitchTo(old);
	if (!scan_find_entries(scan->indexRelation, state))
		scan_read_version(scan->indexRelation, scan->xs_snapshot, state);
}

void
scan_condition_set(IndexScanDesc scan, const KeyTree *tree)
{
	static_cast<ScanState *>(scan->opaque)->tree = tree;
}

void
scan_rows_set(IndexScanDesc scan, const RowSet *rows)
{
	static_cast<ScanState *>(scan->opaque)->rows = rows;
}

void
scan_nan_set(IndexScanDesc scan, NanRows rows)
{
	static_cast<ScanState *>(scan->opaque)->nan_rows = rows;
}

void
scan_unordered_set(IndexScanDesc scan, bool unordered)
{
	static_cast<ScanState *>(scan->opaque)->unordered = unordered;
}

void
scan_few_pass_set(IndexScanDesc scan, bool few_pass)
{
	static_cast<ScanState *>(scan->opaque)->few_pass = few_pass;
}

void
scan_keys_leave(IndexScanDesc scan, ScanState *state, pg::ScanWish *wish)
{
	KeyFilter *filter = std::exchange(state->filter, nullptr);
	const bool asks = filter != nullptr && bypass_of(scan->indexRelation, state) == Bypass::kNone;
	uint64 n_passing = 0;
	uint64 n_rows = 0;
	MemoryContext old;

	state->filter = filter;
	if (!asks)
		return;
	old = MemoryContextSwitchTo(state->batch_context);
	if (!worker_takes_conditions(scan->indexRelation, state))
		for (uint32 i = 0; i < state->meta.n_segments; i++)
		{
			const SegmentEntry *segment = &state->meta.segments[i];
			const PassingRows *passing =
				key_filter_rows(filter, scan->indexRelation, &state->meta, segment, state->strategy);

			if (passing == nullptr)
				break; // the manifest will be read again
			n_passing += passing->n_rows;
			n_rows += segment->n_rows;
		}
	MemoryContextSwitchTo(old);
	MemoryContextReset(state->batch_context);
	if (n_passing <= n_rows / kFewOfApproximate)
		return;
	state->filter = nullptr;
	state->rechecks = true;
	state->counters->n_passing = n_passing;
	state->counters->filter_ways |= kFilterRecheck;
	wish->filtered = true;
	wish->selectivity *= static_cast<double>(n_passing) / static_cast<double>(n_rows);
}

} // namespace vectorgpu::am
