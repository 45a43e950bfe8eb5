// Stored values and queries: reading, writing, refusals, and the count of one value.
#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

#include "match/sets.hpp"

namespace vectorgpu::test
{
namespace
{

using namespace engine::match;

TEST(ElementSet, VarintsComeBack)
{
	uint8_t buffer[kMaxVarintBytes];

	for (unsigned bits = 0; bits < 64; bits++)
		for (int64_t around = -1; around <= 1; around++)
		{
			const uint64_t value = (uint64_t{1} << bits) + static_cast<uint64_t>(around);
			const uint8_t *end = put_varint(buffer, value);
			uint64_t back = 0;

			EXPECT_EQ(static_cast<size_t>(end - buffer), varint_bytes(value));
			EXPECT_EQ(get_varint(buffer, end, &back), end);
			EXPECT_EQ(back, value);
			EXPECT_EQ(get_varint(buffer, end - 1, &back), nullptr) << "cut short";
		}
}

TEST(ElementSet, KeysOrderByBytesThenLength)
{
	const std::vector<std::string> sorted = {
		"", std::string(1, '\0'), "a", std::string("a\0", 2), "aa", "b", "\x7F", "\x80", "\xFF"};

	for (size_t i = 0; i < sorted.size(); i++)
		for (size_t j = 0; j < sorted.size(); j++)
		{
			const int order = key_compare(key_of(sorted[i]), key_of(sorted[j]));

			EXPECT_EQ(order < 0, i < j) << i << " " << j;
			EXPECT_EQ(order > 0, i > j) << i << " " << j;
			if (i <= j)
			{
				EXPECT_LE(key_prefix(key_of(sorted[i])), key_prefix(key_of(sorted[j])));
			}
		}
}

TEST(ElementSet, CountsByDefinitionInRandomSets)
{
	std::mt19937 random(20260901);

	for (int round = 0; round < 2000; round++)
	{
		Set row;
		Set bounds;
		std::vector<Range> ranges;

		for (size_t n = random() % 12; n > 0; n--)
			row.insert(
				std::string(random() % 4, static_cast<char>('a' + random() % 4)) + static_cast<char>(random() % 3));
		for (size_t n = random() % 10; n > 0; n--)
			bounds.insert(std::string(1 + random() % 3, static_cast<char>('a' + random() % 4)));
		for (auto at = bounds.begin(); at != bounds.end(); ++at)
		{
			const auto next = std::next(at);

			if (random() % 2 == 0)
				ranges.emplace_back(*at, successor(*at));
			else if (next != bounds.end())
				ranges.emplace_back(*at, *next);
		}
		const std::string value = stored_value(row, 7);
		const std::string query = stored_query(ranges, random() % 2 == 0);
		uint64_t n = 0;

		EXPECT_TRUE(elements_valid(parts_of(value), &n));
		EXPECT_EQ(n, row.size());
		EXPECT_TRUE(items_valid(parts_of(query), &n));
		EXPECT_EQ(n, ranges.size());
		EXPECT_EQ(parts_of(value).size, 7u);
		EXPECT_EQ(count_matches(parts_of(query), parts_of(value)), true_count(ranges, row)) << "round " << round;
	}
}

TEST(ElementSet, DamagedBytesAreRefusedAndNeverReadBeyond)
{
	const std::string whole = stored_value({"one", "two", std::string(300, 'x')});
	uint64_t n = 0;

	for (size_t cut = 0; cut < whole.size(); cut++)
	{
		const std::string part = whole.substr(0, cut);
		Parts parts{};

		if (open_parts(part.data(), part.size(), &parts))
		{
			EXPECT_FALSE(elements_valid(parts, &n)) << cut;
		}
	}
	std::mt19937 random(5);
	for (int round = 0; round < 5000; round++)
	{
		std::string bytes(random() % 24, '\0');
		Parts parts{};

		for (char &byte : bytes)
			byte = static_cast<char>(random() % 6 == 0 ? random() : random() % 4);
		if (!open_parts(bytes.data(), bytes.size(), &parts))
			continue;
		(void) elements_valid(parts, &n);
		(void) items_valid(parts, &n);
		(void) count_matches(parts, parts);
	}
}

TEST(ElementSet, DisorderIsNotValid)
{
	std::string swapped = stored_value({"a", "b"});
	uint64_t n = 0;

	std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 3]);
	EXPECT_FALSE(elements_valid(parts_of(swapped), &n));
	swapped[swapped.size() - 1] = swapped[swapped.size() - 3];
	EXPECT_FALSE(elements_valid(parts_of(swapped), &n)) << "twice the same";
	EXPECT_FALSE(items_valid(parts_of(stored_query({{"b", "c"}, {"a", "b"}})), &n));
	EXPECT_FALSE(items_valid(parts_of(stored_query({{"a", "c"}, {"b", "d"}})), &n)) << "overlap";
	EXPECT_FALSE(items_valid(parts_of(stored_query({{"b", "b"}})), &n)) << "empty";
	EXPECT_TRUE(items_valid(parts_of(stored_query({{"a", "b"}, {"b", "c"}})), &n)) << "side by side";
}

} // namespace
} // namespace vectorgpu::test
