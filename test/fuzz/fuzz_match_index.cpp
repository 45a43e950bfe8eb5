// libFuzzer target: the description of a segment of sets or texts, as the worker's engine gets it, and a query. Input:
// rows, flags (bit 0: with texts), bytes of the query (a byte each), the query, the description. An accepted index
// answers a valid query with every row, none twice, in order; by counts and, with texts, by edit distance. The rebuilt
// description equals the original, whole and in pieces, and no derived data differs.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <span>
#include <vector>

#include "engine/match/match_index.hpp"

using namespace vectorgpu;
using namespace vectorgpu::engine;
using namespace vectorgpu::engine::match;

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	MatchIndex index;

	if (size < 3)
		return 0;

	const size_t n_rows = data[0];
	const bool with_texts = (data[1] & 1) != 0;
	const std::span<const uint8_t> rest(data + 3, size - 3);
	const size_t query_bytes = std::min<size_t>(data[2], rest.size());
	const std::vector<uint8_t> query(
		rest.begin(), rest.begin() + static_cast<ptrdiff_t>(query_bytes)); // of just that size
	std::vector<RowId> row_ids;

	for (size_t i = 0; i < n_rows; i++)
		row_ids.push_back(i * 3 + 1);
	if (!index.open(rest.subspan(query_bytes), row_ids, with_texts))
		return 0;
	for (uint32_t code = 1; code < index.n_keys(); code++)
		if (key_compare(index.key(code - 1), index.key(code)) >= 0)
			std::abort();

	const std::span<const uint8_t> description = rest.subspan(query_bytes);
	const size_t n_bytes = static_cast<size_t>(index.description_bytes());
	std::vector<uint8_t> again(n_bytes);
	const size_t piece = 1 + data[2] % 37;

	if (n_bytes != description.size() || !index.read_description(0, n_bytes, again.data()) ||
		!std::equal(again.begin(), again.end(), description.begin()))
		std::abort();
	std::fill(again.begin(), again.end(), uint8_t{0});
	for (size_t first = 0; first < n_bytes; first += piece)
		if (!index.read_description(first, std::min(piece, n_bytes - first), again.data() + first))
			std::abort();
	if (!std::equal(again.begin(), again.end(), description.begin()) ||
		index.read_description(n_bytes, 1, again.data()) || index.count_different(0, n_rows) != 0)
		std::abort();
	for (const bool by_distance : {false, true})
	{
		const MatchQuery one = {{query.data(), query.size()}, n_rows, false, {}, by_distance};
		std::vector<std::vector<Neighbor>> results;
		std::set<RowId> seen;

		if (by_distance && !with_texts)
			continue;
		if (!index.search({&one, 1}, nullptr, &results))
			continue;
		if (results.size() != 1 || results[0].size() != n_rows)
			std::abort();
		for (size_t i = 0; i < n_rows; i++)
			if (!seen.insert(results[0][i].row).second || results[0][i].row % 3 != 1 ||
				(i > 0 &&
					(results[0][i - 1].score > results[0][i].score ||
						(results[0][i - 1].score == results[0][i].score &&
							results[0][i - 1].row >= results[0][i].row))))
				std::abort();
	}
	return 0;
}
