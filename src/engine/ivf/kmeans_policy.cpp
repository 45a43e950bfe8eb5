// See kmeans_policy.hpp.
#include "engine/ivf/kmeans_policy.hpp"

#include <cmath>

namespace vectorgpu::engine::ivf
{

uint32_t
n_first_level(uint32_t n_clusters)
{
	return static_cast<uint32_t>(std::lround(std::sqrt(static_cast<double>(n_clusters))));
}

void
share_out_clusters(const uint64_t *first, size_t n, uint32_t n_clusters, uint64_t *shares)
{
	const double per_row = static_cast<double>(n_clusters) / static_cast<double>(first[n]);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
	{
		const uint64_t size = first[i + 1] - first[i];

		shares[i] = size == 0 ? 0 : std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(size) * per_row));
		sum += shares[i];
	}
	while (sum != n_clusters)
	{
		// Choose the cluster that is farthest from its due share in the wanted direction.
		size_t chosen = n;
		double most = 0;

		for (size_t i = 0; i < n; i++)
		{
			const double size = static_cast<double>(first[i + 1] - first[i]);
			const double missing = size * per_row - static_cast<double>(shares[i]);
			const double gain = sum < n_clusters ? missing : -missing;
			const bool possible = sum < n_clusters ? static_cast<double>(shares[i]) < size : shares[i] > 1;

			if (possible && (chosen == n || gain > most))
			{
				chosen = i;
				most = gain;
			}
		}
		if (sum < n_clusters)
		{
			shares[chosen]++;
			sum++;
		}
		else
		{
			shares[chosen]--;
			sum--;
		}
	}
}

} // namespace vectorgpu::engine::ivf
