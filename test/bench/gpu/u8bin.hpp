// Data sets of bytes for the benchmarks: BASE.u8bin and QUERY.u8bin (n, dim, rows), TRUTH.bin (n, 100, ids, distances).
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/status.hpp"

namespace vectorgpu::bench
{

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

inline void
must(const Status &status)
{
	if (status.is_ok())
		return;
	std::fprintf(stderr, "%s\n", status.message.c_str());
	std::exit(1);
}

} // namespace vectorgpu::bench
