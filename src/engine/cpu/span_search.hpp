// A search of rows that were cut into spans: each thread takes the next span and runs all queries over it, with a
// selection of its own for each; the selections are merged at the end. (score, row) is a total order, so the answer
// does not depend on which thread took which span. Internal to the CPU engine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/cpu/thread_pool.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// make() returns a thread's searcher (std::unique_ptr), which has search(span), merge(other), selection(query) and
/// n_scored(). results [queries.size()], with coverage kAll. Return n_scored() of all threads. control, if not null,
/// counts up with every span; once it says stop, the results are incomplete. Throws what the searchers throw.
template <class Span, class Make>
uint64_t
search_spans(const std::vector<Span> &spans, std::span<const SearchQuery> queries, ThreadPool &pool,
	std::span<std::vector<Neighbor>> results, SearchControl *control, Make make)
{
	const size_t n_workers = std::max<size_t>(1, std::min(pool.n_threads(), spans.size()));
	std::vector<decltype(make())> searchers(n_workers);
	std::atomic<size_t> next_span{0};

	pool.run(n_workers,
		[&](size_t worker)
		{
			auto searcher = make();

			for (size_t span; (span = next_span.fetch_add(1, std::memory_order_relaxed)) < spans.size();)
			{
				if (control != nullptr && control->stop.load(std::memory_order_relaxed))
					break;
				searcher->search(spans[span]);
				if (control != nullptr)
					control->progress.fetch_add(1, std::memory_order_relaxed);
			}
			searchers[worker] = std::move(searcher);
		});

	for (size_t worker = 1; worker < n_workers; worker++)
		if (searchers[worker] != nullptr) // null: the call was dropped
			searchers[0]->merge(searchers[worker].get());
	for (size_t i = 0; i < queries.size(); i++)
	{
		results[i] = searchers[0]->selection(i).finish();
		if (queries[i].coverage != nullptr)
			*queries[i].coverage = Coverage::kAll;
	}
	return searchers[0]->n_scored();
}

} // namespace vectorgpu::engine
