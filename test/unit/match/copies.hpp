// Copies of kind kMatch for tests of engines: descriptions of segments as in the protocol, a delta in slots, and the
// expected results of searches.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "engine/interface/engine.hpp"
#include "engine/match/match_index.hpp"
#include "engine/match/match_layout.hpp"
#include "engine/match/tile_lists.hpp"
#include "match/texts.hpp"

namespace vectorgpu::test
{

constexpr uint32_t kSlotBytes = 24; // small, so that values take several

/// The items of a list of rows, as tile_lists.hpp has them.
inline std::vector<uint16_t>
tile_items(const std::vector<uint32_t> &rows)
{
	auto tile = std::make_unique<engine::match::TileRows>();
	std::vector<uint16_t> items;
	const auto finish = [&]
	{
		const size_t n = engine::match::tile_finish(tile.get());

		items.insert(items.end(), tile->items, tile->items + n);
	};

	tile->n = 0;
	for (const uint32_t row : rows)
	{
		if (!engine::match::tile_takes(tile.get(), row))
			finish();
		engine::match::tile_add(tile.get(), row);
	}
	finish();
	return items;
}

/// texts: described_texts, of copies by Metric::kEdit.
inline std::vector<uint8_t>
description_of(const std::vector<Set> &rows, const std::vector<uint8_t> &texts = {},
	uint64_t list_format = engine::match::kListsOfTiles)
{
	std::map<std::string, std::vector<uint32_t>> lists;
	engine::match::MatchHead head{};
	std::vector<engine::match::MatchEntry> entries;
	std::string list_items;
	std::string keys;
	std::vector<uint8_t> out;
	const auto put = [&](const void *data, size_t n)
	{ out.insert(out.end(), static_cast<const uint8_t *>(data), static_cast<const uint8_t *>(data) + n); };

	head.list_format = list_format;
	for (uint32_t i = 0; i < rows.size(); i++)
		for (const std::string &key : rows[i])
			lists[key].push_back(i);
	for (const auto &[key, list] : lists)
	{
		keys += key;
		if (list_format == engine::match::kListsOfTiles)
		{
			const std::vector<uint16_t> items = tile_items(list);

			list_items.append(reinterpret_cast<const char *>(items.data()), items.size() * sizeof(uint16_t));
		}
		else
			list_items.append(reinterpret_cast<const char *>(list.data()), list.size() * sizeof(uint32_t));
		entries.push_back({engine::match::key_prefix(key_of(key)), keys.size(),
			list_items.size() / static_cast<size_t>(head.list_item_bytes())});
	}
	head = {entries.size(), list_items.size() / static_cast<size_t>(head.list_item_bytes()), keys.size(), list_format};
	put(&head, sizeof(head));
	put(entries.data(), entries.size() * sizeof(entries[0]));
	put(list_items.data(), list_items.size());
	put(keys.data(), keys.size());
	put(texts.data(), texts.size());
	return out;
}

inline engine::CopySpec
match_spec(Metric metric = Metric::kMatchCount)
{
	return {{metric, ElementType::kSet, kSlotBytes}, engine::CopyKind::kMatch};
}

/// Rows in the order of their ids: two segments, then the delta.
class MatchRows
{
public:
	MatchRows(uint32_t seed, size_t n_first, size_t n_second, size_t n_delta)
		: n_first_(n_first), n_second_(n_second), random_(seed)
	{
		for (size_t i = 0; i < n_first + n_second + n_delta; i++)
		{
			Set row;

			for (size_t n = random_() % 8; n > 0; n--)
				row.insert(element(static_cast<char>('A' + random_() % 3), random_() % 20));
			rows.push_back(std::move(row));
			ids.push_back((1 + i) << 4 | 1);
			dead.push_back(false);
		}
	}
	virtual ~MatchRows() = default;

	static std::string element(char attribute, size_t value) { return {attribute, static_cast<char>(value)}; }

	std::vector<Range> random_query()
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

	void load(engine::Engine *engine, engine::CopyId copy)
	{
		load_segment(engine, copy, 1, 0, n_first_);
		load_segment(engine, copy, 2, n_first_, n_first_ + n_second_);
		append(engine, copy);
	}

	/// Append the rows behind the segments, in slots: first slots stand for rows, the others are dead.
	void append(engine::Engine *engine, engine::CopyId copy)
	{
		std::vector<RowId> headers;
		std::vector<uint8_t> slots;

		slot_dead_.clear();
		for (size_t i = n_first_ + n_second_; i < rows.size(); i++)
		{
			const std::string value = value_of(i);
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

	void kill(engine::Engine *engine, engine::CopyId copy)
	{
		for (size_t i = 0; i < rows.size(); i++)
			dead[i] = dead[i] || random_() % 3 == 0;
		ASSERT_TRUE(
			engine->set_tombstones(copy, 1, bits_of({dead.begin(), dead.begin() + static_cast<ptrdiff_t>(n_first_)}))
				.is_ok());
		ASSERT_TRUE(engine
				->set_tombstones(copy, 2,
					bits_of({dead.begin() + static_cast<ptrdiff_t>(n_first_),
						dead.begin() + static_cast<ptrdiff_t>(n_first_ + n_second_)}))
				.is_ok());
		append(engine, copy); // the same rows again
	}

	/// most_k: rows asked for, at most.
	void expect_answers(engine::Engine *engine, engine::CopyId copy, size_t most_k = SIZE_MAX)
	{
		std::vector<std::string> stored;
		std::vector<engine::SearchQuery> queries;
		std::vector<std::vector<engine::Neighbor>> results;
		std::vector<engine::Coverage> coverage(40, engine::Coverage::kPart);

		start_queries(coverage.size());
		for (size_t i = 0; i < coverage.size(); i++)
			stored.push_back(query_of(i));
		for (size_t i = 0; i < stored.size(); i++)
		{
			engine::SearchQuery query;

			query.query = stored[i].data();
			query.query_bytes = stored[i].size();
			query.k = std::min(most_k, i % 3 == 0 ? rows.size() + 1 : 1 + i);
			query.has_after = i % 4 == 1;
			query.after = {after_score(i), ids[i * ids.size() / 50]};
			query.coverage = &coverage[i];
			queries.push_back(query);
		}

		const Status status = engine->search(copy, queries, &results, nullptr);

		ASSERT_TRUE(status.is_ok()) << status.message;
		for (size_t i = 0; i < queries.size(); i++)
		{
			const engine::Neighbor *after = queries[i].has_after ? &queries[i].after : nullptr;
			const auto expected = truth(i, queries[i].k, after);

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

protected:
	virtual std::string value_of(size_t row) const { return stored_value(rows[row], rows[row].size()); }

	virtual std::vector<uint8_t> description(size_t first, size_t end) const
	{
		return description_of(
			{rows.begin() + static_cast<ptrdiff_t>(first), rows.begin() + static_cast<ptrdiff_t>(end)}, {},
			format_of(first));
	}

	/// Lists of the first segment are of tiles, those of the second one of rows.
	static uint64_t format_of(size_t first)
	{
		return first == 0 ? engine::match::kListsOfTiles : engine::match::kListsOfRows;
	}

	/// Start new queries; the functions below describe the i-th.
	virtual void start_queries(size_t n)
	{
		queries_.clear();
		for (size_t i = 0; i < n; i++)
			queries_.push_back(random_query());
	}

	virtual std::string query_of(size_t i) const { return stored_query(queries_[i]); }
	virtual double after_score(size_t i) const { return -static_cast<double>(i % 3); }

	virtual std::vector<engine::Neighbor> truth(size_t i, size_t k, const engine::Neighbor *after) const
	{
		return true_top(queries_[i], rows, ids, k, after, &dead);
	}

	size_t n_first_;
	size_t n_second_;

private:
	static std::vector<uint8_t> bits_of(const std::vector<bool> &flags)
	{
		std::vector<uint8_t> bits((flags.size() + 7) / 8);

		for (size_t i = 0; i < flags.size(); i++)
			if (flags[i])
				bits[i / 8] |= static_cast<uint8_t>(1 << i % 8);
		return bits;
	}

	void load_segment(engine::Engine *engine, engine::CopyId copy, engine::SegmentId id, size_t first, size_t end)
	{
		const std::vector<uint8_t> description = this->description(first, end);
		const size_t half = description.size() / 2;

		ASSERT_TRUE(
			engine->load_segment(copy, id, {std::span(ids).subspan(first, end - first), nullptr, end - first}).is_ok());
		ASSERT_TRUE(engine->load_structure(copy, id, 1, std::span(description).first(half)).is_ok());
		ASSERT_TRUE(engine->load_structure(copy, id, 1, std::span(description).subspan(half)).is_ok());
		ASSERT_TRUE(engine->seal_segment(copy, id).is_ok());
	}

	std::mt19937 random_;
	std::vector<std::vector<Range>> queries_;
	std::vector<bool> slot_dead_;
};

/// Rows that are texts, searched by edit distance.
class TextRows : public MatchRows
{
public:
	/// Copies of Metric::kEdit. long_size: most characters of every 500th text; size: of the others; alphabet:
	/// different characters.
	TextRows(uint32_t seed, size_t n_first, size_t n_second, size_t n_delta, uint32_t alphabet = 5,
		size_t long_size = 300, uint32_t n = 3, size_t size = 14)
		: MatchRows(seed, n_first, n_second, n_delta), random_texts_(seed, true, alphabet), n_(n)
	{
		for (size_t i = 0; i < rows.size(); i++)
		{
			Text text = i > 0 && i % 4 == 0 ? random_texts_.near(texts_[random_texts_.number(static_cast<uint32_t>(i))])
											: random_texts_.next(i % 500 == 499 ? long_size : size);

			rows[i] = grams_of(text, n_);
			texts_.push_back(std::move(text));
		}
	}

protected:
	std::string value_of(size_t row) const override { return stored_text(texts_[row], n_); }

	std::vector<uint8_t> description(size_t first, size_t end) const override
	{
		return description_of(
			{rows.begin() + static_cast<ptrdiff_t>(first), rows.begin() + static_cast<ptrdiff_t>(end)},
			described_texts(
				{texts_.begin() + static_cast<ptrdiff_t>(first), texts_.begin() + static_cast<ptrdiff_t>(end)}),
			format_of(first));
	}

	/// Lengths on both sides of 32 and 64, empty, and longer than all rows.
	void start_queries(size_t n) override
	{
		constexpr size_t kLengths[] = {0, 1, 31, 32, 33, 63, 64, 65, 130};

		queries_.clear();
		for (size_t i = 0; i < n; i++)
		{
			Text text = random_texts_.near(texts_[random_texts_.number(static_cast<uint32_t>(texts_.size()))]);

			if (i % 4 == 3)
				for (text = random_texts_.next(20); text.size() < kLengths[i / 4 % std::size(kLengths)];)
					text.push_back('a' + random_texts_.number(6));
			if (i % 4 == 3)
				text.resize(kLengths[i / 4 % std::size(kLengths)]);
			queries_.push_back(std::move(text));
		}
	}

	std::string query_of(size_t i) const override { return stored_text_query(queries_[i], n_); }
	double after_score(size_t i) const override { return static_cast<double>(i % 5); }

	std::vector<engine::Neighbor> truth(size_t i, size_t k, const engine::Neighbor *after) const override
	{
		std::vector<engine::Neighbor> all;

		for (size_t row = 0; row < rows.size(); row++)
		{
			if (dead[row])
				continue;

			const engine::Neighbor one{static_cast<double>(true_distance(queries_[i], texts_[row])), ids[row]};

			if (after == nullptr || engine::neighbor_less(*after, one))
				all.push_back(one);
		}
		std::sort(all.begin(), all.end(), engine::neighbor_less);
		all.resize(std::min(k, all.size()));
		return all;
	}

private:
	RandomTexts random_texts_;
	uint32_t n_;
	std::vector<Text> texts_;
	std::vector<Text> queries_;
};

} // namespace vectorgpu::test
