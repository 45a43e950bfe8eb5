// Parsers of requests (for the worker) and replies (for the client), for bytes that nobody vouches for. They read every
// byte at most once and copy what they decide by, so that they may be pointed at memory that the peer is changing.
// No allocation, no exceptions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/messages.hpp"

namespace vectorgpu::wire
{

enum class ParseResult : uint8_t
{
	kOk = 0,
	kTruncated = 1, // shorter than its structures
	kLength = 2,    // the length does not go with the counts
	kType = 3,      // no such type, status, element type or metric
	kField = 4,     // a field has a value that it must not have
	kSequence = 5,  // another request's
};

/// A request whose lengths are consistent. What the pointers point at stays where it was and is as changeable as it
/// was.
struct RequestView
{
	RequestHeader header;
	union
	{
		SearchRequest search;
		NextRequest next;
		CreateRequest create;
		RowsRequest rows;
		StructureRequest structure;
		SegmentRequest segment;
		TombstonesRequest tombstones;
		ManifestRequest manifest;
		InventoryRequest inventory;
		ChecksumRequest checksum;
		BuildRequest build;
		BuildReadRequest build_read;
	};
	BuildSpec build_spec;                      // BUILD, step kBegin
	GraphBuildSpec graph_build_spec;           // BUILD, step kBeginGraph
	CodesSpec codes_spec;                      // BUILD, step kCodes
	InsertBuildSpec insert_build_spec;         // BUILD, step kBeginInsert
	uint32_t segment_ids[kMaxSegmentsPerCopy]; // MANIFEST: [n_segments], ascending
	SegmentProbes probes[kMaxSegmentsPerCopy]; // SEARCH: [n_probes]
	const uint8_t *vector;                     // SEARCH: [vector_bytes], the query
	size_t vector_bytes;                       // vector_bytes(element, dim); of kSet whatever it has, from 1
	const uint8_t *row_ids;         // LOAD_ROWS, APPEND, SEARCH: [n_rows] u64, 8-byte aligned if the request is
	const uint8_t *vectors;         // LOAD_ROWS, APPEND, SEARCH, BUILD: [n_rows, row_bytes]
	size_t row_bytes;               // what the length says that one vector has; the copy knows what it must be
	const uint8_t *structure_bytes; // LOAD_STRUCTURE: [n_structure_bytes]
	size_t n_structure_bytes;
	const uint8_t *bits; // TOMBSTONES: [(n_bits + 7) / 8]
};

/// data: [length] bytes. On anything but kOk only view->header means something, and only from kLength on.
ParseResult parse_request(const uint8_t *data, size_t length, uint64_t sequence, RequestView *view);

/// data: [length] bytes, the reply to a request of `type`. On kOk *header is consistent with length and type; the body
/// lies at data + sizeof(ReplyHeader).
ParseResult parse_reply(const uint8_t *data, size_t length, RequestType type, uint64_t sequence, ReplyHeader *header);

/// True if items [n] ascend strictly by (score, row), NaN last, begin strictly behind `after` (if not null), and every
/// row is a possible heap TID.
bool neighbors_valid(const WireNeighbor *items, size_t n, const WireNeighbor *after);

/// True if the metric is defined for the element type and dim is within the type's limit.
bool shape_valid(ElementType element, Metric metric, uint32_t dim);

} // namespace vectorgpu::wire
