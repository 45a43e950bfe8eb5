// The parsers of build requests.
#include <limits>

#include <gtest/gtest.h>

#include "wire/codec_fixture.hpp"

namespace vectorgpu::wire
{
namespace
{

/// The result for a request with a BuildRowsRequest and 60 bytes of rows.
ParseResult
with_rows(RequestType type, uint32_t n_rows, uint64_t position)
{
	return parse(request(type, BuildRowsRequest{position, n_rows, 0}, Filler<60>{}));
}

TEST(Codec, rejects_builds_of_lists_with_wrong_fields)
{
	const auto begin = [](auto change)
	{
		BeginListsRequest spec = kBeginLists;

		change(&spec);
		return parse(request(RequestType::kBeginLists, spec));
	};

	EXPECT_EQ(begin([](BeginListsRequest *) {}), ParseResult::kOk);
	EXPECT_EQ(begin([](BeginListsRequest *spec) { spec->dim = 0; }), ParseResult::kType);
	EXPECT_EQ(
		begin([](BeginListsRequest *spec) { spec->element = ElementType::kBit, spec->metric = Metric::kHamming; }),
		ParseResult::kOk);
	EXPECT_EQ(begin([](BeginListsRequest *spec) { spec->element = ElementType::kBit; }), ParseResult::kType);
	EXPECT_EQ(begin([](BeginListsRequest *spec)
				  { spec->element = ElementType::kSet, spec->metric = Metric::kMatchCount, spec->dim = 8; }),
		ParseResult::kType);
	EXPECT_EQ(begin([](BeginListsRequest *spec) { spec->zero[1] = 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginListsRequest *spec) { spec->n_clusters = 0; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginListsRequest *spec) { spec->n_clusters = kMaxBuildLists + 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginListsRequest *spec) { spec->tolerance = std::numeric_limits<float>::quiet_NaN(); }),
		ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kAssign, 3, 7), ParseResult::kOk);
	EXPECT_EQ(with_rows(RequestType::kAssign, 0, 7), ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kAssign, 7, 7), ParseResult::kLength);
	EXPECT_EQ(with_rows(RequestType::kAssign, 3, uint64_t{1} << 48), ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kAddTraining, 3, 1), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kAssign, BuildRowsRequest{7, 3, 1}, Filler<60>{})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kAssign, BuildRowsRequest{7, 3, 32}, Filler<124>{})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kAssign, BuildRowsRequest{7, 3, 64}, Filler<124>{})), ParseResult::kOk);
	EXPECT_EQ(parse(request(RequestType::kAssign, BuildRowsRequest{7, 3, 64}, Filler<64>{})), ParseResult::kLength);
	EXPECT_EQ(parse(request(RequestType::kAssign, BuildRowsRequest{7, 3, 128}, Filler<124>{})), ParseResult::kLength);
	EXPECT_EQ(parse(request(RequestType::kAssign, BuildRowsRequest{7, 3, ~uint32_t{63}}, Filler<124>{})),
		ParseResult::kLength);
	EXPECT_EQ(parse(request(RequestType::kReadBuild, ReadBuildRequest{static_cast<BuildResult>(200), 1, 0})),
		ParseResult::kType);
	EXPECT_EQ(
		parse(request(RequestType::kReadBuild, ReadBuildRequest{BuildResult::kReport, 0, 0})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kReadBuild, ReadBuildRequest{BuildResult::kReport, kMaxAreaBytes + 1, 0})),
		ParseResult::kField);
}

TEST(Codec, rejects_a_body_of_build_requests_that_have_none)
{
	for (const RequestType type :
		{RequestType::kTrain, RequestType::kTrainCodes, RequestType::kStartGraph, RequestType::kEndBuild})
	{
		EXPECT_EQ(parse(request(type)), ParseResult::kOk);
		EXPECT_EQ(parse(request(type, BuildRowsRequest{0, 0, 0})), ParseResult::kLength);
	}
}

TEST(Codec, rejects_codes_of_builds_with_wrong_fields)
{
	const auto codes = [](auto change)
	{
		BeginCodesRequest spec = kBeginCodes;

		change(&spec);
		return parse(request(RequestType::kBeginCodes, spec));
	};

	EXPECT_EQ(codes([](BeginCodesRequest *) {}), ParseResult::kOk);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { *spec = {CodesKind::kSq8, 0, 0, 0, 0, 5, 0, 1}; }), ParseResult::kOk);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->kind = CodesKind::kSq8; }), ParseResult::kField);
	EXPECT_EQ(
		codes([](BeginCodesRequest *spec) { *spec = {CodesKind::kRabitq, 8, 0, 0, 0, 0, 0, 1}; }), ParseResult::kOk);
	for (const BeginCodesRequest &wrong : {BeginCodesRequest{CodesKind::kRabitq, 0, 0, 0, 0, 0, 0, 1},
			 BeginCodesRequest{CodesKind::kRabitq, 9, 0, 0, 0, 0, 0, 1},
			 BeginCodesRequest{CodesKind::kRabitq, 4, 1, 0, 0, 0, 0, 1},
			 BeginCodesRequest{CodesKind::kRabitq, 4, 0, 0, 1, 0, 0, 1},
			 BeginCodesRequest{CodesKind::kRabitq, 4, 0, 0, 0, 300, 0, 1}})
		EXPECT_EQ(codes([&](BeginCodesRequest *spec) { *spec = wrong; }), ParseResult::kField);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->kind = static_cast<CodesKind>(1); }), ParseResult::kType);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->kind = static_cast<CodesKind>(5); }), ParseResult::kType);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->bits = 5; }), ParseResult::kField);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->opq = 2; }), ParseResult::kField);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->zero = 1; }), ParseResult::kField);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->zero1 = 1; }), ParseResult::kField);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->pq_m = 0; }), ParseResult::kField);
	EXPECT_EQ(codes([](BeginCodesRequest *spec) { spec->pq_m = 16001; }), ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kAddCodesTraining, 3, 0), ParseResult::kOk);
	EXPECT_EQ(with_rows(RequestType::kAddCodesTraining, 3, 1), ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kAddCodesModel, 15, 0), ParseResult::kOk);
	EXPECT_EQ(with_rows(RequestType::kAddCodesModel, 0, 0), ParseResult::kField);
}

TEST(Codec, rejects_counts_of_codes_with_wrong_fields)
{
	const auto counts = [](const BeginCountsRequest &spec) { return parse(request(RequestType::kBeginCounts, spec)); };

	EXPECT_EQ(counts({1, 32, 1, 0}), ParseResult::kOk);
	for (const BeginCountsRequest &wrong : {BeginCountsRequest{0, 32, 1, 0}, BeginCountsRequest{1, 0, 1, 0},
			 BeginCountsRequest{1, 32, 0, 0}, BeginCountsRequest{1, 32, 1, 1}})
		EXPECT_EQ(counts(wrong), ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kAddCounted, 3, 0), ParseResult::kOk);
	EXPECT_EQ(with_rows(RequestType::kAddCounted, 3, 1), ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kCountCodes, 3, 7), ParseResult::kOk);
	EXPECT_EQ(with_rows(RequestType::kCountCodes, 7, 7), ParseResult::kLength);
	EXPECT_EQ(parse(request(RequestType::kReadBuild, ReadBuildRequest{static_cast<BuildResult>(13), 1, 0})),
		ParseResult::kType);
}

TEST(Codec, rejects_pages_of_graphs_with_wrong_fields)
{
	const auto pages = [](auto change)
	{
		AddGraphPagesRequest spec = kGraphPages;

		change(&spec);
		return parse(request(RequestType::kAddGraphPages, spec, Filler<9>{}));
	};

	EXPECT_EQ(pages([](AddGraphPagesRequest *) {}), ParseResult::kOk);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->n_rows = 0; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->position = uint64_t{1} << 48; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->first = uint64_t{1} << 48; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->page_bytes = 0; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->page_bytes = 64; }), ParseResult::kField)
		<< "no payload behind the tag";
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->page_bytes = 65536; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->tag_offset = UINT32_MAX; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->file_pages = 0; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->path_bytes = 0; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->path_bytes = 1025; }), ParseResult::kField);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->path_bytes = 8; }), ParseResult::kLength);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->path_bytes = 10; }), ParseResult::kLength);
	EXPECT_EQ(pages([](AddGraphPagesRequest *spec) { spec->tag.position = 1; }), ParseResult::kField);
}

TEST(Codec, rejects_builds_of_graphs_with_wrong_fields)
{
	const auto begin = [](auto change)
	{
		BeginGraphRequest spec = kBeginGraph;

		change(&spec);
		return parse(request(RequestType::kBeginGraph, spec));
	};

	EXPECT_EQ(begin([](BeginGraphRequest *) {}), ParseResult::kOk);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->dim = 0; }), ParseResult::kType);
	EXPECT_EQ(begin([](BeginGraphRequest *spec)
				  { spec->element = ElementType::kBit, spec->metric = Metric::kHamming, spec->dim = 64000; }),
		ParseResult::kOk);
	EXPECT_EQ(begin([](BeginGraphRequest *spec)
				  { spec->element = ElementType::kBit, spec->metric = Metric::kJaccard, spec->code_bits = 64; }),
		ParseResult::kType);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->element = ElementType::kBit; }), ParseResult::kType);
	EXPECT_EQ(begin([](BeginGraphRequest *spec)
				  { spec->element = ElementType::kSet, spec->metric = Metric::kMatchCount, spec->dim = 8; }),
		ParseResult::kType);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->metric = static_cast<Metric>(200); }), ParseResult::kType);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->prune = 2; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->measure = 2; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->n_rows = 0; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->n_rows = UINT32_MAX; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->degree = kMinGraphDegree - 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->degree = kMaxGraphDegree + 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginGraphRequest *spec) { spec->zero = 1; }), ParseResult::kField);
	for (const uint32_t bits : {0u, 1u, 2u, 4u, 32u, 64u, 128u, 256u, 512u})
		EXPECT_EQ(begin([bits](BeginGraphRequest *spec) { spec->code_bits = bits; }), ParseResult::kOk);
	for (const uint32_t bits : {3u, 5u, 8u, 16u, 48u, 1024u, 0x80000000u})
		EXPECT_EQ(begin([bits](BeginGraphRequest *spec) { spec->code_bits = bits; }), ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kAddGraphRows, 3, 7), ParseResult::kOk);
	EXPECT_EQ(with_rows(RequestType::kAddGraphRows, 0, 7), ParseResult::kField);
	EXPECT_EQ(with_rows(RequestType::kAddGraphRows, 7, 7), ParseResult::kLength);
	EXPECT_EQ(with_rows(RequestType::kAddGraphRows, 3, uint64_t{1} << 48), ParseResult::kField);
}

TEST(Codec, rejects_insertions_with_wrong_fields)
{
	const auto begin = [](auto change)
	{
		BeginInsertRequest spec = kBeginInsert;

		change(&spec);
		return parse(request(RequestType::kBeginInsert, spec));
	};

	EXPECT_EQ(begin([](BeginInsertRequest *) {}), ParseResult::kOk);
	EXPECT_EQ(begin([](BeginInsertRequest *spec) { spec->graph.dim = 0; }), ParseResult::kType);
	EXPECT_EQ(begin([](BeginInsertRequest *spec) { spec->graph.degree = kMaxGraphDegree + 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginInsertRequest *spec) { spec->graph.code_bits = 32; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginInsertRequest *spec) { spec->n_base = spec->n_kept = 0; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginInsertRequest *spec) { spec->n_base = UINT32_MAX; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginInsertRequest *spec) { spec->n_kept = spec->n_base + 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](BeginInsertRequest *spec) { spec->graph.n_rows = spec->n_kept - 1; }), ParseResult::kField);
	for (const RequestType what :
		{RequestType::kAddBaseEdges, RequestType::kAddBaseNumbers, RequestType::kAddBaseEntries})
	{
		const bool in_parts = what != RequestType::kAddBaseEntries;

		EXPECT_EQ(with_rows(what, 3, 0), ParseResult::kOk);
		EXPECT_EQ(with_rows(what, 3, 7), in_parts ? ParseResult::kOk : ParseResult::kField);
		EXPECT_EQ(with_rows(what, 0, 0), ParseResult::kField);
		EXPECT_EQ(with_rows(what, 7, 0), ParseResult::kLength);
		EXPECT_EQ(with_rows(what, 3, uint64_t{1} << 48), ParseResult::kField);
	}
}

} // namespace
} // namespace vectorgpu::wire
