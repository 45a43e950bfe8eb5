// The parsers against requests and replies that are cut short, too long, or say what must not be said.
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "wire/codec.hpp"

namespace vectorgpu::wire
{
namespace
{

using Bytes = std::vector<uint8_t>;

template <class T>
void
put(Bytes *bytes, const T &value)
{
	const size_t at = bytes->size();

	bytes->resize(at + sizeof(T));
	memcpy(bytes->data() + at, &value, sizeof(T));
}

/// A request of `type` with the given pieces as its body.
template <class... T>
Bytes
request(RequestType type, const T &...pieces)
{
	Bytes body;
	Bytes whole;

	(put(&body, pieces), ...);
	put(&whole, RequestHeader{type, static_cast<uint32_t>(body.size()), 7, CopyKey{1, 2, 3, 0, 4, 5}, {}});
	for (const uint8_t byte : body)
		whole.push_back(byte);
	return whole;
}

template <size_t n>
struct Filler
{
	uint8_t bytes[n];
};

const SearchRequest kSearch = {{1, 2, 3}, 10, 0, 0, 0, 5, ElementType::kFloat32, Metric::kL2, {}, 0, 0, 0, 0};

const GraphBuildSpec kGraphBuildSpec = {5, ElementType::kFloat32, Metric::kInnerProduct, 0, 1, 100, 8, 1, 0, 0};
const InsertBuildSpec kInsertBuildSpec = {kGraphBuildSpec, 90, 80};
const BuildSpec kBuildSpec = {5, ElementType::kFloat32, Metric::kL2, {}, 4, 3, 2, 10, 1, 20, 1e-3f};

const CodesSpec kCodesSpec = {CodesKind::kPq, 8, 1, 0, 4, 300, 0, 1};

/// One good request of every type.
std::vector<Bytes>
good_requests()
{
	return {
		request(RequestType::kSearch, kSearch, Filler<20>{}),
		request(RequestType::kNext, NextRequest{3}),
		request(RequestType::kDescribe),
		request(
			RequestType::kCreate, CreateRequest{100, 0, 16, ElementType::kBit, Metric::kJaccard, CopyKind::kRows, 0}),
		request(RequestType::kLoadRows, RowsRequest{0, 1, 3}, Filler<24>{}, Filler<60>{}),
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
		request(RequestType::kBuild, BuildRequest{BuildStep::kBegin, 0, 0}, kBuildSpec),
		request(RequestType::kBuild, BuildRequest{BuildStep::kAssign, 3, 7}, Filler<60>{}),
		request(RequestType::kBuild, BuildRequest{BuildStep::kBeginGraph, 0, 0}, kGraphBuildSpec),
		request(RequestType::kBuild, BuildRequest{BuildStep::kRows, 3, 7}, Filler<60>{}),
		request(RequestType::kBuild, BuildRequest{BuildStep::kBeginInsert, 0, 0}, kInsertBuildSpec),
		request(RequestType::kBuild, BuildRequest{BuildStep::kBaseEdges, 3, 7}, Filler<60>{}),
		request(RequestType::kBuild, BuildRequest{BuildStep::kBaseEntries, 15, 0}, Filler<60>{}),
		request(RequestType::kBuild, BuildRequest{BuildStep::kStart, 0, 0}),
		request(RequestType::kBuild, BuildRequest{BuildStep::kEnd, 0, 0}),
		request(RequestType::kBuild, BuildRequest{BuildStep::kCodes, 0, 0}, kCodesSpec),
		request(RequestType::kBuild, BuildRequest{BuildStep::kCodesTraining, 3, 0}, Filler<60>{}),
		request(RequestType::kBuild, BuildRequest{BuildStep::kTrainCodes, 0, 0}),
		request(RequestType::kBuild, BuildRequest{BuildStep::kCodesModel, 4, 0}, Filler<16>{}),
		request(RequestType::kBuildRead, BuildReadRequest{BuildResult::kCentroids, 10, 0}),
	};
}

ParseResult
parse(const Bytes &bytes, uint64_t sequence = 7)
{
	// A copy of just that size, so that a sanitizer sees a read behind the end.
	const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
	RequestView view;

	return parse_request(exact.data(), exact.size(), sequence, &view);
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

			// The same with a header that owns up to the length.
			const uint32_t body_bytes = static_cast<uint32_t>(length - sizeof(RequestHeader));

			if (length < sizeof(RequestHeader))
				continue;
			memcpy(cut.data() + offsetof(RequestHeader, body_bytes), &body_bytes, 4);

			// Rows and structures alone may come in another size: then each vector is shorter, which the copy does not
			// accept.
			const RequestType type = static_cast<RequestType>(bytes[0]);
			RequestView view;

			if (parse_request(cut.data(), cut.size(), 7, &view) == ParseResult::kOk)
			{
				EXPECT_TRUE(type == RequestType::kLoadRows || type == RequestType::kAppend ||
					type == RequestType::kLoadStructure || type == RequestType::kBuild)
					<< int{bytes[0]} << " " << length;
				if (type == RequestType::kLoadStructure) // any part of the structure is one
					EXPECT_EQ(view.n_structure_bytes, length - sizeof(RequestHeader) - sizeof(StructureRequest));
				else
					EXPECT_LT(view.row_bytes, 20u);
			}
		}
		Bytes longer = bytes;

		longer.push_back(0);
		EXPECT_NE(parse(longer), ParseResult::kOk);
	}
}

TEST(Codec, rejects_builds_that_say_what_they_must_not)
{
	const auto begin = [](auto change)
	{
		BuildSpec spec = kBuildSpec;

		change(&spec);
		return parse(request(RequestType::kBuild, BuildRequest{BuildStep::kBegin, 0, 0}, spec));
	};
	const auto step = [](BuildStep what, uint32_t n_rows, uint64_t position)
	{ return parse(request(RequestType::kBuild, BuildRequest{what, n_rows, position}, Filler<60>{})); };

	EXPECT_EQ(begin([](BuildSpec *) {}), ParseResult::kOk);
	EXPECT_EQ(begin([](BuildSpec *spec) { spec->dim = 0; }), ParseResult::kType);
	EXPECT_EQ(begin([](BuildSpec *spec) { spec->element = ElementType::kBit, spec->metric = Metric::kHamming; }),
		ParseResult::kOk);
	EXPECT_EQ(begin([](BuildSpec *spec) { spec->element = ElementType::kBit; }), ParseResult::kType);
	EXPECT_EQ(begin([](BuildSpec *spec)
				  { spec->element = ElementType::kSet, spec->metric = Metric::kMatchCount, spec->dim = 8; }),
		ParseResult::kType);
	EXPECT_EQ(begin([](BuildSpec *spec) { spec->zero[1] = 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](BuildSpec *spec) { spec->n_clusters = 0; }), ParseResult::kField);
	EXPECT_EQ(begin([](BuildSpec *spec) { spec->n_clusters = kMaxBuildLists + 1; }), ParseResult::kField);
	EXPECT_EQ(
		begin([](BuildSpec *spec) { spec->tolerance = std::numeric_limits<float>::quiet_NaN(); }), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kAssign, 3, 7), ParseResult::kOk);
	EXPECT_EQ(step(BuildStep::kAssign, 0, 7), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kAssign, 7, 7), ParseResult::kLength);
	EXPECT_EQ(step(BuildStep::kAssign, 3, uint64_t{1} << 48), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kTraining, 3, 1), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kTrain, 0, 0), ParseResult::kLength);
	EXPECT_EQ(step(BuildStep::kEnd, 3, 0), ParseResult::kField);
	EXPECT_EQ(step(static_cast<BuildStep>(200), 3, 0), ParseResult::kType);
	EXPECT_EQ(parse(request(RequestType::kBuildRead, BuildReadRequest{static_cast<BuildResult>(200), 1, 0})),
		ParseResult::kType);
	EXPECT_EQ(
		parse(request(RequestType::kBuildRead, BuildReadRequest{BuildResult::kReport, 0, 0})), ParseResult::kField);
	EXPECT_EQ(parse(request(RequestType::kBuildRead, BuildReadRequest{BuildResult::kReport, kMaxAreaBytes + 1, 0})),
		ParseResult::kField);
}

TEST(Codec, rejects_codes_of_builds_that_say_what_they_must_not)
{
	const auto codes = [](auto change)
	{
		CodesSpec spec = kCodesSpec;

		change(&spec);
		return parse(request(RequestType::kBuild, BuildRequest{BuildStep::kCodes, 0, 0}, spec));
	};
	const auto step = [](BuildStep what, uint32_t n_rows, uint64_t position)
	{ return parse(request(RequestType::kBuild, BuildRequest{what, n_rows, position}, Filler<60>{})); };

	EXPECT_EQ(codes([](CodesSpec *) {}), ParseResult::kOk);
	EXPECT_EQ(codes([](CodesSpec *spec) { *spec = {CodesKind::kSq8, 0, 0, 0, 0, 5, 0, 1}; }), ParseResult::kOk);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->kind = CodesKind::kSq8; }), ParseResult::kField);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->kind = static_cast<CodesKind>(1); }), ParseResult::kType);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->kind = static_cast<CodesKind>(4); }), ParseResult::kType);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->pq_bits = 5; }), ParseResult::kField);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->opq = 2; }), ParseResult::kField);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->zero = 1; }), ParseResult::kField);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->zero1 = 1; }), ParseResult::kField);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->pq_m = 0; }), ParseResult::kField);
	EXPECT_EQ(codes([](CodesSpec *spec) { spec->pq_m = 16001; }), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kCodes, 3, 0), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kCodesTraining, 3, 0), ParseResult::kOk);
	EXPECT_EQ(step(BuildStep::kCodesTraining, 3, 1), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kCodesModel, 15, 0), ParseResult::kOk);
	EXPECT_EQ(step(BuildStep::kCodesModel, 0, 0), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kTrainCodes, 0, 0), ParseResult::kLength);
	EXPECT_EQ(step(BuildStep::kTrainCodes, 3, 0), ParseResult::kField);
}

TEST(Codec, rejects_builds_of_graphs_that_say_what_they_must_not)
{
	const auto begin = [](auto change)
	{
		GraphBuildSpec spec = kGraphBuildSpec;

		change(&spec);
		return parse(request(RequestType::kBuild, BuildRequest{BuildStep::kBeginGraph, 0, 0}, spec));
	};
	const auto step = [](BuildStep what, uint32_t n_rows, uint64_t position)
	{ return parse(request(RequestType::kBuild, BuildRequest{what, n_rows, position}, Filler<60>{})); };

	EXPECT_EQ(begin([](GraphBuildSpec *) {}), ParseResult::kOk);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->dim = 0; }), ParseResult::kType);
	EXPECT_EQ(begin([](GraphBuildSpec *spec)
				  { spec->element = ElementType::kBit, spec->metric = Metric::kHamming, spec->dim = 64000; }),
		ParseResult::kOk);
	EXPECT_EQ(begin([](GraphBuildSpec *spec)
				  { spec->element = ElementType::kBit, spec->metric = Metric::kJaccard, spec->hash_bits = 64; }),
		ParseResult::kType);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->element = ElementType::kBit; }), ParseResult::kType);
	EXPECT_EQ(begin([](GraphBuildSpec *spec)
				  { spec->element = ElementType::kSet, spec->metric = Metric::kMatchCount, spec->dim = 8; }),
		ParseResult::kType);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->metric = static_cast<Metric>(200); }), ParseResult::kType);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->prune = 2; }), ParseResult::kField);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->measure = 2; }), ParseResult::kField);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->n_rows = 0; }), ParseResult::kField);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->n_rows = UINT32_MAX; }), ParseResult::kField);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->degree = kMinGraphDegree - 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->degree = kMaxGraphDegree + 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](GraphBuildSpec *spec) { spec->zero = 1; }), ParseResult::kField);
	for (const uint32_t bits : {0u, 32u, 64u, 128u, 256u, 512u})
		EXPECT_EQ(begin([bits](GraphBuildSpec *spec) { spec->hash_bits = bits; }), ParseResult::kOk);
	for (const uint32_t bits : {1u, 16u, 48u, 1024u, 0x80000000u})
		EXPECT_EQ(begin([bits](GraphBuildSpec *spec) { spec->hash_bits = bits; }), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kRows, 3, 7), ParseResult::kOk);
	EXPECT_EQ(step(BuildStep::kRows, 0, 7), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kRows, 7, 7), ParseResult::kLength);
	EXPECT_EQ(step(BuildStep::kRows, 3, uint64_t{1} << 48), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kStart, 0, 0), ParseResult::kLength);
	EXPECT_EQ(step(BuildStep::kStart, 3, 0), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kStart, 0, 1), ParseResult::kField);
	EXPECT_EQ(step(BuildStep::kBeginGraph, 1, 0), ParseResult::kField);
}

TEST(Codec, rejects_insertions_that_say_what_they_must_not)
{
	const auto begin = [](auto change)
	{
		InsertBuildSpec spec = kInsertBuildSpec;

		change(&spec);
		return parse(request(RequestType::kBuild, BuildRequest{BuildStep::kBeginInsert, 0, 0}, spec));
	};
	const auto step = [](BuildStep what, uint32_t n_rows, uint64_t position)
	{ return parse(request(RequestType::kBuild, BuildRequest{what, n_rows, position}, Filler<60>{})); };

	EXPECT_EQ(begin([](InsertBuildSpec *) {}), ParseResult::kOk);
	EXPECT_EQ(begin([](InsertBuildSpec *spec) { spec->graph.dim = 0; }), ParseResult::kType);
	EXPECT_EQ(begin([](InsertBuildSpec *spec) { spec->graph.degree = kMaxGraphDegree + 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](InsertBuildSpec *spec) { spec->graph.hash_bits = 32; }), ParseResult::kField);
	EXPECT_EQ(begin([](InsertBuildSpec *spec) { spec->n_base = spec->n_kept = 0; }), ParseResult::kField);
	EXPECT_EQ(begin([](InsertBuildSpec *spec) { spec->n_base = UINT32_MAX; }), ParseResult::kField);
	EXPECT_EQ(begin([](InsertBuildSpec *spec) { spec->n_kept = spec->n_base + 1; }), ParseResult::kField);
	EXPECT_EQ(begin([](InsertBuildSpec *spec) { spec->graph.n_rows = spec->n_kept - 1; }), ParseResult::kField);
	for (const BuildStep what : {BuildStep::kBaseEdges, BuildStep::kBaseNumbers, BuildStep::kBaseEntries})
	{
		const bool in_parts = what != BuildStep::kBaseEntries;

		EXPECT_EQ(step(what, 3, 0), ParseResult::kOk);
		EXPECT_EQ(step(what, 3, 7), in_parts ? ParseResult::kOk : ParseResult::kField);
		EXPECT_EQ(step(what, 0, 0), ParseResult::kField);
		EXPECT_EQ(step(what, 7, 0), ParseResult::kLength);
		EXPECT_EQ(step(what, 3, uint64_t{1} << 48), ParseResult::kField);
	}
	EXPECT_EQ(step(BuildStep::kBeginInsert, 1, 0), ParseResult::kField);
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

TEST(Codec, takes_probes_and_a_structure_as_they_are_meant)
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
			 CopyKind::kMatch, CopyKind::kHashedGraph, CopyKind::kCodes})
		EXPECT_EQ(
			parse(request(RequestType::kCreate, CreateRequest{1, 0, 16, ElementType::kFloat32, Metric::kL2, kind, 0})),
			ParseResult::kOk);
	EXPECT_EQ(parse(request(RequestType::kCreate,
				  CreateRequest{1, 0, 16, ElementType::kFloat32, Metric::kL2, static_cast<CopyKind>(7), 0})),
		ParseResult::kType);
	EXPECT_EQ(parse(request(RequestType::kChecksum, ChecksumRequest{1, 1, 0, 3})), ParseResult::kOk);
	EXPECT_EQ(
		parse(request(RequestType::kChecksum, ChecksumRequest{0, 1, 0, 3})), ParseResult::kField); // the delta has none
	EXPECT_EQ(parse(request(RequestType::kChecksum, ChecksumRequest{1, 2, 0, 3})), ParseResult::kField);
}

TEST(Codec, takes_sets_as_they_are_meant)
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

TEST(Codec, rejects_a_search_that_makes_no_sense)
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
	EXPECT_EQ(with([](SearchRequest *s) { s->zero[1] = 1; }), ParseResult::kField);
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

TEST(Codec, finds_rows_and_vector_of_a_search_where_they_lie)
{
	SearchRequest search = kSearch; // of 20 bytes a vector

	search.n_rows = 3;
	search.rows_position = 5;

	const Bytes bytes = request(RequestType::kSearch, search, Filler<24>{}, Filler<60>{}, Filler<20>{});
	const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
	RequestView view;

	ASSERT_EQ(parse_request(exact.data(), exact.size(), 7, &view), ParseResult::kOk);
	EXPECT_EQ(view.row_bytes, 20u);
	EXPECT_EQ(view.row_ids - exact.data(), 64 + 80);
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
	EXPECT_EQ(with(0, 18), ParseResult::kType);
	EXPECT_EQ(with(3, 1), ParseResult::kType);
	EXPECT_EQ(with(offsetof(RequestHeader, key) + 12, 1), ParseResult::kField);
	EXPECT_EQ(with(offsetof(RequestHeader, zero), 1), ParseResult::kField);
}

TEST(Codec, rejects_fields_that_do_not_go_together)
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

Bytes
reply(ReplyStatus status, uint32_t n_items, uint32_t more, size_t body_bytes)
{
	ReplyHeader header{};
	Bytes whole;

	header.status = status;
	header.body_bytes = static_cast<uint32_t>(body_bytes);
	header.sequence = 9;
	header.n_items = n_items;
	header.more = more;
	put(&whole, header);
	whole.resize(whole.size() + body_bytes);
	return whole;
}

ParseResult
parse_as(RequestType type, const Bytes &bytes, uint64_t sequence = 9)
{
	ReplyHeader header;

	return parse_reply(bytes.data(), bytes.size(), type, sequence, &header);
}

TEST(Codec, accepts_good_replies)
{
	EXPECT_EQ(parse_as(RequestType::kSearch, reply(ReplyStatus::kOk, 3, 1, 48)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kSearch, reply(ReplyStatus::kBehind, 0, 0, 0)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kNext, reply(ReplyStatus::kOk, 3, 0, 48)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kDescribe, reply(ReplyStatus::kOk, 2, 0, 112)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kStats, reply(ReplyStatus::kOk, 0, 0, sizeof(WorkerStats))), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kInventory, reply(ReplyStatus::kOk, 2, 0, 240)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kChecksum, reply(ReplyStatus::kOk, 0, 0, 40)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kPing, reply(ReplyStatus::kOk, 0, 0, 0)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kBuild, reply(ReplyStatus::kOk, 0, 0, 0)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kBuild, reply(ReplyStatus::kOk, 3, 0, 24)), ParseResult::kOk);
	EXPECT_EQ(
		parse_as(RequestType::kBuild, reply(ReplyStatus::kOk, 3, 0, 51)), ParseResult::kOk); // 9 bytes of codes each
}

TEST(Codec, rejects_a_reply_with_a_coverage_that_there_is_not)
{
	Bytes bytes = reply(ReplyStatus::kOk, 3, 0, 48);

	bytes[offsetof(ReplyHeader, coverage)] = 2;
	EXPECT_EQ(parse_as(RequestType::kSearch, bytes), ParseResult::kOk);
	bytes[offsetof(ReplyHeader, coverage)] = 3;
	EXPECT_EQ(parse_as(RequestType::kSearch, bytes), ParseResult::kField);
}

TEST(Codec, rejects_replies_whose_counts_and_lengths_disagree)
{
	const Bytes good = reply(ReplyStatus::kOk, 3, 1, 48);

	for (size_t length = 0; length < good.size(); length++)
		EXPECT_NE(parse_as(RequestType::kSearch, Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(length))),
			ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kSearch, good, 10), ParseResult::kSequence);
	EXPECT_EQ(parse_as(RequestType::kSearch, reply(ReplyStatus::kOk, 4, 0, 48)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kSearch, reply(ReplyStatus::kOk, 0x10000003, 0, 48)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kSearch, reply(ReplyStatus::kOk, 3, 2, 48)), ParseResult::kField);
	EXPECT_EQ(parse_as(RequestType::kSearch, reply(ReplyStatus::kBehind, 3, 0, 48)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kSearch, reply(static_cast<ReplyStatus>(10), 0, 0, 0)), ParseResult::kType);
	EXPECT_EQ(parse_as(RequestType::kPing, reply(ReplyStatus::kOk, 0, 0, 16)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kPing, reply(ReplyStatus::kOk, 3, 0, 48)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kDescribe, reply(ReplyStatus::kOk, 0, 1, 48)), ParseResult::kField);
	EXPECT_EQ(parse_as(RequestType::kStats, reply(ReplyStatus::kOk, 0, 0, 24)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kBuild, reply(ReplyStatus::kOk, 3, 0, 23)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kBuild, reply(ReplyStatus::kOk, 3, 0, 50)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kBuild, reply(ReplyStatus::kOk, 0, 0, 24)), ParseResult::kLength);
	EXPECT_NE(parse_as(RequestType::kBuild, reply(ReplyStatus::kOk, 3, 1, 24)), ParseResult::kOk);
}

TEST(Codec, rejects_a_reply_that_has_more_but_nothing_yet)
{
	for (const RequestType type : {RequestType::kSearch, RequestType::kNext})
	{
		EXPECT_EQ(parse_as(type, reply(ReplyStatus::kOk, 0, 1, 0)), ParseResult::kField);
		EXPECT_EQ(parse_as(type, reply(ReplyStatus::kOk, 0, 0, 0)), ParseResult::kOk);
		EXPECT_EQ(parse_as(type, reply(ReplyStatus::kOk, 1, 1, 16)), ParseResult::kOk);
		EXPECT_EQ(parse_as(type, reply(ReplyStatus::kAbsent, 0, 1, 0)), ParseResult::kField);
	}
}

TEST(Codec, rejects_neighbors_out_of_order)
{
	const double nan = std::numeric_limits<double>::quiet_NaN();
	const WireNeighbor good[] = {{-1, 1}, {0, 0x10001}, {0, 0x10002}, {nan, 1}, {nan, 2}};
	const WireNeighbor twice[] = {{1, 1}, {1, 1}};
	const WireNeighbor down[] = {{1, 1}, {0, 2}};
	const WireNeighbor no_offset[] = {{1, 0x10000}};
	const WireNeighbor large[] = {{1, uint64_t{1} << 48 | 1}};
	const WireNeighbor after_nan[] = {{nan, 1}, {0, 2}};

	EXPECT_TRUE(neighbors_valid(good, 5, nullptr));
	EXPECT_TRUE(neighbors_valid(good + 1, 4, &good[0]));
	EXPECT_FALSE(neighbors_valid(good, 5, &good[0]));
	EXPECT_FALSE(neighbors_valid(twice, 2, nullptr));
	EXPECT_FALSE(neighbors_valid(down, 2, nullptr));
	EXPECT_FALSE(neighbors_valid(no_offset, 1, nullptr));
	EXPECT_FALSE(neighbors_valid(large, 1, nullptr));
	EXPECT_FALSE(neighbors_valid(after_nan, 2, nullptr));
}

} // namespace
} // namespace vectorgpu::wire
