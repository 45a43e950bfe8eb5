// Bodies of the requests that build inverted lists or a graph. A session has one build at a time; a BEGIN forgets an
// earlier one. The order of the requests is in README.md, "Builds".
//
//   Lists:  BEGIN_LISTS, ADD_TRAINING*, TRAIN (or ADD_CENTROIDS*), ADD_QUERIES*, ASSIGN*, READ_BUILD*, END_BUILD
//           with codes, before the first ASSIGN: BEGIN_CODES, ADD_CODES_TRAINING*, TRAIN_CODES (or ADD_CODES_MODEL*)
//           and behind it: BEGIN_COUNTS, ADD_COUNTED*, COUNT_CODES*
//   Graph:  BEGIN_GRAPH, ADD_GRAPH_ROWS*, START_GRAPH, READ_BUILD*, END_BUILD; ADD_GRAPH_PAGES in place of any of the
//   rows Insert: BEGIN_INSERT, ADD_GRAPH_ROWS*, ADD_BASE_EDGES*, ADD_BASE_NUMBERS*, ADD_BASE_ENTRIES, START_GRAPH, ...
#pragma once

#include "wire/messages.hpp"

namespace vectorgpu::wire
{

constexpr uint32_t kMaxBuildLists = 65536;
constexpr uint32_t kMaxBuildRows = UINT32_MAX - 1; // of a graph
constexpr uint32_t kMinGraphDegree = 2;
constexpr uint32_t kMaxGraphDegree = 256;
constexpr uint32_t kMinHashBits = 32;
constexpr uint32_t kMaxHashBits = 512;
constexpr uint32_t kMaxRabitqCodeBits = 4;
constexpr uint32_t kRowOutOfRange = uint32_t{1} << 31; // in RowLabel::list
constexpr uint32_t kRowsAlignment = 64;
constexpr uint64_t kNoRow = ~uint64_t{0};

/// The body of every ADD request, of ASSIGN and COUNT_CODES; n_rows items of equal size follow behind the bytes that
/// are skipped: those may hold the rows of another request, which lie beside these in the area.
struct BuildRowsRequest
{
	// Number of the first row: ASSIGN, COUNT_CODES, ADD_GRAPH_ROWS, ADD_BASE_EDGES, ADD_BASE_NUMBERS; else 0
	uint64_t position;
	uint32_t n_rows;  // from 1
	uint32_t skipped; // bytes, a multiple of kRowsAlignment
};
static_assert(sizeof(BuildRowsRequest) == 16);

struct BeginListsRequest
{
	uint32_t dim;
	ElementType element; // of rows; centroids are float32
	Metric metric;
	uint8_t zero[2];
	uint32_t n_clusters; // 1 .. kMaxBuildLists
	uint32_t n_training; // rows of the sample
	uint32_t n_queries;
	uint32_t k; // neighbours of each query
	uint64_t seed;
	uint32_t max_iterations;
	float tolerance; // training ends when an iteration lowers the error by less than this share
};
static_assert(sizeof(BeginListsRequest) == 40);

/// Numbered as engine::ivf::CodeKind.
enum class CodesKind : uint8_t
{
	kSq8 = 2,
	kPq = 3,
	kRabitq = 4,
};

/// Follows the centroids: rows that are assigned are coded, too.
struct BeginCodesRequest
{
	CodesKind kind;
	uint8_t bits; // kPq: 4 or 8; kRabitq: 1 .. 8, of a dimension; kSq8: 0
	uint8_t opq;  // kPq, 1: with a rotation; else 0
	uint8_t zero;
	uint32_t pq_m;       // kPq: parts of a vector, 1 .. dim; else 0
	uint32_t n_training; // rows of the sample; 0, as always for kRabitq: ADD_CODES_MODEL brings the model
	uint32_t zero1;
	uint64_t seed;
};
static_assert(sizeof(BeginCodesRequest) == 24);

/// The reply to ASSIGN has an array of these. With codes there follow, for all rows: one float32 term each if product
/// quantisation uses them (L2), then the codes, row by row.
struct RowLabel
{
	uint32_t list; // with the bit kRowOutOfRange if an element is outside the range that the codes were trained for
	float score;   // squared distance to its centroid (for cosine, of the row scaled to length 1)
};
static_assert(sizeof(RowLabel) == 8);

/// Count the codes that queries prefer to their true neighbours. Batches of the table's rows, the first from row 0 on,
/// are sampled by turns: batch b is counted for query q if b and q have the same remainder by `stride`. Of the other
/// batches only rows in lists near the query count.
struct BeginCountsRequest
{
	uint32_t n_queries;  // from 1
	uint32_t batch_rows; // from 1, a multiple of 32
	uint32_t stride;     // from 1: a row far from a query stands for this many rows
	uint32_t zero;
};
static_assert(sizeof(BeginCountsRequest) == 16);

constexpr uint32_t kCountedNeighbors = 10;
constexpr uint32_t kMostCopies = 64;
constexpr uint32_t kCountPoints = 64;

/// A query of ADD_COUNTED begins with this; float32 [dim] follow (for cosine of length 1), with PQ and RaBitQ float32
/// constants [n_lists], then bytes [n_lists]: the point of each list, below kCountPoints.
struct CountedQuery
{
	uint32_t n_neighbors;
	uint32_t n_copies;
	uint32_t near_point; // lists up to this point are near
	uint32_t zero;
	double limits[kCountedNeighbors];      // estimates of the neighbours; NaN: never found
	uint64_t neighbors[kCountedNeighbors]; // numbers of their rows
	uint64_t copies[kMostCopies];          // of rows that do not count
};
static_assert(sizeof(CountedQuery) == 688);

struct BeginGraphRequest
{
	uint32_t dim;
	ElementType element;
	Metric metric;   // of searches
	uint8_t prune;   // 0 by rank, 1 by relative neighbourhood
	uint8_t measure; // 1: measure recall by the width of a search
	uint32_t n_rows; // 1 .. kMaxBuildRows
	uint32_t degree; // kMinGraphDegree .. kMaxGraphDegree
	uint64_t seed;
	uint32_t code_bits; // kind of the rows' codes, whose searches' recall is then measured: 1, 2, 4 bits of a
						// dimension by RaBitQ, 32, 64, … 512 bits of a row by projections; 0: no codes
	uint32_t zero;
};
static_assert(sizeof(BeginGraphRequest) == 32);

/// The tag of a page of the index, as stored; what each page has of its own is 0.
struct WirePageTag
{
	uint32_t checksum; // 0
	uint16_t role;
	uint16_t stream;
	uint32_t owner;
	uint32_t position; // of the page within its stream; 0
	uint32_t used;     // 0
	uint32_t magic;
	uint8_t uuid[16];
};
static_assert(sizeof(WirePageTag) == 40);

constexpr uint32_t kMostPathBytes = 1024;
constexpr uint32_t kMostPageBytes = 32768;

/// The body of ADD_GRAPH_PAGES: rows that follow each other in pages of an index, one stream of bytes; the worker reads
/// the file. The path follows: of the relation's first file, relative to the data directory.
struct AddGraphPagesRequest
{
	uint64_t position;   // number of the first row
	uint64_t first;      // byte of the stream where it begins
	uint32_t n_rows;     // from 1
	uint32_t start_page; // of the relation: the stream's first
	uint32_t page_bytes;
	uint32_t file_pages; // pages of a file; the others are in files whose names end in .1, .2, ...
	uint32_t tag_offset; // in a page; the payload lies behind the tag, up to the page's end
	uint32_t path_bytes; // 1 .. kMostPathBytes
	WirePageTag tag;
};
static_assert(sizeof(AddGraphPagesRequest) == 80);

/// Build a graph by insertion into an earlier one, the base.
struct BeginInsertRequest
{
	BeginGraphRequest graph; // code_bits: 0
	uint32_t n_base;         // rows of the base, 1 .. kMaxBuildRows
	uint32_t n_kept;         // rows of the base that stay; at most graph.n_rows
};
static_assert(sizeof(BeginInsertRequest) == 40);

/// The results of a build, each an array of bytes that READ_BUILD reads in parts.
enum class BuildResult : uint32_t
{
	// Lists
	kReport = 1,      // BuildReport
	kCentroids = 2,   // float32 [n_used, dim]
	kNeighbors = 3,   // WireNeighbor [n_queries, k]; row: number of the row, kNoRow after the last
	kCodesModel = 10, // float32, the model of the codes
	kCounts = 12,     // u32 [n_queries, kCountedNeighbors, kCountPoints]: rows before each neighbour, by point

	// Graphs. kGraphState can be read at any time, the others when its stage is kDone
	kGraphState = 4, // GraphBuildState
	kEdges = 5,      // u32 [n_rows, degree], all ones: no edge
	kEntries = 6,    // u32 [n_entries], ascending
	kRecall = 7,     // WidthRecall [n_points]
	kHash = 8,       // with codes: their seed, bound and floats, as in the description of a hashed graph
	kCodes = 9,      // with codes: [n_rows, code_bytes]
	kDepths = 11,    // DepthRecall [n_depths]
};

struct ReadBuildRequest
{
	BuildResult result;
	uint32_t n_bytes;
	uint64_t first; // byte of the result
};
static_assert(sizeof(ReadBuildRequest) == 16);

struct BuildReport
{
	double inertia;  // of the sample
	uint32_t n_used; // lists that the training made
	uint32_t n_iterations;
};
static_assert(sizeof(BuildReport) == 16);

enum class GraphBuildStage : uint32_t
{
	kRows = 0, // rows are awaited
	kNeighbors = 1,
	kEdges = 2,
	kRecall = 3,
	kDone = 4,
	kFailed = 5,
};

/// The fields from n_entries on are set in stage kDone.
struct GraphBuildState
{
	GraphBuildStage stage;
	ReplyStatus failure; // of kFailed
	uint64_t done;       // of the stage, in units of its own
	uint64_t total;
	uint64_t progress; // counts up while the build advances
	uint32_t n_entries;
	uint32_t n_connected; // edges that were added for rows that no edge led to
	uint32_t n_points;
	uint32_t n_queries; // that the recall was measured with
	uint32_t exact;     // 1: the nearest rows come from exact searches
	uint32_t n_depths;
};
static_assert(sizeof(GraphBuildState) == 56);

/// Recall of a search's 10 nearest rows.
struct WidthRecall
{
	uint32_t width;
	float recall;
};
static_assert(sizeof(WidthRecall) == 8);

constexpr uint32_t kMaxWidthRecalls = 64;

/// Recall of a search's n_nearest nearest rows, by the widths of kRecall.
struct DepthRecall
{
	uint32_t n_nearest;
	uint32_t n_queries;
	float recall[kMaxWidthRecalls]; // [n_points]
};
static_assert(sizeof(DepthRecall) == 264);

} // namespace vectorgpu::wire
