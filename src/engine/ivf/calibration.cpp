// See calibration.hpp.
#include "engine/ivf/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr double kErrors = 1.64; // standard errors that a recall is lowered by: 95 % of a normal distribution

/// The standard error of the recall of that many probes, as a ratio of two sums over the queries: some queries may want
/// fewer than k rows.
double
standard_error(const uint32_t *ranks, size_t n_queries, size_t k, uint32_t probes)
{
	const auto n = static_cast<double>(n_queries);
	double found = 0, wanted = 0;
	double squares_found = 0, squares_wanted = 0, products = 0;

	for (const uint32_t *of_query = ranks; of_query < ranks + n_queries * k; of_query += k)
	{
		uint32_t n_found = 0, n_wanted = 0;

		for (size_t i = 0; i < k; i++)
		{
			n_found += of_query[i] < probes;
			n_wanted += of_query[i] != UINT32_MAX;
		}
		found += n_found;
		wanted += n_wanted;
		squares_found += static_cast<double>(n_found) * n_found;
		squares_wanted += static_cast<double>(n_wanted) * n_wanted;
		products += static_cast<double>(n_found) * n_wanted;
	}
	if (n_queries < 2 || wanted == 0)
		return 0;

	const double share = found / wanted;
	const double squares = squares_found - 2 * share * products + share * share * squares_wanted;

	return std::sqrt(std::max(squares, 0.0) * n / (n - 1)) / wanted;
}

} // namespace

void
calibration_points(uint32_t n_lists, Calibration *calibration)
{
	const uint32_t all = std::max(n_lists, 1u);
	uint32_t points[kMaxCalibrationPoints];
	size_t n = 0;

	for (uint64_t power = 1; power < all; power *= 2)
		for (uint64_t probes : {power, power + power / 2})
			if (probes < all)
				points[n++] = static_cast<uint32_t>(probes);
	for (uint32_t left_out = 1; left_out <= all / 4; left_out *= 2)
		points[n++] = all - left_out;
	points[n++] = all;
	std::sort(points, points + n);
	*calibration = {};
	calibration->n_points = static_cast<uint32_t>(std::unique(points, points + n) - points);
	std::copy(points, points + calibration->n_points, calibration->probes);
}

void
calibrate_by_rank(const uint32_t *ranks, size_t n_queries, size_t k, Calibration *calibration)
{
	uint64_t found[kMaxCalibrationPoints] = {};
	uint64_t n_neighbors = 0;

	for (size_t i = 0; i < n_queries * k; i++)
	{
		if (ranks[i] == UINT32_MAX)
			continue;
		n_neighbors++;
		for (uint32_t p = 0; p < calibration->n_points; p++)
			found[p] += ranks[i] < calibration->probes[p];
	}
	for (uint32_t p = 0; p < calibration->n_points; p++)
		calibration->recall[p] =
			n_neighbors == 0 ? 1 : static_cast<float>(static_cast<double>(found[p]) / static_cast<double>(n_neighbors));
	calibration->n_queries = static_cast<uint32_t>(n_queries);
}

void
lower_by_chance(const uint32_t *ranks, size_t n_queries, size_t k, Calibration *calibration)
{
	for (uint32_t p = 0; p + 2 < calibration->n_points; p++)
	{
		const double error = standard_error(ranks, n_queries, k, calibration->probes[p]);
		const double low = static_cast<double>(calibration->recall[p]) - kErrors * error;

		calibration->recall[p] = std::max(static_cast<float>(low), p > 0 ? calibration->recall[p - 1] : 0);
	}
}

namespace
{

// The exponent of the rows by which probes grow if no depth was measured, and at least beyond the last one. SIFT,
// 100,000 rows, 316 lists: 18, 32 and 60 probes find 0.95 of 10, 100 and 1,000 rows.
constexpr double kDepthPower = 0.25;

/// Recall [n] at probes [n]. A damaged page may hold any values: then the results are wrong, and nothing else happens.
struct Curve
{
	uint32_t n;
	const uint32_t *probes;
	const float *recall;
};

Curve
curve_of(const Calibration &calibration)
{
	return {calibration.n_points, calibration.probes, calibration.recall};
}

double
recall_at(const Curve &curve, uint32_t probes)
{
	if (curve.n == 0)
		return 0;
	if (probes <= curve.probes[0])
		return static_cast<double>(curve.recall[0]);
	for (uint32_t p = 1; p < curve.n; p++)
	{
		if (probes > curve.probes[p])
			continue;

		const double low = std::log(curve.probes[p - 1]);
		const double high = std::log(curve.probes[p]);
		const double before = static_cast<double>(curve.recall[p - 1]);

		return before + (static_cast<double>(curve.recall[p]) - before) * (std::log(probes) - low) / (high - low);
	}
	return static_cast<double>(curve.recall[curve.n - 1]);
}

uint32_t
whole_probes(const Curve &curve, double recall_target)
{
	for (uint32_t p = 0; p < curve.n; p++)
	{
		const double recall = static_cast<double>(curve.recall[p]);

		if (!(recall >= recall_target))
			continue;
		if (p == 0)
			return curve.probes[0];

		const double before = static_cast<double>(curve.recall[p - 1]);
		const double low = std::log(curve.probes[p - 1]);
		const double high = std::log(curve.probes[p]);
		const double share = recall > before ? (recall_target - before) / (recall - before) : 1;
		const double probes = std::ceil(std::exp(low + share * (high - low)) - 1e-9);

		if (!(probes < curve.probes[p]))
			return curve.probes[p];
		return std::max(static_cast<uint32_t>(std::max(probes, 0.0)), curve.probes[p - 1] + 1);
	}
	return curve.n == 0 ? 1 : curve.probes[curve.n - 1];
}

double
fractional_probes(const Curve &curve, double recall_target)
{
	const uint32_t above = whole_probes(curve, recall_target);

	if (above <= 1)
		return above;

	const double high = recall_at(curve, above);
	const double low = recall_at(curve, above - 1);

	if (high < recall_target || !(high > low))
		return above;
	return above - 1 + std::clamp((recall_target - low) / (high - low), 0.0, 1.0);
}

/// The probes for `rows`, with log(probes) on the line over log(rows) through two points.
double
on_line(double rows, double rows_low, double probes_low, double rows_high, double probes_high)
{
	return probes_low + (probes_high - probes_low) * (rows - rows_low) / (rows_high - rows_low);
}

bool
are_shares(const float *recall, uint32_t n)
{
	return std::all_of(recall, recall + n, [](float share) { return share >= 0 && share <= 1; });
}

} // namespace

uint32_t
probes_for(const Calibration &calibration, double recall_target)
{
	return whole_probes(curve_of(calibration), recall_target);
}

double
fractional_probes_for(const Calibration &calibration, double recall_target)
{
	return fractional_probes(curve_of(calibration), recall_target);
}

double
recall_of(const Calibration &calibration, uint32_t probes)
{
	return recall_at(curve_of(calibration), probes);
}

double
probes_for_rows(const Calibration &calibration, const DepthCalibration &depths, double recall_target, uint64_t n_wanted)
{
	const double least = fractional_probes_for(calibration, recall_target);
	const double rows = std::log(static_cast<double>(std::max<uint64_t>(n_wanted, kCalibratedRows)));
	double rows_before = std::log(static_cast<double>(kCalibratedRows)); // of the previous depth, and its probes
	double before = std::log(least);
	double slope = kDepthPower;

	if (n_wanted <= kCalibratedRows)
		return least;
	for (uint32_t d = 0; d < std::min<uint32_t>(depths.n_depths, kMaxDepths); d++)
	{
		const Curve curve = {calibration.n_points, calibration.probes, depths.recall[d]};
		const double rows_here = std::log(static_cast<double>(depths.depths[d]));
		const double here = std::max(before, std::log(fractional_probes(curve, recall_target)));

		if (rows <= rows_here)
			return std::exp(on_line(rows, rows_before, before, rows_here, here));
		slope = std::clamp((here - before) / (rows_here - rows_before), kDepthPower, 1.0);
		rows_before = rows_here;
		before = here;
	}
	return std::exp(before + slope * (rows - rows_before));
}

const char *
calibration_problem(const Calibration &calibration, const DepthCalibration &depths, uint32_t n_lists)
{
	const uint32_t n = calibration.n_points;

	if (n > kMaxCalibrationPoints || depths.n_depths > kMaxDepths)
		return "A calibration has more points than there can be.";
	if (n == 0 && depths.n_depths > 0)
		return "A calibration for more rows has no points.";
	for (uint32_t p = 0; p < n; p++)
		if (calibration.probes[p] == 0 || calibration.probes[p] > n_lists ||
			(p > 0 && calibration.probes[p] <= calibration.probes[p - 1]))
			return "The numbers of lists of a calibration do not ascend.";
	if (!are_shares(calibration.recall, n))
		return "The recall of a calibration is not between 0 and 1.";
	for (uint32_t d = 0; d < depths.n_depths; d++)
	{
		if (depths.depths[d] <= (d > 0 ? depths.depths[d - 1] : kCalibratedRows))
			return "The numbers of rows of a calibration do not ascend.";
		if (!are_shares(depths.recall[d], n))
			return "The recall of a calibration for more rows is not between 0 and 1.";
	}
	return nullptr;
}

} // namespace vectorgpu::engine::ivf
