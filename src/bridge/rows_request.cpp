// See rows_request.hpp.
#include "bridge/rows_request.hpp"

#include <cstring>

namespace vectorgpu::bridge
{

namespace
{

constexpr Size kRowsBegin = sizeof(wire::BuildRowsRequest);

/// True if the session's last request is this one.
bool
is_last(const RowsRequest *last)
{
	return last->end > 0 && session_body() != nullptr && last->session == session_number() &&
		last->sequence == session_sequence();
}

} // namespace

bool
rows_submit(RowsRequest *last, wire::RequestType type, uint64 position, const void *rows, uint64 n, Size row_bytes,
	Fallback *reason)
{
	const Size n_bytes = n * row_bytes;
	const bool is_there = n > 0 && last->n == n && last->position == position && is_last(last);
	const Size begin = is_there ? last->ahead : kRowsBegin;
	const wire::BuildRowsRequest request = {
		position, static_cast<uint32_t>(n), static_cast<uint32_t>(begin - kRowsBegin)};
	const wire::Part parts[] = {{&request, sizeof(request)}, {is_there ? nullptr : rows, begin - kRowsBegin + n_bytes}};

	*last = {};
	if (!session_submit(type, nullptr, parts, lengthof(parts), reason))
		return false;
	*last = {session_number(), session_sequence(), begin, begin + n_bytes, 0, 0, 0};
	return true;
}

void
rows_put_ahead(RowsRequest *last, uint64 position, const void *rows, uint64 n, Size row_bytes)
{
	const Size n_bytes = n * row_bytes;

	last->n = 0;
	if (n == 0 || !is_last(last))
		return;
	last->ahead = kRowsBegin;
	if (last->begin < kRowsBegin + n_bytes)
		last->ahead += TYPEALIGN64(wire::kRowsAlignment, last->end - kRowsBegin);
	if (last->ahead + n_bytes > session_body_capacity())
		return;
	memcpy(session_body() + last->ahead, rows, n_bytes);
	last->position = position;
	last->n = n;
}

} // namespace vectorgpu::bridge
