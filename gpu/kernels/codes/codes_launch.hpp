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

/// launch_code_queries for RaBitQ.
cudaError_t launch_rabitq_queries(Metric metric, const Codes &codes, const Queries &queries, const CodePasses &passes,
	const CodeQueries &prepared, bool after_select, cudaStream_t stream);
cudaError_t prepare_rabitq_queries();
size_t rabitq_table_bytes(const Codes &codes);
cudaError_t launch_rabitq_scan(const CodedScanArgs &args, cudaStream_t stream);
cudaError_t prepare_rabitq_scan();

cudaError_t launch_row_code_scan(const CodedScanArgs &args, cudaStream_t stream);
cudaError_t prepare_row_code_scan();

/// Set args.found and args.last to the joined parts of all queries.
cudaError_t launch_join_parts(const CodedScanArgs &args, cudaStream_t stream);
cudaError_t prepare_code_finish();

} // namespace vectorgpu::kernels
