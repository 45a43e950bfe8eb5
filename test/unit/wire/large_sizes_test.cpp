// Sizes beyond 2^31 and 2^32 on the wire: rows at the end of the largest table, areas of a slot, counts whose product
// with a row's bytes has more than 32 bits.
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "common/limits.hpp"
#include "wire/codec.hpp"
#include "wire/slot.hpp"

namespace vectorgpu::wire
{
namespace
{

constexpr uint64_t k2To31 = uint64_t{1} << 31;
constexpr uint64_t k2To32 = uint64_t{1} << 32;

TEST(LargeWire, rows_of_the_last_block_are_rows)
{
	const WireNeighbor last[] = {{1, make_row_id(0x7FFFFFFF, 2047)}, {1, make_row_id(0x80000000, 1)},
		{1, make_row_id(0xFFFFFFFE, 1)}, {1, make_row_id(0xFFFFFFFE, 2047)}};
	const WireNeighbor other_order[] = {last[3], last[0]};
	const WireNeighbor no_offset = {1, make_row_id(0xFFFFFFFE, 0)};
	const WireNeighbor too_large = {1, uint64_t{1} << 48 | 1};

	EXPECT_TRUE(neighbors_valid(last, std::size(last), nullptr));
	EXPECT_TRUE(neighbors_valid(last + 1, 3, last));
	EXPECT_FALSE(neighbors_valid(last, std::size(last), last)) << "the first one again";
	EXPECT_FALSE(neighbors_valid(other_order, 2, nullptr));
	EXPECT_FALSE(neighbors_valid(&no_offset, 1, nullptr));
	EXPECT_FALSE(neighbors_valid(&too_large, 1, nullptr));
}

TEST(LargeWire, areas_of_a_slot_add_up_beyond_2_to_32)
{
	EXPECT_EQ(slot_bytes(kMaxAreaBytes, kMaxAreaBytes), uint64_t{kSlotHeaderBytes} + 2 * uint64_t{kMaxAreaBytes});
	EXPECT_EQ(slot_bytes(0x80000000, 0x80000000), k2To32 + kSlotHeaderBytes);
	EXPECT_EQ(slot_bytes(UINT32_MAX, UINT32_MAX), 2 * uint64_t{UINT32_MAX} + kSlotHeaderBytes);
}

/// The result for a request with these structures and `rest` further bytes.
template <class... Structures>
ParseResult
parse(RequestType type, size_t rest, const Structures &...structures)
{
	std::vector<uint8_t> bytes(sizeof(RequestHeader));
	RequestHeader header = {};
	RequestView view;

	((bytes.insert(bytes.end(), reinterpret_cast<const uint8_t *>(&structures),
		 reinterpret_cast<const uint8_t *>(&structures) + sizeof(structures))),
		...);
	bytes.resize(bytes.size() + rest);
	header.sequence = 7;
	header.type = type;
	header.body_bytes = static_cast<uint32_t>(bytes.size() - sizeof(RequestHeader));
	memcpy(bytes.data(), &header, sizeof(header));
	return parse_request(bytes.data(), bytes.size(), 7, &view);
}

TEST(LargeWire, rows_of_more_than_2_to_32_bytes_are_rejected)
{
	constexpr size_t kMostRest = size_t{1} << 20;

	// Counts whose rows or row ids have a few bytes more than a multiple of 2^32: the request has enough bytes for
	// these few.
	for (const uint32_t dim : {1u, 2u, 1024u, 16000u})
		for (const uint64_t total : {k2To31, k2To32, 2 * k2To32, uint64_t{1} << 40})
		{
			const uint64_t row_bytes = uint64_t{dim} * 4 + sizeof(uint64_t);
			const uint64_t n = (total + row_bytes - 1) / row_bytes;
			SearchRequest search = {};

			if (n > UINT32_MAX)
				continue;
			search.element = ElementType::kFloat32;
			search.metric = Metric::kL2;
			search.dim = dim;
			search.k = 1;
			search.recall_target = 1;
			EXPECT_EQ(parse(RequestType::kSearch, size_t{dim} * 4, search), ParseResult::kOk);
			search.n_rows = static_cast<uint32_t>(n);
			for (const size_t rest : {size_t{dim} * 4, static_cast<size_t>(n * row_bytes % k2To32 + dim * 4),
					 static_cast<size_t>(n * row_bytes % k2To31 + dim * 4)})
				if (rest < kMostRest)
				{
					EXPECT_EQ(parse(RequestType::kSearch, rest, search), ParseResult::kLength)
						<< n << " rows of " << dim << " dimensions";
				}
			// Row ids alone would be valid rows, too; here they have fewer bytes.
			for (const size_t rest : {size_t{8}, static_cast<size_t>(n * sizeof(uint64_t) % k2To32),
					 static_cast<size_t>(n * row_bytes % k2To32)})
				if (rest < kMostRest && rest < n * sizeof(uint64_t))
				{
					EXPECT_NE(parse(RequestType::kLoadRows, rest, RowsRequest{0, 1, static_cast<uint32_t>(n)}),
						ParseResult::kOk)
						<< n << " rows";
				}
		}
}

TEST(LargeWire, row_ids_of_more_than_2_to_32_bytes_are_rejected)
{
	for (const uint32_t n : {0x20000000u, 0x20000001u, 0x40000002u, 0x80000000u, 0xE0000003u})
		EXPECT_EQ(parse(RequestType::kLoadRows, static_cast<size_t>(n * uint64_t{8} % k2To32), RowsRequest{0, 1, n}),
			ParseResult::kLength)
			<< n << " rows";
}

TEST(LargeWire, positions_up_to_2_to_48_are_accepted)
{
	for (const uint64_t position : {k2To31 - 1, k2To31, k2To32 - 1, k2To32, k2To32 + 1, kMaxRowNumber - 1})
	{
		EXPECT_EQ(parse(RequestType::kLoadRows, 20, RowsRequest{position, 1, 1}), ParseResult::kOk) << position;
		EXPECT_EQ(parse(RequestType::kLoadStructure, 20, StructureRequest{position, 1, 8}), ParseResult::kOk)
			<< position;
		EXPECT_EQ(
			parse(RequestType::kTombstones, 1, TombstonesRequest{1, position / 8 * 8, 8, 1, 1, 0}), ParseResult::kOk)
			<< position;
	}
	for (const uint64_t position :
		{kMaxRowNumber, kMaxRowNumber + 1, uint64_t{1} << 63, std::numeric_limits<uint64_t>::max()})
	{
		EXPECT_EQ(parse(RequestType::kLoadRows, 20, RowsRequest{position, 1, 1}), ParseResult::kField) << position;
		EXPECT_EQ(parse(RequestType::kLoadStructure, 20, StructureRequest{position, 1, 8}), ParseResult::kField)
			<< position;
		EXPECT_EQ(
			parse(RequestType::kTombstones, 1, TombstonesRequest{1, position / 8 * 8, 8, 1, 1, 0}), ParseResult::kField)
			<< position;
	}
	// The maximum number of bits has fewer than 2^32 bytes, which are missing here.
	EXPECT_EQ(parse(RequestType::kTombstones, 0, TombstonesRequest{1, 0, UINT32_MAX, 1, 1, 0}), ParseResult::kLength);
}

} // namespace
} // namespace vectorgpu::wire
