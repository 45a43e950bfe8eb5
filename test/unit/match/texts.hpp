// Texts for the tests of searches by edit distance: as codes of characters, with their ordered n-grams, and the
// distance by the table of the definition.
#pragma once

#include <cstring>
#include <map>
#include <random>

#include "engine/match/text_distance.hpp"
#include "match/sets.hpp"

namespace vectorgpu::test
{

using Text = std::vector<uint32_t>; // codes of characters

inline Text
text_of(const std::string &ascii)
{
	return {ascii.begin(), ascii.end()};
}

inline int64_t
true_distance(const Text &a, const Text &b)
{
	std::vector<int64_t> row(b.size() + 1);

	for (size_t j = 0; j <= b.size(); j++)
		row[j] = static_cast<int64_t>(j);
	for (size_t i = 0; i < a.size(); i++)
	{
		int64_t diagonal = row[0]++;

		for (size_t j = 0; j < b.size(); j++)
		{
			const int64_t replaced = diagonal + (a[i] != b[j]);

			diagonal = row[j + 1];
			row[j + 1] = std::min({replaced, row[j + 1] + 1, row[j] + 1});
		}
	}
	return row.back();
}

/// Ordered n-grams (Zhou et al., section V-A1) as keys: the characters' codes and the number of equal ones before.
inline Set
grams_of(const Text &text, size_t n)
{
	std::map<std::string, uint32_t> seen;
	Set grams;

	for (size_t i = 0; i + n <= text.size(); i++)
	{
		std::string key(reinterpret_cast<const char *>(text.data() + i), n * sizeof(uint32_t));
		const uint32_t same = seen[key]++;

		grams.insert(key.append(reinterpret_cast<const char *>(&same), sizeof(same)));
	}
	return grams;
}

inline std::string
text_payload(const Text &text, uint32_t width)
{
	std::string payload(engine::match::text_payload_bytes(text.size(), width), '\0');

	engine::match::put_text_payload(reinterpret_cast<uint8_t *>(payload.data()), text.data(), text.size(), width);
	return payload;
}

inline std::string
stored_text(const Text &text, size_t n)
{
	return stored_value(grams_of(text, n), text.size()) +
		text_payload(text, engine::match::text_width(text.data(), text.size()));
}

inline std::string
stored_text_query(const Text &text, uint32_t n)
{
	const std::string by_count = stored_query(equalities(grams_of(text, n)));
	const engine::match::Parts parts = parts_of(by_count);
	std::string out(64, '\0');
	uint8_t *start = reinterpret_cast<uint8_t *>(out.data());

	out.resize(static_cast<size_t>(engine::match::put_head(start, text.size(), parts.body_bytes) - start));
	out.append(reinterpret_cast<const char *>(parts.body), parts.body_bytes);
	out.append(reinterpret_cast<const char *>(&n), sizeof(n));
	return out.append(reinterpret_cast<const char *>(text.data()), text.size() * sizeof(uint32_t));
}

/// The texts in a description.
inline std::vector<uint8_t>
described_texts(const std::vector<Text> &texts)
{
	std::vector<uint64_t> items;
	std::string bytes;

	for (const Text &text : texts)
	{
		const uint32_t width = engine::match::text_width(text.data(), text.size());

		bytes += text_payload(text, width).substr(1);
		items.push_back(engine::match::text_item(bytes.size(), width));
	}
	std::vector<uint8_t> out(items.size() * sizeof(uint64_t) + bytes.size());

	if (!items.empty())
		memcpy(out.data(), items.data(), items.size() * sizeof(uint64_t));
	if (!bytes.empty())
		memcpy(out.data() + items.size() * sizeof(uint64_t), bytes.data(), bytes.size());
	return out;
}

/// Texts of few different characters, so that there are near ones and ties. `wide`: some have characters of two and
/// four bytes.
class RandomTexts
{
public:
	explicit RandomTexts(uint32_t seed, bool wide, uint32_t alphabet = 5)
		: random_(seed), wide_(wide), alphabet_(alphabet)
	{
	}

	Text next(size_t most)
	{
		Text text(random_() % (most + 1));
		const uint32_t kind = random_() % 8;

		for (uint32_t &code : text)
		{
			code = 'a' + static_cast<uint32_t>(random_() % alphabet_);
			if (wide_ && kind == 0 && random_() % 3 == 0)
				code = 0xC3A9 + random_() % 2;
			if (wide_ && kind == 1 && random_() % 3 == 0)
				code = 0xF09F9880 + random_() % 2;
		}
		return text;
	}

	/// The text with a few changes.
	Text near(Text text)
	{
		for (uint32_t n = random_() % 4; n > 0 && !text.empty(); n--)
		{
			const auto at = text.begin() + static_cast<ptrdiff_t>(random_() % text.size());

			if (random_() % 3 == 0)
				text.erase(at);
			else if (random_() % 2 == 0)
				text.insert(at, 'a' + random_() % 6);
			else
				*at = 'a' + random_() % 6;
		}
		return text;
	}

	uint32_t number(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

private:
	std::mt19937 random_;
	bool wide_;
	uint32_t alphabet_;
};

} // namespace vectorgpu::test
