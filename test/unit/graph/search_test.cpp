// The search against algorithm 1 of the paper, written with std:: containers, and against all rows.
#include "graph/graph_data.hpp"

#include <limits>
#include <queue>

namespace vectorgpu::engine::graph::test
{

namespace
{

constexpr size_t kDim = 12;

/// Random edges, some of them absent.
std::vector<uint32_t>
random_edges(uint32_t n, uint32_t degree, unsigned seed)
{
	std::mt19937 rng(seed);
	std::vector<uint32_t> edges(static_cast<size_t>(n) * degree);

	for (uint32_t &edge : edges)
		edge = rng() % 9 == 0 ? kNoNode : rng() % n;
	return edges;
}

/// SONG, algorithm 1, unbounded.
std::vector<Candidate>
reference_search(const GraphRows &rows, const std::vector<uint32_t> &edges, uint32_t degree, const void *query,
	const std::vector<uint32_t> &entries, size_t width)
{
	const auto later = [](const Candidate &a, const Candidate &b) { return before(b, a); };
	std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> open(later);
	std::priority_queue<Candidate, std::vector<Candidate>, decltype(&before)> best(&before);
	std::set<uint32_t> visited(entries.begin(), entries.end());
	std::vector<Candidate> found;

	for (uint32_t entry : visited)
	{
		double score;

		compute_scores(rows.spec, query, rows.row(entry), 0, 1, &score);
		open.push({score, entry});
	}
	while (!open.empty())
	{
		const Candidate now = open.top();

		open.pop();
		if (best.size() == width && !before(now, best.top()))
			break;
		best.push(now);
		if (best.size() > width)
			best.pop();
		for (uint32_t i = 0; i < degree; i++)
		{
			const uint32_t v = edges[static_cast<size_t>(now.node) * degree + i];
			double score;

			if (v == kNoNode || !visited.insert(v).second)
				continue;
			compute_scores(rows.spec, query, rows.row(v), 0, 1, &score);
			open.push({score, v});
		}
	}
	for (; !best.empty(); best.pop())
		found.push_back(best.top());
	std::reverse(found.begin(), found.end());
	return found;
}

std::vector<Candidate>
our_search(const GraphView &view, const GraphRows &rows, const void *query, const std::vector<uint32_t> &entries,
	const SearchSpec &spec, SearchStats *stats)
{
	std::vector<Candidate> begin;
	std::vector<Candidate> found(spec.width, {-1, 77});
	Bytes work(graph_search_bytes(view, spec));
	uint32_t n_found = 0;

	for (uint32_t entry : entries)
	{
		double score;

		compute_scores(rows.spec, query, rows.row(entry), 0, 1, &score);
		begin.push_back({score, entry});
	}
	EXPECT_TRUE(
		graph_search(view, spec, begin.data(), begin.size(), found.data(), &n_found, stats, work.data(), work.size())
			.is_ok());
	found.resize(n_found);
	return found;
}

void
expect_equal(const std::vector<Candidate> &found, const std::vector<Candidate> &expected, const std::string &what)
{
	ASSERT_EQ(found.size(), expected.size()) << what;
	for (size_t i = 0; i < found.size(); i++)
	{
		EXPECT_EQ(found[i].node, expected[i].node) << what << ", place " << i;
		EXPECT_EQ(found[i].score, expected[i].score) << what << ", place " << i;
	}
}

TEST(GraphSearch, equals_the_papers_algorithm_with_every_visited_set)
{
	const Floats floats = overlapping_rows(3000, kDim, 1);
	const Floats queries = overlapping_rows(20, kDim, 2);
	const GraphRows rows = rows_of(floats, kDim);

	for (uint32_t degree : {2u, 8u, 33u})
	{
		const std::vector<uint32_t> edges = random_edges(rows.n_rows, degree, degree);

		for (size_t q = 0; q < 20; q++)
			for (uint32_t width : {1u, 2u, 10u, 100u, 5000u})
			{
				MemoryGraph memory = {rows, edges.data(), degree, &queries[q * kDim]};
				const std::vector<uint32_t> entries = {5, 1700, 2999};
				const std::vector<Candidate> expected =
					reference_search(rows, edges, degree, memory.query, entries, width);
				SearchStats base;
				SearchStats stats;
				SearchSpec spec;

				spec.width = width;
				expect_equal(
					our_search(memory_view(&memory), rows, memory.query, entries, spec, &base), expected, "plain");
				spec.selected_insertion = true;
				expect_equal(
					our_search(memory_view(&memory), rows, memory.query, entries, spec, &stats), expected, "selected");
				EXPECT_GE(stats.n_scored, base.n_scored);
				EXPECT_EQ(stats.n_expanded, base.n_expanded);
				spec.visited_deletion = true;
				expect_equal(
					our_search(memory_view(&memory), rows, memory.query, entries, spec, &stats), expected, "deleted");
				spec.selected_insertion = false;
				expect_equal(our_search(memory_view(&memory), rows, memory.query, entries, spec, &stats), expected,
					"deleted only");
			}
	}
}

/// The search in the form of the kernels in gpu/kernels/graph: one list, which begins with the first of the entries.
std::vector<Candidate>
list_search(const GraphRows &rows, const std::vector<uint32_t> &edges, uint32_t degree, const void *query,
	const std::vector<uint32_t> &entries, size_t width)
{
	struct Item
	{
		Candidate candidate;
		bool expanded;
	};
	std::vector<Item> list;
	std::set<uint32_t> seen;
	const auto offer = [&](uint32_t node)
	{
		double score;

		if (node == kNoNode || !seen.insert(node).second)
			return;
		compute_scores(rows.spec, query, rows.row(node), 0, 1, &score);
		list.push_back({{std::isnan(score) ? HUGE_VAL : score, node}, false});
	};
	const auto keep_first = [&]
	{
		std::sort(
			list.begin(), list.end(), [](const Item &a, const Item &b) { return before(a.candidate, b.candidate); });
		list.resize(std::min(list.size(), width));
	};

	for (const uint32_t entry : entries)
		offer(entry);
	keep_first();
	for (;;)
	{
		std::vector<uint32_t> parents;

		for (Item &item : list)
			if (!item.expanded && parents.size() < kSearchSteps)
			{
				parents.push_back(item.candidate.node);
				item.expanded = true;
			}
		if (parents.empty())
			break;
		for (const uint32_t parent : parents)
			for (uint32_t i = 0; i < degree; i++)
				offer(edges[static_cast<size_t>(parent) * degree + i]);
		keep_first();
	}

	std::vector<Candidate> found;

	for (const Item &item : list)
		found.push_back(item.candidate);
	return found;
}

TEST(GraphSearch, NaN_is_behind_infinities_among_entries_and_infinite_on_the_way)
{
	constexpr size_t kWide = 40;
	const float inf = HUGE_VALF;
	const float nan = std::nanf("");
	std::vector<Candidate> candidates = {{nan, 3}, {inf, 9}, {2, 8}, {-nan, 1}, {-inf, 7}, {inf, 4}};
	std::mt19937 rng(5);
	size_t n_infinite = 0;

	first_candidates(candidates.data(), candidates.size(), candidates.size());
	for (size_t i = 0; const uint32_t node : {7u, 8u, 4u, 9u, 1u, 3u})
		EXPECT_EQ(candidates[i++].node, node);

	// Sums of both signs overflow: many scores are NaN, many infinite.
	Floats floats(1500 * kWide);

	for (float &x : floats)
		x = (rng() % 3 == 0 ? std::numeric_limits<float>::max() : 1.0f) *
			static_cast<float>(static_cast<int>(rng() % 3) - 1);

	const GraphRows rows = rows_of(floats, kWide, Metric::kInnerProduct);
	const std::vector<uint32_t> edges = random_edges(rows.n_rows, 8, 1);

	for (uint32_t q = 0; q < 30; q++)
		for (const uint32_t width : {1u, 3u, 7u, 8u, 30u})
		{
			MemoryGraph memory = {rows, edges.data(), 8, rows.row(q)};
			std::set<uint32_t> chosen;
			SearchSpec spec;
			SearchStats stats;

			while (chosen.size() < kSearchEntries)
				chosen.insert(rng() % rows.n_rows);

			std::vector<uint32_t> entries(chosen.begin(), chosen.end());

			std::shuffle(entries.begin(), entries.end(), rng);
			spec.width = width;
			spec.probe_steps = kSearchSteps;

			const std::vector<Candidate> found =
				our_search(memory_view(&memory), rows, memory.query, entries, spec, &stats);

			ASSERT_NO_FATAL_FAILURE(expect_equal(
				found, list_search(rows, edges, 8, memory.query, entries, width), "width " + std::to_string(width)));
			n_infinite += found.back().score > std::numeric_limits<float>::max() ? 1 : 0;
		}
	EXPECT_GT(n_infinite, 0u);
}

TEST(GraphSearch, filters_and_several_steps_find_nearly_the_same_and_nothing_twice)
{
	const Floats floats = overlapping_rows(3000, kDim, 3);
	const Floats queries = overlapping_rows(50, kDim, 4);
	BuildSpec build_spec;

	build_spec.degree = 16;
	const Built built = build(rows_of(floats, kDim), build_spec);
	for (VisitedKind kind : {VisitedKind::kHash, VisitedKind::kBloom, VisitedKind::kCuckoo})
		for (uint32_t steps : {1u, 2u, 5u, kMaxProbeSteps})
			for (int mode = 0; mode < 3; mode++)
			{
				SearchSpec spec;
				size_t hits = 0;

				spec.width = 40;
				spec.visited = kind;
				spec.probe_steps = steps;
				spec.selected_insertion = mode > 0;
				spec.visited_deletion = mode > 1;
				for (size_t q = 0; q < 50; q++)
				{
					const std::vector<Candidate> truth = all_ranked(built.rows, &queries[q * kDim], kNoNode, 10);
					const std::vector<Candidate> found = built.search(&queries[q * kDim], spec);
					std::set<uint32_t> nodes;

					ASSERT_EQ(found.size(), 40u);
					for (size_t i = 0; i < found.size(); i++)
					{
						EXPECT_TRUE(nodes.insert(found[i].node).second);
						EXPECT_TRUE(i == 0 || before(found[i - 1], found[i]));
						hits += i < 10 && found[i].score <= truth[9].score;
					}
				}
				EXPECT_GE(hits, 475u) << "set " << static_cast<int>(kind) << ", steps " << steps << ", mode " << mode;
			}
}

/// Bits of the nodes that fail: all but `share` of them, at random, or those not nearest to `from`, or not farthest.
enum class Passing
{
	kRandom,
	kNear,
	kFar,
};

Bytes
failing(const GraphRows &rows, Passing which, double share, const void *from)
{
	const size_t n_pass = static_cast<size_t>(share * rows.n_rows);
	std::vector<Candidate> order = all_ranked(rows, from);
	Bytes fails((rows.n_rows + 7) / 8, 0xFF);
	std::mt19937 rng(3);

	if (which == Passing::kRandom)
		std::shuffle(order.begin(), order.end(), rng);
	else if (which == Passing::kFar)
		std::reverse(order.begin(), order.end());
	for (size_t i = 0; i < n_pass; i++)
		fails[order[i].node / 8] = static_cast<uint8_t>(fails[order[i].node / 8] & ~(1 << (order[i].node % 8)));
	return fails;
}

bool
fails_at(const Bytes &fails, uint32_t node)
{
	return ((fails[node / 8] >> (node % 8)) & 1) != 0;
}

/// The nodes that a step with conditions locates, in a graph whose neighbours are unique: README.md, "Conditions".
std::vector<uint32_t>
reference_step(
	const std::vector<uint32_t> &edges, uint32_t degree, const Bytes &fails, uint32_t node, std::set<uint32_t> *visited)
{
	const auto neighbors = [&](uint32_t of)
	{
		return std::vector<uint32_t>(
			edges.begin() + ptrdiff_t{of} * degree, edges.begin() + ptrdiff_t{of + 1} * degree);
	};
	std::vector<uint32_t> passing;
	std::vector<uint32_t> located;

	for (const uint32_t v : neighbors(node))
		if (v != kNoNode && !fails_at(fails, v))
			passing.push_back(v);
	for (const uint32_t v : passing)
		if (visited->insert(v).second)
			located.push_back(v);
	for (const uint32_t v : neighbors(node))
	{
		if (v == kNoNode || !fails_at(fails, v) || visited->count(v) > 0 || passing.size() == degree)
			continue;

		bool all = true;

		for (const uint32_t w : neighbors(v))
			if (w != kNoNode && !fails_at(fails, w))
			{
				if (passing.size() == degree)
				{
					all = false;
					break;
				}
				passing.push_back(w);
				if (visited->insert(w).second)
					located.push_back(w);
			}
		if (all)
			visited->insert(v);
	}
	return located;
}

TEST(GraphSearch, with_conditions_goes_through_nodes_that_fail)
{
	const Floats floats = overlapping_rows(2000, kDim, 1);
	const Floats queries = overlapping_rows(10, kDim, 2);
	const GraphRows rows = rows_of(floats, kDim);
	const std::vector<uint32_t> entries = {5, 1700, 1999};

	for (const uint32_t degree : {2u, 8u, 33u})
	{
		const std::vector<uint32_t> edges = random_edges(rows.n_rows, degree, degree);

		for (const double share : {0., .02, .3, .9, 1.})
			for (size_t q = 0; q < 10; q++)
			{
				const Bytes fails = failing(rows, Passing::kRandom, share, &queries[q * kDim]);
				MemoryGraph memory = {rows, edges.data(), degree, &queries[q * kDim]};
				SearchStats stats;
				SearchSpec spec;
				std::set<uint32_t> visited(entries.begin(), entries.end());
				std::set<std::pair<double, uint32_t>> open;
				std::vector<Candidate> expected;
				const auto offer = [&](uint32_t node)
				{
					double score;

					compute_scores(rows.spec, memory.query, rows.row(node), 0, 1, &score);
					open.insert({score, node});
				};

				// As wide as the graph: the order in which nodes are expanded does not end it.
				spec.width = rows.n_rows;
				spec.fails = fails.data();
				for (const uint32_t entry : entries)
					offer(entry);
				while (!open.empty())
				{
					const auto [score, node] = *open.begin();

					open.erase(open.begin());
					if (!fails_at(fails, node))
						expected.push_back({score, node});
					for (const uint32_t located : reference_step(edges, degree, fails, node, &visited))
						offer(located);
				}
				std::sort(expected.begin(), expected.end(), before);
				ASSERT_NO_FATAL_FAILURE(
					expect_equal(our_search(memory_view(&memory), rows, memory.query, entries, spec, &stats), expected,
						testing::PrintToString(share)));
			}
	}
}

TEST(GraphSearch, with_conditions_finds_as_much_wherever_the_rows_lie)
{
	const Floats floats = overlapping_rows(6000, kDim, 1);
	const Floats queries = overlapping_rows(60, kDim, 2);
	const GraphRows rows = rows_of(floats, kDim);
	BuildSpec build_spec;

	build_spec.degree = 16;

	const Built built = build(rows, build_spec);
	const double plain = built.recall(queries, 16);

	ASSERT_GT(plain, .9);
	for (const Passing which : {Passing::kRandom, Passing::kNear, Passing::kFar})
		for (const double share : {.11, .2, .3, .5, .9})
		{
			const Bytes fails = failing(rows, which, share, &floats[7 * kDim]);
			SearchSpec spec;
			size_t n_hits = 0;

			spec.width = 28; // by as much wider as an engine searches
			spec.probe_steps = kSearchSteps;
			spec.fails = fails.data();
			for (size_t q = 0; q < 60; q++)
			{
				std::vector<Candidate> truth = all_ranked(rows, &queries[q * kDim]);
				const std::vector<Candidate> found = built.search(&queries[q * kDim], spec);

				std::erase_if(truth, [&](const Candidate &one) { return fails_at(fails, one.node); });
				for (size_t i = 0; i < found.size(); i++)
				{
					ASSERT_FALSE(fails_at(fails, found[i].node));
					n_hits += i < 10 && found[i].score <= truth[9].score ? 1 : 0;
				}
			}
			EXPECT_GT(static_cast<double>(n_hits) / 600, plain - .05)
				<< "share " << share << ", " << static_cast<int>(which);
		}
}

TEST(GraphSearch, not_a_number_comes_last)
{
	const Floats floats = {1, 0, 0, 0, 0, 1, 1, 1}; // row 1 has no direction
	const GraphRows rows = rows_of(floats, 2, Metric::kCosine);
	const std::vector<uint32_t> edges = {1, 2, 2, 3, 3, 0, 0, 1};
	const float query[2] = {0, 1};
	MemoryGraph memory = {rows, edges.data(), 2, query};
	SearchStats stats;
	SearchSpec spec;

	spec.width = 4;
	for (uint32_t entry : {0u, 1u})
	{
		const std::vector<Candidate> found = our_search(memory_view(&memory), rows, query, {entry}, spec, &stats);

		ASSERT_EQ(found.size(), 4u);
		EXPECT_EQ(found[0].node, 2u);
		EXPECT_EQ(found[3].node, 1u);
		EXPECT_TRUE(std::isinf(found[3].score));
	}
}

TEST(GraphSearch, invalid_edges_and_entries_are_skipped)
{
	const Floats floats = {0, 1, 2};
	const GraphRows rows = rows_of(floats, 1);
	const std::vector<uint32_t> edges = {1, 3, kNoNode, 1000000, 0, 2};
	const float query = 0;
	MemoryGraph memory = {rows, edges.data(), 2, &query};
	const GraphView view = memory_view(&memory);
	const Candidate begin[] = {{0, 3}, {0, kNoNode}, {0, 0}, {0, 0}};
	SearchSpec spec;
	SearchStats stats;
	Candidate found[4];
	Bytes work;
	uint32_t n_found;

	spec.width = 4;
	work.resize(graph_search_bytes(view, spec));
	EXPECT_TRUE(graph_search(view, spec, begin, 4, found, &n_found, &stats, work.data(), work.size()).is_ok());
	EXPECT_EQ(n_found, 2u);
	EXPECT_TRUE(graph_search(view, spec, begin, 0, found, &n_found, &stats, work.data(), work.size()).is_ok());
	EXPECT_EQ(n_found, 0u);
	EXPECT_EQ(graph_search(view, spec, begin, 4, found, &n_found, &stats, work.data(), work.size() / 2).code,
		StatusCode::kInvalidArgument);
	spec.width = 0;
	EXPECT_EQ(graph_search(view, spec, begin, 4, found, &n_found, &stats, work.data(), work.size()).code,
		StatusCode::kInvalidArgument);
}

TEST(GraphSearch, ends_where_the_graph_cannot_be_read)
{
	const Floats floats = {0, 1, 2};
	const GraphRows rows = rows_of(floats, 1);
	const std::vector<uint32_t> edges = {1, 2, 0, 2, 0, 1};
	const float query = 0;
	MemoryGraph memory = {rows, edges.data(), 2, &query};
	const Candidate begin[] = {{0, 0}};
	SearchSpec spec;
	SearchStats stats;
	Candidate found[64];
	uint32_t n_found;

	for (bool at_edges : {false, true})
	{
		GraphView view = memory_view(&memory);
		Bytes work(graph_search_bytes(view, spec));

		if (at_edges)
			view.neighbors = [](void *, uint32_t, uint32_t *) { return false; };
		else
			view.scores = [](void *, const uint32_t *, size_t, double *) { return false; };
		EXPECT_EQ(graph_search(view, spec, begin, 1, found, &n_found, &stats, work.data(), work.size()).code,
			StatusCode::kCancelled);
	}
}

} // namespace

} // namespace vectorgpu::engine::graph::test
