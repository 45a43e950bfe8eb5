// The part of the self-test about sets and texts: match counts and edit distances against their definitions.
#include "cuda/selftest/self_test.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
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

/// A linear congruential generator (Knuth's MMIX): the same numbers everywhere.
uint32_t
next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return static_cast<uint32_t>(*state >> 33);
}

template <class T>
void
append(std::vector<uint8_t> *bytes, const T *items, size_t n)
{
	const uint8_t *first = reinterpret_cast<const uint8_t *>(items);

	bytes->insert(bytes->end(), first, first + n * sizeof(T));
}

std::vector<uint8_t>
query_bytes(uint64_t size, const std::vector<uint8_t> &items)
{
	std::vector<uint8_t> bytes(match::head_bytes(size, items.size()));

	match::put_head(bytes.data(), size, items.size());
	append(&bytes, items.data(), items.size());
	return bytes;
}

/// Loads the segment, makes every fifth row dead, searches, and compares with scores [query][row].
Status
expect(engine::Engine *engine, Metric metric, const std::vector<uint8_t> &description,
	const std::vector<std::vector<uint8_t>> &queries, const std::vector<std::vector<double>> &scores, const char *what,
	uint64_t *n_searches)
{
	std::vector<RowId> ids(kRows);
	std::vector<uint8_t> dead((kRows + 7) / 8);
	std::vector<engine::SearchQuery> batch(queries.size());
	std::vector<std::vector<Neighbor>> found;
	engine::CopyId copy = 0;

	for (uint32_t i = 0; i < kRows; i++)
		ids[i] = i * 3 + 7;
	for (uint32_t i = 0; i < kRows; i += 5)
		dead[i / 8] = static_cast<uint8_t>(dead[i / 8] | 1 << (i % 8));
	for (size_t i = 0; i < queries.size(); i++)
	{
		batch[i].query = queries[i].data();
		batch[i].query_bytes = queries[i].size();
		batch[i].k = kNeighbors;
		batch[i].has_after = i % 3 == 2;
		batch[i].after = {scores[i][kRows / 2], ids[kRows / 2]};
	}
	VECTORGPU_TRY(engine->create({{metric, ElementType::kSet, kSlotBytes}, engine::CopyKind::kMatch}, &copy));

	Status status = engine->load_segment(copy, 1, {ids, nullptr, kRows});

	if (status.is_ok())
		status = engine->load_structure(copy, 1, 1, description);
	if (status.is_ok())
		status = engine->seal_segment(copy, 1);
	if (status.is_ok())
		status = engine->set_tombstones(copy, 1, dead);
	if (status.is_ok())
		status = engine->search(copy, batch, &found);
	*n_searches += batch.size(); // each of one segment
	VECTORGPU_TRY(engine->drop(copy));
	VECTORGPU_TRY(status);
	for (size_t i = 0; i < queries.size(); i++)
	{
		std::vector<Neighbor> expected;

		for (uint32_t row = 0; row < kRows; row++)
			if (const Neighbor one = {scores[i][row], ids[row]};
				row % 5 != 0 && (!batch[i].has_after || engine::neighbor_less(batch[i].after, one)))
				expected.push_back(one);
		std::sort(expected.begin(), expected.end(), engine::neighbor_less);
		expected.resize(std::min(expected.size(), kNeighbors));

		bool same = expected.size() == found[i].size();

		for (size_t j = 0; same && j < expected.size(); j++)
			same = expected[j].score == found[i][j].score && expected[j].row == found[i][j].row;
		if (!same)
			return Status::error(
				StatusCode::kUnavailable, std::string("the GPU's answer differs from the CPU's: ") + what);
	}
	return Status::ok();
}

Status
run_counts(engine::Engine *engine, uint64_t *n_searches)
{
	std::vector<std::vector<bool>> has(kRows, std::vector<bool>(kKeys));
	std::vector<match::MatchEntry> entries;
	std::vector<uint32_t> postings;
	std::vector<uint8_t> keys, description;
	std::vector<std::vector<uint8_t>> queries;
	std::vector<std::vector<double>> scores;
	uint64_t state = 1;

	for (uint32_t key = 0; key < kKeys; key++)
	{
		const uint8_t byte = static_cast<uint8_t>('A' + key);

		has[key][key] = true; // every list has a row
		for (uint32_t row = 0; row < kRows; row++)
		{
			has[row][key] = has[row][key] || next(&state) % 7 == 0;
			if (has[row][key])
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
		queries.push_back(query_bytes(0, items));
		scores.push_back(std::move(by_row));
	}
	return expect(engine, Metric::kMatchCount, description, queries, scores, "match counts", n_searches);
}

/// longest: characters of a few texts. More than 254 need wider marks.
Status
run_texts(engine::Engine *engine, uint32_t longest, uint64_t *n_searches)
{
	constexpr uint32_t kSizes[kQueries] = {0, 1, 5, 9, 9, 14, 31, 32, 33, 40, 63, 64};
	const match::MatchHead head = {0, 0, 0};
	std::vector<std::vector<uint8_t>> texts; // payloads without the width
	std::vector<uint64_t> items;
	std::vector<uint8_t> description;
	std::vector<std::vector<uint8_t>> queries;
	std::vector<std::vector<double>> scores;
	uint64_t state = 2;
	uint64_t end = 0;

	for (uint32_t row = 0; row < kRows; row++)
	{
		texts.emplace_back(row % 700 == 99 ? longest : next(&state) % 14);
		for (uint8_t &character : texts.back())
			character = static_cast<uint8_t>('a' + next(&state) % 4);
		end += texts.back().size();
		items.push_back(match::text_item(end, 1));
	}
	append(&description, &head, 1);
	append(&description, items.data(), items.size());
	for (const std::vector<uint8_t> &text : texts)
		append(&description, text.data(), text.size());
	for (const uint32_t size : kSizes)
	{
		const uint32_t n = 3;
		std::vector<uint32_t> codes(size);
		std::vector<uint8_t> query = query_bytes(size, {});
		std::vector<double> by_row(kRows);
		match::TextPattern pattern;

		for (uint32_t &code : codes)
			code = 'a' + next(&state) % 5; // one that no text has
		append(&query, &n, 1);
		append(&query, codes.data(), codes.size());
		match::text_pattern_init(&pattern, match::heap_memory(), codes.data(), size);
		for (uint32_t row = 0; row < kRows; row++)
			by_row[row] = static_cast<double>(
				match::text_distance(&pattern, {texts[row].data(), texts[row].size(), 1}, INT64_MAX / 2, {}));
		match::text_pattern_free(&pattern);
		queries.push_back(std::move(query));
		scores.push_back(std::move(by_row));
	}
	return expect(engine, Metric::kEdit, description, queries, scores, "edit distances", n_searches);
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
