// Bytes of a copy on the GPU, damaged: reading back and checks find them. Needs VECTORGPU_FAULTS.
#include "engine/faults.hpp"
#include "engine/graph_rows.hpp"
#include "engine/list_rows.hpp"
#include "engine/sparse_copy.hpp"
#include "match/copies.hpp"

#ifdef VECTORGPU_FAULTS

namespace vectorgpu::cuda::test
{
namespace
{

TEST(GpuFault, ADamagedByteIsSeenWhenRowsAreReadBack)
{
	Prepared prepared;
	CopyId other = 0;
	std::vector<RowId> ids(100);
	std::vector<uint8_t> vectors(100 * prepared.rows.row_bytes);

	ASSERT_OK(prepared.engine->create(prepared.rows.spec, &other));
	ASSERT_OK(prepared.engine->load_segment(other, 1, prepared.rows.block(0, 100)));
	arm("gpu_flip", 1);
	ASSERT_OK(prepared.engine->seal_segment(other, 1));
	ASSERT_OK(prepared.engine->read_rows(other, 1, 0, 100, ids.data(), vectors.data()));
	EXPECT_NE(std::memcmp(vectors.data(), prepared.rows.vectors.data(), vectors.size()), 0);
}

TEST(GpuFault, ADamagedNormIsFound)
{
	Prepared prepared;
	CopyId other = 0;
	uint64_t n_different = 0;

	ASSERT_OK(prepared.engine->create(prepared.rows.spec, &other));
	ASSERT_OK(prepared.engine->load_segment(other, 1, prepared.rows.block(0, 5000)));
	arm("gpu_flip_norm", 1);
	ASSERT_OK(prepared.engine->seal_segment(other, 1));
	ASSERT_OK(prepared.engine->check_derived(other, 1, 0, 5000, &n_different));
	EXPECT_EQ(n_different, 1u);
	ASSERT_OK(prepared.engine->check_derived(other, 1, 8, 4992, &n_different)); // it is the first row's
	EXPECT_EQ(n_different, 0u);
}

TEST(GpuFault, DamagedTombstonesAreRead)
{
	Prepared prepared;
	std::mt19937 rng(2);
	const ListRows lists(prepared.rows, 30, rng);
	std::vector<uint8_t> dead(2500);
	std::vector<uint8_t> read(2500);

	for (const auto kind : {engine::CopyKind::kRows, engine::CopyKind::kLists})
	{
		CopyId other = 0;

		ASSERT_OK(prepared.engine->create({prepared.rows.spec, kind}, &other));
		if (kind == engine::CopyKind::kRows)
		{
			ASSERT_OK(prepared.engine->load_segment(other, 1, prepared.rows.block()));
			ASSERT_OK(prepared.engine->seal_segment(other, 1));
		}
		else
			ASSERT_OK(lists.load(prepared.engine.get(), other, 1));
		ASSERT_OK(prepared.engine->append_delta(other, 0, prepared.rows.block(0, 100)));
		for (const bool damaged : {false, true})
		{
			arm("gpu_flip_dead", damaged ? 2 : 0);
			ASSERT_OK(prepared.engine->set_tombstones(other, 1, dead));
			ASSERT_OK(prepared.engine->set_delta_tombstones(other, 0, std::span(dead).first(13)));
			ASSERT_OK(prepared.engine->read_tombstones(other, 1, 0, 20000, read.data()));
			EXPECT_EQ(read != dead, damaged);
			ASSERT_OK(prepared.engine->read_tombstones(other, 0, 0, 100, read.data()));
			EXPECT_EQ(read[0], damaged ? 0xFF : 0);
		}
	}
}

// Structures that searches of each kind use besides those that are read back.
TEST(GpuFault, ADamagedCopyOfACopyIsFound)
{
	using engine::CopyKind;
	Prepared prepared;
	CudaEngine *engine = prepared.engine.get();
	std::mt19937 rng(2);
	const ListRows lists(prepared.rows, 30, rng);
	GraphedRows graph(prepared.rows, 16, 1, Edges::kRandom);
	vectorgpu::test::MatchRows sets(1, 20000, 10, 10);
	vectorgpu::test::TextRows texts(1, 20000, 10, 10);
	std::vector<engine::test::SparseRow> sparse;
	const auto load = [&](const engine::CopySpec &spec, CopyId copy)
	{
		if (spec.kind == CopyKind::kLists)
			return lists.load(engine, copy, 1);
		if (spec.kind == CopyKind::kRows)
		{
			VECTORGPU_TRY(engine->load_segment(copy, 1, prepared.rows.block()));
			return engine->seal_segment(copy, 1);
		}
		if (spec.kind == CopyKind::kSparse)
		{
			VECTORGPU_TRY(engine->load_segment(copy, 1, {prepared.rows.block().row_ids, nullptr, sparse.size()}));
			VECTORGPU_TRY(engine->load_structure(copy, 1, 1, engine::test::sparse_description(sparse)));
			return engine->seal_segment(copy, 1);
		}
		if (spec.kind != CopyKind::kMatch)
			return graph.load(engine, copy, 1);
		(spec.distance.metric == Metric::kEdit ? static_cast<vectorgpu::test::MatchRows *>(&texts) : &sets)
			->load(engine, copy);
		return Status::ok();
	};

	for (int i = 0; i < 20000; i++)
		sparse.push_back(engine::test::random_sparse(rng, 20, 1000));
	for (const engine::CopySpec &spec : {engine::CopySpec(prepared.rows.spec), {prepared.rows.spec, CopyKind::kLists},
			 {prepared.rows.spec, CopyKind::kGraph}, {prepared.rows.spec, CopyKind::kHashedGraph},
			 vectorgpu::test::match_spec(), vectorgpu::test::match_spec(Metric::kEdit),
			 engine::test::sparse_spec(Metric::kL2)})
	{
		if (spec.kind == CopyKind::kHashedGraph)
			graph.add_codes(64);
		for (const bool damaged : {false, true})
		{
			CopyId other = 0;
			uint64_t n_different = 0;

			SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(spec.kind) << ", damaged " << damaged);
			arm("", 0);
			ASSERT_OK(engine->create(spec, &other));
			arm("gpu_flip_derived", damaged ? 1 : 0);
			ASSERT_OK(load(spec, other));
			ASSERT_OK(engine->check_derived(other, 1, 0, 20000, &n_different));
			EXPECT_EQ(n_different > 0, damaged);
			ASSERT_OK(engine->drop(other));
		}
	}
}

TEST(GpuFault, DamagedRowsInBinary16AreFound)
{
	Prepared prepared(true, false);

	for (const bool damaged : {false, true})
	{
		CopyId other = 0;
		uint64_t n_different = 0;

		arm("", 0);
		ASSERT_OK(prepared.engine->create(prepared.rows.spec, &other));
		arm("gpu_flip_derived", damaged ? 1 : 0);
		ASSERT_OK(prepared.engine->load_segment(other, 1, prepared.rows.block()));
		ASSERT_OK(prepared.engine->seal_segment(other, 1));
		ASSERT_OK(prepared.engine->check_derived(other, 1, 0, 20000, &n_different));
		EXPECT_EQ(n_different > 0, damaged);
		ASSERT_OK(prepared.engine->drop(other));
	}
}

} // namespace
} // namespace vectorgpu::cuda::test

#endif
