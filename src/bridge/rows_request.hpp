// Requests of rows (wire::BuildRowsRequest), one after another: while the worker has one, the rows of the next are put
// beside its rows, so that the worker does not wait for their copy. PG dialect.
#pragma once

#include "bridge/client_session.hpp"
#include "wire/build_messages.hpp"

namespace vectorgpu::bridge
{

/// The last request, and the rows put beside it. All zeros: neither.
struct RowsRequest
{
	uint64 session;  // session_number
	uint64 sequence; // of the last request
	Size begin;      // of its rows in the body
	Size end;
	Size ahead; // where the next rows are
	uint64 position;
	uint64 n; // of these rows; 0: none
};

/// session_submit of rows [n, row_bytes], from row `position` on; takes them from the area if they are there.
bool rows_submit(RowsRequest *last, wire::RequestType type, uint64 position, const void *rows, uint64 n, Size row_bytes,
	Fallback *reason);

/// Puts the rows of the next request beside those of the last one, which the worker has. Nothing if there is no room.
/// The request may also turn out to be another one.
void rows_put_ahead(RowsRequest *last, uint64 position, const void *rows, uint64 n, Size row_bytes);

} // namespace vectorgpu::bridge
