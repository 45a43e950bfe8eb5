// How many lists to look at for a wanted recall: a small table made at build time from held-out rows, kept in the
// index.
#pragma once

#include "engine/ivf/call.hpp"

namespace vectorgpu::engine::ivf
{

constexpr size_t kMaxCalibrationPoints = 64;
constexpr size_t kMaxDepths = 8;
constexpr uint32_t kCalibratedRows = 10; // nearest rows that a Calibration is about

/// Stored in the index as it is: recall[i] at probes[i] lists, both ascending (recall not strictly, and of codes not
/// for all lists but one).
struct Calibration
{
	uint32_t n_points = 0;
	uint32_t n_queries = 0; // held-out rows that it was measured with
	uint32_t probes[kMaxCalibrationPoints] = {};
	float recall[kMaxCalibrationPoints] = {};
};

/// Stored in the index as it is: the recall of more nearest rows than a Calibration is about, at the probes of its
/// points. Where rows lie in groups, those behind a query's group are in many more lists than those of it.
struct DepthCalibration
{
	uint32_t n_depths = 0;                                // 0: not measured
	uint32_t n_queries = 0;                               // for each depth at least
	uint32_t depths[kMaxDepths] = {};                     // numbers of nearest rows, ascending, above kCalibratedRows
	float recall[kMaxDepths][kMaxCalibrationPoints] = {}; // of so many, as Calibration::recall
};

/// The numbers of lists to measure at: 1, 2, 3, 4, 6, 8, 12, … n_lists, about two a doubling, and n_lists - 1, - 2, -
/// 4, … down to three quarters of n_lists: some data has neighbours of many queries in the lists that they rank last,
/// so that what lies between is not to be interpolated. n_lists up to 2^20. Sets probes and n_points.
void calibration_points(uint32_t n_lists, Calibration *calibration);

/// Recall when the lists are scanned exactly, or codes refined from enough candidates: a true neighbour is found when
/// its list is looked at. ranks [n_queries, k]: position (from 0) of each true neighbour's list in the query's order of
/// lists; UINT32_MAX where a query has fewer than k. Sets recall and n_queries; calibration_points first.
void calibrate_by_rank(const uint32_t *ranks, size_t n_queries, size_t k, Calibration *calibration);

/// The fewest probes whose recall is at least the target, between points by linear interpolation over log(probes). The
/// last point's probes if no point reaches it.
uint32_t probes_for(const Calibration &calibration, double recall_target);

/// The same as a number between two: searches that look at the larger one with a probability of the fraction, and else
/// at the smaller one, have the target's recall on average. At least 1.
double fractional_probes_for(const Calibration &calibration, double recall_target);

/// The same for a search for the n_wanted nearest rows. For up to kCalibratedRows the calibration's, between the depths
/// that were measured by interpolation of log(probes) over log(rows), and never fewer than for fewer rows. Behind the
/// last depth it goes on as between the last two, but no faster than the rows; with no depth as the fourth root of the
/// rows.
double probes_for_rows(
	const Calibration &calibration, const DepthCalibration &depths, double recall_target, uint64_t n_wanted);

/// What is wrong with calibrations of n_lists lists as they are stored, or null: numbers of lists and of rows ascend
/// and are in bounds, recalls are from 0 to 1.
const char *calibration_problem(const Calibration &calibration, const DepthCalibration &depths, uint32_t n_lists);

/// The other way round: the recall to expect of so many probes.
double recall_of(const Calibration &calibration, uint32_t probes);

} // namespace vectorgpu::engine::ivf
