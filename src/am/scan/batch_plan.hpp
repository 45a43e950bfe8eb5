// How many rows a scan asks for at a time, and whether it is exact from its first row on. PG dialect. Used by scan.cpp.
//
// A scan of an approximate access method goes by steps of rank: rows 1 to 10, then to 32, 112, 352, 1,024, and so on.
// Each step searches for all rows up to its end, as wide as that takes, and passes over what it finds up to the last
// row returned. So a row's place depends on the query and the table alone, and pages by LIMIT and OFFSET are parts of
// one sequence. The share of rows that has passed the conditions so far may join two steps, since it is the same for
// all pages; so may a large delta the first two; the LIMIT may not.
//
// Steps lose the rows that they find too late. So a strict scan that shall return most of the table, or all of it, is
// exact; with conditions on key columns, most of the rows that meet them, by the planner's estimate or as the first
// step has counted.
//
// Where so few rows meet such conditions that all are looked at, the order is exact, too. If the planner expects that,
// the first batch is what the LIMIT wants instead of a step: one search instead of one for each step. Where more rows
// meet them after all, the scan begins again by steps.
//
// An exact order is the same however it is cut. Its batches are as large as the LIMIT wants, by the share that has
// passed.
#pragma once

#include "am/method/scan_demand.hpp"
#include "am/scan/scan_state.hpp"
#include "pg/limit_hook.hpp"

namespace vectorgpu::am
{

/// At the scan's start, behind start_phase: what the plan wants of it.
void batch_plan_start(IndexScanDesc scan, ScanState *state, const pg::ScanWish *wish);

/// Call behind each batch. True if it was the first, and is to be asked for again, by other means: it was a step, and
/// has shown that the Limit wants most of the rows that meet the conditions on key columns, so that it will be exact;
/// or few rows were expected to meet these, and more do, so that steps follow.
bool batch_plan_asks_again(ScanState *state);

/// The last rank of the step that row number `rank`, counted from 0, belongs to. Of scans of approximate access
/// methods.
uint64 batch_plan_step_end(uint64 rank);

/// For the planner: the next step of a scan with this demand, of the ranks from *begin to *end. False: there are no
/// more. Begin with *end = 0.
bool batch_plan_next_step(const ScanDemand &demand, uint64 *begin, uint64 *end);

/// For the planner: the batches of an exact order for this demand, behind n_before rows, the last of them in a batch of
/// `size`; 0: none yet. Each is a pass over all rows.
double batch_plan_exact_batches(const ScanDemand &demand, double n_before, double size);

/// The recall that a step needs which ends at rank `end` and begins behind n_before rows, for `target` of all these.
/// Rows that the steps before have missed are lost to it, though its own wider search may find them.
double batch_plan_target(double target, uint64 n_before, uint64 end);

/// The rows that the next batch of the phase asks for; scan_next_batch may ask for fewer.
uint64 batch_plan_rows(IndexScanDesc scan, ScanState *state);

} // namespace vectorgpu::am
