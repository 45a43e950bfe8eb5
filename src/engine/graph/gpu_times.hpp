// Time of searches of a graph by vectors on a GPU. The CUDA engine (gpu/cuda/device/gpu_choice.hpp) and the planner
// choose by it between a search and a scan of all rows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace vectorgpu::engine::graph
{

// Microseconds of a batch of 16 queries, the batch that 64 clients of a server make, interpolated between batches of 1
// and 64. SIFT, 894,717 x 128 bytes, degree 32, one H200 (`gpu_graph_bench --steps 4`): 38, 47, 64, 83, 102, 193 and
// 422 at widths of 10, 32, 64, 96, 128, 256 and 512. More dimensions: the first 256 to 784 of Fashion-MNIST as bytes
// and as reals, several blocks a query (`--blocks-by-dims`), width 64: 256 dimensions 62 and 101, 384 115 and 108, 512
// 125 and 117, 640 169 and 146, 768 184 and 154, 784 190 and 155; this formula gives 85, 105, 126, 146, 167, 169.
constexpr double kGpuGraphUs = 30;         // fixed: start, and transfers to the device and back
constexpr double kGpuGraphWidthUs = 0.51;  // per row of width: scores of its neighbours
constexpr double kGpuGraphListUs = 0.0005; // per squared row of width: insertion into a list of that length
constexpr double kGpuGraphDim = 128;       // per this many further dimensions ...
constexpr double kGpuGraphDimUs = 5;       // ... this much is added to the fixed part
constexpr double kGpuGraphDimPart = 0.47;  // ... and this share to the scores

// A block looks at all entry points of its query: the graphs above have some 500, others up to 8,192. One H200, 100,000
// rows, width 64, 2,000 / 4,000 / 8,000 entry points: bytes of 128 dimensions 47 / 57 / 76, of 768 154 / 232 / 379;
// reals 71 / 91 / 140 and 131 / 187 / 294.
constexpr double kGpuGraphEntries = 500;
constexpr double kGpuGraphEntryUs = 0.00005; // for each further one and dimension

/// Microseconds of a batch of searches of a graph with this number of entry points.
inline double
gpu_graph_us(double width, double dim, double n_entries)
{
	const double more = std::max(dim / kGpuGraphDim, 1.0) - 1;

	return kGpuGraphUs + kGpuGraphDimUs * more + std::max(n_entries - kGpuGraphEntries, 0.0) * dim * kGpuGraphEntryUs +
		width * (kGpuGraphWidthUs * (1 + kGpuGraphDimPart * more) + kGpuGraphListUs * width);
}

} // namespace vectorgpu::engine::graph
