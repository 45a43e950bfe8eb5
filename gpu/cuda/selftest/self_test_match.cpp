// The part of the self-test about sets and texts: match counts and edit distances against their definitions.
#include "cuda/selftest/self_test.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "cuda/selftest/test_data.hpp"
#include "engine/match/match_layout.hpp"
#include "engine/match/text_distance.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
namespace match = engine::match;

constexpr uint32_t kSlotBytes = 64;
constexpr uint32_t kRows = 3000;
constexpr uint32_t kKeys = 40;
constexpr uint32_t kQueries = 12;
constexpr size_t kNeighbors = 20;

std::vector<uint8_t>
query_bytes(uint64_t size, const std::vector<uint8_t> &items)
{
	std::vector<uint8_t> bytes(match::head_bytes(size, items.size()));

	match::put_head(bytes.data(), size, items.size());
	append(&bytes, items.data(), items.size());
	return bytes;
}

/// The data of a test: the queries as they are sent, and the scores [query][row] of the definition.
struct Expected
{
	Metric metric;
	std::vector<uint8_t> description;
	std::vector<std::vector<uint8_t>> queries;
	std::vector<std::vector<double>> scores;
};

/// The first live rows by these scores, after the query's `after`.
std::vector<Neighbor>
first_rows(const std::vector<double> &scores, const engine::SearchQuery &query)
{
	std::vector<Neighbor> first;

	for (uint32_t row = 0; row < kRows; row++)
		if (const Neighbor one = {scores[row], id_of(row)};
			!is_dead(row) && (!query.has_after || engine::neighbor_less(query.after, one)))
			first.push_back(one);
	keep_first(&first, kNeighbors);
	return first;
}

/// Load the segment, search, and compare. Every third query has an `after`.
Status
check(engine::Engine *engine, const Expected &expected, const char *what, uint64_t *n_searches)
{
	std::vector<engine::SearchQuery> batch(expected.queries.size());
	std::vector<std::vector<Neighbor>> found;

	for (size_t i = 0; i < batch.size(); i++)
	{
		batch[i].query = expected.queries[i].data();
		batch[i].query_bytes = expected.queries[i].size();
		batch[i].k = kNeighbors;
		batch[i].has_after = i % 3 == 2;
		batch[i].after = {expected.scores[i][kRows / 2], id_of(kRows / 2)};
	}
	*n_searches += batch.size(); // each of one segment

	const Status searched =
		with_copy(engine, {{expected.metric, ElementType::kSet, kSlotBytes}, engine::CopyKind::kMatch},
			[&](engine::CopyId copy)
			{
				VECTORGPU_TRY(load_sealed(engine, copy, kRows, nullptr, 1, expected.description));
				return engine->search(copy, batch, &found);
			});

	VECTORGPU_TRY(searched);
	for (size_t i = 0; i < batch.size(); i++)
	{
		const std::vector<Neighbor> wanted = first_rows(expected.scores[i], batch[i]);

		// Scores are compared as numbers, so that 0 equals -0.
		if (!std::equal(wanted.begin(), wanted.end(), found[i].begin(), found[i].end(),
				[](const Neighbor &a, const Neighbor &b) { return a.score == b.score && a.row == b.row; }))
			return failed(std::string("the GPU's answer differs from the CPU's: ") + what);
	}
	return Status::ok();
}

using Membership = std::vector<std::vector<bool>>; // [row][key]

/// Lists of random rows. Each list has at least one row.
std::vector<uint8_t>
describe_sets(Membership *has)
{
	std::vector<match::MatchEntry> entries;
	std::vector<uint32_t> postings;
	std::vector<uint8_t> keys;
	std::vector<uint8_t> description;
	uint64_t state = 1;

	for (uint32_t key = 0; key < kKeys; key++)
	{
		const uint8_t byte = static_cast<uint8_t>('A' + key);

		(*has)[key][key] = true;
		for (uint32_t row = 0; row < kRows; row++)
		{
			(*has)[row][key] = (*has)[row][key] || next(&state) % 7 == 0;
			if ((*has)[row][key])
				postings.push_back(row);
		}
		keys.push_back(byte);
		entries.push_back({match::key_prefix({&byte, 1}), keys.size(), postings.size()});
	}

	const match::MatchHead head = {entries.size(), postings.size(), keys.size()};

	append(&description, &head, 1);
	append(&description, entries.data(), entries.size());
	append(&description, postings.data(), postings.size());
	append(&description, keys.data(), keys.size());
	return description;
}

Status
run_counts(engine::Engine *engine, uint64_t *n_searches)
{
	Membership has(kRows, std::vector<bool>(kKeys));
	Expected expected = {Metric::kMatchCount, describe_sets(&has), {}, {}};

	for (uint32_t i = 0; i < kQueries; i++)
	{
		std::vector<uint8_t> items;
		std::vector<double> by_row(kRows);

		for (uint32_t key = i % 3; key < kKeys; key += 1 + i)
		{
			const uint8_t byte = static_cast<uint8_t>('A' + key);
			uint8_t item[2 * match::kMaxVarintBytes + 2];

			items.insert(items.end(), item, match::put_item(item, {&byte, 1}, {nullptr, 0}));
			for (uint32_t row = 0; row < kRows; row++)
				by_row[row] -= has[row][key] ? 1 : 0;
		}
		expected.queries.push_back(query_bytes(0, items));
		expected.scores.push_back(std::move(by_row));
	}
	return check(engine, expected, "match counts", n_searches);
}

/// Payloads of the texts, without the width. longest: characters of a few of them.
std::vector<std::vector<uint8_t>>
make_texts(uint32_t longest, uint64_t *state)
{
	std::vector<std::vector<uint8_t>> texts;

	for (uint32_t row = 0; row < kRows; row++)
	{
		texts.emplace_back(row % 700 == 99 ? longest : next(state) % 14);
		for (uint8_t &character : texts.back())
			character = static_cast<uint8_t>('a' + next(state) % 4);
	}
	return texts;
}

std::vector<uint8_t>
describe_texts(const std::vector<std::vector<uint8_t>> &texts)
{
	const match::MatchHead head = {0, 0, 0};
	std::vector<uint64_t> items;
	std::vector<uint8_t> description;
	uint64_t end = 0;

	for (const std::vector<uint8_t> &text : texts)
	{
		end += text.size();
		items.push_back(match::text_item(end, 1));
	}
	append(&description, &head, 1);
	append(&description, items.data(), items.size());
	for (const std::vector<uint8_t> &text : texts)
		append(&description, text.data(), text.size());
	return description;
}

/// longest: characters of a few texts. More than 254 need wider marks.
Status
run_texts(engine::Engine *engine, uint32_t longest, uint64_t *n_searches)
{
	constexpr uint32_t kSizes[kQueries] = {0, 1, 5, 9, 9, 14, 31, 32, 33, 40, 63, 64};
	uint64_t state = 2;
	const std::vector<std::vector<uint8_t>> texts = make_texts(longest, &state);
	Expected expected = {Metric::kEdit, describe_texts(texts), {}, {}};

	for (const uint32_t size : kSizes)
	{
		const uint32_t n = 3;
		std::vector<uint32_t> codes(size);
		std::vector<uint8_t> query = query_bytes(size, {});
		std::vector<double> by_row(kRows);
		match::TextPattern pattern;

		for (uint32_t &code : codes)
			code = 'a' + next(&state) % 5; // the last of these is in no text
		append(&query, &n, 1);
		append(&query, codes.data(), codes.size());
		match::text_pattern_init(&pattern, match::heap_memory(), codes.data(), size);
		for (uint32_t row = 0; row < kRows; row++)
			by_row[row] = static_cast<double>(
				match::text_distance(&pattern, {texts[row].data(), texts[row].size(), 1}, INT64_MAX / 2, {}));
		match::text_pattern_free(&pattern);
		expected.queries.push_back(std::move(query));
		expected.scores.push_back(std::move(by_row));
	}
	return check(engine, expected, "edit distances", n_searches);
}

} // namespace

Status
self_test_matches(engine::Engine *engine, uint64_t *n_searches)
{
	*n_searches = 0;
	VECTORGPU_TRY(run_counts(engine, n_searches));
	VECTORGPU_TRY(run_texts(engine, 100, n_searches));
	return run_texts(engine, 300, n_searches);
}

} // namespace vectorgpu::cuda
