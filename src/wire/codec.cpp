// Parsers of requests and replies as wholes; the bodies of requests are in codec_copies.cpp and codec_builds.cpp. See
// codec.hpp. Without exceptions.
#include "wire/codec.hpp"

#include <cstring>

#include "common/limits.hpp"
#include "wire/codec_parts.hpp"

namespace vectorgpu::wire
{
namespace
{

ParseResult
parse_body(const uint8_t *body, size_t length, RequestView *view)
{
	const RequestType type = view->header.type;

	if (is_build(type))
		return parse_build_body(body, length, view);
	switch (type)
	{
		case RequestType::kInventory:
		{
			const ParseResult result = only(body, length, &view->inventory);

			return result == ParseResult::kOk && view->inventory.zero != 0 ? ParseResult::kField : result;
		}
		case RequestType::kStats:
		case RequestType::kPing:
			return nothing(length);
		default:
			return parse_copy_body(body, length, view);
	}
}

/// Parse a request whose header is in *view.
ParseResult
parse_behind_header(const uint8_t *body, size_t body_bytes, uint64_t sequence, RequestView *view)
{
	const RequestHeader &header = view->header;

	if (header.body_bytes != body_bytes)
		return ParseResult::kLength;
	if (header.sequence != sequence)
		return ParseResult::kSequence;
	if (header.key.zero != 0 || !all_zero(header.zero, sizeof(header.zero)))
		return ParseResult::kField;
	return parse_body(body, body_bytes, view);
}

/// The size of an OK reply's body: fixed bytes, and bytes for each item. n_items is zero if item_bytes is.
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
		case RequestType::kReadBuild:
			return {0, 1};
		default:
			return {0, 0};
	}
}

/// The total order of results, the same as engine::neighbor_less, which this folder must not include.
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
			return (metric == Metric::kMatchCount || metric == Metric::kEdit ||
					   static_cast<uint8_t>(metric) <= static_cast<uint8_t>(Metric::kL1)) &&
				dim >= kMinSlotBytes && dim <= kMaxSlotBytes;
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
	return parse_behind_header(data + sizeof(RequestHeader), length - sizeof(RequestHeader), sequence, view);
}

ParseResult
parse_next_search(const uint8_t **data, size_t *length, uint64_t sequence, RequestView *view)
{
	*view = RequestView{};
	if (*length < sizeof(RequestHeader))
		return ParseResult::kTruncated;
	copy_out(*data, &view->header);
	if (view->header.body_bytes > *length - sizeof(RequestHeader))
		return ParseResult::kLength;

	const uint8_t *body = *data + sizeof(RequestHeader);
	const size_t body_bytes = view->header.body_bytes;

	*data = body + body_bytes;
	*length -= sizeof(RequestHeader) + body_bytes;
	if (view->header.type != RequestType::kSearch)
		return ParseResult::kType;

	const ParseResult result = parse_behind_header(body, body_bytes, sequence, view);

	return result == ParseResult::kOk && view->search.n_rows != 0 ? ParseResult::kField : result;
}

ParseResult
parse_next_found(const uint8_t **data, size_t *length, uint64_t sequence, ReplyHeader *header, const uint8_t **items)
{
	*header = ReplyHeader{};
	if (*length < sizeof(ReplyHeader))
		return ParseResult::kTruncated;
	copy_out(*data, header);
	if (header->body_bytes > *length - sizeof(ReplyHeader))
		return ParseResult::kLength;

	const size_t whole = sizeof(ReplyHeader) + header->body_bytes;
	const ParseResult result = parse_reply(*data, whole, RequestType::kSearch, sequence, header);

	if (result != ParseResult::kOk)
		return result;
	*items = *data + sizeof(ReplyHeader);
	*data += whole;
	*length -= whole;
	return header->more != 0 ? ParseResult::kField : ParseResult::kOk;
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
	if (header->filter_way > FilterWay::kGraph || header->filter_found > 1)
		return ParseResult::kField;
	if (header->more > 1 || static_cast<uint32_t>(header->coverage) > static_cast<uint32_t>(Coverage::kPart) ||
		!all_zero(header->zero1, sizeof(header->zero1)))
		return ParseResult::kField;

	// The labels may be followed by terms and codes, whose size the client knows.
	if (type == RequestType::kAssign && header->status == ReplyStatus::kOk && header->n_items > 0 && header->more == 0)
		return body_bytes % header->n_items == 0 && body_bytes / header->n_items >= sizeof(RowLabel)
			? ParseResult::kOk
			: ParseResult::kLength;

	// The replies in the body are parsed by themselves: parse_next_found.
	if (type == RequestType::kSearchMany && header->status == ReplyStatus::kOk)
		return header->more == 0 && (header->n_items > 0 || body_bytes == 0) &&
				body_bytes / sizeof(ReplyHeader) >= static_cast<size_t>(header->n_items)
			? ParseResult::kOk
			: ParseResult::kLength;

	const BodyShape shape = header->status == ReplyStatus::kOk ? reply_shape(type) : BodyShape{0, 0};

	// A part without items that announces more would end the rows early, or make the client ask without end.
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
