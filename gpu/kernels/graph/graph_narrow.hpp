// Searches of graphs over float32 rows that choose their way by rounded rows, a quarter as long, and score what they
// find canonically (README.md, "Rounded rows"). The definition of both is common/narrow.hpp's. Launchers as in
// kernels.hpp.
#pragma once

#include "common/narrow.hpp"
#include "kernels/graph/graph.hpp"

namespace vectorgpu::kernels
{

/// Set to [n_rows, pitch_bytes] and values [n_rows] to the rounded rows of float32 rows with dim_pad elements; zeros
/// behind them. pitch_bytes: a multiple of 16, at least dim_pad. Reproducible, and as the host rounds
/// (engine/filter/rounded_rows.hpp).
[[nodiscard]] cudaError_t launch_narrow_rows(Metric metric, const Rows &rows, uint32_t dim_pad, int8_t *to,
	uint32_t pitch_bytes, NarrowRow *values, cudaStream_t stream);

/// As launch_graph_search, of args with narrow rows. prepare: set the limits of shared memory instead.
template <Metric metric>
cudaError_t launch_graph_narrow(const GraphArgs &args, bool prepare, cudaStream_t stream); // graph_narrow.cuh

} // namespace vectorgpu::kernels
