// Parsers of requests (for the worker) and replies (for the client). They trust nothing: they read every byte at most
// once and copy the values that they check, so that the input may lie in memory that the peer is changing. No
// allocation, no exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/build_messages.hpp"
#include "wire/copy_messages.hpp"
#include "wire/status_messages.hpp"

namespace vectorgpu::wire
{

enum class ParseResult : uint8_t
{
	kOk = 0,
	kTruncated = 1, // shorter than its structures
	kLength = 2,    // the length contradicts the counts
	kType = 3,      // unknown type, status, element type or metric
	kField = 4,     // a field has a value that is not allowed
	kSequence = 5,  // the sequence number is another request's
};

/// A request whose lengths are consistent. The pointers lead into the request area, which the client may still change.
struct RequestView
{
	RequestHeader header;
	union
	{
		SearchRequest search;
		SearchManyRequest search_many;
		NextRequest next;
		CreateRequest create;
		RowsRequest rows;
		StructureRequest structure;
		KeysRequest keys;
		SegmentRequest segment;
		TombstonesRequest tombstones;
		ManifestRequest manifest;
		InventoryRequest inventory;
		ChecksumRequest checksum;
		BeginListsRequest begin_lists;
		BeginCodesRequest begin_codes;
		BeginCountsRequest begin_counts;
		BeginGraphRequest begin_graph;
		BeginInsertRequest begin_insert;
		BuildRowsRequest build_rows;
		AddGraphPagesRequest graph_pages;
		ReadBuildRequest read_build;
	};
	uint32_t segment_ids[kMaxSegmentsPerCopy]; // MANIFEST: [n_segments], ascending
	SegmentProbes probes[kMaxSegmentsPerCopy]; // SEARCH: [n_probes]
	KeyColumns key_columns;                    // CREATE: n_columns 0: none
	const uint8_t *program;                    // SEARCH: [program_bytes], or GivenRows
	const uint8_t *vector;                     // SEARCH: [vector_bytes], the query
	size_t vector_bytes;                       // vector_bytes(element, dim); for kSet any size from 1
	const uint8_t *row_ids; // LOAD_ROWS, APPEND, SEARCH: [n_rows] u64, 8-byte aligned if the request is
	// These three, and requests with a BuildRowsRequest. Rows of the delta: [n_rows] vectors, then [n_rows] codes.
	const uint8_t *vectors;         // [n_rows, row_bytes]
	size_t row_bytes;               // by the request's length; the caller compares it with the size it expects
	const uint8_t *structure_bytes; // LOAD_STRUCTURE, LOAD_KEYS: [n_structure_bytes]
	size_t n_structure_bytes;
	const uint8_t *searches; // SEARCH_MANY: [searches_bytes], for parse_next_search
	size_t searches_bytes;
	const uint8_t *path; // ADD_GRAPH_PAGES: [path_bytes]
	const uint8_t *bits; // TOMBSTONES: [(n_bits + 7) / 8]
};

/// data: [length] bytes. If the result is not kOk, only view->header is set, and only from kLength on.
ParseResult parse_request(const uint8_t *data, size_t length, uint64_t sequence, RequestView *view);

/// Parse the next request of a SEARCH_MANY. *data: [*length] bytes, the rest of RequestView::searches; both are moved
/// behind it if its own length is known. The result is as that of parse_request; kType also if it is not a SEARCH,
/// kField if it has rows of the delta.
ParseResult parse_next_search(const uint8_t **data, size_t *length, uint64_t sequence, RequestView *view);

/// data: [length] bytes, the reply to a request of `type`. On kOk *header is consistent with length and type; the body
/// is at data + sizeof(ReplyHeader).
ParseResult parse_reply(const uint8_t *data, size_t length, RequestType type, uint64_t sequence, ReplyHeader *header);

/// Parse the next reply in the body of an OK reply to a SEARCH_MANY. *data: [*length] bytes, the rest of that body;
/// both are moved behind it. *items: its WireNeighbor [header->n_items], not aligned.
ParseResult parse_next_found(
	const uint8_t **data, size_t *length, uint64_t sequence, ReplyHeader *header, const uint8_t **items);

/// True if items [n] ascend strictly by (score, row), NaN last, begin strictly behind `after` (if not null), and every
/// row is a possible heap TID.
bool neighbors_valid(const WireNeighbor *items, size_t n, const WireNeighbor *after);

/// True if the metric is defined for the element type and dim is within the type's limit.
bool shape_valid(ElementType element, Metric metric, uint32_t dim);

} // namespace vectorgpu::wire
