// vectorgpu_check for gpugraph: sizes of the streams, parts and entry points, edges that stay in their part and lead
// nowhere twice; with heapallindexed also that every row can be reached. PG dialect.
#include "am/gpugraph/graph.hpp"

#include "engine/graph/connect.hpp"
#include "storage/stream_check.hpp"

#include <cstring>

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowsPerRead = 256;

/// Checks that the vectors of entry points are those of their rows.
void
check_entry_vectors(Relation index, const MetaData *meta, const SegmentEntry *segment, const GraphModel *model,
	const uint32 *entries, BufferAccessStrategy strategy)
{
	const Size n_bytes = meta_vector_bytes(meta);
	char *stored = static_cast<char *>(palloc(n_bytes));
	char *own = static_cast<char *>(palloc(n_bytes));

	for (uint32 i = 0; i < model->n_entries; i++)
	{
		CHECK_FOR_INTERRUPTS();
		must_be_intact(index,
			stream_read(index, meta, segment, kEntryVectorStream, i * n_bytes, n_bytes, stored, strategy) &&
				stream_read(index, meta, segment, StreamKind::kVectors, entries[i] * n_bytes, n_bytes, own, strategy));
		if (memcmp(stored, own, n_bytes) != 0)
			stream_corrupted(index, segment, kEntryVectorStream,
				psprintf("The entry point with row %u has another vector than that row.", entries[i]));
	}
	pfree(stored);
	pfree(own);
}

void
check_edges_of_row(
	Relation index, const SegmentEntry *segment, const GraphPart *part, uint64 row, const uint32 *edges, uint32 degree)
{
	bool ended = false;

	for (uint32 i = 0; i < degree; i++)
	{
		if (edges[i] == engine::graph::kNoNode)
		{
			ended = true;
			continue;
		}
		if (edges[i] < part->first_row || edges[i] >= part->first_row + uint64{part->n_rows})
			stream_corrupted(
				index, segment, kEdgeStream, psprintf("An edge of row " UINT64_FORMAT " leaves its part.", row));
		if (ended || edges[i] == row)
			stream_corrupted(index, segment, kEdgeStream,
				psprintf("Row " UINT64_FORMAT " has an edge to itself, or one behind its last.", row));
		for (uint32 j = 0; j < i; j++)
			if (edges[j] == edges[i])
				stream_corrupted(
					index, segment, kEdgeStream, psprintf("Row " UINT64_FORMAT " has an edge twice.", row));
	}
}

/// Checks the edges of one part; deep: keeps them and follows them from its entry points.
void
check_part(Relation index, const MetaData *meta, const SegmentEntry *segment, const GraphModel *model,
	const GraphPart *part, uint32 *entries, bool deep, BufferAccessStrategy strategy)
{
	const Size row_bytes = model->degree * sizeof(uint32);
	uint32 *edges = static_cast<uint32 *>(
		MemoryContextAllocHuge(CurrentMemoryContext, (deep ? uint64{part->n_rows} : kRowsPerRead) * row_bytes));

	for (uint64 first = 0; first < part->n_rows; first += kRowsPerRead)
	{
		const uint64 n = Min(kRowsPerRead, part->n_rows - first);
		uint32 *read = edges + (deep ? first * model->degree : 0);

		CHECK_FOR_INTERRUPTS();
		must_be_intact(index,
			stream_read(index, meta, segment, kEdgeStream, (part->first_row + first) * row_bytes, n * row_bytes, read,
				strategy));
		for (uint64 i = 0; i < n; i++)
		{
			uint32 *own = read + i * model->degree;

			check_edges_of_row(index, segment, part, part->first_row + first + i, own, model->degree);
			for (uint32 j = 0; j < model->degree && own[j] != engine::graph::kNoNode; j++)
				own[j] -= part->first_row;
		}
	}
	if (deep)
	{
		const Size work_bytes = engine::graph::reachable_bytes(part->n_rows);
		void *work = MemoryContextAllocHuge(CurrentMemoryContext, work_bytes);
		uint32 n_reachable;

		for (uint32 i = 0; i < part->n_entries; i++)
			entries[i] -= part->first_row;
		n_reachable = engine::graph::count_reachable(
			part->n_rows, model->degree, edges, entries, part->n_entries, work, work_bytes);
		if (n_reachable != part->n_rows)
			stream_corrupted(index, segment, kEdgeStream,
				psprintf("No edges lead to %u of the rows of a part.", part->n_rows - n_reachable));
		pfree(work);
	}
	pfree(edges);
}

/// Checks that codes are those of the vectors: of entry points in both places; deep: of all rows.
void
check_codes(Relation index, const MetaData *meta, const SegmentEntry *segment, const GraphModel *model,
	const uint32 *entries, bool deep, BufferAccessStrategy strategy)
{
	const Size vector_bytes = meta_vector_bytes(meta);
	const Size code_bytes = engine::graph::code_bytes(model->code_bits, meta->dim);
	const uint64 n_rows = deep ? segment->n_rows : model->n_entries;
	char *vector = static_cast<char *>(palloc(vector_bytes));
	uint8 *stored = static_cast<uint8 *>(palloc(code_bytes));
	uint8 *own = static_cast<uint8 *>(palloc(code_bytes));
	engine::graph::CodeModel hash;
	uint8 *entry_codes;
	uint32 entry = 0;
	float *work;

	must_be_intact(index, graph_read_hash(index, meta, segment, model, &hash, &entry_codes, strategy));
	work = static_cast<float *>(palloc(engine::graph::code_work_floats(hash.spec) * sizeof(float)));
	for (uint64 i = 0; i < n_rows; i++)
	{
		const uint64 row = deep ? i : entries[i];
		const bool is_entry = entry < model->n_entries && entries[entry] == row;

		CHECK_FOR_INTERRUPTS();
		must_be_intact(index,
			stream_read(
				index, meta, segment, StreamKind::kVectors, row * vector_bytes, vector_bytes, vector, strategy) &&
				stream_read(index, meta, segment, kCodeStream, row * code_bytes, code_bytes, stored, strategy));
		engine::graph::make_codes(hash, {hash.spec.rows, vector, vector_bytes, 1}, own, work);
		if (memcmp(stored, own, code_bytes) != 0)
			stream_corrupted(
				index, segment, kCodeStream, psprintf("Row " UINT64_FORMAT " has a code of another vector.", row));
		if (is_entry && memcmp(entry_codes + entry * code_bytes, own, code_bytes) != 0)
			stream_corrupted(index, segment, kHashStream,
				psprintf("The entry point with row %u has another code than that row.", entries[entry]));
		entry += is_entry ? 1 : 0;
	}
	graph_free_hash(&hash);
	pfree(vector);
	pfree(stored);
	pfree(own);
	pfree(work);
}

} // namespace

const char *
graph_check_entry(const MetaData *meta, const SegmentEntry *segment)
{
	const uint32 wanted = graph_options(meta)->degree;
	const uint32 degree = graph_segment_degree(segment);
	const uint32 code_bits = graph_options(meta)->code_bits;

	if (stream_size(segment, StreamKind::kVectors) != segment->n_rows * meta_vector_bytes(meta))
		return "Its vectors do not fit its number of rows.";
	if (segment->n_rows > 0 &&
		(degree < engine::graph::kMinDegree || degree > engine::graph::kMaxDegree || (wanted != 0 && degree != wanted)))
		return "Its edges do not fit the index's degree.";
	if (stream_size(segment, kEdgeStream) != segment->n_rows * degree * sizeof(uint32))
		return "Its edges do not fit its number of rows.";
	if (code_bits != 0 && !engine::graph::code_bits_valid(code_bits))
		return "Its codes have an invalid number of bits.";
	if (code_bits != 0 && !engine::graph::codes_support(meta->metric))
		return "Its metric has no codes.";
	if (stream_size(segment, kCodeStream) != segment->n_rows * engine::graph::code_bytes(code_bits, meta->dim))
		return "Its codes do not fit its number of rows.";
	for (uint32 i = static_cast<uint32>(kCodeStream) + 1; i < kMaxStreams; i++)
		if (segment->streams[i].n_bytes != 0)
			return "It has an unexpected stream.";
	if (segment->n_rows == 0)
		return stream_size(segment, kGraphStream) == 0 && stream_size(segment, kPartStream) == 0 &&
				stream_size(segment, kEntryStream) == 0 && stream_size(segment, kEntryVectorStream) == 0 &&
				stream_size(segment, kHashStream) == 0
			? nullptr
			: "It has a graph, but no rows.";
	if (!graph_model_size_valid(stream_size(segment, kGraphStream)) || stream_size(segment, kPartStream) == 0 ||
		stream_size(segment, kPartStream) % sizeof(GraphPart) != 0 || stream_size(segment, kEntryStream) == 0 ||
		stream_size(segment, kEntryStream) % sizeof(uint32) != 0 ||
		stream_size(segment, kEntryVectorStream) !=
			stream_size(segment, kEntryStream) / sizeof(uint32) * meta_vector_bytes(meta) ||
		stream_size(segment, kHashStream) !=
			(code_bits == 0 ? 0
							: graph_code_model_bytes(code_bits, meta->dim) +
						stream_size(segment, kEntryStream) / sizeof(uint32) *
							engine::graph::code_bytes(code_bits, meta->dim)))
		return "The streams that describe its graph do not fit each other.";
	return nullptr;
}

void
graph_check(Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy)
{
	GraphModel model;
	GraphPart *parts;
	uint32 *entries;

	if (segment->n_rows == 0)
		return;
	must_be_intact(index, graph_read_model(index, meta, segment, &model, strategy));
	must_be_intact(index, graph_read_entries(index, meta, segment, &model, &parts, &entries, strategy));
	if (model.code_bits != graph_options(meta)->code_bits)
		stream_corrupted(index, segment, kGraphStream, "The graph has codes of another kind than the index.");
	check_entry_vectors(index, meta, segment, &model, entries, strategy);
	if (model.code_bits > 0)
		check_codes(index, meta, segment, &model, entries, deep, strategy);
	for (uint32 i = 0; i < model.n_parts; i++)
		check_part(index, meta, segment, &model, &parts[i], entries + parts[i].first_entry, deep, strategy);
	pfree(parts);
	pfree(entries);
}

} // namespace vectorgpu::am
