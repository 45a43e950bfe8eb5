// The number of lists to scan for a wanted recall: a small table that is measured at build time with held-out rows and
// stored in the index.
#pragma once

#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::ivf
{

constexpr size_t kMaxCalibrationPoints = 64;
constexpr size_t kMaxDepths = 8;
constexpr uint32_t kCalibratedRows = 10; // nearest rows whose recall a Calibration has

/// Stored in the index in this form: recall[i] at probes[i] lists, both ascending (recall not strictly; with codes, the
/// recall of all lists may be lower than the one before).
struct Calibration
{
	uint32_t n_points = 0;
	uint32_t n_queries = 0; // held-out rows used as queries
	uint32_t probes[kMaxCalibrationPoints] = {};
	float recall[kMaxCalibrationPoints] = {};
};

/// Stored in the index in this form: the recall of more nearest rows than a Calibration has, at the probes of its
/// points. Where rows lie in groups, rows outside a query's group are in many more lists than those of the group.
struct DepthCalibration
{
	uint32_t n_depths = 0;                                // 0: not measured
	uint32_t n_queries = 0;                               // at least, for each depth
	uint32_t depths[kMaxDepths] = {};                     // numbers of nearest rows, ascending, above kCalibratedRows
	float recall[kMaxDepths][kMaxCalibrationPoints] = {}; // of that many rows, as Calibration::recall
};

/// Set probes and n_points, the numbers of lists to measure at: 1, 2, 3, 4, 6, 8, 12, … n_lists, about two a doubling,
/// and n_lists - 1, - 2, - 4, … down to three quarters of n_lists. (In some data many queries have neighbours in the
/// lists that they rank last, so that recall there cannot be interpolated.) n_lists up to 2^20.
void calibration_points(uint32_t n_lists, Calibration *calibration);

/// Set recall and n_queries for lists that are scanned exactly, or codes refined from enough candidates: a true
/// neighbour is found if its list is scanned. ranks [n_queries, k]: position (from 0) of each true neighbour's list in
/// the query's order of lists; UINT32_MAX if a query has fewer than k. Call calibration_points first.
void calibrate_by_rank(const uint32_t *ranks, size_t n_queries, size_t k, Calibration *calibration);

/// Lower the recall by what the choice of the queries may have added to it: by 1.64 standard errors, so that about one
/// calibration in twenty says more than all queries of the same kind would find. Neighbours of one query are found or
/// missed together: the error is that of n_queries shares, not of their neighbours. The recall of all lists and of all
/// but one stays as measured, so that no target is given up for chance. ranks: as above.
void lower_by_chance(const uint32_t *ranks, size_t n_queries, size_t k, Calibration *calibration);

/// The fewest probes whose recall is at least the target, interpolated linearly over log(probes); the last point's
/// probes if no point reaches it.
uint32_t probes_for(const Calibration &calibration, double recall_target);

/// The same as a fraction between two numbers of probes: searches that take the larger one with the probability of the
/// fractional part, and else the smaller one, have the target's recall on average. At least 1.
double fractional_probes_for(const Calibration &calibration, double recall_target);

/// The same for a search for the n_wanted nearest rows. Up to kCalibratedRows these are the calibration's probes;
/// between measured depths log(probes) is interpolated over log(rows), and never below that of fewer rows. Beyond the
/// last depth probes grow as between the last two depths, but no faster than the rows; without depths they grow as the
/// fourth root of the rows.
double probes_for_rows(
	const Calibration &calibration, const DepthCalibration &depths, double recall_target, uint64_t n_wanted);

/// Describe what is wrong with stored calibrations of n_lists lists, or return null: numbers of lists and of rows have
/// to ascend and be in bounds, recalls be from 0 to 1.
const char *calibration_problem(const Calibration &calibration, const DepthCalibration &depths, uint32_t n_lists);

/// The inverse: the expected recall of that many probes.
double recall_of(const Calibration &calibration, uint32_t probes);

} // namespace vectorgpu::engine::ivf
