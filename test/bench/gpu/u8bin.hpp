// Data sets for the benchmarks: rows as .u8bin, .f16bin or .f32bin (uint32 n, uint32 dim, rows), TRUTH.bin (n, 100,
// ids, distances).
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/half.hpp"
#include "support/must.hpp"

namespace vectorgpu::bench
{

using vectorgpu::test::must;

struct Matrix
{
	uint32_t n = 0;
	uint32_t dim = 0;
	std::vector<float> values; // [n, dim]
};

inline std::vector<char>
read_file(const char *name)
{
	std::FILE *file = std::fopen(name, "rb");
	std::vector<char> bytes;

	if (file == nullptr)
	{
		std::perror(name);
		std::exit(1);
	}
	std::fseek(file, 0, SEEK_END);
	bytes.resize(static_cast<size_t>(std::ftell(file)));
	std::fseek(file, 0, SEEK_SET);
	if (std::fread(bytes.data(), 1, bytes.size(), file) != bytes.size())
	{
		std::perror(name);
		std::exit(1);
	}
	std::fclose(file);
	return bytes;
}

inline Matrix
read_u8bin(const char *name)
{
	const std::vector<char> bytes = read_file(name);
	Matrix matrix;

	std::memcpy(&matrix.n, bytes.data(), 4);
	std::memcpy(&matrix.dim, bytes.data() + 4, 4);
	matrix.values.resize(static_cast<size_t>(matrix.n) * matrix.dim);
	for (size_t i = 0; i < matrix.values.size(); i++)
		matrix.values[i] = static_cast<uint8_t>(bytes[8 + i]);
	return matrix;
}

/// Rows of .u8bin, .f16bin or .f32bin. Rows of .f16bin are divided by their length: as float32 they are then no
/// binary16 numbers, as rows of embedding models are not.
inline Matrix
read_rows(const char *name)
{
	const std::string_view file(name);

	if (file.ends_with(".u8bin"))
		return read_u8bin(name);

	const bool halves = file.ends_with(".f16bin");
	const std::vector<char> bytes = read_file(name);
	Matrix matrix;

	std::memcpy(&matrix.n, bytes.data(), 4);
	std::memcpy(&matrix.dim, bytes.data() + 4, 4);
	matrix.values.resize(static_cast<size_t>(matrix.n) * matrix.dim);
	if (!halves)
	{
		std::memcpy(matrix.values.data(), bytes.data() + 8, matrix.values.size() * sizeof(float));
		return matrix;
	}
	for (size_t row = 0; row < matrix.n; row++)
	{
		float *values = matrix.values.data() + row * matrix.dim;
		double squares = 0;

		for (size_t e = 0; e < matrix.dim; e++)
		{
			uint16_t half;

			std::memcpy(&half, bytes.data() + 8 + 2 * (row * matrix.dim + e), sizeof(half));
			values[e] = half_to_float(half);
			squares += static_cast<double>(values[e]) * values[e];
		}
		for (size_t e = 0; squares > 0 && e < matrix.dim; e++)
			values[e] = static_cast<float>(values[e] / std::sqrt(squares));
	}
	return matrix;
}

/// A ground truth: distances of the 100 nearest rows of each query, ascending.
class Truth
{
public:
	static constexpr size_t kNeighbors = 100;

	Truth(const char *name, uint32_t n_queries)
		: bytes_(read_file(name)), first_(8 + size_t{n_queries} * kNeighbors * sizeof(uint32_t))
	{
	}

	const float *distances() const { return reinterpret_cast<const float *>(bytes_.data() + first_); }
	float at(size_t query, size_t i) const { return distances()[query * kNeighbors + i]; }

private:
	std::vector<char> bytes_;
	size_t first_; // after the numbers of rows
};

inline double
now_ms()
{
	return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace vectorgpu::bench
