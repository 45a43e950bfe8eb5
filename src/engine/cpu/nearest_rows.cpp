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

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kLoadRows = 65536;  // given to the searcher at a time
constexpr size_t kSearchRows = 8192; // searched for at a time: other searches wait for a batch
constexpr SegmentId kSegment = 1;
constexpr size_t kCallers = 3; // for each batch that the searcher runs: it computes while lists are made

Status
cancelled()
{
	return Status::error(StatusCode::kCancelled, "canceled");
}

} // namespace

SearcherRows::SearcherRows(
	Engine *searcher, const graph::GraphRows &rows, SearchControl *control, const std::function<bool(uint64_t)> &go_on)
	: searcher_(searcher), rows_(rows), control_(control), go_on_(go_on)
{
}

SearcherRows::~SearcherRows()
{
	if (copy_ != 0)
		(void) searcher_->drop(copy_);
}

/// The searcher's memory is for indexes: a build takes the unused part, except for an eighth of all memory, which
/// indexes may need meanwhile.
bool
SearcherRows::has_room() const
{
	const EngineStats stats = searcher_->stats();
	const uint64_t needed = uint64_t{rows_.n_rows} * (rows_.row_stride + sizeof(RowId) + sizeof(double));

	return stats.budget_bytes == 0 || stats.resident_bytes + needed <= stats.budget_bytes / 8 * 7;
}

/// Run work(); a failure is no error of the build.
template <class Work>
graph::Found
SearcherRows::guarded(Work work)
{
	Status status;

	try
	{
		status = work();
	}
	catch (const std::exception &) // bad_alloc, no thread: the copy is dropped all the same
	{
		status = Status::error(StatusCode::kOutOfMemory, "out of memory in a search for neighbors");
	}
	usable_ = status.is_ok();
	if (control_->stop.load(std::memory_order_relaxed))
		return graph::Found::kCancelled;
	return usable_ ? graph::Found::kYes : graph::Found::kNo;
}

Status
SearcherRows::load_rows()
{
	std::vector<RowId> ids(std::min<size_t>(kLoadRows, rows_.n_rows));

	for (size_t first = 0; first < rows_.n_rows; first += kLoadRows)
	{
		const size_t n = std::min<size_t>(kLoadRows, rows_.n_rows - first);

		std::iota(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), first);

		const Status status = searcher_->load_segment(
			copy_, kSegment, {std::span(ids).first(n), rows_.row(static_cast<uint32_t>(first)), n});

		if (!status.is_ok())
			return status;
		if (!go_on_(0))
			return cancelled();
	}
	return searcher_->seal_segment(copy_, kSegment);
}

graph::Found
SearcherRows::load()
{
	if (!has_room() || !searcher_->create({rows_.spec, CopyKind::kRows}, &copy_).is_ok())
	{
		copy_ = 0;
		return graph::Found::kNo;
	}
	return guarded([&] { return load_rows(); });
}

graph::Found
SearcherRows::find(const graph::KnnLists &lists)
{
	return guarded([&] { return search_all(lists); });
}

Status
SearcherRows::search_all(const graph::KnnLists &lists)
{
	const size_t n_callers = kCallers * searcher_->n_batches_at_once();
	std::mutex mutex;
	Status first_failure;
	const auto call = [&]
	{
		Status status;

		try
		{
			status = search_batches(lists);
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
Status
SearcherRows::search_batches(const graph::KnnLists &lists)
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
			queries[i].k = size_t{lists.k} + 1; // one is usually the row itself
		}

		const Status status = searcher_->search(copy_, queries, &found, control_);

		if (!status.is_ok())
			return status;
		for (size_t i = 0; i < queries.size(); i++)
			if (i >= found.size() || !take_list(static_cast<uint32_t>(first + i), found[i], lists))
				return Status::error(StatusCode::kInternal, "a search has found too few rows");
	}
	return Status::ok();
}

/// Make a list from search results, as knn_graph does: other rows with a finite score, by the score as float.
bool
SearcherRows::take_list(uint32_t node, const std::vector<Neighbor> &found, const graph::KnnLists &lists) const
{
	uint32_t *ids = lists.ids + size_t{node} * lists.k;
	float *scores = lists.scores + size_t{node} * lists.k;
	uint32_t n = 0;

	if (found.size() != std::min<size_t>(size_t{lists.k} + 1, rows_.n_rows))
		return false;
	for (size_t i = 0; i < found.size() && n < lists.k && std::isfinite(static_cast<float>(found[i].score)); i++)
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
	for (; n < lists.k; n++)
	{
		ids[n] = graph::kNoNode;
		scores[n] = HUGE_VALF;
	}
	return true;
}

/// Run work() unless something has failed before.
template <class Work>
graph::Helped
SearcherRows::helped(Work work)
{
	Status status;

	if (!usable_)
		return graph::Helped::kNo;
	try
	{
		status = work();
	}
	catch (const std::exception &)
	{
		status = Status::error(StatusCode::kOutOfMemory, "out of memory in a build's search");
	}
	if (control_->stop.load(std::memory_order_relaxed))
		return graph::Helped::kCancelled;
	if (status.is_ok())
		return graph::Helped::kYes;
	return status.code == StatusCode::kUnavailable ? graph::Helped::kFailed : graph::Helped::kNo;
}

/// A device without room for this may have room for searches.
graph::Helped
SearcherRows::choose_edges(const graph::EdgeJob &job)
{
	const graph::Helped done = helped([&] { return searcher_->choose_graph_edges(job, control_); });

	usable_ = usable_ && done != graph::Helped::kFailed;
	return done;
}

graph::Helped
SearcherRows::give_graph(const graph::GivenGraph &graph)
{
	const graph::Helped done = helped([&] { return searcher_->set_graph(copy_, kSegment, graph); });

	usable_ = usable_ && done != graph::Helped::kFailed; // it may lack memory, or cut the rows, and choose edges still
	return done;
}

Status
SearcherRows::search_nodes(const graph::NodeSearch &search)
{
	const SegmentProbes probes = {kSegment, search.width};

	queries_.resize(search.n);
	for (uint32_t i = 0; i < search.n; i++)
	{
		queries_[i].query = rows_.row(search.nodes[i]);
		queries_[i].k = search.k;
		queries_[i].probes = search.width > 0 ? std::span(&probes, 1) : std::span<const SegmentProbes>();
	}

	const Status status = searcher_->search(copy_, queries_, &results_, control_);

	if (!status.is_ok())
		return status;
	if (results_.size() < search.n)
		return Status::error(StatusCode::kInternal, "a search has answered too few queries");
	for (uint32_t i = 0; i < search.n; i++)
	{
		search.n_found[i] = static_cast<uint32_t>(std::min<size_t>(results_[i].size(), search.k));
		for (uint32_t j = 0; j < search.n_found[i]; j++)
			search.found[size_t{i} * search.k + j] = {results_[i][j].score, static_cast<uint32_t>(results_[i][j].row)};
	}
	return Status::ok();
}

graph::Helped
SearcherRows::search(const graph::NodeSearch &search)
{
	const graph::Helped done = helped([&] { return search_nodes(search); });

	usable_ = done == graph::Helped::kYes;
	return done;
}

graph::Helped
SearcherRows::leave_out(const uint32_t *rows, uint32_t n)
{
	const graph::Helped done = helped(
		[&]
		{
			std::vector<uint8_t> bits((size_t{rows_.n_rows} + 7) / 8);

			for (uint32_t i = 0; i < n; i++)
				bits[rows[i] / 8] |= static_cast<uint8_t>(1U << rows[i] % 8);
			return searcher_->set_tombstones(copy_, kSegment, bits);
		});

	usable_ = done == graph::Helped::kYes;
	return done;
}

} // namespace vectorgpu::engine
