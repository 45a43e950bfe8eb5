// See row_cases.hpp.
#include "cuda/selftest/row_cases.hpp"

#include <cstring>

#include "common/half.hpp"

namespace vectorgpu::cuda
{

uint64_t
Numbers::next()
{
	uint64_t z = state_ += 0x9E3779B97F4A7C15u;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

std::vector<uint8_t>
make_vectors(const RowCase &test, size_t n, Numbers *numbers)
{
	const size_t row_bytes = test.row_bytes();
	std::vector<uint8_t> vectors(n * row_bytes);

	for (size_t i = 0; i < n; i++)
		for (size_t e = 0; e < (test.element == ElementType::kBit ? row_bytes : test.dim); e++)
		{
			uint8_t *row = vectors.data() + i * row_bytes;

			if (test.element == ElementType::kBit)
				row[e] = static_cast<uint8_t>(numbers->next());
			else
			{
				const float real = numbers->unit();
				const uint16_t half = float_to_half(real);
				const float value = test.values == Values::kBytes ? static_cast<float>(numbers->next() % 256)
					: test.values == Values::kHalves              ? half_to_float(half)
																  : real;

				if (test.element == ElementType::kFloat16)
					std::memcpy(row + e * 2, &half, 2);
				else
					std::memcpy(row + e * 4, &value, 4);
			}
		}
	return vectors;
}

std::string
describe(const RowCase &test)
{
	return "metric " + std::to_string(static_cast<int>(test.metric)) + ", element type " +
		std::to_string(static_cast<int>(test.element)) + ", " + std::to_string(test.dim) + " dimensions, values " +
		std::to_string(static_cast<int>(test.values)) + ", " + std::to_string(test.n_queries) + " queries";
}

Status
another_way(const RowCase &test)
{
	return failed("the GPU went another way: " + describe(test));
}

} // namespace vectorgpu::cuda
