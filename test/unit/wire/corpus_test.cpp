// The fuzz targets' first inputs belong to the present protocol: one good request of every type, the replies to them,
// and replies that are refused. This file writes them, so that fuzzing starts beyond the parsers' first checks. After a
// change of the protocol:
//   VECTORGPU_WRITE_CORPUS=1 unit_wire --gtest_filter='Corpus.*'
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wire/codec.hpp"

namespace vectorgpu::wire
{
namespace
{

using Bytes = std::vector<uint8_t>;
using Seeds = std::map<std::string, Bytes>;

constexpr uint64_t kRequestSequence = 7;
constexpr uint64_t kReplySequence = 9;

template <class T>
void
put(Bytes *bytes, const T &value)
{
	const size_t at = bytes->size();

	bytes->resize(at + sizeof(T));
	memcpy(bytes->data() + at, &value, sizeof(T));
}

/// n different bytes.
Bytes
filler(size_t n)
{
	Bytes bytes(n);

	for (size_t i = 0; i < n; i++)
		bytes[i] = static_cast<uint8_t>(i + 1);
	return bytes;
}

void
put(Bytes *bytes, const Bytes &more)
{
	for (const uint8_t byte : more) // g++ 12 warns of an overflow if a range is inserted
		bytes->push_back(byte);
}

/// As fuzz_request reads it: the slot's sequence number, then the request area.
template <class... T>
Bytes
request(RequestType type, const T &...pieces)
{
	Bytes body;
	Bytes whole;

	(put(&body, pieces), ...);
	put(&whole, kRequestSequence);
	put(&whole,
		RequestHeader{type, static_cast<uint32_t>(body.size()), kRequestSequence, CopyKey{1, 2, 3, 0, 4, 5}, {}});
	put(&whole, body);
	return whole;
}

/// As fuzz_reply reads it: the request's type, its sequence number, then the reply area.
Bytes
reply(RequestType type, ReplyStatus status, uint32_t n_items, uint32_t more, const Bytes &body,
	Coverage coverage = Coverage::kAll)
{
	ReplyHeader header{};
	Bytes whole;

	header.status = status;
	header.body_bytes = static_cast<uint32_t>(body.size());
	header.sequence = kReplySequence;
	header.n_items = n_items;
	header.more = more;
	header.engine_ns = 5;
	header.batch_size = 1;
	header.coverage = coverage;
	put(&whole, static_cast<uint8_t>(type));
	put(&whole, kReplySequence);
	put(&whole, header);
	put(&whole, body);
	return whole;
}

const AddGraphPagesRequest kPages = {7, 140, 3, 1, 8192, 131072, 24, 9, {0, 2, 0, 1, 0, 0, 0x56475031, {1, 2, 3}}};

Bytes
search_many(const SearchRequest &search)
{
	Bytes one = request(RequestType::kSearch, search, filler(20));

	one.erase(one.begin(), one.begin() + sizeof(uint64_t)); // the slot's sequence number
	return request(RequestType::kSearchMany, SearchManyRequest{2, 0}, one, one);
}

Seeds
count_seeds()
{
	return {
		{"build_counts", request(RequestType::kBeginCounts, BeginCountsRequest{2, 64, 3, 0})},
		{"build_counted", request(RequestType::kAddCounted, BuildRowsRequest{0, 3, 0}, filler(60))},
		{"build_count_codes", request(RequestType::kCountCodes, BuildRowsRequest{7, 3, 0}, filler(60))},
	};
}

Seeds
other_request_seeds()
{
	const SearchRequest search = {
		{1, 2, 3}, 10, 0, 0, 0, 5, ElementType::kFloat32, Metric::kL2, 0, 0, 0, 0, 0, 0, 0, 0};
	SearchRequest after = search;
	SearchRequest rows = search;
	SearchRequest probes = search;
	SearchRequest set = search;
	SearchRequest conditions = search;
	KeyColumns keys{};
	const BeginListsRequest lists = {5, ElementType::kFloat32, Metric::kL2, {}, 4, 3, 2, 10, 1, 20, 1e-3f};
	const BeginGraphRequest graph = {5, ElementType::kFloat32, Metric::kL2, 0, 1, 10, 4, 1, 32, 0};
	const BeginGraphRequest insert = {5, ElementType::kFloat32, Metric::kL2, 0, 1, 10, 4, 1, 0, 0};

	after.has_after = 1;
	after.after_score = 1.5;
	after.after_row = 0x10001;
	after.element = ElementType::kBit;
	after.metric = Metric::kJaccard;
	after.dim = 13;
	rows.n_rows = 2;
	rows.rows_position = 5;
	rows.element = ElementType::kFloat16;
	rows.metric = Metric::kCosine;
	rows.recall_target = 0.75f;
	probes.n_probes = 2;
	set.element = ElementType::kSet; // a query of any length
	set.metric = Metric::kMatchCount;
	set.dim = 64;
	conditions.program_bytes = 8;
	conditions.n_rows = 1;
	conditions.key_bytes = 5;
	keys.n_columns = keys.n_streams = 1;
	keys.widths[0] = 4;
	return {
		{"search", request(RequestType::kSearch, search, filler(20))},
		{"search_after", request(RequestType::kSearch, after, filler(2))},
		{"search_rows", request(RequestType::kSearch, rows, filler(16), filler(20), filler(10))},
		{"search_probes",
			request(RequestType::kSearch, probes, SegmentProbes{3, 8, 0, 0}, SegmentProbes{5, 1, 90, 0}, filler(20))},
		{"search_set", request(RequestType::kSearch, set, filler(7))},
		{"search_conditions",
			request(RequestType::kSearch, conditions, filler(8), filler(8), filler(20), filler(5), filler(20))},
		{"next", request(RequestType::kNext, NextRequest{3})},
		{"search_many", search_many(search)},
		{"describe", request(RequestType::kDescribe)},
		{"create",
			request(RequestType::kCreate,
				CreateRequest{100, 0, 16, ElementType::kBit, Metric::kJaccard, CopyKind::kRows, 0})},
		{"create_lists",
			request(RequestType::kCreate,
				CreateRequest{100, 0, 16, ElementType::kFloat32, Metric::kL2, CopyKind::kLists, 0})},
		{"create_coded_lists",
			request(RequestType::kCreate,
				CreateRequest{100, 0, 16, ElementType::kFloat32, Metric::kL2, CopyKind::kCodedLists, 0})},
		{"create_codes",
			request(RequestType::kCreate,
				CreateRequest{100, 0, 16, ElementType::kFloat32, Metric::kL2, CopyKind::kCodes, 0})},
		{"create_keys",
			request(RequestType::kCreate,
				CreateRequest{100, 0, 16, ElementType::kFloat32, Metric::kL2, CopyKind::kRows, 0}, keys)},
		{"load_keys", request(RequestType::kLoadKeys, KeysRequest{0, 1, 0}, filler(24))},
		{"load_structure", request(RequestType::kLoadStructure, StructureRequest{0, 1, 2}, filler(24))},
		{"load_rows", request(RequestType::kLoadRows, RowsRequest{0, 1, 3}, filler(24), filler(60))},
		{"seal", request(RequestType::kSeal, SegmentRequest{1, 0, 3})},
		{"append", request(RequestType::kAppend, RowsRequest{5, 0, 3}, filler(24), filler(60))},
		{"load_rows_of_match_counts", request(RequestType::kLoadRows, RowsRequest{0, 1, 3}, filler(24))},
		{"tombstones", request(RequestType::kTombstones, TombstonesRequest{1, 8, 13, 1, 1, 0}, filler(2))},
		{"manifest", request(RequestType::kManifest, ManifestRequest{1, 1, 0, 2, 0}, uint32_t{1}, uint32_t{4})},
		{"drop", request(RequestType::kDrop)},
		{"stats", request(RequestType::kStats)},
		{"inventory", request(RequestType::kInventory, InventoryRequest{0, 0})},
		{"checksum", request(RequestType::kChecksum, ChecksumRequest{1, 0, 0, 3})},
		{"checksum_structure", request(RequestType::kChecksum, ChecksumRequest{1, 1, 0, 3})},
		{"ping", request(RequestType::kPing)},
		{"build_read", request(RequestType::kReadBuild, ReadBuildRequest{BuildResult::kNeighbors, 100, 5})},
		{"build_graph_read", request(RequestType::kReadBuild, ReadBuildRequest{BuildResult::kEdges, 100, 5})},
		{"build_codes_read", request(RequestType::kReadBuild, ReadBuildRequest{BuildResult::kCodesModel, 100, 5})},
		{"build_begin", request(RequestType::kBeginLists, lists)},
		{"build_training", request(RequestType::kAddTraining, BuildRowsRequest{0, 3, 0}, filler(60))},
		{"build_train", request(RequestType::kTrain)},
		{"build_centroids", request(RequestType::kAddCentroids, BuildRowsRequest{0, 3, 0}, filler(60))},
		{"build_queries", request(RequestType::kAddQueries, BuildRowsRequest{0, 3, 0}, filler(60))},
		{"build_assign", request(RequestType::kAssign, BuildRowsRequest{7, 3, 0}, filler(60))},
		{"build_graph", request(RequestType::kBeginGraph, graph)},
		{"build_graph_rows", request(RequestType::kAddGraphRows, BuildRowsRequest{7, 3, 0}, filler(60))},
		{"build_codes", request(RequestType::kBeginCodes, BeginCodesRequest{CodesKind::kPq, 8, 1, 0, 4, 300, 0, 1})},
		{"build_codes_bytes",
			request(RequestType::kBeginCodes, BeginCodesRequest{CodesKind::kSq8, 0, 0, 0, 0, 0, 0, 1})},
		{"build_codes_training", request(RequestType::kAddCodesTraining, BuildRowsRequest{0, 3, 0}, filler(60))},
		{"build_codes_train", request(RequestType::kTrainCodes)},
		{"build_codes_model", request(RequestType::kAddCodesModel, BuildRowsRequest{0, 4, 0}, filler(16))},
		{"build_insert", request(RequestType::kBeginInsert, BeginInsertRequest{insert, 9, 8})},
		{"build_insert_edges", request(RequestType::kAddBaseEdges, BuildRowsRequest{7, 3, 0}, filler(48))},
		{"build_insert_numbers", request(RequestType::kAddBaseNumbers, BuildRowsRequest{7, 3, 0}, filler(12))},
		{"build_insert_entries", request(RequestType::kAddBaseEntries, BuildRowsRequest{0, 3, 0}, filler(12))},
		{"build_graph_pages", request(RequestType::kAddGraphPages, kPages, filler(9))},
		{"build_graph_start", request(RequestType::kStartGraph)},
		{"build_end", request(RequestType::kEndBuild)},
	};
}

Seeds
request_seeds()
{
	Seeds seeds = other_request_seeds();

	seeds.merge(count_seeds());
	return seeds;
}

Seeds
reply_seeds()
{
	Bytes neighbors;

	put(&neighbors, WireNeighbor{0.5, 0x10001});
	put(&neighbors, WireNeighbor{0.5, 0x10002});

	Bytes many = reply(RequestType::kSearch, ReplyStatus::kOk, 2, 0, neighbors);

	many.erase(many.begin(), many.begin() + 1 + sizeof(uint64_t));
	many.resize(2 * many.size());
	std::copy(many.begin(), many.begin() + static_cast<ptrdiff_t>(many.size() / 2),
		many.begin() + static_cast<ptrdiff_t>(many.size() / 2));
	return {
		{"search", reply(RequestType::kSearch, ReplyStatus::kOk, 2, 1, neighbors)},
		{"search_part", reply(RequestType::kSearch, ReplyStatus::kOk, 2, 0, neighbors, Coverage::kPart)},
		{"next", reply(RequestType::kNext, ReplyStatus::kOk, 2, 0, neighbors)},
		{"search_many", reply(RequestType::kSearchMany, ReplyStatus::kOk, 2, 0, many)},
		{"behind", reply(RequestType::kSearch, ReplyStatus::kBehind, 0, 0, {})},
		{"describe",
			reply(RequestType::kDescribe, ReplyStatus::kOk, 1, 0, filler(sizeof(CopyState) + sizeof(SegmentState)))},
		{"stats", reply(RequestType::kStats, ReplyStatus::kOk, 0, 0, filler(sizeof(WorkerStats)))},
		{"inventory", reply(RequestType::kInventory, ReplyStatus::kOk, 1, 0, filler(sizeof(CopyInfo)))},
		{"checksum", reply(RequestType::kChecksum, ReplyStatus::kOk, 0, 0, filler(sizeof(ChecksumReply)))},
		{"ping", reply(RequestType::kPing, ReplyStatus::kOk, 0, 0, {})},
		{"build", reply(RequestType::kAssign, ReplyStatus::kOk, 2, 0, filler(2 * sizeof(RowLabel)))},
		{"build_coded", reply(RequestType::kAssign, ReplyStatus::kOk, 2, 0, filler(2 * (sizeof(RowLabel) + 4 + 5)))},
		{"build_read", reply(RequestType::kReadBuild, ReplyStatus::kOk, 20, 0, filler(20))},
	};
}

/// Replies that an earlier parser accepted by mistake.
Seeds
refused_reply_seeds()
{
	return {
		{"search_more_of_nothing", reply(RequestType::kSearch, ReplyStatus::kOk, 0, 1, {})},
		{"next_more_of_nothing", reply(RequestType::kNext, ReplyStatus::kOk, 0, 1, {})},
	};
}

/// Parse an input of fuzz_reply.
ParseResult
parse_reply_seed(const Bytes &bytes)
{
	const Bytes area(bytes.begin() + 1 + sizeof(uint64_t), bytes.end());
	ReplyHeader header;

	return parse_reply(area.data(), area.size(), static_cast<RequestType>(bytes[0]), kReplySequence, &header);
}

TEST(Corpus, has_a_good_request_of_every_type)
{
	std::set<RequestType> types;

	for (const auto &[name, bytes] : request_seeds())
	{
		const Bytes area(bytes.begin() + sizeof(uint64_t), bytes.end());
		RequestView view;

		EXPECT_EQ(parse_request(area.data(), area.size(), kRequestSequence, &view), ParseResult::kOk) << name;
		types.insert(view.header.type);
	}

	// Types are numbered without gaps but for 16: the next number must be unknown.
	const uint32_t next = static_cast<uint32_t>(*types.rbegin()) + 1;
	const Bytes unknown = request(static_cast<RequestType>(next));
	RequestView view;

	EXPECT_EQ(types.size(), next - 2);
	EXPECT_EQ(
		parse_request(unknown.data() + sizeof(uint64_t), unknown.size() - sizeof(uint64_t), kRequestSequence, &view),
		ParseResult::kType)
		<< "request type " << next << " has no input for the fuzz targets";
}

TEST(Corpus, has_good_replies)
{
	for (const auto &[name, bytes] : reply_seeds())
		EXPECT_EQ(parse_reply_seed(bytes), ParseResult::kOk) << name;
}

TEST(Corpus, has_replies_that_are_refused)
{
	for (const auto &[name, bytes] : refused_reply_seeds())
		EXPECT_EQ(parse_reply_seed(bytes), ParseResult::kField) << name;
}

/// Read the files of a directory of inputs; write them first if requested.
Seeds
files_of(const std::filesystem::path &folder, const Seeds &seeds)
{
	Seeds files;

	if (getenv("VECTORGPU_WRITE_CORPUS") != nullptr)
	{
		std::filesystem::remove_all(folder);
		std::filesystem::create_directories(folder);
		for (const auto &[name, bytes] : seeds)
			std::ofstream(folder / name, std::ios::binary)
				.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
	}
	for (const auto &entry : std::filesystem::directory_iterator(folder))
	{
		std::ifstream file(entry.path(), std::ios::binary);

		files[entry.path().filename().string()] =
			Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
	}
	return files;
}

TEST(Corpus, files_are_these_inputs)
{
	const std::filesystem::path corpus = VECTORGPU_FUZZ_CORPUS;
	Seeds replies = reply_seeds();

	replies.merge(refused_reply_seeds());
	for (const auto &[folder, seeds] : {std::pair{"request", request_seeds()}, std::pair{"reply", replies}})
		EXPECT_TRUE(files_of(corpus / folder, seeds) == seeds)
			<< (corpus / folder)
			<< " is of another protocol: VECTORGPU_WRITE_CORPUS=1 unit_wire --gtest_filter='Corpus.*'";
}

} // namespace
} // namespace vectorgpu::wire
