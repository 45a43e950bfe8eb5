// See worker_request.hpp.
#include "am/gpuivf/worker_request.hpp"

#include "bridge/client_session.hpp"
#include "bridge/require.hpp"
#include "pg/fault.hpp"

namespace vectorgpu::am
{

namespace
{

void
before_request()
{
	(void) VG_FAULT("worker_build_rows");
}

} // namespace

bool
fail(WorkerBuild *build, bridge::Fallback reason)
{
	bridge::note_fallback(reason, "The session goes on with the index build by itself.");
	build->lists = build->codes = build->queries = false;
	return false;
}

bool
receive(WorkerBuild *build, wire::ReplyHeader *header, void *body, Size capacity)
{
	bridge::Fallback reason;

	if (!bridge::session_receive(header, body, capacity, &reason))
		return fail(build, reason);
	return header->status == wire::ReplyStatus::kOk || fail(build, bridge::fallback_of(header->status));
}

bool
submit(WorkerBuild *build, wire::RequestType type, const wire::Part *parts, size_t n_parts)
{
	bridge::Fallback reason;

	before_request();
	return bridge::session_submit(type, nullptr, parts, n_parts, &reason) || fail(build, reason);
}

bool
submit_rows(WorkerBuild *build, bridge::RowsRequest *last, wire::RequestType type, uint64 position, const void *rows,
	uint64 n, Size row_bytes)
{
	bridge::Fallback reason;

	before_request();
	return bridge::rows_submit(last, type, position, rows, n, row_bytes, &reason) || fail(build, reason);
}

bool
send_rows(WorkerBuild *build, wire::RequestType type, const void *rows, uint64 n, Size row_bytes)
{
	wire::ReplyHeader header;
	bridge::RowsRequest last = {};

	return submit_rows(build, &last, type, 0, rows, n, row_bytes) && receive(build, &header, nullptr, 0);
}

bool
read_result(WorkerBuild *build, wire::BuildResult result, void *to, Size n_bytes)
{
	char *bytes = static_cast<char *>(to);

	const Size capacity = bridge::session_reply_capacity();

	for (Size first = 0; first < n_bytes; first += capacity)
	{
		const uint32 n = static_cast<uint32>(Min(capacity, n_bytes - first));
		const wire::ReadBuildRequest request = {result, n, first};
		const wire::Part part = {&request, sizeof(request)};
		wire::ReplyHeader header;
		bridge::Fallback reason;

		if (!bridge::session_submit(wire::RequestType::kReadBuild, nullptr, &part, 1, &reason))
			return fail(build, reason);
		if (!receive(build, &header, bytes + first, n))
			return false;
		if (header.n_items != n)
			return fail(build, bridge::Fallback::kWrongAnswer);
	}
	return true;
}

} // namespace vectorgpu::am
