// Bodies of requests and replies. Byte layout: see README.md; every structure is its own wire form (little endian, no
// implicit padding, checked by static_assert). Enums are never renumbered.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/limits.hpp"
#include "common/types.hpp"

namespace vectorgpu::wire
{

constexpr uint32_t kMagic = 0x4B574756; // "VGWK"
constexpr uint16_t kProtocolVersion = 12;

constexpr uint32_t kRequestAreaBytes = 256 * 1024;        // a vector of 16,000 floats and headers; small loads
constexpr uint32_t kLoaderRequestAreaBytes = 1024 * 1024; // fewer round trips; still fits a second-level cache
constexpr uint32_t kReplyAreaBytes = 64 * 1024;
constexpr uint32_t kMinAreaBytes = 8 * 1024; // what a client insists on: every structure and a full list of segments
constexpr uint32_t kMaxAreaBytes = 64 * 1024 * 1024;
constexpr uint32_t kMaxSegmentsPerCopy = 16;             // of a manifest; as many again may be loading
constexpr uint64_t kMaxSearchK = 1024 * 1024;            // of one SEARCH; more by continuing behind the last result
constexpr uint64_t kMaxChecksumBytes = 64 * 1024 * 1024; // of vectors or a structure in one CHECKSUM
constexpr uint32_t kMaxStructureParameter = 65536;       // StructureRequest::parameter
constexpr uint64_t kMaxRowNumber = uint64_t{1} << 48;    // of a delta or a segment
constexpr uint32_t kMinSlotBytes = 8; // dim of ElementType::kSet: what values are cut into in the delta
constexpr uint32_t kMaxSlotBytes = 4096;

constexpr uint64_t kRowIdMask = kMaxRowNumber - 1;    // row headers of the delta: the row id
constexpr uint64_t kRowNull = uint64_t{1} << 48;      // ... the value is NULL: the row counts as dead
constexpr uint64_t kRowDead = uint64_t{1} << 49;      // ... vacuum removed it
constexpr uint64_t kRowContinued = uint64_t{1} << 50; // ... a further slot of a value (kMatch): no row of its own
constexpr uint64_t kRowOut = kRowNull | kRowDead | kRowContinued; // counts as dead

enum class Role : uint16_t
{
	kBackend = 1,
	kLoader = 2,
	kSupervisor = 3,
};

enum class WelcomeStatus : uint16_t
{
	kWelcome = 0,
	kOtherVersion = 1,
	kOtherEpoch = 2,
	kFull = 3,
	kMalformed = 4,
};

enum class EngineKind : uint32_t
{
	kCpu = 1,
	kCuda = 2,
};

struct Hello
{
	uint32_t magic;
	uint16_t version;
	Role role;
	uint64_t epoch;
	uint32_t pid;
	uint32_t zero0;
	uint64_t zero1;
};
static_assert(sizeof(Hello) == 32);

struct Welcome
{
	uint32_t magic;
	uint16_t version;
	WelcomeStatus status;
	uint64_t epoch;
	uint64_t session;
	uint32_t request_area_bytes;
	uint32_t reply_area_bytes;
	uint32_t worker_pid;
	EngineKind engine;
	uint64_t zero[3];
};
static_assert(sizeof(Welcome) == 64);

enum class RequestType : uint32_t
{
	kSearch = 1,
	kNext = 2,
	kDescribe = 3,
	kCreate = 4,
	kLoadRows = 5,
	kSeal = 6,
	kAppend = 7,
	kTombstones = 8,
	kManifest = 9,
	kDrop = 10,
	kStats = 11,
	kInventory = 12,
	kChecksum = 13,
	kPing = 14,
	kLoadStructure = 15,
	kBuild = 16,
	kBuildRead = 17,
};

/// What a BUILD is: a session has one build at a time, of inverted lists or of a graph.
enum class BuildStep : uint32_t
{
	kBegin = 1,          // BuildSpec; what was begun before is forgotten
	kTraining = 2,       // rows of the sample, in order
	kTrain = 3,          // the sample is complete
	kCentroids = 4,      // instead of a training: centroids, in order
	kQueries = 5,        // whose neighbours are looked for
	kAssign = 6,         // rows that are assigned to lists
	kEnd = 7,            // all is forgotten
	kBeginGraph = 8,     // GraphBuildSpec; what was begun before is forgotten
	kRows = 9,           // rows of the graph, in order, with the number of the first
	kStart = 10,         // all rows are there: the graph is built, beside; answered at once
	kCodes = 11,         // CodesSpec: behind the centroids; rows that are assigned are coded, too
	kCodesTraining = 12, // rows of the sample that codes are trained on, in order
	kTrainCodes = 13,    // that sample is complete
	kCodesModel = 14,    // instead of a training: float32 of what codes are made with, in order
	kBeginInsert = 15,   // InsertBuildSpec; what was begun before is forgotten
	kBaseEdges = 16, // u32 [n, degree]: edges of rows of the graph before, in order, with the number of the first; all
					 // ones: none
	kBaseNumbers = 17, // u32 [n]: of these rows, the numbers among the rows of the graph, in order; all ones: it leaves
	kBaseEntries = 18, // u32 [n]: entry points of the graph before
};

/// What BUILD_READ reads.
enum class BuildResult : uint32_t
{
	kReport = 1,      // BuildReport
	kCentroids = 2,   // float32 [n_used, dim]
	kNeighbors = 3,   // WireNeighbor [n_queries, k], row: number of the row, kNoRow behind the last
	kGraphState = 4,  // GraphBuildState, at any time; what follows when it is done
	kEdges = 5,       // u32 [n_rows, degree], all ones: none
	kEntries = 6,     // u32 [n_entries], ascending
	kRecall = 7,      // WidthRecall [n_points]
	kHash = 8,        // with codes: what they are made with, as in the description of a hashed graph
	kCodes = 9,       // with codes: [n_rows, hash_bits / 8]
	kCodesModel = 10, // of lists with codes: float32 of what these are made with
};

/// What a copy's segments are.
enum class CopyKind : uint8_t
{
	kRows = 0,
	kLists = 1,       // rows in inverted lists
	kGraph = 2,       // rows and a graph over them
	kCodedLists = 3,  // codes of rows in inverted lists
	kMatch = 4,       // sets, by element
	kHashedGraph = 5, // rows, a graph over them, and codes that its searches compare
	kCodes = 6,       // row ids in inverted lists, and codes of the rows: a SEARCH finds candidates
};

/// What a SEARCH has looked at.
enum class Coverage : uint32_t
{
	kAll = 0,    // every row
	kScored = 1, // all rows but those whose score is NaN
	kPart = 2,
};

enum class ReplyStatus : uint32_t
{
	kOk = 0,
	kAbsent = 1,
	kBehind = 2,
	kBusy = 3,
	kRefused = 4,
	kInvalid = 5,
	kCancelled = 6,
	kUnsupported = 7,
	kOutOfMemory = 8,
	kInternal = 9,
};

/// Names an index's copy inside one epoch. uuid: random at build, from the metapage.
struct CopyKey
{
	uint32_t database;
	uint32_t tablespace;
	uint32_t relfilenode;
	uint32_t zero;
	uint64_t uuid_high;
	uint64_t uuid_low;
};
static_assert(sizeof(CopyKey) == 32);

struct CopyVersion
{
	uint64_t manifest_generation;
	uint64_t delta_end;
	uint64_t tombstone_generation;
};

struct RequestHeader
{
	RequestType type;
	uint32_t body_bytes; // behind this header
	uint64_t sequence;   // as in the slot
	CopyKey key;         // zero where no copy is meant
	uint64_t zero[2];
};
static_assert(sizeof(RequestHeader) == 64);

struct ReplyHeader
{
	ReplyStatus status;
	uint32_t body_bytes;
	uint64_t sequence;
	uint32_t n_items;   // of the body's array
	uint32_t more;      // 1: SEARCH has further results, ask NEXT; never without an item
	uint64_t engine_ns; // time that the engine worked on this request's batch
	uint32_t batch_size;
	Coverage coverage;   // of SEARCH and its NEXTs
	uint64_t n_rescored; // by the batch
	uint64_t zero1[2];
};
static_assert(sizeof(ReplyHeader) == 64);

struct SearchRequest
{
	CopyVersion version;
	uint64_t k;         // 1 .. kMaxSearchK
	double after_score; // continue strictly behind (after_score, after_row), if has_after
	uint64_t after_row;
	uint32_t has_after;
	uint32_t dim;
	ElementType element;
	Metric metric;
	uint8_t zero[2];
	float recall_target;    // in (0, 1): this share of the k nearest is enough, in expectation; 0 or 1: exact
	uint64_t rows_position; // number of the first delta row that comes along; 0 if none does
	uint32_t n_rows;        // delta rows that come along: as by APPEND, before the search
	uint32_t n_probes;      // at most kMaxSegmentsPerCopy; copies with a structure; 0: every row is looked at
};
static_assert(sizeof(SearchRequest) == 80);

/// How much of a segment a SEARCH looks at.
struct SegmentProbes
{
	uint32_t segment;
	uint32_t probes;     // from 1. Lists: how many, more than there are: all; graphs: the width of the search
	uint32_t candidates; // kCodedLists, kCodes, from 1: rows of the best estimates, whose scores are computed, or that
						 // are found; other kinds: 0
	uint32_t zero;
};
static_assert(sizeof(SegmentProbes) == 16);

struct NextRequest
{
	uint64_t search_sequence; // the SEARCH that this goes on with
};

struct WireNeighbor
{
	double score;
	uint64_t row;
};
static_assert(sizeof(WireNeighbor) == 16);

struct CopyState
{
	CopyVersion version;
	uint64_t delta_first;
	uint64_t delta_tombstone_generation;
	uint32_t leased;  // 1: some session is loading it
	uint32_t current; // 1: MANIFEST has been given: it can be searched
};
static_assert(sizeof(CopyState) == 48);

struct SegmentState
{
	uint32_t segment;
	uint32_t sealed;
	uint64_t n_rows;
	uint64_t tombstone_generation;
	uint64_t structure_bytes; // by LOAD_STRUCTURE
};
static_assert(sizeof(SegmentState) == 32);

struct CreateRequest
{
	uint64_t expected_bytes; // of all rows, for admission
	uint64_t delta_first;    // number of the first delta row that will come
	uint32_t dim;
	ElementType element;
	Metric metric;
	CopyKind kind;
	uint8_t zero;
};
static_assert(sizeof(CreateRequest) == 24);

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
	uint32_t
		parameter; // 1 .. kMaxStructureParameter, the same each time. Lists: how many; graphs: edges of a row; match: 1
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
	uint64_t first_bit; // of the segment's rows, a multiple of 8; or a delta row number
	uint32_t n_bits;
	uint32_t segment; // 0 for the delta
	uint32_t last;    // 1: the generation holds from here on
	uint32_t zero;
};
static_assert(sizeof(TombstonesRequest) == 32);

struct ManifestRequest
{
	uint64_t manifest_generation;
	uint64_t tombstone_generation;
	uint64_t delta_first; // rows of the delta before it are forgotten
	uint32_t n_segments;
	uint32_t zero;
};
static_assert(sizeof(ManifestRequest) == 32);

struct BuildRequest
{
	BuildStep step;
	uint32_t n_rows;   // that come along; 0 where none do
	uint64_t position; // ASSIGN, ROWS: number of the first row
};
static_assert(sizeof(BuildRequest) == 16);

struct BuildSpec
{
	uint32_t dim;
	ElementType element; // of rows; centroids are float32
	Metric metric;
	uint8_t zero[2];
	uint32_t n_clusters; // 1 .. kMaxBuildLists
	uint32_t n_training; // rows of the sample
	uint32_t n_queries;
	uint32_t k; // neighbours of each
	uint64_t seed;
	uint32_t max_iterations;
	float tolerance; // share of the error below which an iteration is the last
};
static_assert(sizeof(BuildSpec) == 40);

/// What codes are. As engine::ivf::CodeKind.
enum class CodesKind : uint8_t
{
	kSq8 = 2,
	kPq = 3,
};

struct CodesSpec
{
	CodesKind kind;
	uint8_t pq_bits; // 4 or 8; kSq8: 0, as the two below
	uint8_t opq;     // 1: with a rotation
	uint8_t zero;
	uint32_t pq_m;       // parts of a vector, 1 .. dim
	uint32_t n_training; // rows of the sample; 0: the model is given
	uint32_t zero1;
	uint64_t seed;
};
static_assert(sizeof(CodesSpec) == 24);

/// Of a row that ASSIGN brought. With codes there follow, for all rows: a float32 term each where product quantisation
/// has them (L2), then the codes, row by row.
struct RowLabel
{
	uint32_t list; // with kRowOutOfRange if an element is beyond what the codes were trained for
	float score;   // squared distance to its centroid (of rows of length 1 for cosine)
};
static_assert(sizeof(RowLabel) == 8);

struct BuildReadRequest
{
	BuildResult result;
	uint32_t n_bytes;
	uint64_t first; // byte
};
static_assert(sizeof(BuildReadRequest) == 16);

struct BuildReport
{
	double inertia;  // of the sample
	uint32_t n_used; // lists that there are
	uint32_t n_iterations;
};
static_assert(sizeof(BuildReport) == 16);

struct GraphBuildSpec
{
	uint32_t dim;
	ElementType element;
	Metric metric;   // of searches
	uint8_t prune;   // 0 by rank, 1 by relative neighbourhood
	uint8_t measure; // 1: recall by the width of a search
	uint32_t n_rows; // 1 .. kMaxBuildRows
	uint32_t degree; // kMinGraphDegree .. kMaxGraphDegree
	uint64_t seed;
	uint32_t hash_bits; // of the rows' codes, which recall is then measured of; 0: there are none
	uint32_t zero;
};
static_assert(sizeof(GraphBuildSpec) == 32);

/// A graph from one that was there before.
struct InsertBuildSpec
{
	GraphBuildSpec graph; // hash_bits: 0
	uint32_t n_base;      // rows of the graph before, 1 .. kMaxBuildRows
	uint32_t n_kept;      // of these, that stay; at most graph.n_rows
};
static_assert(sizeof(InsertBuildSpec) == 40);

/// What has become of the build of a graph.
enum class GraphBuildStage : uint32_t
{
	kRows = 0, // rows are awaited
	kNeighbors = 1,
	kEdges = 2,
	kRecall = 3,
	kDone = 4,
	kFailed = 5,
};

struct GraphBuildState
{
	GraphBuildStage stage;
	ReplyStatus failure; // of kFailed
	uint64_t done;       // of the stage, in units of its own
	uint64_t total;
	uint64_t progress;    // counts up while the build gets on
	uint32_t n_entries;   // of kDone, as all that follow
	uint32_t n_connected; // edges that were added for rows that none led to
	uint32_t n_points;
	uint32_t n_queries; // that the recall was measured with
	uint32_t exact;     // 1: the nearest rows are those of an exact search
	uint32_t zero;
};
static_assert(sizeof(GraphBuildState) == 56);

/// Recall of a search's 10 nearest rows.
struct WidthRecall
{
	uint32_t width;
	float recall;
};
static_assert(sizeof(WidthRecall) == 8);

constexpr uint32_t kMaxBuildRows = UINT32_MAX - 1; // of a graph
constexpr uint32_t kMinGraphDegree = 2;
constexpr uint32_t kMaxGraphDegree = 256;
constexpr uint32_t kMinHashBits = 32;
constexpr uint32_t kMaxHashBits = 512;
constexpr uint32_t kMaxBuildLists = 65536;
constexpr uint32_t kRowOutOfRange = uint32_t{1} << 31;
constexpr uint64_t kNoRow = ~uint64_t{0};

constexpr uint32_t kHistogramBuckets = 32; // bucket i: latency in [2^i, 2^(i+1)) units of 256 ns; the ends are open

struct WorkerStats
{
	uint64_t started_ns; // CLOCK_MONOTONIC
	uint64_t now_ns;
	uint64_t n_sessions;
	uint64_t n_copies;
	uint64_t resident_bytes;
	uint64_t budget_bytes;
	uint64_t n_queued;
	uint64_t n_searches;
	uint64_t n_batches;
	uint64_t n_cancelled;
	uint64_t n_evictions;
	uint64_t n_loads;
	uint64_t n_rescored;
	uint64_t n_invalid;
	uint64_t n_refused; // for want of budget
	uint64_t n_out_of_memory;
	uint64_t n_internal;
	uint64_t loaded_bytes;                         // by LOAD_ROWS and APPEND
	uint64_t kept_bytes;                           // results waiting for NEXT
	uint64_t latency_histogram[kHistogramBuckets]; // SEARCH, from taken to replied
	char device[64];                               // zero-terminated
};
static_assert(sizeof(WorkerStats) == 19 * 8 + kHistogramBuckets * 8 + 64);

struct InventoryRequest
{
	uint32_t first;
	uint32_t zero;
};

struct CopyInfo
{
	CopyKey key;
	CopyVersion version;
	uint64_t resident_bytes;
	uint64_t n_rows; // in segments
	uint64_t delta_rows;
	uint64_t n_dead; // of both
	uint64_t n_searches;
	uint64_t n_loads;
	uint64_t last_used_ns; // CLOCK_MONOTONIC
	uint32_t n_segments;
	uint16_t current;
	uint16_t leased;
};
static_assert(sizeof(CopyInfo) == 120);

struct ChecksumRequest
{
	uint32_t segment;   // 0 for the delta
	uint32_t structure; // 1: of the bytes of LOAD_STRUCTURE, instead of rows
	uint64_t first;     // rows, or bytes, [first, first + n)
	uint64_t n_rows;
};
static_assert(sizeof(ChecksumRequest) == 24);

struct ChecksumReply
{
	uint64_t row_ids_xxh3; // XXH3 of the uint64 row ids (delta: of the row headers' TIDs)
	uint64_t vectors_xxh3; // of the vectors, unpadded; or of the structure's bytes
	uint64_t n_dead;       // tombstones set in the range
	uint64_t dead_xxh3;    // of their bits, bit 0 that of the first row, spare bits 0
	uint64_t n_different;  // numbers that the engine has made of these rows and would not make again; these three: of
						   // rows only
};
static_assert(sizeof(ChecksumReply) == 40);

} // namespace vectorgpu::wire
