// Values and queries for the tests of the match-count model, and the oracle: counts by the definition in standard C++.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/match/element_set.hpp"
#include "engine/match/match_index.hpp"

namespace vectorgpu::test
{

using Set = std::set<std::string>;
using Range = std::pair<std::string, std::string>; // [first, second)

inline engine::match::Key
key_of(const std::string &text)
{
	return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

/// The string right behind `text` in the order of keys.
inline std::string
successor(const std::string &text)
{
	return text + std::string(1, '\0');
}

inline std::string
stored_value(const Set &set, uint64_t size = 0)
{
	std::string body;
	std::string out(64, '\0');

	for (const std::string &key : set)
	{
		std::string element(engine::match::element_bytes(key.size()), '\0');

		engine::match::put_element(reinterpret_cast<uint8_t *>(element.data()), key_of(key));
		body += element;
	}
	uint8_t *start = reinterpret_cast<uint8_t *>(out.data());
	out.resize(static_cast<size_t>(engine::match::put_head(start, size, body.size()) - start));
	return out + body;
}

/// Ranges ascending and disjoint. One that holds a single string is stored as such if `compact`.
inline std::string
stored_query(const std::vector<Range> &ranges, bool compact = true)
{
	std::string body;
	std::string out(64, '\0');

	for (const auto &[low, high] : ranges)
	{
		const bool single = compact && high == successor(low);
		const engine::match::Key high_key = single ? engine::match::Key{nullptr, 0} : key_of(high);
		std::string item(engine::match::item_bytes(key_of(low), high_key), '\0');

		engine::match::put_item(reinterpret_cast<uint8_t *>(item.data()), key_of(low), high_key);
		body += item;
	}
	uint8_t *start = reinterpret_cast<uint8_t *>(out.data());
	out.resize(static_cast<size_t>(engine::match::put_head(start, 0, body.size()) - start));
	return out + body;
}

inline std::vector<Range>
equalities(const Set &set)
{
	std::vector<Range> ranges;

	for (const std::string &key : set)
		ranges.emplace_back(key, successor(key));
	return ranges;
}

inline uint32_t
true_count(const std::vector<Range> &ranges, const Set &set)
{
	uint32_t count = 0;

	for (const std::string &key : set)
		for (const auto &[low, high] : ranges)
			count += low <= key && key < high;
	return count;
}

inline engine::match::Parts
parts_of(const std::string &stored)
{
	engine::match::Parts parts{};

	(void) engine::match::open_parts(stored.data(), stored.size(), &parts);
	return parts;
}

/// The first k rows in the order (-count, row id).
inline std::vector<engine::Neighbor>
true_top(const std::vector<Range> &ranges, const std::vector<Set> &rows, const std::vector<RowId> &ids, size_t k,
	const engine::Neighbor *after = nullptr, const std::vector<bool> *dead = nullptr)
{
	std::vector<engine::Neighbor> all;

	for (size_t i = 0; i < rows.size(); i++)
	{
		const engine::Neighbor one{0.0 - true_count(ranges, rows[i]), ids[i]};

		if ((dead == nullptr || !(*dead)[i]) && (after == nullptr || engine::neighbor_less(*after, one)))
			all.push_back(one);
	}
	std::sort(all.begin(), all.end(), engine::neighbor_less);
	all.resize(std::min(k, all.size()));
	return all;
}

/// An index over sets.
inline engine::match::MatchIndex
index_of(const std::vector<Set> &rows, const std::vector<RowId> &ids)
{
	engine::match::MatchIndex index;
	std::vector<std::string> stored;
	std::vector<engine::match::Bytes> values;

	for (const Set &row : rows)
		stored.push_back(stored_value(row));
	for (const std::string &value : stored)
		values.push_back({value.data(), value.size()});
	if (!index.build(values, ids))
		throw std::runtime_error("a value is not one");
	return index;
}

} // namespace vectorgpu::test
