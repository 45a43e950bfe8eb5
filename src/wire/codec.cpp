// See codec.hpp. C++ dialect without exceptions; called by the worker's dispatcher, by clients, and by the fuzz
// targets.
#include "wire/codec.hpp"

#include <cstring>

namespace vectorgpu::wire
{
namespace
{

/// Copies a structure out of memory that may change. The barrier keeps the compiler from reading the source again
/// later.
template <typename T>
void
copy_out(const uint8_t *data, T *to)
{
	memcpy(to, data, sizeof(T));
	asm volatile("" : : : "memory");
}

bool
all_zero(const void *data, size_t bytes)
{
	const uint8_t *p = static_cast<const uint8_t *>(data);

	for (size_t i = 0; i < bytes; i++)
		if (p[i] != 0)
			return false;
	return true;
}

/// The body is one structure and nothing else.
template <typename T>
ParseResult
only(const uint8_t *body, size_t length, T *to)
{
	if (length < sizeof(T))
		return ParseResult::kTruncated;
	if (length > sizeof(T))
		return ParseResult::kLength;
	copy_out(body, to);
	return ParseResult::kOk;
}

ParseResult
parse_search(const uint8_t *body, size_t length, RequestView *view)
{
	SearchRequest &search = view->search;

	if (length < sizeof(SearchRequest))
		return ParseResult::kTruncated;
	copy_out(body, &search);
	if (!shape_valid(search.element, search.metric, search.dim))
		return ParseResult::kType;
	if (search.k < 1 || search.k > kMaxSearchK || search.has_after > 1 || !all_zero(search.zero, sizeof(search.zero)) ||
		!(search.recall_target >= 0 && search.recall_target <= 1)) // NaN is neither
		return ParseResult::kField;
	if (search.n_probes > kMaxSegmentsPerCopy || search.rows_position >= kMaxRowNumber ||
		(search.n_rows == 0 && search.rows_position != 0))
		return ParseResult::kField;

	const size_t probe_bytes = search.n_probes * sizeof(SegmentProbes);
	const size_t id_bytes = static_cast<size_t>(search.n_rows) * sizeof(uint64_t); // 2^35 at most

	view->row_bytes = vector_bytes(search.element, search.dim);
	const size_t rest = length - sizeof(SearchRequest);
	const size_t before_query = probe_bytes + id_bytes + search.n_rows * view->row_bytes; // less than 2^49

	if (rest <= before_query || (search.element != ElementType::kSet && rest - before_query != view->row_bytes))
		return ParseResult::kLength;
	view->vector_bytes = rest - before_query;
	memcpy(view->probes, body + sizeof(SearchRequest), probe_bytes);
	asm volatile("" : : : "memory");
	for (uint32_t i = 0; i < search.n_probes; i++)
		if (view->probes[i].segment == 0 || view->probes[i].probes == 0 || view->probes[i].zero != 0)
			return ParseResult::kField;
	view->row_ids = body + sizeof(SearchRequest) + probe_bytes;
	view->vectors = view->row_ids + id_bytes;
	view->vector = view->vectors + search.n_rows * view->row_bytes;
	return ParseResult::kOk;
}

ParseResult
parse_rows(const uint8_t *body, size_t length, RequestView *view)
{
	RowsRequest &rows = view->rows;

	if (length < sizeof(RowsRequest))
		return ParseResult::kTruncated;
	copy_out(body, &rows);
	if (rows.n_rows == 0 || rows.position >= kMaxRowNumber)
		return ParseResult::kField;
	if ((view->header.type == RequestType::kAppend) != (rows.segment == 0))
		return ParseResult::kField;

	const size_t rest = length - sizeof(RowsRequest);
	const size_t id_bytes = static_cast<size_t>(rows.n_rows) * sizeof(uint64_t); // 2^35 at most

	if (rest < id_bytes || (rest - id_bytes) % rows.n_rows != 0) // segments of kMatch and kCodes have no vectors
		return ParseResult::kLength;
	view->row_bytes = (rest - id_bytes) / rows.n_rows;
	view->row_ids = body + sizeof(RowsRequest);
	view->vectors = view->row_ids + id_bytes;
	return ParseResult::kOk;
}

ParseResult
parse_structure(const uint8_t *body, size_t length, RequestView *view)
{
	StructureRequest &structure = view->structure;

	if (length < sizeof(StructureRequest))
		return ParseResult::kTruncated;
	copy_out(body, &structure);
	if (structure.segment == 0 || structure.parameter < 1 || structure.parameter > kMaxStructureParameter ||
		structure.position >= kMaxRowNumber)
		return ParseResult::kField;
	if (length == sizeof(StructureRequest))
		return ParseResult::kLength;
	view->structure_bytes = body + sizeof(StructureRequest);
	view->n_structure_bytes = length - sizeof(StructureRequest);
	return ParseResult::kOk;
}

ParseResult
parse_tombstones(const uint8_t *body, size_t length, RequestView *view)
{
	TombstonesRequest &tombstones = view->tombstones;

	if (length < sizeof(TombstonesRequest))
		return ParseResult::kTruncated;
	copy_out(body, &tombstones);
	if (tombstones.last > 1 || tombstones.zero != 0 || tombstones.first_bit >= kMaxRowNumber)
		return ParseResult::kField;
	if (tombstones.segment != 0 && tombstones.first_bit % 8 != 0)
		return ParseResult::kField;
	if (length - sizeof(TombstonesRequest) != (static_cast<size_t>(tombstones.n_bits) + 7) / 8)
		return ParseResult::kLength;
	view->bits = body + sizeof(TombstonesRequest);
	return ParseResult::kOk;
}

ParseResult
parse_manifest(const uint8_t *body, size_t length, RequestView *view)
{
	ManifestRequest &manifest = view->manifest;

	if (length < sizeof(ManifestRequest))
		return ParseResult::kTruncated;
	copy_out(body, &manifest);
	if (manifest.zero != 0 || manifest.n_segments > kMaxSegmentsPerCopy || manifest.delta_first > kMaxRowNumber)
		return ParseResult::kField;
	if (length - sizeof(ManifestRequest) != manifest.n_segments * sizeof(uint32_t))
		return ParseResult::kLength;
	memcpy(view->segment_ids, body + sizeof(ManifestRequest), manifest.n_segments * sizeof(uint32_t));
	asm volatile("" : : : "memory");
	for (uint32_t i = 0; i < manifest.n_segments; i++)
		if (view->segment_ids[i] <= (i == 0 ? 0 : view->segment_ids[i - 1]))
			return ParseResult::kField;
	return ParseResult::kOk;
}

ParseResult
parse_build_spec(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->build_spec);
	const BuildSpec &spec = view->build_spec;

	if (result != ParseResult::kOk)
		return result;
	if (!shape_valid(spec.element, spec.metric, spec.dim) || spec.element == ElementType::kSet)
		return ParseResult::kType;
	if (!all_zero(spec.zero, sizeof(spec.zero)) || spec.n_clusters < 1 || spec.n_clusters > kMaxBuildLists ||
		!(spec.tolerance >= 0))
		return ParseResult::kField;
	return ParseResult::kOk;
}

ParseResult
check_graph_build_spec(const GraphBuildSpec &spec)
{
	if (!shape_valid(spec.element, spec.metric, spec.dim) || spec.element == ElementType::kSet ||
		(spec.element == ElementType::kBit && spec.hash_bits != 0))
		return ParseResult::kType;
	if (spec.prune > 1 || spec.measure > 1 || spec.n_rows < 1 || spec.n_rows > kMaxBuildRows ||
		spec.degree < kMinGraphDegree || spec.degree > kMaxGraphDegree || spec.zero != 0)
		return ParseResult::kField;
	if (spec.hash_bits != 0 &&
		(spec.hash_bits < kMinHashBits || spec.hash_bits > kMaxHashBits ||
			(spec.hash_bits & (spec.hash_bits - 1)) != 0))
		return ParseResult::kField;
	return ParseResult::kOk;
}

ParseResult
parse_codes_spec(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->codes_spec);
	const CodesSpec &spec = view->codes_spec;

	if (result != ParseResult::kOk)
		return result;
	if (spec.kind != CodesKind::kSq8 && spec.kind != CodesKind::kPq)
		return ParseResult::kType;
	if (spec.zero != 0 || spec.zero1 != 0 || spec.opq > 1)
		return ParseResult::kField;
	if (spec.kind == CodesKind::kSq8)
		return spec.pq_bits == 0 && spec.opq == 0 && spec.pq_m == 0 ? ParseResult::kOk : ParseResult::kField;
	return (spec.pq_bits == 4 || spec.pq_bits == 8) && spec.pq_m >= 1 &&
			spec.pq_m <= static_cast<uint32_t>(kMaxDimensions)
		? ParseResult::kOk
		: ParseResult::kField;
}

ParseResult
parse_graph_build_spec(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->graph_build_spec);

	return result != ParseResult::kOk ? result : check_graph_build_spec(view->graph_build_spec);
}

ParseResult
parse_insert_build_spec(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->insert_build_spec);
	const InsertBuildSpec &spec = view->insert_build_spec;

	if (result != ParseResult::kOk)
		return result;
	if (spec.n_base < 1 || spec.n_base > kMaxBuildRows || spec.n_kept > spec.n_base ||
		spec.n_kept > spec.graph.n_rows || spec.graph.hash_bits != 0)
		return ParseResult::kField;
	return check_graph_build_spec(spec.graph);
}

/// Steps that bring some of many rows say which is the first.
bool
has_position(BuildStep step)
{
	return step == BuildStep::kAssign || step == BuildStep::kRows || step == BuildStep::kBaseEdges ||
		step == BuildStep::kBaseNumbers;
}

ParseResult
parse_build(const uint8_t *body, size_t length, RequestView *view)
{
	BuildRequest &build = view->build;
	const uint8_t *rest = body + sizeof(BuildRequest);

	if (length < sizeof(BuildRequest))
		return ParseResult::kTruncated;
	copy_out(body, &build);
	length -= sizeof(BuildRequest);
	if (!has_position(build.step) && build.position != 0)
		return ParseResult::kField;
	switch (build.step)
	{
		case BuildStep::kBegin:
			return build.n_rows != 0 ? ParseResult::kField : parse_build_spec(rest, length, view);
		case BuildStep::kBeginGraph:
			return build.n_rows != 0 ? ParseResult::kField : parse_graph_build_spec(rest, length, view);
		case BuildStep::kCodes:
			return build.n_rows != 0 ? ParseResult::kField : parse_codes_spec(rest, length, view);
		case BuildStep::kBeginInsert:
			return build.n_rows != 0 ? ParseResult::kField : parse_insert_build_spec(rest, length, view);
		case BuildStep::kTrain:
		case BuildStep::kTrainCodes:
		case BuildStep::kStart:
		case BuildStep::kEnd:
			if (build.n_rows != 0)
				return ParseResult::kField;
			return length == 0 ? ParseResult::kOk : ParseResult::kLength;
		case BuildStep::kTraining:
		case BuildStep::kCodesTraining:
		case BuildStep::kCodesModel:
		case BuildStep::kCentroids:
		case BuildStep::kQueries:
		case BuildStep::kAssign:
		case BuildStep::kRows:
		case BuildStep::kBaseEdges:
		case BuildStep::kBaseNumbers:
		case BuildStep::kBaseEntries:
			if (build.n_rows == 0 || build.position >= kMaxRowNumber)
				return ParseResult::kField;
			if (length == 0 || length % build.n_rows != 0)
				return ParseResult::kLength;
			view->row_bytes = length / build.n_rows;
			view->vectors = rest;
			return ParseResult::kOk;
	}
	return ParseResult::kType;
}

ParseResult
parse_build_read(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->build_read);
	const BuildReadRequest &read = view->build_read;

	if (result != ParseResult::kOk)
		return result;
	if (static_cast<uint32_t>(read.result) < 1 ||
		static_cast<uint32_t>(read.result) > static_cast<uint32_t>(BuildResult::kCodesModel))
		return ParseResult::kType;
	return read.n_bytes == 0 || read.n_bytes > kMaxAreaBytes || read.first >= kMaxRowNumber ? ParseResult::kField
																							: ParseResult::kOk;
}

ParseResult
parse_body(const uint8_t *body, size_t length, RequestView *view)
{
	ParseResult result = ParseResult::kOk;

	switch (view->header.type)
	{
		case RequestType::kSearch:
			return parse_search(body, length, view);
		case RequestType::kNext:
			return only(body, length, &view->next);
		case RequestType::kCreate:
			result = only(body, length, &view->create);
			if (result == ParseResult::kOk && !shape_valid(view->create.element, view->create.metric, view->create.dim))
				return ParseResult::kType;
			if (result == ParseResult::kOk &&
				static_cast<uint8_t>(view->create.kind) > static_cast<uint8_t>(CopyKind::kCodes))
				return ParseResult::kType;
			if (result == ParseResult::kOk && (view->create.zero != 0 || view->create.delta_first > kMaxRowNumber))
				return ParseResult::kField;
			return result;
		case RequestType::kLoadRows:
		case RequestType::kAppend:
			return parse_rows(body, length, view);
		case RequestType::kLoadStructure:
			return parse_structure(body, length, view);
		case RequestType::kSeal:
			result = only(body, length, &view->segment);
			if (result == ParseResult::kOk && (view->segment.segment == 0 || view->segment.zero != 0))
				return ParseResult::kField;
			return result;
		case RequestType::kTombstones:
			return parse_tombstones(body, length, view);
		case RequestType::kManifest:
			return parse_manifest(body, length, view);
		case RequestType::kInventory:
			result = only(body, length, &view->inventory);
			return result == ParseResult::kOk && view->inventory.zero != 0 ? ParseResult::kField : result;
		case RequestType::kChecksum:
			result = only(body, length, &view->checksum);
			if (result == ParseResult::kOk &&
				(view->checksum.structure > (view->checksum.segment != 0 ? 1u : 0u) ||
					view->checksum.first > kMaxRowNumber || view->checksum.n_rows > kMaxRowNumber))
				return ParseResult::kField;
			return result;
		case RequestType::kBuild:
			return parse_build(body, length, view);
		case RequestType::kBuildRead:
			return parse_build_read(body, length, view);
		case RequestType::kDescribe:
		case RequestType::kDrop:
		case RequestType::kStats:
		case RequestType::kPing:
			return length == 0 ? ParseResult::kOk : ParseResult::kLength;
	}
	return ParseResult::kType;
}

/// What a good reply's body has: fixed bytes and bytes for each item. n_items is zero where item_bytes is.
struct BodyShape
{
	size_t fixed_bytes;
	size_t item_bytes;
};

BodyShape
reply_shape(RequestType type)
{
	switch (type)
	{
		case RequestType::kSearch:
		case RequestType::kNext:
			return {0, sizeof(WireNeighbor)};
		case RequestType::kDescribe:
		case RequestType::kCreate:
			return {sizeof(CopyState), sizeof(SegmentState)};
		case RequestType::kStats:
			return {sizeof(WorkerStats), 0};
		case RequestType::kInventory:
			return {0, sizeof(CopyInfo)};
		case RequestType::kChecksum:
			return {sizeof(ChecksumReply), 0};
		case RequestType::kBuild:
			return {0, sizeof(RowLabel)};
		case RequestType::kBuildRead:
			return {0, 1};
		case RequestType::kLoadRows:
		case RequestType::kSeal:
		case RequestType::kAppend:
		case RequestType::kTombstones:
		case RequestType::kManifest:
		case RequestType::kDrop:
		case RequestType::kPing:
		case RequestType::kLoadStructure:
			break;
	}
	return {0, 0};
}

/// The total order of results; as engine::neighbor_less, which this folder cannot include.
bool
less(const WireNeighbor &a, const WireNeighbor &b)
{
	if (a.score < b.score)
		return true;
	if (a.score > b.score)
		return false;

	const bool a_nan = a.score != a.score;
	const bool b_nan = b.score != b.score;

	return a_nan != b_nan ? b_nan : a.row < b.row;
}

} // namespace

bool
shape_valid(ElementType element, Metric metric, uint32_t dim)
{
	if (dim < 1)
		return false;
	switch (element)
	{
		case ElementType::kFloat32:
		case ElementType::kFloat16:
			return dim <= static_cast<uint32_t>(kMaxDimensions) &&
				static_cast<uint8_t>(metric) <= static_cast<uint8_t>(Metric::kL1);
		case ElementType::kBit:
			return dim <= static_cast<uint32_t>(kMaxBitDimensions) &&
				(metric == Metric::kHamming || metric == Metric::kJaccard);
		case ElementType::kSet:
			return (metric == Metric::kMatchCount || metric == Metric::kEdit) && dim >= kMinSlotBytes &&
				dim <= kMaxSlotBytes;
	}
	return false;
}

ParseResult
parse_request(const uint8_t *data, size_t length, uint64_t sequence, RequestView *view)
{
	*view = RequestView{};
	if (length < sizeof(RequestHeader))
		return ParseResult::kTruncated;
	copy_out(data, &view->header);

	const RequestHeader &header = view->header;
	const size_t body_bytes = length - sizeof(RequestHeader);

	if (header.body_bytes != body_bytes)
		return ParseResult::kLength;
	if (header.sequence != sequence)
		return ParseResult::kSequence;
	if (header.key.zero != 0 || !all_zero(header.zero, sizeof(header.zero)))
		return ParseResult::kField;
	return parse_body(data + sizeof(RequestHeader), body_bytes, view);
}

ParseResult
parse_reply(const uint8_t *data, size_t length, RequestType type, uint64_t sequence, ReplyHeader *header)
{
	*header = ReplyHeader{};
	if (length < sizeof(ReplyHeader))
		return ParseResult::kTruncated;
	copy_out(data, header);

	const size_t body_bytes = length - sizeof(ReplyHeader);

	if (header->body_bytes != body_bytes)
		return ParseResult::kLength;
	if (header->sequence != sequence)
		return ParseResult::kSequence;
	if (static_cast<uint32_t>(header->status) > static_cast<uint32_t>(ReplyStatus::kInternal))
		return ParseResult::kType;
	if (header->more > 1 || static_cast<uint32_t>(header->coverage) > static_cast<uint32_t>(Coverage::kPart) ||
		!all_zero(header->zero1, sizeof(header->zero1)))
		return ParseResult::kField;

	// Rows that were coded have more than their label: how much the client knows.
	if (type == RequestType::kBuild && header->status == ReplyStatus::kOk && header->n_items > 0 && header->more == 0)
		return body_bytes % header->n_items == 0 && body_bytes / header->n_items >= sizeof(RowLabel)
			? ParseResult::kOk
			: ParseResult::kLength;

	const BodyShape shape = header->status == ReplyStatus::kOk ? reply_shape(type) : BodyShape{0, 0};

	// Only what did not fit is left for NEXT: a part without items would end the rows, or be asked for without an end.
	if (header->more != 0 && (shape.item_bytes != sizeof(WireNeighbor) || header->n_items == 0))
		return ParseResult::kField;
	if (shape.item_bytes == 0 && header->n_items != 0)
		return ParseResult::kLength;
	if (body_bytes != shape.fixed_bytes + static_cast<size_t>(header->n_items) * shape.item_bytes)
		return ParseResult::kLength;
	return ParseResult::kOk;
}

bool
neighbors_valid(const WireNeighbor *items, size_t n, const WireNeighbor *after)
{
	for (size_t i = 0; i < n; i++)
	{
		const WireNeighbor *before = i > 0 ? &items[i - 1] : after;

		if (items[i].row > kRowIdMask || (items[i].row & 0xFFFF) == 0 ||
			(before != nullptr && !less(*before, items[i])))
			return false;
	}
	return true;
}

} // namespace vectorgpu::wire
