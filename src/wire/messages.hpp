// The protocol's version, greeting, request types and headers. The bodies of requests and replies are in
// copy_messages.hpp, build_messages.hpp and status_messages.hpp. Every structure is its own wire form: little endian,
// no implicit padding (checked by static_assert). Numbers of enums are never used again for something else. See
// README.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/types.hpp"

namespace vectorgpu::wire
{

constexpr uint32_t kMagic = 0x4B574756; // "VGWK"
constexpr uint16_t kProtocolVersion = 25;

constexpr uint32_t kRequestAreaBytes = 256 * 1024;        // one vector of 16,000 floats with headers; small loads
constexpr uint32_t kLoaderRequestAreaBytes = 1024 * 1024; // fewer round trips; still fits a second-level cache
constexpr uint32_t kReplyAreaBytes = 64 * 1024;
constexpr uint32_t kBuilderRequestAreaBytes = 16 * 1024 * 1024; // two requests of the most bytes, by turns:
constexpr uint32_t kMostRowsBytes = 8 * 1024 * 1024 - 4096;     // thousands of rows: work for a device, or many threads
constexpr uint32_t kBuilderReplyAreaBytes = 4 * 1024 * 1024;    // their labels and codes
constexpr uint32_t kMinAreaBytes = 8 * 1024;                    // holds every structure and a full list of segments
constexpr uint32_t kMaxAreaBytes = 64 * 1024 * 1024;
constexpr uint64_t kMaxRowNumber = uint64_t{1} << 48; // of a delta or a segment

enum class Role : uint16_t
{
	kBackend = 1,
	kLoader = 2,
	kSupervisor = 3,
	kBuilder = 4, // a backend that sends all rows of a table
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

/// Behind each: the structure that the body begins with, and what follows it. Number 16 was BUILD in versions up to 12.
enum class RequestType : uint32_t
{
	// Copies of indexes: copy_messages.hpp
	// SearchRequest, SegmentProbes [n], the conditions, u64 row headers [n], vectors [n], codes [n], the query
	kSearch = 1,
	kNext = 2,           // NextRequest
	kDescribe = 3,       // nothing
	kCreate = 4,         // CreateRequest, KeyColumns if the index has key columns
	kLoadRows = 5,       // RowsRequest, u64 row ids [n], vectors [n]
	kSeal = 6,           // SegmentRequest
	kAppend = 7,         // RowsRequest, u64 row headers [n], vectors [n], codes [n]
	kTombstones = 8,     // TombstonesRequest, bits
	kManifest = 9,       // ManifestRequest, u32 segment ids [n]
	kDrop = 10,          // nothing
	kChecksum = 13,      // ChecksumRequest
	kLoadStructure = 15, // StructureRequest, bytes
	kLoadKeys = 36,      // KeysRequest, bytes
	kSearchMany = 37,    // SearchManyRequest, SEARCH requests [n], each with its header

	// The worker itself: status_messages.hpp
	kStats = 11,     // nothing
	kInventory = 12, // InventoryRequest
	kPing = 14,      // nothing

	// Builds: build_messages.hpp
	kReadBuild = 17,        // ReadBuildRequest
	kBeginLists = 18,       // BeginListsRequest
	kAddTraining = 19,      // BuildRowsRequest, vectors [n]
	kTrain = 20,            // nothing
	kAddCentroids = 21,     // BuildRowsRequest, float32 [n, dim]
	kAddQueries = 22,       // BuildRowsRequest, vectors [n]
	kAssign = 23,           // BuildRowsRequest, vectors [n]
	kBeginCodes = 24,       // BeginCodesRequest
	kAddCodesTraining = 25, // BuildRowsRequest, vectors [n]
	kTrainCodes = 26,       // nothing
	kAddCodesModel = 27,    // BuildRowsRequest, float32 [n]
	kBeginGraph = 28,       // BeginGraphRequest
	kBeginInsert = 29,      // BeginInsertRequest
	kAddGraphRows = 30,     // BuildRowsRequest, vectors [n]
	kAddBaseEdges = 31,     // BuildRowsRequest, u32 [n, degree]
	kAddBaseNumbers = 32,   // BuildRowsRequest, u32 [n]
	kAddBaseEntries = 33,   // BuildRowsRequest, u32 [n]
	kStartGraph = 34,       // nothing
	kEndBuild = 35,         // nothing
	kBeginCounts = 38,      // BeginCountsRequest
	kAddCounted = 39,       // BuildRowsRequest, counted queries [n]
	kCountCodes = 40,       // BuildRowsRequest, u32 lists [n], codes with terms [n]
	kAddGraphPages = 41,    // AddGraphPagesRequest, path
};

constexpr bool
is_build(RequestType type)
{
	return (type >= RequestType::kReadBuild && type <= RequestType::kEndBuild) ||
		(type >= RequestType::kBeginCounts && type <= RequestType::kAddGraphPages);
}

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

/// The rows that a SEARCH has covered.
enum class Coverage : uint32_t
{
	kAll = 0,    // every row
	kScored = 1, // all rows but those whose score is NaN
	kPart = 2,
};

/// How a SEARCH has looked for rows that meet its conditions.
enum class FilterWay : uint8_t
{
	kNone = 0,  // it has none
	kList = 1,  // the rows were scored one by one
	kMask = 2,  // a pass over all rows left out the others
	kLists = 3, // inverted lists, as many as hold enough of the rows
	kGraph = 4, // a graph, without the others
};

/// Identifies an index's copy inside one epoch. uuid: random at build, from the metapage.
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
	uint32_t body_bytes; // after this header
	uint64_t sequence;   // as in the slot
	CopyKey key;         // ignored by requests that concern no copy
	uint64_t zero[2];
};
static_assert(sizeof(RequestHeader) == 64);

struct ReplyHeader
{
	ReplyStatus status;
	uint32_t body_bytes;
	uint64_t sequence;
	uint32_t n_items;   // of the body's array
	uint32_t more;      // 1: NEXT returns further results of the SEARCH; then n_items > 0
	uint64_t engine_ns; // time that the engine worked on this request's batch
	uint32_t batch_size;
	Coverage coverage;   // of SEARCH and its NEXTs
	uint64_t n_rescored; // in the batch
	uint64_t n_passing;  // rows that meet the conditions of the SEARCH, dead ones included
	FilterWay filter_way;
	uint8_t filter_found; // 1: these rows were known from an earlier SEARCH
	uint8_t zero1[6];
};
static_assert(sizeof(ReplyHeader) == 64);

} // namespace vectorgpu::wire
