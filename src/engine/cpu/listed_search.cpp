// See listed_search.hpp. Lists are cut into pieces; each thread takes the next piece of the next query.
#include "engine/cpu/listed_search.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "engine/cpu/part_search.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kPieceRows = 4096; // scored between two signs of life; a thread takes no less

struct Piece
{
	const ListedRows *rows;
	size_t first;
	size_t last;
};

} // namespace

void
search_listed(const DistanceSpec &spec, std::span<const ListedRows> listed, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control)
{
	std::vector<Piece> pieces;
	uint64_t n_rows = 0;

	for (const ListedRows &rows : listed)
	{
		n_rows += rows.places->size();
		for (size_t first = 0; first < rows.places->size(); first += kPieceRows)
			pieces.push_back({&rows, first, std::min(first + kPieceRows, rows.places->size())});
	}

	// A query of its own for each piece: exact, so that rows without a score are found, too.
	const size_t n_items = pieces.size() * queries.size();
	const size_t n_workers = std::max<size_t>(1, std::min(pool.n_threads(), n_items));
	std::vector<SearchQuery> exact(queries.begin(), queries.end());
	std::vector<std::vector<std::unique_ptr<PartSearcher>>> searchers(n_workers);
	std::atomic<size_t> next{0};

	for (SearchQuery &query : exact)
		query.probes = {};

	const auto work = [&](size_t worker)
	{
		std::vector<std::unique_ptr<PartSearcher>> own(exact.size());

		for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n_items && !stopped(control);)
		{
			const size_t query = i / pieces.size();
			const Piece &piece = pieces[i % pieces.size()];

			if (own[query] == nullptr)
				own[query] = std::make_unique<PartSearcher>(spec, exact[query], n_rows);
			own[query]->search_places(
				*piece.rows->view, piece.rows->places->data() + piece.first, piece.last - piece.first);
			progress(control);
		}
		searchers[worker] = std::move(own);
	};

	if (n_workers == 1)
		work(0);
	else
		pool.run(n_workers, work);
	for (size_t query = 0; query < exact.size(); query++)
	{
		PartSearcher *first = nullptr;
		std::vector<Neighbor> &result = (*results)[query];

		for (std::vector<std::unique_ptr<PartSearcher>> &own : searchers)
		{
			if (own.empty() || own[query] == nullptr) // the call was dropped, or took no piece of this query
				continue;
			if (first == nullptr)
				first = own[query].get();
			else
				first->merge(own[query].get());
		}
		if (first == nullptr)
			continue;

		const std::vector<Neighbor> found = first->selection().finish();
		std::vector<Neighbor> both;

		both.reserve(result.size() + found.size());
		std::merge(result.begin(), result.end(), found.begin(), found.end(), std::back_inserter(both), neighbor_less);
		both.resize(std::min(both.size(), exact[query].k));
		result = std::move(both);
	}
}

} // namespace vectorgpu::engine
