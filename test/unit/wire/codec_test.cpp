// The parser of requests that are cut short, too long, or have values that are not allowed.
#include <functional>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "wire/codec_fixture.hpp"

namespace vectorgpu::wire
{
namespace
{

/// One good request of every type.
std::vector<Bytes>
good_requests()
{
	return {
		request(RequestType::kSearch, kSearch, Filler<20>{}),
		request(RequestType::kNext, NextRequest{3}),
		request(RequestType::kSearchMany, SearchManyRequest{1, 0}, Filler<20>{}),
		request(RequestType::kDescribe),
		request(
			RequestType::kCreate, CreateRequest{100, 0, 16, ElementType::kBit, Metric::kJaccard, CopyKind::kRows, 0}),
		request(RequestType::kCreate,
			CreateRequest{100, 0, 16, ElementType::kBit, Metric::kJaccard, CopyKind::kRows, 0}, key_columns()),
		request(RequestType::kLoadRows, RowsRequest{0, 1, 3}, Filler<24>{}, Filler<60>{}),
		request(RequestType::kLoadKeys, KeysRequest{0, 1, 0}, Filler<30>{}),
		request(RequestType::kLoadStructure, StructureRequest{0, 1, 2}, Filler<30>{}),
		request(RequestType::kSeal, SegmentRequest{1, 0, 3}),
		request(RequestType::kAppend, RowsRequest{5, 0, 3}, Filler<24>{}, Filler<60>{}),
		request(RequestType::kTombstones, TombstonesRequest{1, 8, 13, 1, 1, 0}, Filler<2>{}),
		request(RequestType::kManifest, ManifestRequest{1, 1, 0, 2, 0}, uint32_t{1}, uint32_t{4}),
		request(RequestType::kDrop),
		request(RequestType::kStats),
		request(RequestType::kInventory, InventoryRequest{0, 0}),
		request(RequestType::kChecksum, ChecksumRequest{1, 0, 0, 3}),
		request(RequestType::kPing),
		request(RequestType::kReadBuild, ReadBuildRequest{BuildResult::kCentroids, 10, 0}),
		request(RequestType::kBeginLists, kBeginLists),
		request(RequestType::kAddTraining, BuildRowsRequest{0, 3, 0}, Filler<60>{}),
		request(RequestType::kTrain),
		request(RequestType::kAddCentroids, BuildRowsRequest{0, 3, 0}, Filler<60>{}),
		request(RequestType::kAddQueries, BuildRowsRequest{0, 3, 0}, Filler<60>{}),
		request(RequestType::kAssign, BuildRowsRequest{7, 3, 0}, Filler<60>{}),
		request(RequestType::kBeginCodes, kBeginCodes),
		request(RequestType::kAddCodesTraining, BuildRowsRequest{0, 3, 0}, Filler<60>{}),
		request(RequestType::kTrainCodes),
		request(RequestType::kAddCodesModel, BuildRowsRequest{0, 4, 0}, Filler<16>{}),
		request(RequestType::kBeginCounts, BeginCountsRequest{2, 64, 3, 0}),
		request(RequestType::kAddCounted, BuildRowsRequest{0, 3, 0}, Filler<60>{}),
		request(RequestType::kCountCodes, BuildRowsRequest{7, 3, 0}, Filler<60>{}),
		request(RequestType::kBeginGraph, kBeginGraph),
		request(RequestType::kBeginInsert, kBeginInsert),
		request(RequestType::kAddGraphRows, BuildRowsRequest{7, 3, 0}, Filler<60>{}),
		request(RequestType::kAddBaseEdges, BuildRowsRequest{7, 3, 0}, Filler<60>{}),
		request(RequestType::kAddBaseNumbers, BuildRowsRequest{7, 15, 0}, Filler<60>{}),
		request(RequestType::kAddBaseEntries, BuildRowsRequest{0, 15, 0}, Filler<60>{}),
		request(RequestType::kAddGraphPages, kGraphPages, Filler<9>{}),
		request(RequestType::kStartGraph),
		request(RequestType::kEndBuild),
	};
}

TEST(Codec, accepts_one_good_request_of_every_type)
{
	for (const Bytes &bytes : good_requests())
		EXPECT_EQ(parse(bytes), ParseResult::kOk) << "type " << int{bytes[0]};
}

TEST(Codec, rejects_every_truncation_and_every_extra_byte)
{
	for (const Bytes &bytes : good_requests())
	{
		for (size_t length = 0; length < bytes.size(); length++)
		{
			Bytes cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));

			EXPECT_NE(parse(cut), ParseResult::kOk) << "type " << int{bytes[0]} << " length " << length;

			// The same with a header that has this length.
			const uint32_t body_bytes = static_cast<uint32_t>(length - sizeof(RequestHeader));

			if (length < sizeof(RequestHeader))
				continue;
			memcpy(cut.data() + offsetof(RequestHeader, body_bytes), &body_bytes, 4);

			// Only rows and structures may have another size: each vector is then shorter, which the copy rejects.
			const RequestType type = static_cast<RequestType>(bytes[0]);
			RequestView view;

			if (parse_request(cut.data(), cut.size(), 7, &view) == ParseResult::kOk)
			{
				EXPECT_TRUE(type == RequestType::kLoadRows || type == RequestType::kAppend ||
					type == RequestType::kLoadStructure || type == RequestType::kLoadKeys ||
					type == RequestType::kSearchMany || // its searches are parsed by themselves
					(type == RequestType::kCreate && length == sizeof(RequestHeader) + sizeof(CreateRequest)) ||
					is_build(type))
					<< int{bytes[0]} << " " << length;
				static_assert(sizeof(StructureRequest) == sizeof(KeysRequest));
				if (type == RequestType::kLoadStructure || type == RequestType::kLoadKeys) // any part is one
					EXPECT_EQ(view.n_structure_bytes, length - sizeof(RequestHeader) - sizeof(StructureRequest));
				else if (type == RequestType::kCreate)
					EXPECT_EQ(view.key_columns.n_columns, 0u);
				else
					EXPECT_LT(view.row_bytes, 20u);
			}
		}
		Bytes longer = bytes;

		longer.push_back(0);
		EXPECT_NE(parse(longer), ParseResult::kOk);
	}
}

TEST(Codec, takes_requests_of_searches_that_follow_each_other)
{
	constexpr RequestType kMany = RequestType::kSearchMany;

	EXPECT_EQ(parse(request(kMany, SearchManyRequest{0, kManyContinues})), ParseResult::kOk);
	EXPECT_EQ(parse(request(kMany, SearchManyRequest{0, kManyFollows})), ParseResult::kField);
	EXPECT_EQ(parse(request(kMany, SearchManyRequest{1, kManyContinues | kManyFollows})), ParseResult::kOk);
	EXPECT_EQ(parse(request(kMany, SearchManyRequest{1, 4})), ParseResult::kField);
}

TEST(Codec, rejects_counts_that_overflow)
{
	for (const uint32_t n : {0u, 5u, 0x20000003u, 0x7fffffffu, 0x80000000u, 0xffffffffu})
	{
		EXPECT_NE(parse(request(RequestType::kLoadRows, RowsRequest{0, 1, n}, Filler<84>{})), ParseResult::kOk) << n;
		EXPECT_NE(parse(request(RequestType::kTombstones, TombstonesRequest{1, 8, n, 1, 1, 0}, Filler<2>{})),
			ParseResult::kOk);
		EXPECT_NE(parse(request(RequestType::kManifest, ManifestRequest{1, 1, 0, n, 0}, uint32_t{1}, uint32_t{2})),
			ParseResult::kOk);
	}
	EXPECT_EQ(parse(request(RequestType::kLoadRows, RowsRequest{uint64_t{1} << 48, 1, 3}, Filler<84>{})),
		ParseResult::kField);
	EXPECT_EQ(
		parse(request(RequestType::kTombstones, TombstonesRequest{1, uint64_t{1} << 63, 13, 1, 1, 0}, Filler<2>{})),
		ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kChecksum, ChecksumRequest{1, 0, ~uint64_t{0}, 3})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kChecksum, ChecksumRequest{1, 0, 0, ~uint64_t{0}})), ParseResult::kField);
}

TEST(Codec, parses_probes_and_structures)
{
	SearchRequest search = kSearch;
	RequestView view;

	search.n_probes = 2;

	const Bytes good =
		request(RequestType::kSearch, search, SegmentProbes{3, 8, 0, 0}, SegmentProbes{5, 1, 90, 0}, Filler<20>{});

	ASSERT_EQ(parse_request(good.data(), good.size(), 7, &view), ParseResult::kOk);
	EXPECT_EQ(view.probes[0].segment, 3u);
	EXPECT_EQ(view.probes[1].segment, 5u);
	EXPECT_EQ(view.probes[0].probes, 8u);
	EXPECT_EQ(view.vector, good.data() + sizeof(RequestHeader) + sizeof(SearchRequest) + 32);
	EXPECT_EQ(view.probes[1].candidates, 90u);
	EXPECT_EQ(parse(request(
				  RequestType::kSearch, search, SegmentProbes{3, 8, 0, 1}, SegmentProbes{5, 1, 90, 0}, Filler<20>{})),
		ParseResult::kField);
	EXPECT_EQ(parse(request(
				  RequestType::kSearch, search, SegmentProbes{3, 0, 0, 0}, SegmentProbes{5, 1, 90, 0}, Filler<20>{})),
		ParseResult::kField);
	EXPECT_EQ(parse(request(
				  RequestType::kSearch, search, SegmentProbes{3, 8, 0, 0}, SegmentProbes{0, 1, 90, 0}, Filler<20>{})),
		ParseResult::kField);
	EXPECT_EQ(
		parse(request(RequestType::kSearch, search, SegmentProbes{3, 8, 0, 0}, Filler<20>{})), ParseResult::kLength);

	const Bytes structure = request(RequestType::kLoadStructure, StructureRequest{8, 1, 65536}, Filler<5>{});

	ASSERT_EQ(parse_request(structure.data(), structure.size(), 7, &view), ParseResult::kOk);
	EXPECT_EQ(view.n_structure_bytes, 5u);
	EXPECT_EQ(view.structure_bytes, structure.data() + sizeof(RequestHeader) + sizeof(StructureRequest));
	EXPECT_EQ(parse(request(RequestType::kLoadStructure, StructureRequest{8, 0, 1}, Filler<5>{})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kLoadStructure, StructureRequest{8, 1, 0}, Filler<5>{})), ParseResult::kField);
	EXPECT_EQ(
		parse(request(RequestType::kLoadStructure, StructureRequest{8, 1, 65537}, Filler<5>{})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kLoadStructure, StructureRequest{uint64_t{1} << 48, 1, 1}, Filler<5>{})),
		ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kLoadStructure, StructureRequest{8, 1, 1})), ParseResult::kLength);
	for (const CopyKind kind : {CopyKind::kRows, CopyKind::kLists, CopyKind::kGraph, CopyKind::kCodedLists,
			 CopyKind::kMatch, CopyKind::kHashedGraph, CopyKind::kCodes, CopyKind::kSparse})
		EXPECT_EQ(
			parse(request(RequestType::kCreate, CreateRequest{1, 0, 16, ElementType::kFloat32, Metric::kL2, kind, 0})),
			ParseResult::kOk);
	EXPECT_EQ(parse(request(RequestType::kCreate,
				  CreateRequest{1, 0, 16, ElementType::kFloat32, Metric::kL2, static_cast<CopyKind>(8), 0})),
		ParseResult::kType);
	EXPECT_EQ(parse(request(RequestType::kChecksum, ChecksumRequest{1, 1, 0, 3})), ParseResult::kOk);
	EXPECT_EQ(
		parse(request(RequestType::kChecksum, ChecksumRequest{0, 1, 0, 3})), ParseResult::kField); // the delta has none
	EXPECT_EQ(parse(request(RequestType::kChecksum, ChecksumRequest{0, 2, 0, 3})), ParseResult::kOk);
	EXPECT_EQ(parse(request(RequestType::kChecksum, ChecksumRequest{1, 3, 0, 3})), ParseResult::kField);
}

TEST(Codec, parses_sets)
{
	SearchRequest search = kSearch;
	RequestView view;

	search.element = ElementType::kSet;
	search.metric = Metric::kMatchCount;
	search.dim = 16;
	search.n_rows = 2;

	const Bytes good = request(RequestType::kSearch, search, Filler<16>{}, Filler<32>{}, Filler<5>{});

	ASSERT_EQ(parse_request(good.data(), good.size(), 7, &view), ParseResult::kOk);
	EXPECT_EQ(view.row_bytes, 16u);
	EXPECT_EQ(view.vector_bytes, 5u);
	EXPECT_EQ(view.vector, good.data() + good.size() - 5);
	EXPECT_EQ(
		parse(request(RequestType::kSearch, search, Filler<16>{}, Filler<32>{})), ParseResult::kLength); // no query
	for (const uint32_t dim : {0u, 7u, 4097u, 0x80000000u})
	{
		search.dim = dim;
		EXPECT_EQ(
			parse(request(RequestType::kSearch, search, Filler<16>{}, Filler<32>{}, Filler<5>{})), ParseResult::kType)
			<< dim;
	}
	search.dim = 16;
	search.n_rows = 0xffffffffu;
	EXPECT_EQ(
		parse(request(RequestType::kSearch, search, Filler<16>{}, Filler<32>{}, Filler<5>{})), ParseResult::kLength);

	const Bytes rows = request(RequestType::kLoadRows, RowsRequest{0, 1, 2}, Filler<16>{}); // without vectors

	ASSERT_EQ(parse_request(rows.data(), rows.size(), 7, &view), ParseResult::kOk);
	EXPECT_EQ(view.row_bytes, 0u);
	EXPECT_EQ(parse(request(RequestType::kLoadRows, RowsRequest{0, 1, 2}, Filler<15>{})), ParseResult::kLength);
}

TEST(Codec, rejects_a_search_with_wrong_fields)
{
	const auto with = [](const std::function<void(SearchRequest *)> &change)
	{
		SearchRequest search = kSearch;

		change(&search);
		return parse(request(RequestType::kSearch, search, Filler<20>{}));
	};

	EXPECT_EQ(with([](SearchRequest *) {}), ParseResult::kOk);
	EXPECT_EQ(with([](SearchRequest *s) { s->k = 0; }), ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->k = kMaxSearchK + 1; }), ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->has_after = 2; }), ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->zero = 1; }), ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->given = 2; }), ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->given = 1; }), ParseResult::kField); // without any
	EXPECT_EQ(with([](SearchRequest *s) { s->recall_target = 0.95f; }), ParseResult::kOk);
	EXPECT_EQ(with([](SearchRequest *s) { s->recall_target = 1; }), ParseResult::kOk);
	EXPECT_EQ(with([](SearchRequest *s) { s->recall_target = 1.01f; }), ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->recall_target = -0.5f; }), ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->recall_target = std::numeric_limits<float>::quiet_NaN(); }),
		ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->n_probes = 1; }), ParseResult::kLength);
	EXPECT_EQ(with([](SearchRequest *s) { s->n_probes = 17; }), ParseResult::kField);
	EXPECT_EQ(with([](SearchRequest *s) { s->rows_position = 1; }), ParseResult::kField); // without rows
	EXPECT_EQ(with([](SearchRequest *s) { s->dim = 0; }), ParseResult::kType);
	EXPECT_EQ(with([](SearchRequest *s) { s->dim = 16001; }), ParseResult::kType);
	EXPECT_EQ(with([](SearchRequest *s) { s->dim = 6; }), ParseResult::kLength);
	EXPECT_EQ(with([](SearchRequest *s) { s->dim = 0x40000005; }), ParseResult::kType);
	EXPECT_EQ(with([](SearchRequest *s) { s->metric = Metric::kHamming; }), ParseResult::kType);
	EXPECT_EQ(with([](SearchRequest *s) { s->metric = static_cast<Metric>(6); }), ParseResult::kType);
	EXPECT_EQ(with([](SearchRequest *s) { s->element = static_cast<ElementType>(3); }), ParseResult::kType);
}

TEST(Codec, finds_rows_and_vector_of_a_search)
{
	SearchRequest search = kSearch; // of 20 bytes a vector

	search.n_rows = 3;
	search.rows_position = 5;

	const Bytes bytes = request(RequestType::kSearch, search, Filler<24>{}, Filler<60>{}, Filler<20>{});
	const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
	RequestView view;

	ASSERT_EQ(parse_request(exact.data(), exact.size(), 7, &view), ParseResult::kOk);
	EXPECT_EQ(view.row_bytes, 20u);
	EXPECT_EQ(view.row_ids - exact.data(), 64 + 88);
	EXPECT_EQ(view.vectors - view.row_ids, 24);
	EXPECT_EQ(view.vector - view.vectors, 60);
	for (const uint32_t n : {2u, 4u, 0x33333333u, 0x80000003u, 0xffffffffu})
	{
		search.n_rows = n;
		EXPECT_EQ(parse(request(RequestType::kSearch, search, Filler<24>{}, Filler<60>{}, Filler<20>{})),
			ParseResult::kLength)
			<< n;
	}
	search.n_rows = 3;
	search.rows_position = uint64_t{1} << 48;
	EXPECT_EQ(
		parse(request(RequestType::kSearch, search, Filler<24>{}, Filler<60>{}, Filler<20>{})), ParseResult::kField);
}

TEST(Codec, finds_the_conditions_of_a_search)
{
	SearchRequest search = kSearch; // of 20 bytes a vector

	search.program_bytes = 16;
	search.n_rows = 3;
	search.key_bytes = 13;

	const Bytes bytes =
		request(RequestType::kSearch, search, Filler<16>{}, Filler<24>{}, Filler<60>{}, Filler<39>{}, Filler<20>{});
	RequestView view;

	ASSERT_EQ(parse_request(bytes.data(), bytes.size(), 7, &view), ParseResult::kOk);
	EXPECT_EQ(view.program - bytes.data(), 64 + 88);
	EXPECT_EQ(view.row_ids - view.program, 16);
	EXPECT_EQ(view.row_bytes, 33u);
	EXPECT_EQ(view.vector - view.vectors, 99);
	EXPECT_EQ(view.vector_bytes, 20u);
	for (const uint32_t n : {8u, 15u, 24u, 65544u, 0xfffffff8u})
	{
		search.program_bytes = n;
		EXPECT_NE(parse(request(RequestType::kSearch, search, Filler<16>{}, Filler<24>{}, Filler<60>{}, Filler<39>{},
					  Filler<20>{})),
			ParseResult::kOk)
			<< n;
	}
	search.program_bytes = 16;
	search.key_bytes = 501; // more than all streams have
	EXPECT_EQ(parse(request(RequestType::kSearch, search, Filler<2000>{})), ParseResult::kField);
	search.n_rows = 0;
	search.key_bytes = 13; // without rows
	EXPECT_EQ(parse(request(RequestType::kSearch, search, Filler<16>{}, Filler<20>{})), ParseResult::kField);
}

TEST(Codec, rejects_streams_that_cannot_be)
{
	const auto with = [](const std::function<void(KeyColumns *)> &change)
	{
		KeyColumns keys = key_columns();

		change(&keys);
		return parse(request(RequestType::kCreate,
			CreateRequest{100, 0, 16, ElementType::kFloat32, Metric::kL2, CopyKind::kRows, 0}, keys));
	};

	EXPECT_EQ(with([](KeyColumns *) {}), ParseResult::kOk);
	EXPECT_EQ(with([](KeyColumns *k) { k->n_columns = 0; }), ParseResult::kField);
	EXPECT_EQ(with([](KeyColumns *k) { k->n_columns = 32; }), ParseResult::kField);
	EXPECT_EQ(with([](KeyColumns *k) { k->n_columns = 1; }), ParseResult::kField); // three streams of one column
	EXPECT_EQ(with([](KeyColumns *k) { k->n_streams = 1; }), ParseResult::kField);
	EXPECT_EQ(with([](KeyColumns *k) { k->widths[0] = 3; }), ParseResult::kField);
	EXPECT_EQ(with([](KeyColumns *k) { k->widths[3] = 4; }), ParseResult::kField); // of no stream
	EXPECT_EQ(with([](KeyColumns *k) { k->columns[1] = 2; }), ParseResult::kField);
	EXPECT_EQ(with([](KeyColumns *k) { k->zero[5] = 1; }), ParseResult::kField);
	EXPECT_EQ(
		parse(request(RequestType::kCreate,
			CreateRequest{100, 0, 64, ElementType::kSet, Metric::kMatchCount, CopyKind::kMatch, 0}, key_columns())),
		ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kCreate,
				  CreateRequest{100, 0, 56, ElementType::kSet, Metric::kL1, CopyKind::kSparse, 0}, key_columns())),
		ParseResult::kOk);
	EXPECT_EQ(parse(request(RequestType::kLoadKeys, KeysRequest{0, 0, 0}, Filler<8>{})), ParseResult::kField);
	EXPECT_EQ(
		parse(request(RequestType::kLoadKeys, KeysRequest{uint64_t{1} << 48, 1, 0}, Filler<8>{})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kLoadKeys, KeysRequest{0, 1, 0})), ParseResult::kLength);
}

TEST(Codec, rejects_wrong_headers)
{
	const Bytes good = request(RequestType::kPing);
	const auto with = [&](size_t offset, uint8_t value)
	{
		Bytes bytes = good;

		bytes[offset] = value;
		return parse(bytes);
	};

	EXPECT_EQ(parse(good, 8), ParseResult::kSequence);
	EXPECT_EQ(with(0, 0), ParseResult::kType);
	EXPECT_EQ(with(0, 16), ParseResult::kType);
	EXPECT_EQ(with(0, 42), ParseResult::kType);
	EXPECT_EQ(with(3, 1), ParseResult::kType);
	EXPECT_EQ(with(offsetof(RequestHeader, key) + 12, 1), ParseResult::kField);
	EXPECT_EQ(with(offsetof(RequestHeader, zero), 1), ParseResult::kField);
}

TEST(Codec, rejects_contradictory_fields)
{
	// The delta is segment 0 and nothing else is.
	EXPECT_EQ(parse(request(RequestType::kLoadRows, RowsRequest{0, 0, 3}, Filler<84>{})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kAppend, RowsRequest{0, 1, 3}, Filler<84>{})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kSeal, SegmentRequest{0, 0, 3})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kTombstones, TombstonesRequest{1, 9, 13, 1, 1, 0}, Filler<2>{})),
		ParseResult::kField);
	EXPECT_EQ(
		parse(request(RequestType::kTombstones, TombstonesRequest{1, 9, 13, 0, 1, 0}, Filler<2>{})), ParseResult::kOk);
	EXPECT_EQ(parse(request(RequestType::kTombstones, TombstonesRequest{1, 8, 13, 1, 2, 0}, Filler<2>{})),
		ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kManifest, ManifestRequest{1, 1, 0, 2, 0}, uint32_t{4}, uint32_t{4})),
		ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kManifest, ManifestRequest{1, 1, 0, 2, 0}, uint32_t{0}, uint32_t{4})),
		ParseResult::kField);
	EXPECT_EQ(
		parse(request(RequestType::kManifest, ManifestRequest{1, 1, 0, 17, 0}, Filler<68>{})), ParseResult::kField);
}

TEST(Codec, survives_random_changes_of_good_requests)
{
	const std::vector<Bytes> good = good_requests();
	std::mt19937 random(20240607);

	for (int round = 0; round < 300000; round++)
	{
		Bytes bytes = good[random() % good.size()];

		for (uint32_t i = 0, n = 1 + random() % 4; i < n; i++)
			bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
		(void) parse(bytes);
	}
}

} // namespace
} // namespace vectorgpu::wire
