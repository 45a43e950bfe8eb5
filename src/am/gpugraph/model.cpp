// Reading the description of a segment's graph. PG dialect; locks page by page.
#include "am/gpugraph/graph.hpp"

#include "storage/stream_check.hpp"

#include <cstring>

namespace vectorgpu::am
{

bool
graph_read_model(
	Relation index, const MetaData *meta, const SegmentEntry *segment, GraphModel *model, BufferAccessStrategy strategy)
{
	const uint64 n_bytes = stream_size(segment, kGraphStream);

	if (!graph_model_size_valid(n_bytes))
		page_corrupted(index, 0, "A segment has no graph.");
	model->depths = {};
	if (!stream_read(index, meta, segment, kGraphStream, 0, n_bytes, model, strategy))
		return false;
	if (model->degree < engine::graph::kMinDegree || model->degree > engine::graph::kMaxDegree || model->n_parts == 0 ||
		stream_size(segment, kPartStream) != model->n_parts * sizeof(GraphPart) ||
		stream_size(segment, kEntryStream) != model->n_entries * sizeof(uint32) ||
		stream_size(segment, kEntryVectorStream) != model->n_entries * meta_vector_bytes(meta) ||
		stream_size(segment, kEdgeStream) != segment->n_rows * model->degree * sizeof(uint32) ||
		(model->code_bits != 0 && !engine::graph::code_bits_valid(model->code_bits)) ||
		stream_size(segment, kHashStream) !=
			(model->code_bits == 0 ? 0
								   : graph_code_model_bytes(model->code_bits, meta->dim) +
						model->n_entries * engine::graph::code_bytes(model->code_bits, meta->dim)) ||
		stream_size(segment, kCodeStream) != segment->n_rows * engine::graph::code_bytes(model->code_bits, meta->dim) ||
		model->calibration.n_points >= engine::ivf::kMaxCalibrationPoints ||
		engine::ivf::calibration_problem(model->calibration, model->depths, UINT32_MAX) != nullptr)
		page_corrupted(index, segment->streams[static_cast<int>(kGraphStream)].start_block,
			"The description of the graph contradicts the metapage.");
	return true;
}

bool
graph_read_entries(Relation index, const MetaData *meta, const SegmentEntry *segment, const GraphModel *model,
	GraphPart **parts, uint32 **entries, BufferAccessStrategy strategy)
{
	const Size part_bytes = model->n_parts * sizeof(GraphPart);
	const Size entry_bytes = model->n_entries * sizeof(uint32);
	uint64 row = 0;
	uint64 entry = 0;

	*parts = static_cast<GraphPart *>(MemoryContextAllocHuge(CurrentMemoryContext, part_bytes));
	*entries = static_cast<uint32 *>(MemoryContextAllocHuge(CurrentMemoryContext, Max(entry_bytes, 1)));
	if (!stream_read(index, meta, segment, kPartStream, 0, part_bytes, *parts, strategy) ||
		!stream_read(index, meta, segment, kEntryStream, 0, entry_bytes, *entries, strategy))
		return false;
	for (uint32 i = 0; i < model->n_parts; i++)
	{
		const GraphPart *part = &(*parts)[i];

		if (part->first_row != row || part->first_entry != entry || part->n_rows == 0 || part->n_entries == 0 ||
			entry + part->n_entries > model->n_entries)
			page_corrupted(index, segment->streams[static_cast<int>(kPartStream)].start_block,
				"The parts of the graph do not follow each other.");
		row += part->n_rows;
		for (; entry < uint64{part->first_entry} + part->n_entries; entry++)
			if ((*entries)[entry] < part->first_row || (*entries)[entry] >= row)
				page_corrupted(index, segment->streams[static_cast<int>(kEntryStream)].start_block,
					"An entry point of the graph is not in its part.");
	}
	if (row != segment->n_rows || entry != model->n_entries)
		page_corrupted(index, segment->streams[static_cast<int>(kPartStream)].start_block,
			"The parts of the graph do not end with the last row.");
	return true;
}

bool
graph_read_hash(Relation index, const MetaData *meta, const SegmentEntry *segment, const GraphModel *model,
	engine::graph::CodeModel *hash, uint8 **entry_codes, BufferAccessStrategy strategy)
{
	const Size before = graph_code_model_bytes(model->code_bits, meta->dim);
	const Size n_bytes = before + model->n_entries * engine::graph::code_bytes(model->code_bits, meta->dim);
	char *bytes = static_cast<char *>(MemoryContextAllocHuge(CurrentMemoryContext, n_bytes));
	engine::GraphHashHead head;

	if (!stream_read(index, meta, segment, kHashStream, 0, n_bytes, bytes, strategy))
	{
		pfree(bytes);
		return false;
	}
	memcpy(&head, bytes, sizeof(head));
	hash->spec = {{meta->metric, meta->element, meta->dim}, model->code_bits, head.seed};
	hash->bound = head.bound;
	hash->floats = reinterpret_cast<const float *>(bytes + sizeof(head));
	*entry_codes = reinterpret_cast<uint8 *>(bytes + before);
	return true;
}

void
graph_free_hash(engine::graph::CodeModel *hash)
{
	pfree(const_cast<char *>(reinterpret_cast<const char *>(hash->floats)) - sizeof(engine::GraphHashHead));
	hash->floats = nullptr;
}

} // namespace vectorgpu::am
