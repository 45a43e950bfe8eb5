// Rows in the unit cube.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace vectorgpu::test
{

/// n rows of dim floats, [0, 1)^dim; the same for the same seed.
inline std::vector<float>
uniform_rows(size_t n, size_t dim, unsigned seed)
{
	std::mt19937 rng(seed);
	std::uniform_real_distribution<float> uniform(0, 1);
	std::vector<float> rows(n * dim);

	for (float &x : rows)
		x = uniform(rng);
	return rows;
}

} // namespace vectorgpu::test
