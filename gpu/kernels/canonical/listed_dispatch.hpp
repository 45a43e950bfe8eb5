// The launchers of listed_<metric>.cu, one per metric. Called by listed.cu.
#pragma once

#include "kernels/canonical/listed.hpp"

namespace vectorgpu::kernels
{

template <Metric metric>
cudaError_t launch_listed_metric(const ListedArgs &args, cudaStream_t stream);

/// The sources of bytes, if args.bytes is set (listed_bytes.cu).
cudaError_t launch_listed_bytes(const ListedArgs &args, cudaStream_t stream);

} // namespace vectorgpu::kernels
