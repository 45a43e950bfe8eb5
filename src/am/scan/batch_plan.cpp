// See batch_plan.hpp.
#include "am/scan/batch_plan.hpp"

#include "am/scan/few_rows.hpp"
#include "am/scan/scan_settings.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kFirstBatch = 100; // rows of an exact order, when no LIMIT is known
constexpr uint64 kBatchGrowth = 16; // each further batch is larger by this factor
// Where steps end. Each is a search of its own, so that few are better; but each is as wide as its end wants, so they
// should end at common LIMITs.
constexpr uint64 kStepEnds[] = {10, 32, 112, 352, 1024};
constexpr uint64 kFewRows = 32; // of a table with at most twice as many rows all are looked at
// The share of the rows missed by a step that is lost: wider searches miss the others too. Measured: with 1, .9 of 100
// rows were .916 (arXiv, gpuivf) and .922 (gpugraph).
constexpr double kLost = 0.8;
constexpr uint64 kStepGrowth = 4;     // behind these each step ends at a rank larger by this factor
constexpr uint64 kLargeDelta = 4096;  // rows; comparing them takes longer than a first step as long as three
constexpr double kFewPass = 1.0 / 16; // of a smaller share the next step is as long as two
// In an exact order a batch that is too short costs another pass over all rows; one that is too long costs next to
// nothing.
constexpr double kMargin = 1.25;
constexpr uint64 kMoreRows = 8;
constexpr uint64 kMostTimes = 4;      // a first batch for a LIMIT, whatever the planner expects of its conditions
constexpr uint64 kMostOfTable = 2;    // more than this part of the rows is most of them
constexpr uint64 kDeadTimes = 8;      // the index holds at most this multiple of the live rows
constexpr double kMostPlanned = 1000; // batches that the planner counts
constexpr double kPriorRows = 8;      // the planner's expectation counts as this number of rows seen

/// True if n rows are half of the live ones, or more. The index counts dead rows as well, the table's statistics may be
/// old.
bool
is_most(IndexScanDesc scan, uint64 n, uint64 n_rows)
{
	const double live = scan->heapRelation != nullptr ? scan->heapRelation->rd_rel->reltuples : 0;

	return n > n_rows / kMostOfTable ||
		(live > 0 && static_cast<double>(n) * kMostOfTable >= live && n > n_rows / kMostOfTable / kDeadTimes);
}

/// True if the Limit wants most of the rows that meet the conditions on key columns, as the planner expects or, where
/// they are left to the executor, as codes have shown: a scan by steps would go to its end, without the rows that each
/// step has missed.
bool
is_most_of_passing(IndexScanDesc scan, const ScanState *state, uint64 n_rows, const pg::ScanWish *wish)
{
	const double live = scan->heapRelation != nullptr ? scan->heapRelation->rd_rel->reltuples : 0;
	double passing;

	if (!state->counters->has_filter)
		return false;
	if (state->filter == nullptr)
		passing = static_cast<double>(state->counters->n_passing);
	else
		passing = wish->expected * (live > 0 ? Min(live, static_cast<double>(n_rows)) : static_cast<double>(n_rows));
	return static_cast<double>(state->plan.wanted) * kMostOfTable >= Max(passing, 1.0);
}

/// The share of rows that reached the Limit in the last scan of an index that had to ask twice, though it has no
/// conditions: the others were dead. It fades with each further scan, since a vacuum changes it.
struct LiveShare
{
	Oid index;
	double share;
};

constexpr int kLiveShares = 16;
constexpr double kFade = 0.02;
constexpr double kAllLive = 0.995;

LiveShare live_shares[kLiveShares];

LiveShare *
live_share(IndexScanDesc scan)
{
	return &live_shares[RelationGetRelid(scan->indexRelation) % kLiveShares];
}

double
expected_live(IndexScanDesc scan)
{
	LiveShare *live = live_share(scan);

	if (live->index != RelationGetRelid(scan->indexRelation))
		return 1;
	live->share += (1 - live->share) * kFade;
	return live->share < kAllLive ? live->share : 1;
}

/// The share of the scan's rows so far that the Limit has received; what was expected, where that is not known.
double
share_so_far(IndexScanDesc scan, const ScanState *state)
{
	uint64 received;

	if (state->place.n_before == 0 || !pg::scan_received(scan, &received))
		return state->plan.expected_share;
	return (static_cast<double>(received) + kPriorRows * state->plan.expected_share) /
		(static_cast<double>(state->place.n_before) + kPriorRows);
}

/// The same by what was received alone, so that an ANALYZE between two pages changes nothing.
bool
few_pass(IndexScanDesc scan, const ScanState *state)
{
	uint64 received;

	if (!pg::scan_received(scan, &received))
		return state->plan.expected_share < kFewPass;
	return static_cast<double>(received) < kFewPass * static_cast<double>(state->place.n_before);
}

/// True if each step takes its time for the delta. Its rows are older versions of others often, which are dead and make
/// a second step likely.
bool
delta_is_large(const ScanState *state)
{
	return state->delta_end - Min(state->delta_end, state->meta.delta_first_row) > kLargeDelta;
}

/// Begins the next step of ranks; returns the rows that it asks for.
uint64
next_step(IndexScanDesc scan, ScanState *state)
{
	state->plan.step_begin = state->plan.step_end;
	state->plan.step_end = batch_plan_step_end(state->plan.step_begin);
	if (state->plan.step_begin > 0 && few_pass(scan, state))
		state->plan.step_end = batch_plan_step_end(state->plan.step_end);
	else if (state->plan.step_begin == 0 && delta_is_large(state))
		state->plan.step_end = batch_plan_step_end(batch_plan_step_end(state->plan.step_end));
	state->plan.from_first = !state->rounds.relaxed &&
		state->plan.step_end <= Min(state->am->approximate->most_from_first, state->plan.max_batch_size);
	return state->plan.from_first ? state->plan.step_end : state->plan.step_end - state->plan.step_begin;
}

/// Rows of an exact order for `left` rows that are still to pass.
uint64
rows_for(uint64 left, double share)
{
	const double rows = std::ceil(static_cast<double>(left) / share * kMargin) + static_cast<double>(kMoreRows);

	return rows < static_cast<double>(PG_INT64_MAX) ? static_cast<uint64>(rows) : PG_INT64_MAX;
}

/// wanted: rows that are to pass; 0: not known. in_range: then, those that are expected within a bound; 0: not known.
uint64
first_batch(uint64 wanted, uint64 in_range, double expected_share)
{
	if (wanted == 0)
		return std::max(kFirstBatch, in_range > 0 ? rows_for(in_range, 1) : 0);
	if (expected_share >= 1)
		return wanted;
	return std::min(rows_for(wanted, expected_share), kMostTimes * wanted + kFirstBatch);
}

/// The batch behind n_before rows, the last of them in a batch of `size`, for `left` rows that are still to pass.
uint64
batch_behind(uint64 n_before, uint64 size, uint64 left, double share)
{
	const uint64 most = size * kBatchGrowth;

	return std::clamp(rows_for(left, share), std::min(n_before, most), most);
}

uint64
next_batch(IndexScanDesc scan, const ScanState *state)
{
	uint64 received;

	if (state->plan.wanted == 0 || !pg::scan_received(scan, &received) || received >= state->plan.wanted)
		return state->batch.size * kBatchGrowth;
	if (!state->plan.filtered)
		*live_share(scan) = {RelationGetRelid(scan->indexRelation), share_so_far(scan, state)};
	return batch_behind(
		state->place.n_before, state->batch.size, state->plan.wanted - received, share_so_far(scan, state));
}

/// True if few rows were expected to meet the conditions, so that the first batch asked for all that the Limit wants,
/// and more do. Its rows are not those of steps, even if it has looked at all.
bool
expected_too_few(ScanState *state)
{
	const bool expected = std::exchange(state->plan.expects_few, false);

	return expected && state->plan.by_rank && state->phase == ScanPhase::kScored &&
		(!state->rounds.exhaustive || state->counters->n_passing * kFewOfApproximate > scan_rows_at_most(state));
}

/// True if the first step has shown that the Limit wants most of the rows that meet the conditions.
bool
turns_exact(ScanState *state)
{
	const uint64 n_delta = state->delta_end - Min(state->delta_end, state->meta.delta_first_row);

	if (!state->plan.may_turn_exact || !state->plan.by_rank || state->plan.step_begin > 0 || state->rounds.exhaustive ||
		state->filter == nullptr || !key_filter_decides(state->filter) ||
		state->plan.wanted * kMostOfTable < state->counters->n_passing + n_delta)
		return false;
	state->plan.exact = true;
	state->plan.by_rank = state->plan.from_first = false;
	return true;
}

} // namespace

void
batch_plan_start(IndexScanDesc scan, ScanState *state, const pg::ScanWish *wish)
{
	const bool approximate = state->am->approximate != nullptr && state->phase == ScanPhase::kScored;
	const bool strict = !state->rounds.relaxed;
	const uint64 n_rows = scan_rows_at_most(state);
	const bool in_range = state->bounds.bounded && (wish->end <= pg::ScanEnd::kNothing || state->unordered);
	// Without a recall target nothing says which share of the rows would be found.
	const bool approximate_range = in_range && approximate && state->am->approximate->describe_reach != nullptr &&
		range_search() == RangeSearch::kApproximate && !wish->changes_rows && wish->expected * kMostOfTable <= 1;

	state->plan.in_range = in_range ? static_cast<uint64>(wish->expected * static_cast<double>(n_rows)) : 0;
	state->plan.wanted = wish->end == pg::ScanEnd::kCount ? Max(Min(wish->rows, n_rows), UINT64CONST(1)) : 0;
	state->plan.filtered = wish->filtered;
	state->plan.expected_share = wish->selectivity * (state->am->approximate != nullptr ? 1 : expected_live(scan));
	state->batch.size = 0;
	state->plan.from_first = false;
	state->plan.step_begin = state->plan.step_end = 0;
	// A row that a later step finds before the last one returned would be missing from the whole. So would one below a
	// bound that another row has passed, even if late rows are returned.
	state->plan.exact = approximate && !state->plan.one_search &&
		(state->plan.given_exact ||
			((in_range || (strict && wish->end <= pg::ScanEnd::kNothing)) && !approximate_range) ||
			(strict && !wish->shared &&
				(is_most(scan, state->plan.wanted, n_rows) || is_most_of_passing(scan, state, n_rows, wish))) ||
			is_most(scan, kFewRows, n_rows));
	state->plan.may_turn_exact = strict && !wish->shared && wish->end == pg::ScanEnd::kCount;
	state->plan.by_rank = approximate && !state->plan.exact && !state->plan.one_search;
	state->plan.expects_few = state->plan.by_rank && state->filter != nullptr && state->am->values == nullptr &&
		((in_range && state->few_pass) ||
			(state->plan.wanted > kStepEnds[0] && wish->selectivity >= 1 && wish->expected * kFewOfApproximate <= 1));
}

bool
batch_plan_asks_again(ScanState *state)
{
	if (!expected_too_few(state) && !turns_exact(state))
		return false;
	state->plan.step_begin = state->plan.step_end = 0;
	state->batch.size = state->batch.n_rows = 0;
	state->aliases.n_held = state->out.n = state->out.next = 0; // they come again
	state->rounds.round = 0;
	state->rounds.exhaustive = false;
	return true;
}

uint64
batch_plan_step_end(uint64 rank)
{
	uint64 end = 0;

	for (const uint64 step_end : kStepEnds)
	{
		end = step_end;
		if (rank < end)
			return end;
	}
	while (end <= rank)
		end *= kStepGrowth;
	return end;
}

double
batch_plan_target(double target, uint64 n_before, uint64 end)
{
	double lost_of = 0; // ranks at whose ends rows were lost: a share of 1 - target of each

	for (uint64 step_end = batch_plan_step_end(0); step_end <= n_before; step_end = batch_plan_step_end(step_end))
		lost_of += kLost * static_cast<double>(step_end);
	return 1 - (1 - target) * static_cast<double>(end) / (static_cast<double>(end) + lost_of);
}

bool
batch_plan_next_step(const ScanDemand &demand, uint64 *begin, uint64 *end)
{
	*begin = *end;
	if (static_cast<double>(*begin) >= demand.visited)
		return false;
	if (demand.share >= 1 && !scan_pages_are_stable())
		*end = static_cast<uint64>(std::ceil(demand.visited));
	else
		*end = batch_plan_step_end(*begin);
	if (*begin > 0 && demand.share < kFewPass)
		*end = batch_plan_step_end(*end);
	return true;
}

double
batch_plan_exact_batches(const ScanDemand &demand, double n_before, double size)
{
	const double most = static_cast<double>(work_mem) * 1024 / (2 * sizeof(engine::Neighbor));
	double n = 0;

	for (; n_before < demand.visited && n < kMostPlanned; n++)
	{
		if (size == 0)
			size = static_cast<double>(first_batch(static_cast<uint64>(std::ceil(demand.wanted)), 0, demand.share));
		else
			size = static_cast<double>(batch_behind(static_cast<uint64>(n_before), static_cast<uint64>(size),
				static_cast<uint64>(Max(demand.wanted - n_before * demand.share, 1.0)), demand.share));
		size = Min(size, most);
		n_before += size;
	}
	return n;
}

uint64
batch_plan_rows(IndexScanDesc scan, ScanState *state)
{
	if (state->plan.by_rank && state->phase == ScanPhase::kScored && !state->rounds.exhaustive &&
		!state->plan.expects_few)
		return next_step(scan, state);
	// Once all rows were looked at, and behind those with a value, the order is exact.
	state->plan.by_rank = state->plan.expects_few;
	state->plan.from_first = false;
	return state->batch.size == 0 ? first_batch(state->plan.wanted, state->plan.in_range, state->plan.expected_share)
								  : next_batch(scan, state);
}

} // namespace vectorgpu::am
