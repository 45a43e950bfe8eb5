// What searches of a graph by vectors take on a GPU, for those who choose between them and a look at all rows: the CUDA
// engine (gpu/cuda/device/gpu_choice.hpp) and the planner. Arithmetic alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vectorgpu::engine::graph
{

// Microseconds of a batch of 16, which is what 64 clients of a server give the engine at a time, interpolated between
// batches of 1 and 64. SIFT, 894,717 x 128 bytes, degree 32, one H200 (`gpu_graph_bench --steps 4`): 38, 47, 64, 83,
// 102, 193 and 422 at widths of 10, 32, 64, 96, 128, 256 and 512. More dimensions, by the first 256 to 784 of
// Fashion-MNIST as bytes and as reals, several blocks a query (`--blocks-by-dims`), width 64: 256 dimensions 62 and
// 101, 384 115 and 108, 512 125 and 117, 640 169 and 146, 768 184 and 154, 784 190 and 155; here 85, 105, 126, 146,
// 167, 169.
constexpr double kGpuGraphUs = 30;         // beginning, and the way to the device and back
constexpr double kGpuGraphWidthUs = 0.51;  // for each row that the search keeps in mind: scores of its neighbours,
constexpr double kGpuGraphListUs = 0.0005; // and places in a list of so many
constexpr double kGpuGraphDim = 128;       // each further so many dimensions
constexpr double kGpuGraphDimUs = 5;       // are so much more to begin with,
constexpr double kGpuGraphDimPart = 0.47;  // and so much of the scores

/// A batch of searches so wide.
inline double
gpu_graph_us(double width, double dim)
{
	const double more = std::max(dim / kGpuGraphDim, 1.0) - 1;

	return kGpuGraphUs + kGpuGraphDimUs * more +
		width * (kGpuGraphWidthUs * (1 + kGpuGraphDimPart * more) + kGpuGraphListUs * width);
}

} // namespace vectorgpu::engine::graph
