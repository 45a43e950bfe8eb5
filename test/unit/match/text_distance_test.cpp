// Edit distances of texts to one pattern, and bounds of many rows, against the definition.
#include <gtest/gtest.h>

#include "engine/match/count_tile.hpp"
#include "match/texts.hpp"

namespace vectorgpu::test
{
namespace
{

using engine::match::TextPattern;
using engine::match::TextView;

struct OwnedPattern
{
	TextPattern pattern;

	explicit OwnedPattern(const Text &text)
	{
		text_pattern_init(&pattern, engine::match::heap_memory(), text.data(), static_cast<int64_t>(text.size()));
	}
	~OwnedPattern() { text_pattern_free(&pattern); }
	OwnedPattern(const OwnedPattern &) = delete;
	OwnedPattern &operator=(const OwnedPattern &) = delete;
};

TEST(TextDistance, equals_the_table_up_to_any_bound_and_in_any_width)
{
	RandomTexts texts(1, true);

	for (const size_t size : {0u, 1u, 2u, 10u, 31u, 63u, 64u, 65u, 127u, 128u, 129u, 200u})
	{
		Text wanted = texts.next(0);

		while (wanted.size() < size)
			wanted.push_back('a' + texts.number(6) + (texts.number(9) == 0 ? 0xC3A000 : 0));

		OwnedPattern owned(wanted);

		for (int i = 0; i < 120; i++)
		{
			const Text other = i % 3 == 0 ? texts.near(wanted) : texts.next(i % 10 == 1 ? 300 : 40);
			const int64_t truth = true_distance(wanted, other);
			const uint32_t least_width = engine::match::text_width(other.data(), other.size());

			for (uint32_t width = least_width; width <= 4; width *= 2)
			{
				const std::string payload = text_payload(other, width);
				const TextView view = {reinterpret_cast<const uint8_t *>(payload.data()) + 1, other.size(), width};

				for (const int64_t most : {int64_t{0}, truth - 1, truth, truth + 1, INT64_MAX / 2})
				{
					const int64_t found = text_distance(&owned.pattern, view, most, {});

					if (truth <= most)
						ASSERT_EQ(found, truth) << size << " and " << other.size() << " characters, at most " << most;
					else
						ASSERT_GT(found, most) << size << " and " << other.size() << " characters, at most " << most;
				}
			}
		}
	}
}

TEST(TextDistance, a_payload_is_read_as_it_was_written_or_refused)
{
	for (const Text &text : {text_of(""), text_of("abc"), Text{'a', 0xC3A9}, Text{'a', 0xE8AA9E, 'b'}})
	{
		const uint32_t width = engine::match::text_width(text.data(), text.size());
		const std::string value = stored_value({}, text.size()) + text_payload(text, width);
		TextView view;

		ASSERT_TRUE(open_text_payload(parts_of(value), &view));
		EXPECT_EQ(view.n, text.size());
		EXPECT_EQ(view.width, width);
		EXPECT_FALSE(open_text_payload(parts_of(stored_value({}, text.size())), &view));
		EXPECT_FALSE(open_text_payload(parts_of(stored_value({}, text.size() + 1) + text_payload(text, width)), &view));
		EXPECT_FALSE(open_text_payload(parts_of(value + "x"), &view));

		std::string bad = value;

		bad[value.size() - text_payload(text, width).size()] = 3;
		EXPECT_FALSE(open_text_payload(parts_of(bad), &view));
	}
}

// The bounds of rows are those of theorem V.1, from the least on, a window of them at a time.
TEST(GramLevels, equal_the_theorem_in_every_width_of_counters)
{
	RandomTexts texts(2, true);
	constexpr size_t kRows = 500;

	for (const int64_t size : {int64_t{0}, int64_t{9}, int64_t{300}, int64_t{65534}, int64_t{65535}, int64_t{70000}})
		for (const uint32_t n : {1u, 2u, 3u, 5u, 16u})
		{
			std::vector<uint8_t> bytes;
			std::vector<uint16_t> halves, sizes;
			std::vector<uint32_t> words;
			std::vector<int64_t> bounds;
			size_t n_windows = 0;
			size_t n_levels = 0;

			for (size_t i = 0; i < kRows; i++)
			{
				sizes.push_back(static_cast<uint16_t>(i % 50 == 0 ? 0xFFFF : texts.number(i % 2 == 0 ? 20 : 0x10000)));
				bytes.push_back(static_cast<uint8_t>(texts.number(256)));
				halves.push_back(bytes.back());
				words.push_back(bytes.back());
				bounds.push_back(engine::match::edit_distance_bound(
					size, sizes[i] < 0xFFFF ? sizes[i] : std::max<int64_t>(size, 0xFFFF), bytes[i], n));
			}
			for (engine::match::GramWindow window; window.first != INT64_MAX; window = {window.next, INT64_MAX})
			{
				std::vector<uint8_t> levels[3] = {
					std::vector<uint8_t>(kRows), std::vector<uint8_t>(kRows), std::vector<uint8_t>(kRows)};
				int64_t next = INT64_MAX;

				gram_levels({size, n}, bytes.data(), 1, 0, kRows, sizes.data(), &window, levels[0].data());
				gram_levels({size, n}, halves.data(), 2, 0, kRows, sizes.data(), &window, levels[1].data());
				gram_levels({size, n}, words.data(), 4, 0, kRows, sizes.data(), &window, levels[2].data());
				for (size_t i = 0; i < kRows; i++)
				{
					const bool here = bounds[i] >= window.first && bounds[i] < window.first + 255;

					for (const std::vector<uint8_t> &some : levels)
						ASSERT_EQ(some[i], here ? bounds[i] - window.first : 255)
							<< "size " << size << " n " << n << " row of " << sizes[i];
					n_levels += here;
					if (bounds[i] >= window.first + 255)
						next = std::min(next, bounds[i]);
				}
				ASSERT_EQ(window.next, next);
				ASSERT_LT(++n_windows, kRows);
			}
			EXPECT_EQ(n_levels, kRows); // each in one window
			EXPECT_GT(n_windows, 1u);
		}
}

} // namespace
} // namespace vectorgpu::test
