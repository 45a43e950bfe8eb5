// Bodies of the requests that search, load and describe the copy of an index. See README.md.
#pragma once

#include "wire/messages.hpp"

namespace vectorgpu::wire
{

constexpr uint32_t kMaxSegmentsPerCopy = 16;             // of a manifest; as many more may be loading
constexpr uint64_t kMaxSearchK = 1024 * 1024;            // of one SEARCH; another continues after the last result
constexpr uint64_t kMaxChecksumBytes = 64 * 1024 * 1024; // of vectors or a structure in one CHECKSUM
constexpr uint32_t kMostSearchesTogether = 512;          // of one SEARCH_MANY; its reply has room for their headers
constexpr uint32_t kMaxStructureParameter = 65536;       // StructureRequest::parameter
constexpr uint32_t kMinSlotBytes = 8; // dim of ElementType::kSet: size of the slots that hold a value in the delta
constexpr uint32_t kMaxSlotBytes = 4096;
constexpr uint32_t kMostKeyColumns = 31; // of an index, behind its first column
constexpr uint32_t kMostKeyStreams = 62;
constexpr uint32_t kMostProgramBytes = 65536;

// Row headers of the delta
constexpr uint64_t kRowIdMask = kMaxRowNumber - 1;                // the row id
constexpr uint64_t kRowNull = uint64_t{1} << 48;                  // the value is NULL: the row counts as dead
constexpr uint64_t kRowDead = uint64_t{1} << 49;                  // vacuum removed it
constexpr uint64_t kRowContinued = uint64_t{1} << 50;             // a further slot of a value, not a row of its own
constexpr uint64_t kRowOut = kRowNull | kRowDead | kRowContinued; // counts as dead

/// The content of a copy's segments.
enum class CopyKind : uint8_t
{
	kRows = 0,
	kLists = 1,       // rows in inverted lists
	kGraph = 2,       // rows and a graph over them
	kCodedLists = 3,  // codes of rows in inverted lists
	kMatch = 4,       // sets, by element
	kHashedGraph = 5, // rows, a graph over them, and the codes that its searches compare
	kCodes = 6,       // row ids in inverted lists, and codes of the rows: a SEARCH finds candidates
	kSparse = 7,      // sparse vectors
};

struct SearchRequest
{
	CopyVersion version;
	uint64_t k;         // 1 .. kMaxSearchK
	double after_score; // with has_after: return only results strictly after (after_score, after_row)
	uint64_t after_row;
	uint32_t has_after;
	uint32_t dim;
	ElementType element;
	Metric metric;
	uint8_t given; // 1: the conditions are GivenRows, not a program
	uint8_t zero;
	float recall_target;    // in (0, 1): this expected share of the k nearest is enough; 0 or 1: exact
	uint64_t rows_position; // number of the first delta row in this request; 0 without rows
	uint32_t n_rows;        // delta rows in this request, appended before the search
	uint32_t n_probes;      // at most kMaxSegmentsPerCopy, for copies with a structure; 0: look at every row
	uint32_t program_bytes; // the conditions: a program (engine/predicate) or GivenRows, at most kMostProgramBytes, a
							// multiple of 8; 0: none
	uint32_t key_bytes;     // of the codes of each delta row in this request
};
static_assert(sizeof(SearchRequest) == 88);

constexpr uint32_t kManyContinues = 1; // the answers that earlier requests have not got are still wanted
constexpr uint32_t kManyFollows = 2;   // another one follows, so that the reply may have no answers
constexpr uint32_t kMostUnanswered = 32;

/// Searches that are answered together, of one copy or of several. Followed by a SEARCH request for each, header
/// included, with the sequence number of the whole and without rows of the delta. The reply has a SEARCH reply for
/// each, in this order, header included, with that number; `more` is 0. Where requests follow each other (`flags`), it
/// has the answers to the first one that has none yet, or none; at most kMostUnanswered wait.
struct SearchManyRequest
{
	uint32_t n_searches; // 1 .. kMostSearchesTogether; with kManyContinues also 0
	uint32_t flags;      // kManyContinues, kManyFollows
};
static_assert(sizeof(SearchManyRequest) == 8);

/// Conditions of a SEARCH that its client has decided: the rows that pass, by number, of exactly the manifest of its
/// version. Followed by GivenSegment [n_segments], the u32 numbers of their rows, ascending in each segment, and those
/// of the delta, ascending, counted from the last multiple of 8 up to its first row; zeros up to a multiple of 8 bytes.
struct GivenRows
{
	uint64_t delta_end;  // rows of the delta from here on fail
	uint32_t n_segments; // at most kMaxSegmentsPerCopy; of the others no row passes
	uint32_t n_delta;
};
static_assert(sizeof(GivenRows) == 16);

struct GivenSegment
{
	uint32_t segment; // ascending
	uint32_t n_given;
	uint64_t n_rows; // of the segment
};
static_assert(sizeof(GivenSegment) == 16);

/// The part of a segment that a SEARCH looks at.
struct SegmentProbes
{
	uint32_t segment;
	uint32_t probes;     // from 1. Lists: their number (more than there are: all); graphs: the width of the search
	uint32_t candidates; // kCodedLists: rows with the best estimates, whose scores are then computed. kCodes: rows to
						 // return. Both from 1; other kinds: 0
	uint32_t zero;
};
static_assert(sizeof(SegmentProbes) == 16);

struct NextRequest
{
	uint64_t search_sequence; // of the SEARCH whose results are continued
};

/// The reply to SEARCH and NEXT has an array of these.
struct WireNeighbor
{
	double score;
	uint64_t row;
};
static_assert(sizeof(WireNeighbor) == 16);

/// The reply to DESCRIBE and CREATE, followed by an array of SegmentState.
struct CopyState
{
	CopyVersion version;
	uint64_t delta_first;
	uint64_t delta_tombstone_generation;
	uint32_t leased;  // 1: a session is loading it
	uint32_t current; // 1: it has had a MANIFEST and can be searched
};
static_assert(sizeof(CopyState) == 48);

struct SegmentState
{
	uint32_t segment;
	uint32_t sealed;
	uint64_t n_rows;
	uint64_t tombstone_generation;
	uint64_t structure_bytes; // by LOAD_STRUCTURE
	uint64_t key_bytes;       // by LOAD_KEYS
};
static_assert(sizeof(SegmentState) == 40);

struct CreateRequest
{
	uint64_t expected_bytes; // of all rows, for admission
	uint64_t delta_first;    // number of the first delta row to come
	uint32_t dim;
	ElementType element;
	Metric metric;
	CopyKind kind;
	uint8_t zero;
};
static_assert(sizeof(CreateRequest) == 24);

/// The streams of codes of an index's key columns. A row's codes in the delta: a code of each stream, then a bit for
/// each column, padded to a byte (1: NULL). A segment of n rows has an area: for each stream n codes, then for each
/// column n bits, each padded to 8 bytes.
struct KeyColumns
{
	uint8_t n_columns; // 1 .. kMostKeyColumns
	uint8_t n_streams; // 1 or 2 a column
	uint8_t zero[6];
	uint8_t widths[64];  // of each stream: 1, 2, 4 or 8 bytes a code
	uint8_t columns[64]; // the column of each stream
};
static_assert(sizeof(KeyColumns) == 136);

/// Bytes of a segment's area of codes.
struct KeysRequest
{
	uint64_t position; // of the first byte
	uint32_t segment;
	uint32_t zero;
};
static_assert(sizeof(KeysRequest) == 16);

/// LOAD_ROWS and APPEND.
struct RowsRequest
{
	uint64_t position; // first row's number: in the segment, or in the delta
	uint32_t segment;  // 0 for the delta
	uint32_t n_rows;
};
static_assert(sizeof(RowsRequest) == 16);

struct StructureRequest
{
	uint64_t position; // of the first byte
	uint32_t segment;
	uint32_t parameter; // 1 .. kMaxStructureParameter, the same in each part. Lists: their number; graphs: edges of a
						// row; match, sparse: 1
};
static_assert(sizeof(StructureRequest) == 16);

struct SegmentRequest
{
	uint32_t segment;
	uint32_t zero;
	uint64_t n_rows;
};
static_assert(sizeof(SegmentRequest) == 16);

struct TombstonesRequest
{
	uint64_t generation;
	uint64_t first_bit; // number of a row of the segment, a multiple of 8; or of any row of the delta
	uint32_t n_bits;
	uint32_t segment; // 0 for the delta
	uint32_t last;    // 1: the last part; the generation becomes the segment's
	uint32_t zero;
};
static_assert(sizeof(TombstonesRequest) == 32);

struct ManifestRequest
{
	uint64_t manifest_generation;
	uint64_t tombstone_generation;
	uint64_t delta_first; // delta rows before it are forgotten
	uint32_t n_segments;
	uint32_t zero;
};
static_assert(sizeof(ManifestRequest) == 32);

struct ChecksumRequest
{
	uint32_t segment; // 0 for the delta
	uint32_t
		structure;  // 1: of the bytes of LOAD_STRUCTURE instead of rows; 2: of codes (bytes of the area, delta rows)
	uint64_t first; // the range [first, first + n_rows) of rows or bytes
	uint64_t n_rows;
};
static_assert(sizeof(ChecksumRequest) == 24);

/// The last three are zero for a structure and for codes.
struct ChecksumReply
{
	uint64_t row_ids_xxh3; // XXH3 of the uint64 row ids (delta: of the TIDs in the row headers)
	uint64_t vectors_xxh3; // of the vectors, unpadded; or of the structure's bytes, or of codes
	uint64_t n_dead;       // tombstones set in the range
	uint64_t dead_xxh3;    // of the tombstone bits; bit 0 belongs to the first row, spare bits are 0
	uint64_t n_different;  // numbers derived from these rows by the engine that differ when derived again
};
static_assert(sizeof(ChecksumReply) == 40);

} // namespace vectorgpu::wire
