// See polar.hpp. Scaled Newton iteration (Higham, "Computing the polar decomposition - with applications", 1986):
// X ← ½ (g X + X⁻ᵀ / g) with g = √(|X⁻¹| / |X|) in the Frobenius norm converges quadratically to U V'. It takes
// some ten inversions; a singular value decomposition would need more code and time.
#include "engine/ivf/polar.hpp"

#include <algorithm>
#include <cmath>

#include "engine/ivf/ivf_kernels.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

double
frobenius(const double *matrix, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n * n; i++)
		sum += matrix[i] * matrix[i];
	return std::sqrt(sum);
}

/// inverse = matrix⁻¹ by Gauss-Jordan with row pivots; matrix is destroyed.
Outcome
invert(double *matrix, size_t n, double *inverse, const Call &call, Progress progress)
{
	constexpr size_t kPivotsPerCheck = 16;
	const IvfKernels &kernels = ivf_kernels();

	std::fill_n(inverse, n * n, 0.0);
	for (size_t i = 0; i < n; i++)
		inverse[i * n + i] = 1;
	for (size_t p = 0; p < n; p++)
	{
		size_t pivot = p;

		if (p % kPivotsPerCheck == 0 && !go_on(call, progress))
			return cancelled();
		for (size_t i = p + 1; i < n; i++)
			if (std::fabs(matrix[i * n + p]) > std::fabs(matrix[pivot * n + p]))
				pivot = i;

		const double scale = 1 / matrix[pivot * n + p];

		if (!std::isfinite(scale))
			return {StatusCode::kInternal, "matrix is singular"};
		if (pivot != p)
		{
			std::swap_ranges(matrix + p * n, matrix + (p + 1) * n, matrix + pivot * n);
			std::swap_ranges(inverse + p * n, inverse + (p + 1) * n, inverse + pivot * n);
		}
		for (size_t j = 0; j < n; j++)
		{
			matrix[p * n + j] *= scale;
			inverse[p * n + j] *= scale;
		}
		for (size_t i = 0; i < n; i++)
		{
			const double factor = -matrix[i * n + p];

			if (i == p || factor == 0)
				continue;
			kernels.multiply_add_double(factor, matrix + p * n + p, n - p, matrix + i * n + p);
			kernels.multiply_add_double(factor, inverse + p * n, n, inverse + i * n);
		}
	}
	return {};
}

} // namespace

Outcome
polar_factor(double *matrix, size_t n, double *scratch, const Call &call, Progress progress)
{
	constexpr int kMostIterations = 40;
	double *copy = scratch; // destroyed by the inversion
	double *inverse = scratch + n * n;

	for (int iteration = 0; iteration < kMostIterations; iteration++)
	{
		std::copy_n(matrix, n * n, copy);

		const Outcome inverted = invert(copy, n, inverse, call, progress);

		if (!inverted.is_ok())
			return inverted;

		const double norm = frobenius(matrix, n);
		const double scale = std::sqrt(frobenius(inverse, n) / norm);
		double change = 0;

		if (!std::isfinite(scale) || scale == 0)
			return {StatusCode::kInternal, "matrix is singular"};
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j < n; j++)
			{
				const double old = matrix[i * n + j];

				matrix[i * n + j] = (scale * old + inverse[j * n + i] / scale) / 2;
				change += (matrix[i * n + j] - old) * (matrix[i * n + j] - old);
			}
		if (std::sqrt(change) <= 1e-9 * norm) // the next step would be below 1e-17
			return {};
	}
	return {StatusCode::kInternal, "polar decomposition did not converge"};
}

} // namespace vectorgpu::engine::ivf
