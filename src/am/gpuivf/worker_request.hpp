// Requests of the worker's part in a build. On false the worker has failed, and has no part in it any more. Internal to
// worker_*.cpp. PG dialect.
#pragma once

#include "am/gpuivf/worker_build.hpp"
#include "bridge/client_session.hpp"
#include "bridge/require.hpp"
#include "wire/build_messages.hpp"

namespace vectorgpu::am
{

/// Ends the worker's part in this build; false.
bool fail(WorkerBuild *build, bridge::Fallback reason);

/// The two halves of a request.
bool submit(WorkerBuild *build, wire::RequestType type, const wire::Part *parts, size_t n_parts);
bool receive(WorkerBuild *build, wire::ReplyHeader *header, void *body, Size capacity);

bool submit_rows(WorkerBuild *build, bridge::RowsRequest *last, wire::RequestType type, uint64 position,
	const void *rows, uint64 n, Size row_bytes);
bool send_rows(WorkerBuild *build, wire::RequestType type, const void *rows, uint64 n, Size row_bytes);

/// All bytes of a result.
bool read_result(WorkerBuild *build, wire::BuildResult result, void *to, Size n_bytes);

} // namespace vectorgpu::am
