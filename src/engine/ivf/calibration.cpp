// See calibration.hpp.
#include "engine/ivf/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace vectorgpu::engine::ivf
{

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

uint32_t
probes_for(const Calibration &calibration, double recall_target)
{
	for (uint32_t p = 0; p < calibration.n_points; p++)
	{
		const double recall = static_cast<double>(calibration.recall[p]);

		if (recall < recall_target)
			continue;
		if (p == 0)
			return calibration.probes[0];

		const double before = static_cast<double>(calibration.recall[p - 1]);
		const double low = std::log(calibration.probes[p - 1]);
		const double high = std::log(calibration.probes[p]);
		const double share = recall > before ? (recall_target - before) / (recall - before) : 1;
		const double probes = std::exp(low + share * (high - low));

		return std::clamp(
			static_cast<uint32_t>(std::ceil(probes - 1e-9)), calibration.probes[p - 1] + 1, calibration.probes[p]);
	}
	return calibration.n_points == 0 ? 1 : calibration.probes[calibration.n_points - 1];
}

double
fractional_probes_for(const Calibration &calibration, double recall_target)
{
	const uint32_t above = probes_for(calibration, recall_target);
	const double high = recall_of(calibration, above);
	const double low = recall_of(calibration, above - 1);

	if (above <= 1 || high < recall_target || !(high > low))
		return above;
	return above - 1 + std::clamp((recall_target - low) / (high - low), 0.0, 1.0);
}

double
recall_of(const Calibration &calibration, uint32_t probes)
{
	if (calibration.n_points == 0)
		return 0;
	if (probes <= calibration.probes[0])
		return static_cast<double>(calibration.recall[0]);
	for (uint32_t p = 1; p < calibration.n_points; p++)
	{
		if (probes > calibration.probes[p])
			continue;

		const double low = std::log(calibration.probes[p - 1]);
		const double high = std::log(calibration.probes[p]);
		const double before = static_cast<double>(calibration.recall[p - 1]);

		return before + (static_cast<double>(calibration.recall[p]) - before) * (std::log(probes) - low) / (high - low);
	}
	return static_cast<double>(calibration.recall[calibration.n_points - 1]);
}

} // namespace vectorgpu::engine::ivf
