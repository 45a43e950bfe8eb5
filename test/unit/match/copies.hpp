// Copies of kind kMatch for tests of engines: segments described as the protocol has them, a delta in slots, and what a search of all
// of it should find.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "engine/match/match_layout.hpp"
#include "match/sets.hpp"

namespace vectorgpu::test
{

constexpr uint32_t kSlotBytes = 24; // small, so that values take several

/// sizes: by row, of copies by Metric::kEdit.
inline std::vector<uint8_t>
description_of(const std::vector<Set> &rows, const std::vector<uint16_t> &sizes = {})
{
	std::map<std::string, std::vector<uint32_t>> lists;
	engine::match::MatchHead head{};
	std::vector<engine::match::MatchEntry> entries;
	std::vector<uint32_t> postings;
	std::string keys;
	std::vector<uint8_t> out;
	const auto put = [&](const void *data, size_t n)
	{ out.insert(out.end(), static_cast<const uint8_t *>(data), static_cast<const uint8_t *>(data) + n); };

	for (uint32_t i = 0; i < rows.size(); i++)
		for (const std::string &key : rows[i])
			lists[key].push_back(i);
	for (const auto &[key, list] : lists)
	{
		keys += key;
		postings.insert(postings.end(), list.begin(), list.end());
		entries.push_back({engine::match::key_prefix(key_of(key)), keys.size(), postings.size()});
	}
	head = {entries.size(), postings.size(), keys.size()};
	put(&head, sizeof(head));
	put(entries.data(), entries.size() * sizeof(entries[0]));
	put(postings.data(), postings.size() * sizeof(uint32_t));
	put(keys.data(), keys.size());
	put(sizes.data(), sizes.size() * sizeof(uint16_t));
	return out;
}

inline engine::CopySpec
match_spec(Metric metric = Metric::kMatchCount)
{
	return {{metric, ElementType::kSet, kSlotBytes}, engine::CopyKind::kMatch};
}

/// The bytes of a query by bounds of edit distances.
inline std::string
stored_gram_query(const std::vector<Range> &ranges, uint64_t size, uint32_t n)
{
	const std::string by_count = stored_query(ranges);
	const engine::match::Parts parts = parts_of(by_count);
	std::string out(64, '\0');
	uint8_t *start = reinterpret_cast<uint8_t *>(out.data());

	out.resize(static_cast<size_t>(engine::match::put_head(start, size, parts.body_bytes) - start));
	out.append(reinterpret_cast<const char *>(parts.body), parts.body_bytes);
	return out.append(reinterpret_cast<const char *>(&n), sizeof(n));
}

/// Rows in the order of their ids: two segments, then the delta.
class MatchRows
{
public:
	MatchRows(uint32_t seed, size_t n_first, size_t n_second, size_t n_delta, Metric metric = Metric::kMatchCount)
		: random_(seed), n_first_(n_first), n_second_(n_second), metric_(metric)
	{
		for (size_t i = 0; i < n_first + n_second + n_delta; i++)
		{
			Set row;

			for (size_t n = random_() % 8; n > 0; n--)
				row.insert(element(static_cast<char>('A' + random_() % 3), random_() % 20));
			sizes.push_back(metric == Metric::kEdit ? static_cast<uint16_t>(i % 500 == 0 ? 0xFFFF : random_() % 30)
												: static_cast<uint16_t>(row.size()));
			rows.push_back(std::move(row));
			ids.push_back((1 + i) << 4 | 1);
			dead.push_back(false);
		}
	}

	static std::string
	element(char attribute, size_t value)
	{
		return {attribute, static_cast<char>(value)};
	}

	std::vector<Range>
	random_query()
	{
		std::vector<Range> ranges;

		for (const char attribute : {'A', 'B', 'C'})
		{
			const size_t low = random_() % 20;

			if (random_() % 4 != 0)
				ranges.emplace_back(element(attribute, low), element(attribute, low + 1 + random_() % 6));
		}
		return ranges;
	}

	void
	load(engine::Engine *engine, engine::CopyId copy)
	{
		load_segment(engine, copy, 1, 0, n_first_);
		load_segment(engine, copy, 2, n_first_, n_first_ + n_second_);
		append(engine, copy);
	}

	/// The rows behind the segments, in slots: first slots stand for rows, the others are dead.
	void
	append(engine::Engine *engine, engine::CopyId copy)
	{
		std::vector<RowId> headers;
		std::vector<uint8_t> slots;

		slot_dead_.clear();
		for (size_t i = n_first_ + n_second_; i < rows.size(); i++)
		{
			const std::string value = stored_value(rows[i], sizes[i]);
			const uint32_t length = static_cast<uint32_t>(value.size());
			const size_t n_slots = (sizeof(length) + length + kSlotBytes - 1) / kSlotBytes;
			const size_t at = slots.size();

			slots.resize(at + n_slots * kSlotBytes);
			memcpy(slots.data() + at, &length, sizeof(length));
			memcpy(slots.data() + at + sizeof(length), value.data(), length);
			for (size_t slot = 0; slot < n_slots; slot++)
			{
				headers.push_back(slot == 0 ? ids[i] : slot);
				slot_dead_.push_back(slot != 0 || dead[i]);
			}
		}
		ASSERT_TRUE(engine->set_delta_tombstones(copy, 0, bits_of(slot_dead_)).is_ok());
		ASSERT_TRUE(engine->append_delta(copy, 0, {headers, slots.data(), headers.size()}).is_ok());
	}

	void
	kill(engine::Engine *engine, engine::CopyId copy)
	{
		for (size_t i = 0; i < rows.size(); i++)
			dead[i] = dead[i] || random_() % 3 == 0;
		ASSERT_TRUE(engine->set_tombstones(copy, 1, bits_of({dead.begin(), dead.begin() + static_cast<ptrdiff_t>(n_first_)})).is_ok());
		ASSERT_TRUE(engine
						->set_tombstones(copy, 2,
							bits_of({dead.begin() + static_cast<ptrdiff_t>(n_first_), dead.begin() + static_cast<ptrdiff_t>(n_first_ + n_second_)}))
						.is_ok());
		append(engine, copy); // its rows are there already
	}

	void
	expect_answers(engine::Engine *engine, engine::CopyId copy)
	{
		std::vector<std::vector<Range>> ranges;
		std::vector<std::string> stored;
		std::vector<engine::SearchQuery> queries;
		std::vector<std::vector<engine::Neighbor>> results;
		std::vector<engine::Coverage> coverage(40, engine::Coverage::kPart);

		for (size_t i = 0; i < coverage.size(); i++)
			ranges.push_back(random_query());
		for (const auto &one : ranges)
			stored.push_back(metric_ == Metric::kEdit ? stored_gram_query(one, query_size(stored.size()), gram_length(stored.size()))
												: stored_query(one));
		for (size_t i = 0; i < stored.size(); i++)
		{
			engine::SearchQuery query;

			query.query = stored[i].data();
			query.query_bytes = stored[i].size();
			query.k = i % 3 == 0 ? rows.size() + 1 : 1 + i;
			query.has_after = i % 4 == 1;
			query.after = {static_cast<double>(i % 3) * (metric_ == Metric::kEdit ? 1 : -1), ids[i * ids.size() / 50]};
			query.coverage = &coverage[i];
			queries.push_back(query);
		}

		const Status status = engine->search(copy, queries, &results, nullptr);

		ASSERT_TRUE(status.is_ok()) << status.message;
		for (size_t i = 0; i < queries.size(); i++)
		{
			const engine::Neighbor *after = queries[i].has_after ? &queries[i].after : nullptr;
			const auto expected = metric_ == Metric::kEdit ? true_bounds(i, ranges[i], queries[i].k, after)
														   : true_top(ranges[i], rows, ids, queries[i].k, after, &dead);

			ASSERT_EQ(results[i].size(), expected.size()) << "query " << i;
			for (size_t j = 0; j < expected.size(); j++)
			{
				ASSERT_EQ(results[i][j].row, expected[j].row) << "query " << i << " place " << j;
				ASSERT_EQ(results[i][j].score, expected[j].score) << "query " << i << " place " << j;
			}
			EXPECT_EQ(coverage[i], engine::Coverage::kAll);
		}
	}

	std::vector<Set> rows;
	std::vector<RowId> ids;
	std::vector<bool> dead;
	std::vector<uint16_t> sizes;

private:
	/// Of the i-th query. A few are of more characters than a stored size can say.
	static uint64_t
	query_size(size_t i)
	{
		return i % 13 == 12 ? 70000 : i % 30;
	}

	static uint32_t
	gram_length(size_t i)
	{
		return static_cast<uint32_t>(1 + i % 16);
	}

	/// The first k rows in the order (bound by theorem V.1, row id). A row of 65,535 characters may have more.
	std::vector<engine::Neighbor>
	true_bounds(size_t query, const std::vector<Range> &ranges, size_t k, const engine::Neighbor *after) const
	{
		const int64_t q = static_cast<int64_t>(query_size(query));
		const int64_t n = gram_length(query);
		std::vector<engine::Neighbor> all;

		for (size_t i = 0; i < rows.size(); i++)
		{
			const int64_t s = sizes[i] == 0xFFFF ? std::max<int64_t>(q, 0xFFFF) : sizes[i];
			const double missing = static_cast<double>(std::max(q, s) - n + 1 - static_cast<int64_t>(true_count(ranges, rows[i])));
			const double bound = std::max(std::ceil(std::max(missing, 0.0) / static_cast<double>(n)), std::abs(static_cast<double>(q - s)));
			const engine::Neighbor one{bound, ids[i]};

			if (!dead[i] && (after == nullptr || engine::neighbor_less(*after, one)))
				all.push_back(one);
		}
		std::sort(all.begin(), all.end(), engine::neighbor_less);
		all.resize(std::min(k, all.size()));
		return all;
	}

	static std::vector<uint8_t>
	bits_of(const std::vector<bool> &flags)
	{
		std::vector<uint8_t> bits((flags.size() + 7) / 8);

		for (size_t i = 0; i < flags.size(); i++)
			if (flags[i])
				bits[i / 8] |= static_cast<uint8_t>(1 << i % 8);
		return bits;
	}

	void
	load_segment(engine::Engine *engine, engine::CopyId copy, engine::SegmentId id, size_t first, size_t end)
	{
		const std::vector<Set> some(rows.begin() + static_cast<ptrdiff_t>(first), rows.begin() + static_cast<ptrdiff_t>(end));
		const std::vector<uint16_t> some_sizes(sizes.begin() + static_cast<ptrdiff_t>(first), sizes.begin() + static_cast<ptrdiff_t>(end));
		const std::vector<uint8_t> description =
			description_of(some, metric_ == Metric::kEdit ? some_sizes : std::vector<uint16_t>());
		const size_t half = description.size() / 2;

		ASSERT_TRUE(engine->load_segment(copy, id, {std::span(ids).subspan(first, end - first), nullptr, end - first}).is_ok());
		ASSERT_TRUE(engine->load_structure(copy, id, 1, std::span(description).first(half)).is_ok());
		ASSERT_TRUE(engine->load_structure(copy, id, 1, std::span(description).subspan(half)).is_ok());
		ASSERT_TRUE(engine->seal_segment(copy, id).is_ok());
	}

	std::mt19937 random_;
	size_t n_first_;
	size_t n_second_;
	Metric metric_;
	std::vector<bool> slot_dead_;
};

} // namespace vectorgpu::test
