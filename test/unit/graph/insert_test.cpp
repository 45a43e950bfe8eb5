// Insertion into a graph: soundness, recall against a new build, any number of threads, inconsistent bases.
#include "graph/graph_data.hpp"

#include <numeric>
#include <tuple>

#include "engine/graph/insert.hpp"
#include "support/uniform_rows.hpp"

namespace vectorgpu::engine::graph::test
{

namespace
{

using vectorgpu::test::uniform_rows;

constexpr size_t kDim = 16;

/// Numbers of the rows of `all` in a graph.
using Numbers = std::vector<uint32_t>;

Floats
take(const Floats &all, size_t dim, const Numbers &numbers)
{
	Floats rows;

	for (uint32_t i : numbers)
		rows.insert(rows.end(), all.begin() + static_cast<ptrdiff_t>(i * dim),
			all.begin() + static_cast<ptrdiff_t>((i + 1) * dim));
	return rows;
}

/// The numbers of one graph's rows in another; both ascending.
Numbers
numbers_of(const Numbers &from, const Numbers &to)
{
	Numbers numbers;

	for (uint32_t row : from)
	{
		const auto at = std::lower_bound(to.begin(), to.end(), row);

		numbers.push_back(at != to.end() && *at == row ? static_cast<uint32_t>(at - to.begin()) : kNoNode);
	}
	return numbers;
}

BaseGraph
base_of(const Built &built, const Numbers &numbers)
{
	return {built.rows.n_rows, built.edges.data(), built.entries.data(), static_cast<uint32_t>(built.entries.size()),
		numbers.data()};
}

Outcome
insert(const GraphRows &rows, const BuildSpec &spec, const Built &base, const Numbers &numbers, Built *built,
	const Call &call = {})
{
	const InsertShape shape = {
		base.rows.n_rows, static_cast<uint32_t>(std::count(numbers.begin(), numbers.end(), kNoNode))};
	Bytes work(graph_insert_bytes(rows, spec, shape, call.n_threads));

	built->rows = rows;
	built->degree = spec.degree;
	built->edges.assign(size_t{rows.n_rows} * spec.degree, 12345);
	built->entries.assign(entry_count(rows.n_rows, spec), kNoNode);
	const Outcome outcome = graph_insert(rows, spec, base_of(base, numbers), built->edges.data(), built->entries.data(),
		&built->report, work.data(), work.size(), call);
	built->entries.resize(built->report.n_entries);
	return outcome;
}

/// A graph of some rows, and one of others that is made from it.
Built
inserted(const Floats &rows, size_t dim, const BuildSpec &spec, const Built &base, const Numbers &from,
	const Numbers &to, Metric metric = Metric::kL2)
{
	Built built;
	const Outcome outcome = insert(rows_of(rows, dim, metric), spec, base, numbers_of(from, to), &built);

	EXPECT_TRUE(outcome.is_ok()) << outcome.message;
	return built;
}

Numbers
all_but(size_t n, unsigned seed, double share)
{
	std::mt19937 rng(seed);
	Numbers numbers;

	for (uint32_t i = 0; i < n; i++)
		if (static_cast<double>(rng() % 1000) >= share * 1000)
			numbers.push_back(i);
	return numbers;
}

TEST(GraphInsert, is_sound_and_connected_for_any_added_and_removed_rows)
{
	const size_t sizes[] = {0, 1, 2, 3, 5, 17, 40, 300};

	for (PruneKind kind : {PruneKind::kRank, PruneKind::kRng})
		for (uint32_t degree : {2u, 5u, 16u})
			for (size_t n : sizes)
			{
				const Floats all = overlapping_rows(n, kDim, 30 + static_cast<unsigned>(n));
				Numbers every(n);
				BuildSpec spec;

				spec.degree = degree;
				spec.prune = kind;
				std::iota(every.begin(), every.end(), 0);
				for (double lost : {0.0, 0.1, 0.5, 1.0})
					for (double added : {0.0, 0.1, 0.5, 1.0})
					{
						// The rows of the old graph, and those of the new one.
						const Numbers from = all_but(n, 3, added);
						Numbers to;

						for (uint32_t row : every)
							if (!std::binary_search(from.begin(), from.end(), row) ||
								(row * 7919 % 1000) >= lost * 1000)
								to.push_back(row);
						SCOPED_TRACE("degree " + std::to_string(degree) + ", rows " + std::to_string(n) + ", lost " +
							std::to_string(lost) + ", added " + std::to_string(added));
						const Floats before = take(all, kDim, from);
						const Floats now = take(all, kDim, to);
						const Built base = build(rows_of(before, kDim), spec);
						expect_sound(inserted(now, kDim, spec, base, from, to));
					}
			}
}

TEST(GraphInsert, nothing_changed_gives_nearly_the_same_graph)
{
	const Floats all = overlapping_rows(6000, kDim, 31);
	const Floats queries = overlapping_rows(200, kDim, 32);
	Numbers every(6000);
	BuildSpec spec;

	std::iota(every.begin(), every.end(), 0);
	const Built base = build(rows_of(all, kDim), spec);
	const Built same = inserted(all, kDim, spec, base, every, every);

	expect_sound(same);
	EXPECT_EQ(same.entries, base.entries);
	EXPECT_NEAR(same.recall(queries, 16), base.recall(queries, 16), 0.005);
}

TEST(GraphInsert, takes_kept_rows_in_any_order)
{
	constexpr uint32_t kRows = 6000;
	const Floats all = overlapping_rows(kRows, kDim, 31);
	const Floats queries = overlapping_rows(200, kDim, 32);
	Numbers numbers(kRows); // of the old rows in the new graph, which has some others in the place of every fiftieth
	Numbers order(kRows);
	std::mt19937 rng(5);
	BuildSpec spec;
	Built built;

	std::iota(numbers.begin(), numbers.end(), 0);
	std::shuffle(numbers.begin(), numbers.end(), rng);
	for (uint32_t row = 0; row < kRows; row++)
		order[numbers[row]] = row;
	Floats now = take(all, kDim, order);
	const Built base = build(rows_of(all, kDim), spec);

	for (uint32_t row = 0; row < kRows; row += 50)
	{
		for (size_t i = 0; i < kDim; i++)
			now[size_t{numbers[row]} * kDim + i] += 0.25F;
		numbers[row] = kNoNode;
	}
	ASSERT_TRUE(insert(rows_of(now, kDim), spec, base, numbers, &built).is_ok());
	expect_sound(built);
	EXPECT_NEAR(built.recall(queries, 16), build(rows_of(now, kDim), spec).recall(queries, 16), 0.02);
}

TEST(GraphInsert, finds_as_much_as_a_graph_that_is_built_anew)
{
	constexpr size_t kRows = 5500;
	constexpr size_t kQueries = 200;

	for (const bool uniform : {false, true})
		for (const PruneKind kind : {PruneKind::kRank, PruneKind::kRng})
		{
			const size_t dim = uniform ? 12 : 32;
			const Floats all =
				uniform ? uniform_rows(kRows + kQueries, dim, 33) : overlapping_rows(kRows + kQueries, dim, 33);
			const Floats queries(all.end() - static_cast<ptrdiff_t>(kQueries * dim), all.end());
			BuildSpec spec;

			spec.prune = kind;
			for (const auto &[lost, added] : {std::tuple<double, double>{0.09, 0.09}, {0, 0.15}, {0.2, 0}})
			{
				if (kind == PruneKind::kRng && lost != added)
					continue;
				Numbers to;
				const Numbers from = all_but(kRows, 4, added);

				for (uint32_t row = 0; row < kRows; row++)
					if (!std::binary_search(from.begin(), from.end(), row) || row * 7919 % 1000 >= lost * 1000)
						to.push_back(row);
				const Floats before = take(all, dim, from);
				const Floats now = take(all, dim, to);
				const Built base = build(rows_of(before, dim), spec);
				const Built anew = build(rows_of(now, dim), spec);
				const Built merged = inserted(now, dim, spec, base, from, to);

				expect_sound(merged);
				for (uint32_t width : {16u, 48u})
				{
					const double fresh = anew.recall(queries, width);

					EXPECT_GE(merged.recall(queries, width), fresh - 0.005)
						<< (uniform ? "uniform" : "clustered") << ", prune " << static_cast<int>(kind) << ", lost "
						<< lost << ", added " << added << ", width " << width << ": " << fresh;
				}
			}
		}
}

// Half of the rows are replaced, a little at a time, as long as insertion serves.
TEST(GraphInsert, finds_as_much_after_the_most_insertions_in_a_row)
{
	constexpr uint32_t kRows = 8000;
	constexpr size_t kQueries = 200;
	const Floats all = overlapping_rows(kRows + kQueries, 24, 34);
	const Floats queries(all.end() - static_cast<ptrdiff_t>(kQueries * 24), all.end());
	BuildSpec spec;
	Numbers has(kRows / 2);
	uint64_t changed = 0;
	size_t n_anew = 0;
	size_t n_inserted = 0;

	std::iota(has.begin(), has.end(), 0);
	Floats rows = take(all, 24, has);
	Built built = build(rows_of(rows, 24), spec);
	// In the end one row in 10 is an old one.
	for (uint32_t step = 0; step < 10; step++)
	{
		Numbers next;

		for (uint32_t row = 0; row < kRows; row++)
		{
			const bool was = std::binary_search(has.begin(), has.end(), row);

			if (row < kRows / 2 ? was && row % 20 != step : was || (row % 20 == step))
				next.push_back(row);
		}
		changed += changed_rows(kRows / 40, kRows / 40);
		Floats next_rows = take(all, 24, next);
		// As in an index, without its least size: this test is smaller than an insertion's.
		if (changed * 100 <= next.size() * kInsertPercent)
		{
			built = inserted(next_rows, 24, spec, built, has, next);
			n_inserted++;
		}
		else
		{
			built = build(rows_of(next_rows, 24), spec);
			changed = 0;
			n_anew++;
		}
		rows.swap(next_rows);
		built.rows = rows_of(rows, 24);
		has = next;
	}
	EXPECT_GT(n_inserted, 0u);
	EXPECT_GT(n_anew, 0u);
	expect_sound(built);
	const Built anew = build(rows_of(rows, 24), spec);
	for (uint32_t width : {16u, 48u})
		EXPECT_GE(built.recall(queries, width), anew.recall(queries, width) - 0.005) << width;
}

// New rows are at a place where no row was.
TEST(GraphInsert, finds_new_rows_at_a_new_place)
{
	Floats all = overlapping_rows(3300, kDim, 35);
	Numbers from(3000);
	Numbers to(3300);
	BuildSpec spec;
	SearchSpec search;

	for (size_t i = 3000 * kDim; i < all.size(); i++)
		all[i] += 100;
	std::iota(from.begin(), from.end(), 0);
	std::iota(to.begin(), to.end(), 0);
	const Floats before = take(all, kDim, from);
	const Built base = build(rows_of(before, kDim), spec);
	const Built merged = inserted(all, kDim, spec, base, from, to);

	expect_sound(merged);
	EXPECT_GE(merged.recall(Floats(all.begin() + 3000 * kDim, all.end()), 48), 0.97);
}

TEST(GraphInsert, rows_that_are_all_equal_or_have_no_direction)
{
	for (const Metric metric : {Metric::kL2, Metric::kCosine})
	{
		const Floats equal(1200 * 3, metric == Metric::kL2 ? 1.5f : 0.0f);
		const Numbers from = all_but(1200, 5, 0.1);
		const Numbers to = all_but(1200, 6, 0.1);
		BuildSpec spec;

		spec.degree = 8;
		const Floats before = take(equal, 3, from);
		const Floats now = take(equal, 3, to);
		expect_sound(inserted(now, 3, spec, build(rows_of(before, 3, metric), spec), from, to, metric));
	}
}

TEST(GraphInsert, is_the_same_by_any_number_of_threads_and_instruction_set)
{
	const Floats all = overlapping_rows(6500, 8, 36);
	const Numbers from = all_but(6500, 7, 0.1);
	const Numbers to = all_but(6500, 8, 0.1);
	const Floats before = take(all, 8, from);
	const Floats now = take(all, 8, to);

	for (const PruneKind kind : {PruneKind::kRank, PruneKind::kRng})
	{
		BuildSpec spec;

		spec.degree = 12;
		spec.prune = kind;
		const Built base = build(rows_of(before, 8), spec);
		const Built alone = inserted(now, 8, spec, base, from, to);

		for (const size_t n_threads : {2u, 5u, 100u})
		{
			Built built;
			Call call;

			call.n_threads = n_threads;
			call.parallel = in_threads;
			ASSERT_TRUE(insert(rows_of(now, 8), spec, base, numbers_of(from, to), &built, call).is_ok());
			EXPECT_EQ(built.edges, alone.edges) << n_threads;
			EXPECT_EQ(built.entries, alone.entries) << n_threads;
		}
		for (SimdLevel level : {SimdLevel::kScalar, SimdLevel::kAvx2})
		{
			if (!simd_supported(level))
				continue;
			ASSERT_TRUE(set_simd_level(level));
			EXPECT_EQ(inserted(now, 8, spec, base, from, to).edges, alone.edges);
		}
		ASSERT_TRUE(set_simd_level(SimdLevel::kAuto));
	}
}

TEST(GraphInsert, stops_when_told_to)
{
	const Floats all = overlapping_rows(6000, 8, 37);
	const Numbers from = all_but(6000, 7, 0.1);
	const Numbers to = all_but(6000, 8, 0.1);
	const Floats before = take(all, 8, from);
	const Floats now = take(all, 8, to);
	const BuildSpec spec;
	const Built base = build(rows_of(before, 8), spec);
	Built built;
	Call call;
	uint64_t n_calls = 0;

	call.progress_context = &n_calls;
	call.progress = [](void *context, uint64_t, uint64_t) { return ++*static_cast<uint64_t *>(context) > 0; };
	ASSERT_TRUE(insert(rows_of(now, 8), spec, base, numbers_of(from, to), &built, call).is_ok());
	ASSERT_GT(n_calls, 20u);
	call.progress = [](void *context, uint64_t, uint64_t) { return --*static_cast<uint64_t *>(context) > 0; };
	for (uint64_t stop_at : {uint64_t{1}, uint64_t{2}, n_calls / 4, n_calls / 2, n_calls - 1})
	{
		uint64_t left = stop_at;

		call.progress_context = &left;
		EXPECT_EQ(insert(rows_of(now, 8), spec, base, numbers_of(from, to), &built, call).code, StatusCode::kCancelled)
			<< stop_at << " of " << n_calls;
	}
}

TEST(GraphInsert, refuses_an_inconsistent_base_and_too_little_memory)
{
	const Floats all = overlapping_rows(500, 8, 38);
	const Numbers from = all_but(500, 7, 0.1);
	const Numbers to = all_but(500, 8, 0.1);
	const Floats before = take(all, 8, from);
	const Floats now = take(all, 8, to);
	const Numbers numbers = numbers_of(from, to);
	const GraphRows rows = rows_of(now, 8);
	BuildSpec spec;
	const Built base = build(rows_of(before, 8), spec);
	const auto code_of = [&](const Built &damaged, const Numbers &as)
	{
		Built built;

		return insert(rows, spec, damaged, as, &built).code;
	};
	const uint32_t left = static_cast<uint32_t>(std::find(numbers.begin(), numbers.end(), kNoNode) - numbers.begin());
	const uint32_t kept = static_cast<uint32_t>(
		std::find_if(numbers.begin(), numbers.end(), [](uint32_t x) { return x != kNoNode; }) - numbers.begin());

	ASSERT_LT(left, numbers.size());
	EXPECT_EQ(code_of(base, numbers), StatusCode::kOk);
	for (uint32_t row : {left, kept, base.rows.n_rows - 1})
		for (uint32_t bad : {base.rows.n_rows, kNoNode - 1})
		{
			Built damaged = base;

			damaged.edges[size_t{row} * spec.degree + 3] = bad;
			EXPECT_EQ(code_of(damaged, numbers), StatusCode::kInvalidArgument) << row << " to " << bad;
		}
	Built damaged = base;
	damaged.entries[0] = base.rows.n_rows;
	EXPECT_EQ(code_of(damaged, numbers), StatusCode::kInvalidArgument);
	// The number of the row before, of the first one, behind the last one.
	for (const auto &[at, number] : {std::tuple<size_t, uint32_t>{kept + 1, numbers[kept]}, {numbers.size() - 1, 0},
			 {numbers.size() - 1, rows.n_rows}})
	{
		Numbers as = numbers;

		as[at] = number;
		EXPECT_EQ(code_of(base, as), StatusCode::kInvalidArgument) << at << ": " << number;
	}
	Bytes work(graph_insert_bytes(rows, spec, {base.rows.n_rows, 0}) / 4);
	std::vector<uint32_t> edges(size_t{rows.n_rows} * spec.degree);
	std::vector<uint32_t> entries(entry_count(rows.n_rows, spec));
	BuildReport report;
	EXPECT_EQ(graph_insert(
				  rows, spec, base_of(base, numbers), edges.data(), entries.data(), &report, work.data(), work.size())
				  .code,
		StatusCode::kInvalidArgument);
	for (uint32_t degree : {0u, 1u, kMaxDegree + 1})
	{
		spec.degree = degree;
		EXPECT_EQ(graph_insert(rows, spec, base_of(base, numbers), edges.data(), entries.data(), &report, work.data(),
					  work.size())
					  .code,
			StatusCode::kInvalidArgument);
	}
}

TEST(GraphInsert, serves_while_little_has_changed)
{
	EXPECT_EQ(changed_rows(10, 3), 12u);
	EXPECT_EQ(changed_rows(0, 1), 1u);
	EXPECT_TRUE(graph_insert_serves(1500, 10000));
	EXPECT_FALSE(graph_insert_serves(1501, 10000));
	EXPECT_FALSE(graph_insert_serves(0, kLeastInsertRows - 1));
	EXPECT_TRUE(graph_insert_serves(0, kLeastInsertRows));
}

} // namespace

} // namespace vectorgpu::engine::graph::test
