// See nearest_rows.hpp.
#include "engine/cpu/nearest_rows.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kLoadRows = 65536;            // given to the searcher at a time
constexpr size_t kSearchRows = 8192;           // searched for at a time: other searches wait for a batch
constexpr size_t kGroupRows = 2 * kSearchRows; // of a group, which are compared with few rows
constexpr SegmentId kSegment = 1;
constexpr size_t kCallers = 4; // for each batch that the searcher runs: it computes while lists are made

Status
cancelled()
{
	return Status::error(StatusCode::kCancelled, "canceled");
}

SearcherRows *
rows_of(void *context)
{
	return static_cast<std::unique_ptr<SearcherRows> *>(context)->get();
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
SearcherRows::has_room(uint32_t n_rows) const
{
	const EngineStats stats = searcher_->stats();
	const uint64_t needed = uint64_t{n_rows} * (rows_.row_stride + sizeof(RowId) + sizeof(double));

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
SearcherRows::load_rows(uint32_t first, uint32_t n)
{
	std::vector<RowId> ids(std::min<size_t>(kLoadRows, n));

	for (size_t done = 0; done < n; done += kLoadRows)
	{
		const size_t here = std::min<size_t>(kLoadRows, n - done);

		std::iota(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(here), first + done);

		const Status status = searcher_->load_segment(
			copy_, kSegment, {std::span(ids).first(here), rows_.row(static_cast<uint32_t>(first + done)), here});

		if (!status.is_ok())
			return status;
		if (!go_on_(0))
			return cancelled();
	}
	return Status::ok();
}

graph::Found
SearcherRows::begin()
{
	if (!has_room(rows_.n_rows) || !searcher_->create({rows_.spec, CopyKind::kRows}, &copy_).is_ok())
	{
		copy_ = 0;
		return graph::Found::kNo;
	}
	return graph::Found::kYes;
}

/// Others' rows, and indexes, may have taken the room that there was for the rows to come.
graph::Found
SearcherRows::load_more(uint32_t first, uint32_t n)
{
	return whole_or_dropped(guarded(
		[&]
		{
			return has_room(rows_.n_rows - first)
				? load_rows(first, n)
				: Status::error(StatusCode::kOutOfMemory, "no room for the rows of a build");
		}));
}

graph::Found
SearcherRows::end()
{
	return whole_or_dropped(guarded([&] { return searcher_->seal_segment(copy_, kSegment); }));
}

/// Part of the rows serves nobody, and would be held until all have come.
graph::Found
SearcherRows::whole_or_dropped(graph::Found found)
{
	if (found != graph::Found::kYes)
		(void) searcher_->drop(std::exchange(copy_, 0));
	return found;
}

graph::Found
SearcherRows::load()
{
	graph::Found found = begin();

	if (found == graph::Found::kYes)
		found = load_more(0, rows_.n_rows);
	return found == graph::Found::kYes ? end() : found;
}

graph::Found
SearcherRows::find(const graph::KnnLists &lists)
{
	return guarded([&] { return search_all(lists); });
}

graph::Found
SearcherRows::find_near(NearGroups *groups, const graph::KnnLists &lists, bool *near)
{
	*near = false;
	return guarded([&] { return search_near(groups, lists, near); });
}

/// Run work by threads of its own, each with a batch of its own; return the first failure, after which the others end.
/// n_before: rows that have their lists.
Status
SearcherRows::in_threads(const std::function<Status(Batch *)> &work, size_t n_before)
{
	const size_t n_callers = kCallers * searcher_->n_batches_at_once();
	std::mutex mutex;
	Status first_failure;
	const auto call = [&]
	{
		Status status;

		try
		{
			Batch batch;

			status = work(&batch);
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

	next_ = 0;
	n_searched_ = n_before;
	{
		std::vector<std::jthread> callers; // joined at the end of the block

		for (size_t i = 1; i < n_callers; i++)
			callers.emplace_back(call);
		call();
	}
	return first_failure;
}

Status
SearcherRows::search_all(const graph::KnnLists &lists)
{
	return in_threads(
		[&](Batch *batch)
		{
			for (size_t first; (first = next_.fetch_add(kSearchRows)) < rows_.n_rows;)
			{
				batch->nodes.resize(std::min<size_t>(kSearchRows, rows_.n_rows - first));
				std::iota(batch->nodes.begin(), batch->nodes.end(), static_cast<uint32_t>(first));
				if (Status status = search_batch(nullptr, lists, batch); !status.is_ok())
					return status;
			}
			return Status::ok();
		});
}

/// Some rows, by all rows.
Status
SearcherRows::search_some(std::span<const uint32_t> nodes, const graph::KnnLists &lists)
{
	return in_threads(
		[&](Batch *batch)
		{
			for (size_t first; (first = next_.fetch_add(kSearchRows)) < nodes.size();)
			{
				const std::span<const uint32_t> some =
					nodes.subspan(first, std::min(kSearchRows, nodes.size() - first));

				batch->nodes.assign(some.begin(), some.end());
				if (Status status = search_batch(nullptr, lists, batch); !status.is_ok())
					return status;
			}
			return Status::ok();
		});
}

/// The searcher's copy has the row, too.
void
SearcherRows::set_query(uint32_t node, SearchQuery *query) const
{
	query->query = rows_.row(node);
	query->own_row = {kSegment, node};
}

/// Take groups until none are left. has_list [rows]: those that are not searched for.
Status
SearcherRows::search_groups(
	const NearGroups &groups, const std::vector<bool> &has_list, const graph::KnnLists &lists, Batch *batch)
{
	std::vector<uint32_t> rows;

	for (size_t group; (group = next_.fetch_add(1)) < groups.n_groups();)
	{
		const std::span<const uint32_t> all = groups.rows(static_cast<uint32_t>(group));

		rows.clear();
		std::copy_if(all.begin(), all.end(), std::back_inserter(rows), [&](uint32_t row) { return !has_list[row]; });

		const std::shared_ptr<const Passing> passing = groups.candidates(static_cast<uint32_t>(group), kSegment);

		const size_t n_parts = (rows.size() + kGroupRows - 1) / kGroupRows;

		for (size_t part = 0; part < n_parts; part++) // all about as large
		{
			const size_t first = part * rows.size() / n_parts;
			const std::span<const uint32_t> some =
				std::span(rows).subspan(first, (part + 1) * rows.size() / n_parts - first);

			batch->nodes.assign(some.begin(), some.end());
			if (Status status = search_batch(passing.get(), lists, batch); !status.is_ok())
				return status;
		}
	}
	return Status::ok();
}

/// Fill the lists of the batch's nodes by the nearest of the rows that pass; null: of all.
Status
SearcherRows::search_batch(const Passing *passing, const graph::KnnLists &lists, Batch *batch)
{
	const size_t n = batch->nodes.size();
	const uint64_t n_pass = passing != nullptr ? passing->n_pass : rows_.n_rows;

	if (!go_on_(n_searched_.fetch_add(n)))
		return cancelled();
	batch->queries.resize(n);
	for (size_t i = 0; i < n; i++)
	{
		set_query(batch->nodes[i], &batch->queries[i]);
		batch->queries[i].k = size_t{lists.k} + 1; // one is usually the row itself
		batch->queries[i].passing = passing;
	}
	if (Status status = searcher_->search(copy_, batch->queries, &batch->found, control_); !status.is_ok())
		return status;
	for (size_t i = 0; i < n; i++)
	{
		if (i >= batch->found.size() || batch->found[i].size() != std::min<uint64_t>(size_t{lists.k} + 1, n_pass))
			return Status::error(StatusCode::kInternal, "a search has found too few rows");
		take_list(batch->nodes[i], batch->found[i], lists);
	}
	return Status::ok();
}

/// The searcher copies candidates so that a search reads no other rows, in two forms at most, into an eighth of its
/// memory (gpu/cuda/passing/README.md, "Packed rows"), while a quarter of it stays free.
bool
SearcherRows::has_room_for(const NearGroups &groups) const
{
	const EngineStats stats = searcher_->stats();
	const uint64_t needed = groups.most_candidates() * (2 * rows_.row_stride + 64) * kCallers;

	return stats.budget_bytes == 0 ||
		(needed <= stats.budget_bytes / 8 && stats.resident_bytes + needed <= stats.budget_bytes / 2);
}

/// The sample's lists are filled first, by all rows.
Status
SearcherRows::search_near(NearGroups *groups, const graph::KnnLists &lists, bool *near)
{
	std::vector<uint32_t> nearest;
	std::vector<bool> has_list(rows_.n_rows);

	if (Status status = groups->group(searcher_, rows_, copy_, kSegment, control_); !status.is_ok())
		return status.code == StatusCode::kCancelled ? status : search_all(lists);
	if (Status status = search_some(groups->sample(), lists); !status.is_ok())
		return status;
	for (const uint32_t node : groups->sample())
	{
		nearest.insert(nearest.end(), lists.ids + size_t{node} * lists.k, lists.ids + size_t{node + 1} * lists.k);
		has_list[node] = true;
	}
	*near = groups->choose(nearest.data(), lists.k) && has_room_for(*groups);
	if (!*near)
		return search_all(lists);
	return in_threads(
		[&](Batch *batch) { return search_groups(*groups, has_list, lists, batch); }, groups->sample().size());
}

/// Make a list from search results, as knn_graph does: other rows with a finite score, by the score as float.
void
SearcherRows::take_list(uint32_t node, const std::vector<Neighbor> &found, const graph::KnnLists &lists) const
{
	uint32_t *ids = lists.ids + size_t{node} * lists.k;
	float *scores = lists.scores + size_t{node} * lists.k;
	uint32_t n = 0;

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
		set_query(search.nodes[i], &queries_[i]);
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

graph::Helper
helper_of(std::unique_ptr<SearcherRows> *held)
{
	graph::Helper helper;

	helper.context = held;
	helper.choose_edges = [](void *context, const graph::EdgeJob &job)
	{
		SearcherRows *rows = rows_of(context);

		return rows != nullptr ? rows->choose_edges(job) : graph::Helped::kNo;
	};
	helper.give_graph = [](void *context, const graph::GivenGraph &graph)
	{
		SearcherRows *rows = rows_of(context);

		return rows != nullptr ? rows->give_graph(graph) : graph::Helped::kNo;
	};
	helper.search = [](void *context, const graph::NodeSearch &search)
	{
		SearcherRows *rows = rows_of(context);

		return rows != nullptr ? rows->search(search) : graph::Helped::kNo;
	};
	helper.leave_out = [](void *context, const uint32_t *left_out, uint32_t n)
	{
		SearcherRows *rows = rows_of(context);

		return rows != nullptr ? rows->leave_out(left_out, n) : graph::Helped::kNo;
	};
	return helper;
}

} // namespace vectorgpu::engine
