// The worker's part in the calibration of codes: it counts the rows that codes rank before the neighbours of queries
// (calibrate_codes.cpp), while the next rows are read. PG dialect.
#include "am/gpuivf/worker_request.hpp"
#include "am/gpuivf/writer.hpp"
#include "pg/fault.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr Size kRequestBytes = 4 * 1024 * 1024;
constexpr Size kQueriesBytes = 256 * 1024; // of queries in a request, or one

/// Bytes of a query as ADD_COUNTED has them.
Size
query_bytes(const IvfWriter *writer)
{
	const Size list_bytes = sizeof(uint8) + (engine::ivf::code_is_residual(writer->layout.codes) ? sizeof(float) : 0);

	return sizeof(wire::CountedQuery) + writer->meta->dim * sizeof(float) + writer->model.n_lists * list_bytes;
}

void
put_query(const IvfWriter *writer, const engine::ivf::CountedQuery *query, char *to)
{
	const Size n_lists = writer->model.n_lists;

	static_assert(sizeof(wire::CountedQuery) == sizeof(engine::ivf::CountedNeighbors));
	memcpy(to, &query->neighbors, sizeof(query->neighbors));
	to += sizeof(query->neighbors);
	memcpy(to, query->codes.query, writer->meta->dim * sizeof(float));
	to += writer->meta->dim * sizeof(float);
	if (query->constants != nullptr)
	{
		memcpy(to, query->constants, n_lists * sizeof(float));
		to += n_lists * sizeof(float);
	}
	memcpy(to, query->points, n_lists);
}

bool
send_queries(IvfWriter *writer, const engine::ivf::CountedQuery *const *queries, uint64 n)
{
	const Size each = query_bytes(writer);
	const Size capacity = bridge::session_body_capacity() - sizeof(wire::BuildRowsRequest);
	const uint64 step = Max(Min(kQueriesBytes, capacity) / each, UINT64CONST(1));
	char *bytes = static_cast<char *>(palloc(step * each));
	bool sent = true;

	for (uint64 first = 0; sent && first < n; first += step)
	{
		const uint64 here = Min(step, n - first);

		CHECK_FOR_INTERRUPTS();
		for (uint64 i = 0; i < here; i++)
			put_query(writer, queries[first + i], bytes + i * each);
		sent = send_rows(&writer->worker, wire::RequestType::kAddCounted, bytes, here, each);
	}
	pfree(bytes);
	return sent;
}

/// Rows of a request.
struct CodesBatch
{
	uint64 first;
	uint64 n;
	char *bytes; // u32 lists [n], then rows of IvfWriter::codes [n]
};

void
read_batch(IvfWriter *writer, CodesBatch *batch, uint64 first, uint64 most)
{
	batch->first = first;
	batch->n = Min(most, writer->n_rows - first);
	if (batch->n == 0)
		return;
	spool_seek(writer->labels, first * sizeof(uint32));
	spool_read(writer->labels, batch->bytes, batch->n * sizeof(uint32));
	row_store_read(&writer->codes, first, batch->n, batch->bytes + batch->n * sizeof(uint32));
}

/// Sends all rows. False: the worker has failed, or *gave_way.
bool
send_codes(IvfWriter *writer, uint64 most, bool *gave_way)
{
	WorkerBuild *build = &writer->worker;
	const Size row_bytes = sizeof(uint32) + writer->coded_bytes;
	CodesBatch batch = {0, 0, static_cast<char *>(palloc(most * row_bytes))};
	bridge::RowsRequest last = {};
	bool sent = true;

	read_batch(writer, &batch, 0, most);
	while (sent && batch.n > 0)
	{
		wire::ReplyHeader header;

		*gave_way = ivf_gives_way(writer);
		sent = !*gave_way &&
			submit_rows(build, &last, wire::RequestType::kCountCodes, batch.first, batch.bytes, batch.n, row_bytes);
		if (!sent)
			break;
		read_batch(writer, &batch, batch.first + batch.n, most);
		bridge::rows_put_ahead(&last, batch.first, batch.bytes, batch.n, row_bytes);
		sent = receive(build, &header, nullptr, 0);
	}
	pfree(batch.bytes);
	return sent;
}

} // namespace

bool
worker_count_codes(IvfWriter *writer, const engine::ivf::CountSampling *sampling, engine::ivf::CountedQuery **queries,
	uint64 n, bool *gave_way)
{
	WorkerBuild *build = &writer->worker;
	const wire::BeginCountsRequest spec = {static_cast<uint32>(n), sampling->batch_rows, sampling->stride, 0};
	const wire::Part part = {&spec, sizeof(spec)};
	const Size capacity = bridge::session_body_capacity();
	const Size row_bytes = sizeof(uint32) + writer->coded_bytes;
	constexpr Size kCounts = sizeof(queries[0]->better);
	wire::ReplyHeader header;
	uint64 most;
	char *counts;

	*gave_way = false;
	if (!build->codes || n == 0 || VG_FAULT("ivf_count_codes") ||
		capacity < sizeof(wire::BuildRowsRequest) + Max(query_bytes(writer), row_bytes))
		return false;
	most = (Min(capacity, kRequestBytes) - sizeof(wire::BuildRowsRequest)) / row_bytes;
	if (most > sampling->batch_rows)
		most -= most % sampling->batch_rows;
	if (!submit(build, wire::RequestType::kBeginCounts, &part, 1) || !receive(build, &header, nullptr, 0) ||
		!send_queries(writer, queries, n) || !send_codes(writer, most, gave_way))
		return false;
	counts = static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, n * kCounts));
	if (!read_result(build, wire::BuildResult::kCounts, counts, n * kCounts))
		return false;
	for (uint64 i = 0; i < n; i++)
		memcpy(queries[i]->better, counts + i * kCounts, kCounts);
	pfree(counts);
	ereport(DEBUG1,
		(errmsg_internal(
			"the worker has counted the codes of index \"%s\"", RelationGetRelationName(writer->plan.index))));
	return true;
}

} // namespace vectorgpu::am
