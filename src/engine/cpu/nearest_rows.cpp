// See nearest_rows.hpp.
#include "engine/cpu/nearest_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kLoadRows = 65536;  // given to the searcher at a time
constexpr size_t kSearchRows = 8192; // searched for at a time: other searches wait for a batch
constexpr size_t kCallers = 3;       // for each batch that the searcher runs: it computes while lists are made

class NearestRows
{
public:
	NearestRows(Engine *searcher, const graph::GraphRows &rows, const graph::KnnLists &lists, SearchControl *control,
		const std::function<bool(uint64_t)> &go_on)
		: searcher_(searcher), rows_(rows), lists_(lists), control_(control), go_on_(go_on)
	{
	}

	/// The searcher's memory is for indexes: a build takes the unused part, except for an eighth of all memory, which
	/// indexes may need meanwhile.
	bool has_room() const
	{
		const EngineStats stats = searcher_->stats();
		const uint64_t needed = uint64_t{rows_.n_rows} * (rows_.row_stride + sizeof(RowId) + sizeof(double));

		return stats.budget_bytes == 0 || stats.resident_bytes + needed <= stats.budget_bytes / 8 * 7;
	}

	Status run(CopyId copy)
	{
		const Status loaded = load(copy);

		return loaded.is_ok() ? search(copy) : loaded;
	}

private:
	static Status cancelled() { return Status::error(StatusCode::kCancelled, "canceled"); }

	Status load(CopyId copy)
	{
		std::vector<RowId> ids(std::min<size_t>(kLoadRows, rows_.n_rows));

		for (size_t first = 0; first < rows_.n_rows; first += kLoadRows)
		{
			const size_t n = std::min<size_t>(kLoadRows, rows_.n_rows - first);

			std::iota(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), first);

			const Status status =
				searcher_->load_segment(copy, 1, {std::span(ids).first(n), rows_.row(static_cast<uint32_t>(first)), n});

			if (!status.is_ok())
				return status;
			if (!go_on_(0))
				return cancelled();
		}
		return searcher_->seal_segment(copy, 1);
	}

	Status search(CopyId copy)
	{
		const size_t n_callers = kCallers * searcher_->n_batches_at_once();
		std::mutex mutex;
		Status first_failure;
		const auto call = [&]
		{
			Status status;

			try
			{
				status = search_batches(copy);
			}
			catch (const std::exception &)
			{
				status = Status::error(StatusCode::kOutOfMemory, "out of memory in a search for neighbors");
			}
			if (!status.is_ok())
				next_ = rows_.n_rows; // the others end as well

			const std::lock_guard lock(mutex);

			if (first_failure.is_ok())
				first_failure = std::move(status);
		};

		{
			std::vector<std::jthread> callers; // joined at the end of the block

			for (size_t i = 1; i < n_callers; i++)
				callers.emplace_back(call);
			call();
		}
		return first_failure;
	}

	/// Take batches of rows until none are left.
	Status search_batches(CopyId copy)
	{
		std::vector<SearchQuery> queries;
		std::vector<std::vector<Neighbor>> found;

		for (size_t first; (first = next_.fetch_add(kSearchRows)) < rows_.n_rows;)
		{
			if (!go_on_(first))
				return cancelled();
			queries.resize(std::min<size_t>(kSearchRows, rows_.n_rows - first));
			for (size_t i = 0; i < queries.size(); i++)
			{
				queries[i].query = rows_.row(static_cast<uint32_t>(first + i));
				queries[i].k = size_t{lists_.k} + 1; // one is usually the row itself
			}

			const Status status = searcher_->search(copy, queries, &found, control_);

			if (!status.is_ok())
				return status;
			for (size_t i = 0; i < queries.size(); i++)
				if (i >= found.size() || !take_list(static_cast<uint32_t>(first + i), found[i]))
					return Status::error(StatusCode::kInternal, "a search has found too few rows");
		}
		return Status::ok();
	}

	/// Make a list from search results, as knn_graph does: other rows with a finite score, by the score as float.
	bool take_list(uint32_t node, const std::vector<Neighbor> &found) const
	{
		uint32_t *ids = lists_.ids + size_t{node} * lists_.k;
		float *scores = lists_.scores + size_t{node} * lists_.k;
		uint32_t n = 0;

		if (found.size() != std::min<size_t>(size_t{lists_.k} + 1, rows_.n_rows))
			return false;
		for (size_t i = 0; i < found.size() && n < lists_.k && std::isfinite(static_cast<float>(found[i].score)); i++)
		{
			const uint32_t other = static_cast<uint32_t>(found[i].row);
			const float score = static_cast<float>(found[i].score);
			uint32_t at = n;

			if (other == node)
				continue;
			// Scores that are equal as floats are ordered by row.
			for (; at > 0 && scores[at - 1] == score && ids[at - 1] > other; at--)
				ids[at] = ids[at - 1];
			ids[at] = other;
			scores[n++] = score;
		}
		for (; n < lists_.k; n++)
		{
			ids[n] = graph::kNoNode;
			scores[n] = HUGE_VALF;
		}
		return true;
	}

	Engine *const searcher_;
	const graph::GraphRows &rows_;
	const graph::KnnLists &lists_;
	SearchControl *const control_;
	const std::function<bool(uint64_t)> &go_on_;
	std::atomic<size_t> next_{0};
};

} // namespace

graph::Found
find_nearest_rows(Engine *searcher, const graph::GraphRows &rows, const graph::KnnLists &lists, SearchControl *control,
	const std::function<bool(uint64_t)> &go_on)
{
	NearestRows nearest(searcher, rows, lists, control, go_on);
	CopyId copy = 0;
	Status status;

	if (!nearest.has_room() || !searcher->create({rows.spec, CopyKind::kRows}, &copy).is_ok())
		return graph::Found::kNo;
	try
	{
		status = nearest.run(copy);
	}
	catch (const std::exception &) // bad_alloc, no thread: the copy is dropped all the same
	{
		status = Status::error(StatusCode::kOutOfMemory, "out of memory in a search for neighbors");
	}

	const Status dropped = searcher->drop(copy);

	if (control->stop.load(std::memory_order_relaxed))
		return graph::Found::kCancelled;
	return status.is_ok() && dropped.is_ok() ? graph::Found::kYes : graph::Found::kNo;
}

} // namespace vectorgpu::engine
