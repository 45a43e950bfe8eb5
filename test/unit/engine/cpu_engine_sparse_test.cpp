// Copies of kind kSparse in the CPU engine: segments, delta and tombstones against the definition, bit for bit;
// conditions; what is no sparse vector is refused.
#include <array>
#include <cmath>
#include <limits>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/cpu_engine_sparse.hpp"
#include "engine/distance/sparse_query.hpp"
#include "engine/held_rows.hpp"
#include "engine/sparse_copy.hpp"

namespace vectorgpu::engine::test
{
namespace
{

class CpuEngineSparse : public testing::TestWithParam<Metric>
{
protected:
	static SparseCopy make(uint32_t dim, uint32_t seed, size_t n_threads = 1,
		std::vector<size_t> sizes = {700, 250, 90}, uint32_t most = 40)
	{
		return {make_cpu_engine({.n_threads = n_threads}), GetParam(), dim, seed, std::move(sizes), most};
	}
};

TEST_P(CpuEngineSparse, answers_are_those_of_the_definition)
{
	// with a table of all elements and without; one thread and several
	for (const uint32_t dim : {30u, 30000u, 1000000000u})
		for (const size_t n_threads : {1u, 3u})
		{
			SparseCopy held = make(dim, dim + static_cast<uint32_t>(n_threads), n_threads);

			SCOPED_TRACE(testing::Message() << "dim " << dim << " threads " << n_threads);
			ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, dim));
		}
}

TEST_P(CpuEngineSparse, empty_parts_and_long_rows)
{
	for (const std::vector<size_t> &sizes : {std::vector<size_t>{0, 0, 0}, {3, 0, 0}, {0, 0, 5}, {2, 1, 1}})
	{
		SparseCopy held = make(20000, 5, 2, sizes, 16000);

		ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 16000, 20000));
	}
}

// Rows and queries of the most elements. The queries' tables take more than a group of queries may.
TEST_P(CpuEngineSparse, the_longest_rows_and_queries)
{
	constexpr uint32_t kMost = 16000;

	for (const uint32_t dim : {16000u, 1000000000u})
	{
		SparseCopy held(make_cpu_engine({.n_threads = 2}), GetParam(), dim, 12, {12, 9, 3}, kMost, true);
		std::vector<SparseRow> vectors = {full_sparse(held.rng, kMost, dim), {}};

		SCOPED_TRACE(testing::Message() << "dim " << dim);
		for (int i = 0; i < 40; i++)
			vectors.push_back(full_sparse(held.rng, i % 4 == 0 ? kMost : kMost / 2 + 1, dim));
		ASSERT_NO_FATAL_FAILURE(expect_sparse_batch(&held, vectors, 5));
	}
}

TEST_P(CpuEngineSparse, changes_while_it_is_held)
{
	SparseCopy held = make(1000, 9);

	for (size_t i = 0; i < held.rows.size(); i++)
		held.dead[i] = held.dead[i] || i % 3 == 0;
	for (const size_t part : {0u, 1u})
		ASSERT_OK(held.engine->set_tombstones(held.copy, static_cast<SegmentId>(part + 1), held.bits_of_part(part)));
	for (size_t i = 0; i < held.rows.size(); i++)
		if (held.parts[i] == 2 && held.dead[i])
			held.delta_dead[held.slots[i]] = true;
	ASSERT_OK(held.engine->set_delta_tombstones(held.copy, 0, SparseCopy::pack(held.delta_dead)));
	ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, 1000));

	// A merge: the delta's rows become a segment, and another segment goes.
	held.load(2);
	ASSERT_OK(held.engine->trim_delta(held.copy, held.n_slots));
	held.delta_part = 3;
	held.n_slots = 0;
	ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, 1000));
	ASSERT_OK(held.engine->drop_segment(held.copy, 2));
	for (size_t i = 0; i < held.rows.size(); i++)
		held.dead[i] = held.dead[i] || held.parts[i] == 1;
	ASSERT_NO_FATAL_FAILURE(expect_sparse_answers(&held, 40, 1000));
}

/// A row of the elements.
SparseRow
row_of(std::vector<int32_t> indices, std::vector<float> values)
{
	return {std::move(indices), std::move(values)};
}

const SparseRow kBadRows[] = {
	row_of({-1}, {1}),
	row_of({1000000000}, {1}),
	row_of({5, 5}, {1, 1}),
	row_of({5, 4}, {1, 1}),
	row_of({5}, {0}),
	row_of({5}, {std::numeric_limits<float>::quiet_NaN()}),
	row_of({5}, {std::numeric_limits<float>::infinity()}),
};

TEST_P(CpuEngineSparse, bad_segments_are_not_sealed)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	const RowId ids[] = {1, 2};
	std::vector<std::vector<uint8_t>> bad;
	CopyId copy = 0;
	SegmentId segment = 0;

	for (const SparseRow &row : kBadRows)
		bad.push_back(sparse_description({row_of({1, 2}, {1, 2}), row}));
	bad.emplace_back();
	bad.push_back(sparse_description({row_of({1}, {1})}));
	for (const uint64_t first_end : {uint64_t{4}, uint64_t{24}, ~uint64_t{7}})
	{
		bad.push_back(sparse_description({row_of({1}, {1}), row_of({1}, {1})}));
		std::memcpy(bad.back().data(), &first_end, sizeof(first_end));
	}
	bad.push_back(sparse_description({row_of({1}, {1}), row_of({1}, {1})}));
	bad.back().push_back(0);
	bad.push_back(sparse_description({row_of({1}, {1}), row_of({1}, {1})}));
	bad.back().resize(bad.back().size() - 8);

	SparseRow longest;

	for (int32_t i = 0; i < 16001; i++)
	{
		longest.indices.push_back(i);
		longest.values.push_back(1);
	}
	bad.push_back(sparse_description({row_of({1}, {1}), longest}));
	ASSERT_OK(engine->create(sparse_spec(GetParam()), &copy));
	for (const std::vector<uint8_t> &description : bad)
	{
		ASSERT_OK(engine->load_segment(copy, ++segment, {ids, nullptr, 2}));
		if (!description.empty())
			ASSERT_OK(engine->load_structure(copy, segment, 1, description));
		EXPECT_EQ(engine->prepare_segment(copy, segment).code, StatusCode::kInvalidArgument) << segment;
		EXPECT_EQ(engine->seal_segment(copy, segment).code, StatusCode::kInvalidArgument) << segment;
	}
	longest.indices.pop_back();
	longest.values.pop_back();
	ASSERT_OK(engine->load_segment(copy, ++segment, {ids, nullptr, 2}));
	ASSERT_OK(engine->load_structure(copy, segment, 1, sparse_description({row_of({1}, {1}), longest})));
	ASSERT_OK(engine->seal_segment(copy, segment));
}

TEST_P(CpuEngineSparse, bad_queries_are_refused_and_bad_values_of_the_delta_left_out)
{
	SparseCopy held = make(1000, 3, 1, {20, 0});
	std::vector<std::vector<Neighbor>> results;
	const std::vector<uint8_t> good = row_of({1, 2}, {1, 2}).stored();
	std::vector<std::vector<uint8_t>> bad = {{}, {8, 0, 0}, {8, 0, 0, 0}, {4, 0, 0, 0, 1, 0, 0, 0}};
	const auto search = [&](const std::vector<uint8_t> &bytes)
	{
		SearchQuery query = {bytes.data(), 50, false, {}};

		query.query_bytes = bytes.size();
		return held.engine->search(held.copy, {&query, 1}, &results);
	};

	for (const SparseRow &row : kBadRows)
		bad.push_back(row.stored());
	bad.push_back(good);
	bad.back().push_back(0);
	for (const std::vector<uint8_t> &bytes : bad)
		EXPECT_EQ(search(bytes).code, StatusCode::kInvalidArgument) << bytes.size();
	ASSERT_OK(search(good));

	const size_t n_before = results[0].size();

	// Bad values, then one whose slots have not come.
	for (size_t i = 0; i < std::size(kBadRows) + 1; i++)
	{
		std::vector<uint8_t> slot = i < std::size(kBadRows) ? kBadRows[i].stored() : std::vector<uint8_t>{255, 0, 0, 0};
		const RowId id = RowId{1} << 44 | i;

		slot.resize(kSparseSlotBytes);
		ASSERT_OK(held.engine->append_delta(held.copy, i, {{&id, 1}, slot.data(), 1}));
	}
	ASSERT_OK(search(good));
	EXPECT_EQ(results[0].size(), n_before);
}

TEST_P(CpuEngineSparse, it_is_read_back)
{
	SparseCopy held = make(1000, 4);
	const std::vector<uint8_t> expected =
		sparse_description({held.rows.begin(), held.rows.begin() + 700}); // the first segment
	std::vector<uint8_t> read(expected.size());
	RowId id = 0;
	uint64_t n_different = 1;

	ASSERT_OK(held.engine->read_structure(held.copy, 1, 0, read.size(), read.data()));
	EXPECT_EQ(read, expected);
	EXPECT_FALSE(held.engine->read_structure(held.copy, 1, 1, read.size(), read.data()).is_ok());
	ASSERT_OK(held.engine->read_rows(held.copy, 1, 699, 1, &id, nullptr));
	EXPECT_EQ(id, held.ids[699]);
	ASSERT_OK(held.engine->check_derived(held.copy, 1, 0, 700, &n_different));
	EXPECT_EQ(n_different, 0u);
	EXPECT_GT(held.engine->host_bytes(held.copy), expected.size());
}

// As an engine with a device does: bounds from elsewhere, rounded down to binary32, piece by piece.
TEST_P(CpuEngineSparse, rows_are_offered_by_bounds)
{
	constexpr uint32_t kDim = 30000;
	const Metric metric = GetParam();
	SparseCopy held = make(kDim, 8, 1, {3000, 0});
	CpuCopy copy(sparse_spec(metric));

	ASSERT_OK(copy.load_segment(1, {held.ids, nullptr, held.ids.size()}));
	ASSERT_OK(copy.load_structure(1, 1, sparse_description(held.rows)));
	ASSERT_OK(copy.seal_segment(1));
	ASSERT_OK(copy.set_tombstones(1, held.bits_of_part(0)));

	const std::shared_ptr<const RowsView> view = copy.snapshot()->segments.at(0);
	uint64_t n_scored = 0;

	for (const size_t k : {size_t{1}, size_t{10}, size_t{5000}})
		for (int i = 0; i < 5; i++)
		{
			const SparseRow vector = i == 0 ? SparseRow{} : random_sparse(held.rng, 40, kDim);
			std::vector<float> table(sparse_table_bytes(vector.view().n, kDim) / sizeof(float));
			std::vector<float> bounds;
			SparseQuery prepared;
			Selection selection;

			sparse_query_init(&prepared, metric, vector.view(), kDim, table.data());
			for (const SparseRow &row : held.rows)
			{
				const double bound = sparse_least_distance(prepared, row.view());
				const float rounded = static_cast<float>(bound);

				bounds.push_back(rounded > bound ? std::nextafterf(rounded, -HUGE_VALF) : rounded);
			}
			selection.start({nullptr, k, false, {}}, held.rows.size());
			for (size_t at = 0; at < bounds.size(); at += 1300)
				n_scored += offer_bounded(*view, at, std::min<size_t>(1300, bounds.size() - at), bounds.data() + at,
					metric, vector.view(), &selection);
			ASSERT_NO_FATAL_FAILURE(expect_same_bits(selection.finish(), held.nearest(vector, k)));
		}
	EXPECT_LT(n_scored, 3 * 5 * 3000 * 6 / 7); // not all rows that live
}

// Pieces of every size: the last end, which tells how much is to come, may come in two.
TEST(CpuEngineSparseRows, they_come_in_pieces)
{
	std::mt19937 rng(2);
	const std::vector<SparseRow> rows = {random_sparse(rng, 9, 100), {}, full_sparse(rng, 5, 100)};
	const std::vector<uint8_t> description = sparse_description(rows);

	for (size_t step = 1; step <= description.size(); step++)
	{
		SparseRows held;

		SCOPED_TRACE(step);
		for (size_t at = 0; at < description.size(); at += step)
			held.append(rows.size(), std::span(description).subspan(at, std::min(step, description.size() - at)));
		ASSERT_OK(held.check(rows.size()));
		ASSERT_TRUE(std::equal(description.begin(), description.end(), held.bytes().begin(), held.bytes().end()));
	}
}

TEST(CpuEngineSparseShapes, others_are_refused)
{
	const std::unique_ptr<Engine> engine = make_cpu_engine({});
	CopyId copy;

	for (const Metric metric : {Metric::kHamming, Metric::kJaccard, Metric::kMatchCount, Metric::kEdit})
		EXPECT_EQ(engine->create(sparse_spec(metric), &copy).code, StatusCode::kUnsupported);
	EXPECT_EQ(engine->create({{Metric::kL2, ElementType::kFloat32, 64}, CopyKind::kSparse}, &copy).code,
		StatusCode::kUnsupported);
	EXPECT_EQ(
		engine->create({{Metric::kL2, ElementType::kSet, 64}, CopyKind::kRows}, &copy).code, StatusCode::kUnsupported);
	EXPECT_EQ(engine->create({{Metric::kL2, ElementType::kSet, 3}, CopyKind::kSparse}, &copy).code,
		StatusCode::kInvalidArgument);
}

std::string
name_of(const testing::TestParamInfo<Metric> &one)
{
	return std::array{"l2", "inner_product", "cosine", "l1"}.at(static_cast<size_t>(one.param));
}

INSTANTIATE_TEST_SUITE_P(Metrics, CpuEngineSparse,
	testing::Values(Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1), name_of);

} // namespace
} // namespace vectorgpu::engine::test
