// The parser of replies, and the check of their neighbors.
#include <limits>

#include <gtest/gtest.h>

#include "wire/codec_fixture.hpp"

namespace vectorgpu::wire
{
namespace
{

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
	EXPECT_EQ(parse_as(RequestType::kDescribe, reply(ReplyStatus::kOk, 2, 0, 128)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kStats, reply(ReplyStatus::kOk, 0, 0, sizeof(WorkerStats))), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kInventory, reply(ReplyStatus::kOk, 2, 0, 2 * sizeof(CopyInfo))), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kChecksum, reply(ReplyStatus::kOk, 0, 0, 40)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kPing, reply(ReplyStatus::kOk, 0, 0, 0)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kAssign, reply(ReplyStatus::kOk, 0, 0, 0)), ParseResult::kOk);
	EXPECT_EQ(parse_as(RequestType::kAssign, reply(ReplyStatus::kOk, 3, 0, 24)), ParseResult::kOk);
	EXPECT_EQ(
		parse_as(RequestType::kAssign, reply(ReplyStatus::kOk, 3, 0, 51)), ParseResult::kOk); // 9 bytes of codes each
}

TEST(Codec, rejects_a_reply_with_an_unknown_coverage)
{
	Bytes bytes = reply(ReplyStatus::kOk, 3, 0, 48);

	bytes[offsetof(ReplyHeader, coverage)] = 2;
	EXPECT_EQ(parse_as(RequestType::kSearch, bytes), ParseResult::kOk);
	bytes[offsetof(ReplyHeader, coverage)] = 3;
	EXPECT_EQ(parse_as(RequestType::kSearch, bytes), ParseResult::kField);
}

TEST(Codec, rejects_a_reply_with_an_unknown_filter_way)
{
	Bytes bytes = reply(ReplyStatus::kOk, 3, 0, 48);

	bytes[offsetof(ReplyHeader, filter_way)] = 4;
	bytes[offsetof(ReplyHeader, filter_found)] = 1;
	EXPECT_EQ(parse_as(RequestType::kSearch, bytes), ParseResult::kOk);
	bytes[offsetof(ReplyHeader, filter_way)] = 5;
	EXPECT_EQ(parse_as(RequestType::kSearch, bytes), ParseResult::kField);
	bytes[offsetof(ReplyHeader, filter_way)] = 4;
	bytes[offsetof(ReplyHeader, filter_found)] = 2;
	EXPECT_EQ(parse_as(RequestType::kSearch, bytes), ParseResult::kField);
	bytes[offsetof(ReplyHeader, filter_found)] = 0;
	bytes[offsetof(ReplyHeader, zero1)] = 1;
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
	EXPECT_EQ(parse_as(RequestType::kAssign, reply(ReplyStatus::kOk, 3, 0, 23)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kAssign, reply(ReplyStatus::kOk, 3, 0, 50)), ParseResult::kLength);
	EXPECT_EQ(parse_as(RequestType::kAssign, reply(ReplyStatus::kOk, 0, 0, 24)), ParseResult::kLength);
	EXPECT_NE(parse_as(RequestType::kAssign, reply(ReplyStatus::kOk, 3, 1, 24)), ParseResult::kOk);
}

TEST(Codec, rejects_a_reply_with_more_but_no_items)
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
