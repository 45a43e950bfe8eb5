// Cases of the self-test of rows and of lists without codes, and their vectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/selftest/test_data.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

enum class Values : uint8_t
{
	kReal,
	kHalves, // exact in binary16
	kBytes,  // whole numbers 0 ... 255
};

struct RowCase
{
	Metric metric;
	ElementType element;
	uint32_t dim;
	Values values;
	size_t k;
	uint32_t n_queries;

	engine::DistanceSpec spec() const { return {metric, element, dim}; }
	size_t row_bytes() const { return vector_bytes(element, dim); }
};

/// splitmix64.
class Numbers
{
public:
	uint64_t next();
	float unit() { return static_cast<float>(static_cast<int32_t>(next() >> 40)) * 0x1p-23f - 1.0f; } // [-1, 1)

private:
	uint64_t state_ = 20170228;
};

/// [n, row_bytes]
std::vector<uint8_t> make_vectors(const RowCase &test, size_t n, Numbers *numbers);

/// For messages.
std::string describe(const RowCase &test);

/// The answer was right, but another way than the one under test gave it.
Status another_way(const RowCase &test);

} // namespace vectorgpu::cuda
