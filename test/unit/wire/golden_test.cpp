// The bytes of every structure, written out. A test here fails when a layout changes: then README.md, kProtocolVersion
// and this file change together.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "wire/address.hpp"
#include "wire/codec.hpp"
#include "wire/slot.hpp"

namespace vectorgpu::wire
{
namespace
{

/// Return the bytes as hexadecimal digits, in groups of eight bytes.
template <class T>
std::string
hex(const T &value)
{
	uint8_t bytes[sizeof(T)];
	std::string text;

	memcpy(bytes, &value, sizeof(T));
	for (size_t i = 0; i < sizeof(T); i++)
	{
		char digits[4];

		snprintf(digits, sizeof(digits), "%s%02x", i > 0 && i % 8 == 0 ? " " : "", bytes[i]);
		text += digits;
	}
	return text;
}

/// n groups of zeros.
std::string
zeros(int n)
{
	std::string text;

	for (int i = 0; i < n; i++)
		text += " 0000000000000000";
	return text;
}

const CopyKey kKey = {0x01020304, 0x05060708, 0x090a0b0c, 0, 0x1112131415161718, 0x2122232425262728};
const CopyVersion kVersion = {0x0a0b, 0x0c0d, 0x0e0f};
const std::string kKeyBytes = "0403020108070605 0c0b0a0900000000 1817161514131211 2827262524232221";
const std::string kVersionBytes = "0b0a000000000000 0d0c000000000000 0f0e000000000000";

TEST(Golden, protocol_version_belongs_to_these_bytes)
{
	EXPECT_EQ(kProtocolVersion, 25);
}

TEST(Golden, kinds_of_copies_keep_their_numbers)
{
	EXPECT_EQ(static_cast<int>(CopyKind::kRows), 0);
	EXPECT_EQ(static_cast<int>(CopyKind::kLists), 1);
	EXPECT_EQ(static_cast<int>(CopyKind::kGraph), 2);
	EXPECT_EQ(static_cast<int>(CopyKind::kCodedLists), 3);
	EXPECT_EQ(static_cast<int>(CopyKind::kMatch), 4);
	EXPECT_EQ(static_cast<int>(CopyKind::kHashedGraph), 5);
	EXPECT_EQ(static_cast<int>(CopyKind::kCodes), 6);
	EXPECT_EQ(static_cast<int>(CopyKind::kSparse), 7);
}

TEST(Golden, request_types_keep_their_numbers)
{
	const RequestType types[] = {RequestType::kSearch, RequestType::kNext, RequestType::kDescribe, RequestType::kCreate,
		RequestType::kLoadRows, RequestType::kSeal, RequestType::kAppend, RequestType::kTombstones,
		RequestType::kManifest, RequestType::kDrop, RequestType::kStats, RequestType::kInventory,
		RequestType::kChecksum, RequestType::kPing, RequestType::kLoadStructure, static_cast<RequestType>(16),
		RequestType::kReadBuild, RequestType::kBeginLists, RequestType::kAddTraining, RequestType::kTrain,
		RequestType::kAddCentroids, RequestType::kAddQueries, RequestType::kAssign, RequestType::kBeginCodes,
		RequestType::kAddCodesTraining, RequestType::kTrainCodes, RequestType::kAddCodesModel, RequestType::kBeginGraph,
		RequestType::kBeginInsert, RequestType::kAddGraphRows, RequestType::kAddBaseEdges, RequestType::kAddBaseNumbers,
		RequestType::kAddBaseEntries, RequestType::kStartGraph, RequestType::kEndBuild, RequestType::kLoadKeys,
		RequestType::kSearchMany, RequestType::kBeginCounts, RequestType::kAddCounted, RequestType::kCountCodes,
		RequestType::kAddGraphPages};

	for (uint32_t i = 0; i < std::size(types); i++)
		EXPECT_EQ(static_cast<uint32_t>(types[i]), i + 1);
}

TEST(Golden, greeting)
{
	Hello hello{kMagic, kProtocolVersion, Role::kLoader, 0x0123456789abcdef, 4711, 0, 0};
	Welcome welcome{};

	EXPECT_EQ(hex(hello), "5647574b19000200 efcdab8967452301 6712000000000000 0000000000000000");
	EXPECT_EQ(static_cast<int>(Role::kBuilder), 4);
	welcome.magic = kMagic;
	welcome.version = kProtocolVersion;
	welcome.status = WelcomeStatus::kFull;
	welcome.epoch = 0x0123456789abcdef;
	welcome.session = 9;
	welcome.request_area_bytes = kRequestAreaBytes;
	welcome.reply_area_bytes = kReplyAreaBytes;
	welcome.worker_pid = 4712;
	welcome.engine = EngineKind::kCuda;
	EXPECT_EQ(hex(welcome),
		"5647574b19000300 efcdab8967452301 0900000000000000 0000040000000100 6812000002000000" + zeros(3));
}

TEST(Golden, builds)
{
	EXPECT_EQ(hex(BuildRowsRequest{0x0102, 0x0304, 0x0640}), "0201000000000000 0403000040060000");
	EXPECT_EQ(hex(BeginListsRequest{
				  128, ElementType::kFloat16, Metric::kCosine, {}, 0x0102, 0x0304, 0x0506, 12, 0x0708, 20, 1.0f}),
		"8000000001020000 0201000004030000 060500000c000000 0807000000000000 140000000000803f");
	EXPECT_EQ(hex(ReadBuildRequest{BuildResult::kNeighbors, 0x0102, 0x0304}), "0300000002010000 0403000000000000");
	EXPECT_EQ(hex(ReadBuildRequest{BuildResult::kGraphState, 56, 0}), "0400000038000000 0000000000000000");
	EXPECT_EQ(hex(ReadBuildRequest{BuildResult::kCodesModel, 0x0102, 0x0304}), "0a00000002010000 0403000000000000");
	EXPECT_EQ(hex(BuildReport{1.0, 0x0102, 0x0304}), "000000000000f03f 0201000004030000");
	EXPECT_EQ(hex(RowLabel{0x0102, 1.0f}), "020100000000803f");
	EXPECT_EQ(kRowOutOfRange, 0x80000000U);
	EXPECT_EQ(hex(BeginCodesRequest{CodesKind::kPq, 8, 1, 0, 0x0102, 0x0304, 0, 0x0506}),
		"0308010002010000 0403000000000000 0605000000000000");
	EXPECT_EQ(hex(BeginCodesRequest{CodesKind::kRabitq, 4, 0, 0, 0, 0, 0, 0x0506}),
		"0404000000000000 0000000000000000 0605000000000000");
	EXPECT_EQ(static_cast<int>(CodesKind::kSq8), 2);
	EXPECT_EQ(hex(BeginCountsRequest{0x0102, 0x0304, 0x0506, 0}), "0201000004030000 0605000000000000");
	EXPECT_EQ(hex(ReadBuildRequest{BuildResult::kCounts, 0x0102, 0x0304}), "0c00000002010000 0403000000000000");

	CountedQuery query{0x0102, 0x0304, 0x0506, 0, {1.0}, {0x0708}, {0x090a}};

	query.limits[9] = 2.0;
	query.neighbors[9] = 0x0b0c;
	query.copies[63] = 0x0d0e;
	EXPECT_EQ(hex(query),
		"0201000004030000 0605000000000000 000000000000f03f" + zeros(8) + " 0000000000000040 0807000000000000" +
			zeros(8) + " 0c0b000000000000 0a09000000000000" + zeros(62) + " 0e0d000000000000");
}

TEST(Golden, builds_of_graphs)
{
	EXPECT_EQ(hex(BeginGraphRequest{128, ElementType::kFloat16, Metric::kCosine, 1, 1, 0x01020304, 32, 0x0506, 128, 0}),
		"8000000001020101 0403020120000000 0605000000000000 8000000000000000");
	EXPECT_EQ(hex(BeginInsertRequest{
				  {128, ElementType::kFloat16, Metric::kCosine, 1, 1, 0x01020304, 32, 0x0506, 0, 0}, 0x0708, 0x090a}),
		"8000000001020101 0403020120000000 0605000000000000 0000000000000000 080700000a090000");
	EXPECT_EQ(hex(AddGraphPagesRequest{0x0102, 0x0304, 5, 6, 8192, 131072, 24, 9,
				  {0, 2, 0x0708, 0x090a, 0, 0, 0x56475031, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}}),
		"0201000000000000 0403000000000000 0500000006000000 0020000000000200 1800000009000000 0000000002000807 "
		"0a09000000000000 0000000031504756 0102030405060708 090a0b0c0d0e0f10");
	EXPECT_EQ(hex(GraphBuildState{
				  GraphBuildStage::kFailed, ReplyStatus::kInternal, 0x0102, 0x0304, 0x0506, 7, 8, 9, 10, 1, 0}),
		"0500000009000000 0201000000000000 0403000000000000 0605000000000000 0700000008000000 090000000a000000 "
		"0100000000000000");
	EXPECT_EQ(hex(WidthRecall{0x0102, 1.0f}), "020100000000803f");
	EXPECT_EQ(hex(DepthRecall{0x0102, 0x0304, {1.0f}}), "0201000004030000 0000803f00000000" + zeros(31));
}

TEST(Golden, headers)
{
	RequestHeader request{RequestType::kChecksum, 24, 77, kKey, {}};
	ReplyHeader reply{};

	EXPECT_EQ(hex(request), "0d00000018000000 4d00000000000000 " + kKeyBytes + zeros(2));
	reply.status = ReplyStatus::kInternal;
	reply.body_bytes = 32;
	reply.sequence = 77;
	reply.n_items = 2;
	reply.more = 1;
	reply.engine_ns = 0x100;
	reply.batch_size = 3;
	reply.coverage = Coverage::kPart;
	reply.n_rescored = 0x200;
	reply.n_passing = 0x300;
	reply.filter_way = FilterWay::kLists;
	reply.filter_found = 1;
	EXPECT_EQ(hex(reply),
		"0900000020000000 4d00000000000000 0200000001000000 0001000000000000 0300000002000000 "
		"0002000000000000 0003000000000000 0301000000000000");
}

TEST(Golden, search)
{
	SearchRequest search{
		kVersion, 10, 1.0, 0x10001, 1, 128, ElementType::kFloat16, Metric::kCosine, 1, 0, 0.75f, 0x40, 2, 5, 0x60, 9};
	const SegmentProbes probes{7, 32, 160, 0};
	const NextRequest next{5};
	const SearchManyRequest many{3, kManyFollows};
	const WireNeighbor neighbor{-2.0, 0x30002};

	EXPECT_EQ(hex(search),
		kVersionBytes +
			" 0a00000000000000 000000000000f03f 0100010000000000 0100000080000000 "
			"010201000000403f 4000000000000000 0200000005000000 6000000009000000");
	EXPECT_EQ(hex(probes), "0700000020000000 a000000000000000");
	EXPECT_EQ(hex(next), "0500000000000000");
	EXPECT_EQ(hex(many), "0300000002000000");
	EXPECT_EQ(kManyContinues, 1U);
	EXPECT_EQ(kMostUnanswered, 32U);
	EXPECT_EQ(hex(neighbor), "00000000000000c0 0200030000000000");
}

TEST(Golden, loading)
{
	const CreateRequest create{0x1000, 0x20, 64, ElementType::kBit, Metric::kHamming, CopyKind::kLists, 0};
	const RowsRequest rows{0x30, 2, 7};
	const StructureRequest structure{0x30, 2, 7};
	const KeysRequest codes{0x30, 2, 0};
	KeyColumns keys{};
	const SegmentRequest segment{2, 0, 7};
	const TombstonesRequest tombstones{4, 8, 16, 2, 1, 0};
	const ManifestRequest manifest{6, 4, 0x20, 2, 0};

	EXPECT_EQ(hex(create), "0010000000000000 2000000000000000 4000000002040100");
	EXPECT_EQ(hex(rows), "3000000000000000 0200000007000000");
	EXPECT_EQ(hex(structure), "3000000000000000 0200000007000000");
	EXPECT_EQ(hex(codes), "3000000000000000 0200000000000000");
	keys.n_columns = 1;
	keys.n_streams = 2;
	keys.widths[0] = 4;
	keys.widths[1] = 8;
	EXPECT_EQ(hex(keys), "0102000000000000 0408000000000000" + zeros(15));
	EXPECT_EQ(hex(segment), "0200000000000000 0700000000000000");
	EXPECT_EQ(hex(tombstones), "0400000000000000 0800000000000000 1000000002000000 0100000000000000");
	EXPECT_EQ(hex(manifest), "0600000000000000 0400000000000000 2000000000000000 0200000000000000");
}

TEST(Golden, state)
{
	const CopyState state{kVersion, 0x20, 3, 1, 1};
	const SegmentState segment{2, 1, 7, 4, 0x50, 0x60};
	const InventoryRequest inventory{3, 0};
	CopyInfo info{};

	EXPECT_EQ(hex(state), kVersionBytes + " 2000000000000000 0300000000000000 0100000001000000");
	EXPECT_EQ(hex(segment), "0200000001000000 0700000000000000 0400000000000000 5000000000000000 6000000000000000");
	EXPECT_EQ(hex(inventory), "0300000000000000");
	info.key = kKey;
	info.version = kVersion;
	info.resident_bytes = 1;
	info.n_rows = 2;
	info.delta_rows = 3;
	info.n_dead = 4;
	info.n_searches = 5;
	info.n_loads = 6;
	info.last_used_ns = 7;
	info.n_segments = 8;
	info.current = 1;
	info.leased = 1;
	info.n_devices = 2;
	info.host_bytes = 11;
	info.device_bytes[0] = 9;
	info.device_bytes[1] = 10;
	EXPECT_EQ(hex(info),
		kKeyBytes + " " + kVersionBytes +
			" 0100000000000000 0200000000000000 0300000000000000 0400000000000000 0500000000000000 "
			"0600000000000000 0700000000000000 0800000001000100 0200000000000000 0b00000000000000 0900000000000000 "
			"0a00000000000000" +
			zeros(14));
}

TEST(Golden, checks)
{
	const ChecksumRequest request{2, 1, 8, 16};
	const ChecksumReply reply{1, 2, 3, 4, 5};

	EXPECT_EQ(hex(request), "0200000001000000 0800000000000000 1000000000000000");
	EXPECT_EQ(hex(reply), "0100000000000000 0200000000000000 0300000000000000 0400000000000000 0500000000000000");
}

TEST(Golden, statistics)
{
	WorkerStats stats{};
	uint64_t *fields = &stats.started_ns;

	for (uint64_t i = 0; i < 22; i++)
		fields[i] = i + 1;
	EXPECT_EQ(stats.n_queued, 7u);
	EXPECT_EQ(stats.n_invalid, 14u);
	EXPECT_EQ(stats.kept_bytes, 19u);
	EXPECT_EQ(stats.n_filters_found, 21u);
	EXPECT_EQ(stats.host_bytes, 22u);
	EXPECT_EQ(offsetof(WorkerStats, latency_histogram), 176u);
	EXPECT_EQ(offsetof(WorkerStats, device), 432u);
	EXPECT_EQ(offsetof(WorkerStats, n_devices), 496u);
	EXPECT_EQ(sizeof(WorkerStats), 504u + 16 * 40);

	WorkerDevice device{};

	strcpy(device.name, "cuda:1");
	device.resident_bytes = 2;
	device.budget_bytes = 3;
	device.usable = 1;
	EXPECT_EQ(hex(device), "637564613a310000 0000000000000000 0200000000000000 0300000000000000 0100000000000000");
}

TEST(Golden, slot)
{
	EXPECT_EQ(offsetof(SlotHeader, state), 0u);
	EXPECT_EQ(offsetof(SlotHeader, client_waits), 4u);
	EXPECT_EQ(static_cast<uint32_t>(ClientWaits::kDescriptor), 1u);
	EXPECT_EQ(static_cast<uint32_t>(ClientWaits::kState), 2u);
	EXPECT_EQ(offsetof(SlotHeader, request_sequence), 8u);
	EXPECT_EQ(offsetof(SlotHeader, cancel), 16u);
	EXPECT_EQ(offsetof(SlotHeader, request_length), 24u);
	EXPECT_EQ(offsetof(SlotHeader, heartbeat_ns), 64u);
	EXPECT_EQ(offsetof(SlotHeader, reply_sequence), 72u);
	EXPECT_EQ(offsetof(SlotHeader, reply_length), 80u);
	EXPECT_EQ(offsetof(SlotHeader, worker_polls), 84u);
	EXPECT_EQ(slot_bytes(kRequestAreaBytes, kReplyAreaBytes), 331776u);
}

TEST(Golden, socket_path)
{
	char path[kSocketPathBytes];

	format_socket_path(0x00000000deadbeef, path);
	EXPECT_STREQ(path, "pgsql_tmp_vectorgpu/pgsql_tmp_w.00000000deadbeef");
}

} // namespace
} // namespace vectorgpu::wire
