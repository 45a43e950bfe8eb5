// See cpu_engine_match.hpp.
#include "engine/cpu/cpu_engine_match.hpp"

#include <algorithm>
#include <atomic>

#include "engine/cpu/selection.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kQueriesPerTurn = 16; // go over the tiles of a segment together

} // namespace

uint64_t
search_match(const DistanceSpec &spec, const MatchSnapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control)
{
	const size_t per_turn = std::max<size_t>(1, std::min(kQueriesPerTurn, queries.size() / pool.n_threads()));
	const size_t n_turns = (queries.size() + per_turn - 1) / per_turn;
	std::atomic<size_t> next_turn{0};
	std::atomic<uint64_t> n_compared{0};

	results->assign(queries.size(), {});
	pool.run(std::min(pool.n_threads(), n_turns),
		[&](size_t)
		{
			for (size_t turn; (turn = next_turn.fetch_add(1, std::memory_order_relaxed)) < n_turns;)
			{
				const std::span<const SearchQuery> some =
					queries.subspan(turn * per_turn, std::min(per_turn, queries.size() - turn * per_turn));
				std::vector<match::MatchQuery> wanted;
				std::vector<Selection> selections(some.size());

				if (control != nullptr && control->stop.load(std::memory_order_relaxed))
					return;
				for (size_t i = 0; i < some.size(); i++)
				{
					wanted.push_back(match_query(spec, some[i]));
					selections[i].start(some[i], snapshot.n_rows);
				}
				for (const MatchSegmentView &view : snapshot.segments)
				{
					std::vector<std::vector<Neighbor>> found;
					uint64_t n_texts = 0;

					(void) view.segment->index.search(wanted, view.dead == nullptr ? nullptr : view.dead->data(),
						&found, match_poll(control), &n_texts);
					n_compared.fetch_add(n_texts, std::memory_order_relaxed);
					if (control != nullptr && control->stop.load(std::memory_order_relaxed))
						return;
					for (size_t i = 0; i < found.size(); i++)
						for (const Neighbor &one : found[i])
							topk_push(selections[i].topk(), &one.score, &one.row, 1, nullptr, 0);
					if (control != nullptr)
						control->progress.fetch_add(1, std::memory_order_relaxed);
				}
				for (size_t i = 0; i < some.size(); i++)
				{
					if (!offer_match_delta(spec, snapshot.delta, some[i], selections[i].topk(), control))
						return;
					(*results)[turn * per_turn + i] = selections[i].finish();
					if (some[i].coverage != nullptr)
						*some[i].coverage = Coverage::kAll;
				}
			}
		});
	return n_compared;
}

} // namespace vectorgpu::engine
