// A CPU engine that helps with builds of graphs as a GPU's engine does: by searches of a copy that it makes of the
// graph given to it, and by engine/graph's choice of edges. It takes queries that are rows of the copy from there, and
// does not look at those that it is sent.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/graph/prune.hpp"
#include "engine/graph/reverse.hpp"
#include "engine/interface/graph_layout.hpp"
#include "engine/oracle.hpp"

namespace vectorgpu::engine::test
{

class HelpingEngine final : public Engine
{
public:
	int n_edges = 0;                 // calls that succeeded
	int n_graphs = 0;                // those with edges
	int n_entries = 0;               // those without
	std::atomic<int> n_searched = 0; // queries of the given graph
	std::atomic<int> n_exact = 0;    // queries of all rows
	std::atomic<int> n_own_rows = 0; // queries that are rows of the copy
	int fail_at = 0;                 // the call, of those that help, that fails; 0: none
	StatusCode failure = StatusCode::kOutOfMemory;
	std::atomic<int> n_loads_to_fail = 0;   // from now on
	std::atomic<uint64_t> budget_bytes = 0; // as stats() says

	const char *name() const override { return "helping"; }
	Status create(const CopySpec &spec, CopyId *copy) override
	{
		const Status status = inner_->create(spec, copy);

		copies_[*copy] = {spec.distance, {}, {}, {}, 0, 0};
		return status;
	}
	Status load_segment(CopyId copy, SegmentId segment, const RowBlock &rows) override
	{
		if (n_loads_to_fail > 0)
		{
			n_loads_to_fail--;
			return failed();
		}

		const uint8_t *bytes = static_cast<const uint8_t *>(rows.vectors);
		const DistanceSpec &spec = copies_[copy].spec;

		copies_[copy].ids.insert(copies_[copy].ids.end(), rows.row_ids.begin(), rows.row_ids.end());
		copies_[copy].vectors.insert(
			copies_[copy].vectors.end(), bytes, bytes + rows.n_rows * vector_bytes(spec.element, spec.dim));
		return inner_->load_segment(copy, segment, rows);
	}
	Status load_structure(CopyId c, SegmentId s, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return inner_->load_structure(c, s, parameter, bytes);
	}
	Status seal_segment(CopyId c, SegmentId s) override { return inner_->seal_segment(c, s); }
	Status drop_segment(CopyId c, SegmentId s) override { return inner_->drop_segment(c, s); }
	Status append_delta(CopyId c, uint64_t at, const RowBlock &rows) override
	{
		return inner_->append_delta(c, at, rows);
	}
	Status trim_delta(CopyId c, uint64_t at) override { return inner_->trim_delta(c, at); }
	Status set_tombstones(CopyId c, SegmentId s, std::span<const uint8_t> bits) override
	{
		return failing() ? failed() : inner_->set_tombstones(c, s, bits);
	}
	Status set_delta_tombstones(CopyId c, uint64_t first, std::span<const uint8_t> bits) override
	{
		return inner_->set_delta_tombstones(c, first, bits);
	}
	Status drop(CopyId copy) override
	{
		if (copies_[copy].graph != 0)
			(void) inner_->drop(copies_[copy].graph);
		copies_.erase(copy);
		return inner_->drop(copy);
	}

	/// Queries with probes have the given graph.
	Status search(CopyId copy, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results,
		SearchControl *control) override
	{
		const bool by_graph = !queries.empty() && !queries[0].probes.empty();

		if (by_graph && failing())
			return failed();
		(by_graph ? n_searched : n_exact) += static_cast<int>(queries.size());

		std::vector<SearchQuery> taken(queries.begin(), queries.end());
		std::vector<Bytes> vectors;

		for (SearchQuery &query : taken)
			if (query.own_row.segment != kDeltaSegment)
			{
				const Status status = take_own_row(copy, &query, &vectors);

				if (!status.is_ok())
					return status;
			}
		return inner_->search(by_graph ? copies_.at(copy).graph : copy, taken, results, control);
	}
	Status read_rows(CopyId c, SegmentId s, uint64_t first, size_t n, RowId *ids, void *vectors) override
	{
		return inner_->read_rows(c, s, first, n, ids, vectors);
	}
	Status read_structure(CopyId c, SegmentId s, uint64_t first, size_t n, void *bytes) override
	{
		return inner_->read_structure(c, s, first, n, bytes);
	}
	Status read_tombstones(CopyId c, SegmentId s, uint64_t first, size_t n, uint8_t *bits) override
	{
		return inner_->read_tombstones(c, s, first, n, bits);
	}
	Status check_derived(CopyId c, SegmentId s, uint64_t first, size_t n, uint64_t *n_different) override
	{
		return inner_->check_derived(c, s, first, n, n_different);
	}
	EngineStats stats() const override
	{
		EngineStats stats = inner_->stats();

		stats.budget_bytes = budget_bytes;
		return stats;
	}
	uint64_t n_rescored() const override { return inner_->n_rescored(); }

	Status choose_graph_edges(const graph::EdgeJob &job, SearchControl *) override
	{
		if (failing())
			return failed();

		std::vector<uint32_t> ids(job.lists, job.lists + size_t{job.n_rows} * job.k);
		graph::KnnLists lists;
		graph::GraphRows rows;

		lists.ids = ids.data();
		lists.k = job.k;
		rows.n_rows = job.n_rows;

		Bytes work(std::max(graph::prune_bytes(lists), graph::add_reverse_bytes(job.n_rows, job.degree)));
		graph::Outcome outcome = graph::prune(
			rows, lists, graph::PruneKind::kRank, job.degree, job.forward, work.data(), work.size(), {}, job.chosen);

		if (outcome.is_ok())
			outcome = graph::add_reverse(job.n_rows, job.degree, job.forward, job.edges, work.data(), work.size());
		n_edges++;
		return outcome.is_ok() ? Status::ok() : Status::error(outcome.code, outcome.message);
	}

	Status set_graph(CopyId copy, SegmentId segment, const graph::GivenGraph &given) override
	{
		if (failing())
			return failed();

		Copy &held = copies_.at(copy);
		const uint32_t n_rows = static_cast<uint32_t>(held.ids.size());
		const GraphHeader header = {given.degree, 1, given.n_entries, 0};
		const GraphPartLayout part = {0, n_rows, 0, given.n_entries};
		Bytes structure;
		const auto put = [&structure](const void *from, size_t n_bytes)
		{
			const uint8_t *bytes = static_cast<const uint8_t *>(from);

			structure.insert(structure.end(), bytes, bytes + n_bytes);
		};

		if (given.edges != nullptr)
		{
			held.edges.assign(given.edges, given.edges + size_t{n_rows} * given.degree);
			held.degree = given.degree;
		}
		EXPECT_EQ(held.degree, given.degree);
		EXPECT_TRUE(std::is_sorted(given.entries, given.entries + given.n_entries));
		(given.edges != nullptr ? n_graphs : n_entries)++;
		put(&header, sizeof(header));
		put(&part, sizeof(part));
		put(given.entries, given.n_entries * sizeof(uint32_t));
		put(held.edges.data(), held.edges.size() * sizeof(uint32_t));
		if (held.graph != 0)
			(void) inner_->drop(held.graph);

		Status status = inner_->create({held.spec, CopyKind::kGraph}, &held.graph);

		if (status.is_ok())
			status = inner_->load_segment(held.graph, segment, {held.ids, held.vectors.data(), held.ids.size()});
		if (status.is_ok())
			status = inner_->load_structure(held.graph, segment, given.degree, structure);
		return status.is_ok() ? inner_->seal_segment(held.graph, segment) : status;
	}

	Status make_list_builder(
		const ListBuildSpec &spec, SearchControl *control, std::unique_ptr<ListBuilder> *builder) override
	{
		return inner_->make_list_builder(spec, control, builder);
	}

private:
	/// vectors: keeps the query.
	Status take_own_row(CopyId copy, SearchQuery *query, std::vector<Bytes> *vectors)
	{
		const DistanceSpec &spec = copies_.at(copy).spec;
		Bytes vector(vector_bytes(spec.element, spec.dim));
		RowId id = 0;
		const Status status =
			inner_->read_rows(copy, query->own_row.segment, query->own_row.number, 1, &id, vector.data());

		query->query = vector.data(); // which stays where it is when the vector is moved
		vectors->push_back(std::move(vector));
		n_own_rows++;
		return status;
	}

	struct Copy
	{
		DistanceSpec spec;
		std::vector<RowId> ids;
		Bytes vectors;
		std::vector<uint32_t> edges;
		uint32_t degree;
		CopyId graph;
	};

	bool failing() { return fail_at > 0 && ++n_calls_ == fail_at; }
	Status failed() const { return Status::error(failure, "told so"); }

	std::unique_ptr<Engine> inner_ = make_cpu_engine({});
	std::map<CopyId, Copy> copies_;
	int n_calls_ = 0;
};

} // namespace vectorgpu::engine::test
