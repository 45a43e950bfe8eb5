// RaBitQ's rotation: its definition, bit for bit, at every level of instructions; that it is one.
#include "engine/ivf/rabitq/rabitq_rotation.hpp"

#include <bit>
#include <cmath>

#include "ivf/ivf_data.hpp"

namespace vectorgpu::engine::ivf::test
{
namespace
{

double
dot(const float *a, const float *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
	return sum;
}

/// Signs, a Hadamard transform of a window in steps of growing spans, sums and differences of the halves; for powers of
/// two, three times and without the last. Codes of indexes rest on the order of these operations.
Floats
rotated_by_definition(uint64_t seed, Floats x)
{
	const size_t n = x.size();
	const size_t window = std::bit_floor(n);
	const float factor = static_cast<float>(1 / std::sqrt(static_cast<double>(window)));
	const float root = static_cast<float>(std::sqrt(0.5));

	for (uint64_t round = 0; round < (window == n ? 3 : 6); round++)
	{
		float *from = x.data() + (round % 2 == 0 ? 0 : n - window);

		for (size_t i = 0; i < n; i++)
		{
			uint64_t bits =
				(seed * 6 + round + 1) * UINT64_C(0x9E3779B97F4A7C15) + i / 64 * UINT64_C(0xD1B54A32D192ED03);

			bits = (bits ^ (bits >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
			bits = (bits ^ (bits >> 27)) * UINT64_C(0x94D049BB133111EB);
			bits ^= bits >> 31;
			x[i] = ((bits >> (i % 64)) & 1) != 0 ? -x[i] : x[i];
		}
		for (size_t span = 1; span < window; span *= 2)
		{
			for (size_t i = 0; i < window; i++)
				if ((i & span) == 0)
				{
					const float a = from[i];
					const float b = from[i + span];

					from[i] = a + b;
					from[i + span] = a - b;
				}
			for (size_t i = 0; span == 4 && i < window; i++)
				from[i] *= factor;
		}
		for (size_t i = 0; window < n && i < n / 2; i++)
		{
			const float a = x[i];
			const float b = x[n / 2 + i];

			x[i] = (a + b) * root;
			x[n / 2 + i] = (a - b) * root;
		}
	}
	return x;
}

TEST(RabitqRotation, HasTheBitsOfItsDefinitionAtEveryLevel)
{
	for (size_t n : {8, 16, 24, 32, 40, 64, 72, 96, 128, 136, 256, 264, 512, 768, 1000, 1024, 2048, 2056})
	{
		const Floats rows = normal_rows(1, n, static_cast<unsigned>(n));
		const Floats expected = rotated_by_definition(5, rows);

		for (SimdLevel level : supported_levels())
		{
			AtLevel at(level);
			Floats x = rows;

			rotate_randomly(5, x.data(), n);
			EXPECT_EQ(x, expected) << n;
		}
	}
}

TEST(RabitqRotation, KeepsLengthsAndGoesBackAtEveryLevel)
{
	for (size_t n : {8, 16, 24, 40, 64, 96, 100 + 4, 256, 784, 1000})
	{
		const Floats rows = normal_rows(1, n, static_cast<unsigned>(n));
		Floats first;

		for (SimdLevel level : supported_levels())
		{
			AtLevel at(level);
			Floats x = rows;

			rotate_randomly(5, x.data(), n);
			if (first.empty())
				first = x;
			EXPECT_EQ(x, first) << n;
			EXPECT_NEAR(dot(x.data(), x.data(), n), dot(rows.data(), rows.data(), n), 1e-4 * static_cast<double>(n));
			EXPECT_NE(x, rows);
			rotate_back(5, x.data(), n);
			for (size_t i = 0; i < n; i++)
				EXPECT_NEAR(x[i], rows[i], 1e-4f);
		}
		Floats other = rows;

		rotate_randomly(6, other.data(), n);
		EXPECT_NE(other, first) << "another seed";
	}
}

TEST(RabitqRotation, SpreadsASingleElement)
{
	for (size_t n : {64, 96, 120, 248, 256, 480, 784})
	{
		double sum = 0;

		for (size_t i = 0; i < n; i++)
		{
			Floats x(n);

			x[i] = 1;
			rotate_randomly(11, x.data(), n);
			for (float y : x)
				sum += std::pow(static_cast<double>(y), 4);
		}
		// The fourth moment of a normal distribution with deviation n^-½ is 3 / n².
		EXPECT_NEAR(sum, 3, 0.3) << n;
	}
}

} // namespace
} // namespace vectorgpu::engine::ivf::test
