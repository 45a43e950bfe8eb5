// Parsers of the bodies of copy_messages.hpp. See codec_parts.hpp.
#include "wire/codec_parts.hpp"

namespace vectorgpu::wire
{
namespace
{

constexpr uint32_t kMostRowKeyBytes = kMostKeyStreams * 8 + 4; // codes of a delta row

ParseResult
parse_search(const uint8_t *body, size_t length, RequestView *view)
{
	SearchRequest &search = view->search;

	if (length < sizeof(SearchRequest))
		return ParseResult::kTruncated;
	copy_out(body, &search);
	if (!shape_valid(search.element, search.metric, search.dim))
		return ParseResult::kType;
	if (search.k < 1 || search.k > kMaxSearchK || search.has_after > 1 || search.given > 1 || search.zero != 0 ||
		!(search.recall_target >= 0 && search.recall_target <= 1)) // NaN is neither
		return ParseResult::kField;
	if (search.n_probes > kMaxSegmentsPerCopy || search.rows_position >= kMaxRowNumber ||
		(search.n_rows == 0 && search.rows_position != 0))
		return ParseResult::kField;
	if (search.program_bytes > kMostProgramBytes || search.program_bytes % 8 != 0 ||
		(search.given != 0 && search.program_bytes < sizeof(GivenRows)) || search.key_bytes > kMostRowKeyBytes ||
		(search.n_rows == 0 && search.key_bytes != 0))
		return ParseResult::kField;

	const size_t probe_bytes = search.n_probes * sizeof(SegmentProbes);
	const size_t id_bytes = static_cast<size_t>(search.n_rows) * sizeof(uint64_t); // 2^35 at most

	const size_t query_bytes = vector_bytes(search.element, search.dim);

	view->row_bytes = query_bytes + search.key_bytes;
	const size_t rest = length - sizeof(SearchRequest);
	const size_t before_rows = probe_bytes + search.program_bytes;
	const size_t before_query = before_rows + id_bytes + search.n_rows * view->row_bytes; // less than 2^49

	if (rest <= before_query || (search.element != ElementType::kSet && rest - before_query != query_bytes))
		return ParseResult::kLength;
	view->vector_bytes = rest - before_query;
	memcpy(view->probes, body + sizeof(SearchRequest), probe_bytes);
	asm volatile("" : : : "memory");
	for (uint32_t i = 0; i < search.n_probes; i++)
		if (view->probes[i].segment == 0 || view->probes[i].probes == 0 || view->probes[i].zero != 0)
			return ParseResult::kField;
	view->program = body + sizeof(SearchRequest) + probe_bytes;
	view->row_ids = view->program + search.program_bytes;
	view->vectors = view->row_ids + id_bytes;
	view->vector = view->vectors + search.n_rows * view->row_bytes;
	return ParseResult::kOk;
}

ParseResult
parse_search_many(const uint8_t *body, size_t length, RequestView *view)
{
	SearchManyRequest &many = view->search_many;

	if (length < sizeof(SearchManyRequest))
		return ParseResult::kTruncated;
	copy_out(body, &many);
	if (many.n_searches > kMostSearchesTogether || (many.flags & ~(kManyContinues | kManyFollows)) != 0 ||
		(many.n_searches == 0 && (many.flags & kManyContinues) == 0))
		return ParseResult::kField;
	view->searches = body + sizeof(SearchManyRequest);
	view->searches_bytes = length - sizeof(SearchManyRequest);
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

	if (rest < id_bytes || (rest - id_bytes) % rows.n_rows != 0) // segments of some kinds have no vectors
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
parse_keys(const uint8_t *body, size_t length, RequestView *view)
{
	KeysRequest &keys = view->keys;

	if (length < sizeof(KeysRequest))
		return ParseResult::kTruncated;
	copy_out(body, &keys);
	if (keys.segment == 0 || keys.zero != 0 || keys.position >= kMaxRowNumber)
		return ParseResult::kField;
	if (length == sizeof(KeysRequest))
		return ParseResult::kLength;
	view->structure_bytes = body + sizeof(KeysRequest);
	view->n_structure_bytes = length - sizeof(KeysRequest);
	return ParseResult::kOk;
}

/// True if the streams can be those of an index. Each column has one or two streams, in the order of the columns.
bool
key_columns_valid(const KeyColumns &keys)
{
	if (keys.n_columns < 1 || keys.n_columns > kMostKeyColumns || keys.n_streams < keys.n_columns ||
		keys.n_streams > 2 * keys.n_columns || !all_zero(keys.zero, sizeof(keys.zero)))
		return false;
	for (uint32_t i = 0; i < sizeof(keys.widths); i++)
	{
		const uint8_t width = keys.widths[i];

		if (i >= keys.n_streams)
		{
			if (width != 0 || keys.columns[i] != 0)
				return false;
		}
		else if ((width != 1 && width != 2 && width != 4 && width != 8) || keys.columns[i] >= keys.n_columns)
			return false;
	}
	return true;
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
parse_create(const uint8_t *body, size_t length, RequestView *view)
{
	const bool has_keys = length == sizeof(CreateRequest) + sizeof(KeyColumns);
	const ParseResult result = only(body, has_keys ? sizeof(CreateRequest) : length, &view->create);
	const CreateRequest &create = view->create;

	if (result != ParseResult::kOk)
		return result;
	if (has_keys)
	{
		copy_out(body + sizeof(CreateRequest), &view->key_columns);
		if (!key_columns_valid(view->key_columns) || create.kind == CopyKind::kMatch)
			return ParseResult::kField;
	}
	if (!shape_valid(create.element, create.metric, create.dim) ||
		static_cast<uint8_t>(create.kind) > static_cast<uint8_t>(CopyKind::kSparse))
		return ParseResult::kType;
	return create.zero != 0 || create.delta_first > kMaxRowNumber ? ParseResult::kField : ParseResult::kOk;
}

ParseResult
parse_seal(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->segment);

	if (result != ParseResult::kOk)
		return result;
	return view->segment.segment == 0 || view->segment.zero != 0 ? ParseResult::kField : ParseResult::kOk;
}

ParseResult
parse_checksum(const uint8_t *body, size_t length, RequestView *view)
{
	const ParseResult result = only(body, length, &view->checksum);
	const ChecksumRequest &checksum = view->checksum;

	if (result != ParseResult::kOk)
		return result;
	return checksum.structure > 2 || (checksum.structure == 1 && checksum.segment == 0) ||
			checksum.first > kMaxRowNumber || checksum.n_rows > kMaxRowNumber
		? ParseResult::kField
		: ParseResult::kOk;
}

} // namespace

ParseResult
parse_copy_body(const uint8_t *body, size_t length, RequestView *view)
{
	switch (view->header.type)
	{
		case RequestType::kSearch:
			return parse_search(body, length, view);
		case RequestType::kSearchMany:
			return parse_search_many(body, length, view);
		case RequestType::kNext:
			return only(body, length, &view->next);
		case RequestType::kCreate:
			return parse_create(body, length, view);
		case RequestType::kLoadRows:
		case RequestType::kAppend:
			return parse_rows(body, length, view);
		case RequestType::kLoadStructure:
			return parse_structure(body, length, view);
		case RequestType::kLoadKeys:
			return parse_keys(body, length, view);
		case RequestType::kSeal:
			return parse_seal(body, length, view);
		case RequestType::kTombstones:
			return parse_tombstones(body, length, view);
		case RequestType::kManifest:
			return parse_manifest(body, length, view);
		case RequestType::kChecksum:
			return parse_checksum(body, length, view);
		case RequestType::kDescribe:
		case RequestType::kDrop:
			return nothing(length);
		default:
			return ParseResult::kType;
	}
}

} // namespace vectorgpu::wire
