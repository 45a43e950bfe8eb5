// Launchers of the coded scans, one per family of codes, for each other's files.
#pragma once

#include "kernels/codes/codes.hpp"

namespace vectorgpu::kernels
{

/// Shared memory of a block that both compute capability 8.0 and 9.0 have.
constexpr uint32_t kCodeSharedBytes = 163 * 1024;

size_t pq_table_bytes(const Codes &codes);
uint32_t pq_threads();
cudaError_t launch_pq_scan(const CodedScanArgs &args, cudaStream_t stream);
cudaError_t prepare_pq_scan();

cudaError_t launch_row_code_scan(const CodedScanArgs &args, cudaStream_t stream);
cudaError_t prepare_row_code_scan();

} // namespace vectorgpu::kernels
