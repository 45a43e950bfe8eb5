// Reading back from the GPU for checks gives the CPU engine's bytes of the same copy: tombstones and structures in any
// pieces. Values that the GPU has derived from them (norms, second orders, padding, lists and texts of sets) are found
// equal while nothing damages them (damage_test.cpp does).
#include "answers.hpp"
#include "lists/coded_segments.hpp"
#include "engine/graph_rows.hpp"
#include "match/copies.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

using vectorgpu::test::match_spec;
using vectorgpu::test::MatchRows;
using vectorgpu::test::TextRows;

/// A copy in both engines to read back from.
struct Looked
{
	Looked(Engine *gpu_engine, CopyId gpu_id, CopyId cpu_id) : gpu(gpu_engine), gpu_copy(gpu_id), cpu_copy(cpu_id) {}

	/// Read rows [first, last) of a segment, in pieces. to_end: there are no others.
	void expect_alike(SegmentId segment, uint64_t first_row, uint64_t last_row, bool to_end = true)
	{
		for (int i = 0; i < 40; i++)
		{
			const uint64_t first = i == 0 ? first_row : first_row + rng() % (last_row - first_row);
			const size_t n = i == 0 ? last_row - first_row : rng() % (last_row - first + 1);
			Bytes on_gpu((n + 7) / 8, 0xFF);
			Bytes on_cpu((n + 7) / 8);
			uint64_t n_different = 1;

			SCOPED_TRACE(testing::Message() << "segment " << segment << ", rows from " << first << ", " << n);
			ASSERT_OK(gpu->read_tombstones(gpu_copy, segment, first, n, on_gpu.data()));
			ASSERT_OK(cpu_engine()->read_tombstones(cpu_copy, segment, first, n, on_cpu.data()));
			ASSERT_EQ(on_gpu, on_cpu);
			ASSERT_OK(gpu->check_derived(gpu_copy, segment, first, n, &n_different));
			ASSERT_EQ(n_different, 0u);
		}

		uint8_t bits[1];
		uint64_t n_different;

		if (!to_end)
			return;
		EXPECT_EQ(gpu->read_tombstones(gpu_copy, segment, last_row, 1, bits).code, StatusCode::kInvalidArgument);
		EXPECT_EQ(gpu->check_derived(gpu_copy, segment, last_row, 1, &n_different).code,
			cpu_engine()->check_derived(cpu_copy, segment, last_row, 1, &n_different).code);
		EXPECT_EQ(gpu->read_tombstones(gpu_copy, 99, 0, 1, bits).code, StatusCode::kNotFound);
		EXPECT_EQ(gpu->check_derived(gpu_copy, 99, 0, 1, &n_different).code, StatusCode::kNotFound);
	}

	/// The description of a segment's structure, in pieces.
	void expect_structure(SegmentId segment, const Bytes &description)
	{
		for (int i = 0; i < 40; i++)
		{
			const size_t first = i == 0 ? 0 : rng() % description.size();
			const size_t n = i == 0 ? description.size() : std::min<size_t>(description.size() - first, rng() % 3000);
			Bytes read(n);

			ASSERT_OK(gpu->read_structure(gpu_copy, segment, first, n, read.data()));
			ASSERT_TRUE(std::equal(read.begin(), read.end(), description.begin() + static_cast<ptrdiff_t>(first)))
				<< first << " " << n;
		}
	}

	Engine *gpu;
	CopyId gpu_copy;
	CopyId cpu_copy;
	std::mt19937 rng{17};
};

/// Two segments and a delta: without tombstones, with them, and after rows of the delta are trimmed.
void
expect_alike(Both *both, std::array<size_t, 2> n_rows, size_t n_delta, std::mt19937 *rng)
{
	Looked looked(both->cuda(), both->cuda_copy(), both->cpu_copy());

	for (const bool marked : {false, true})
	{
		if (marked)
		{
			for (const SegmentId segment : {1u, 2u})
			{
				const Bytes dead = random_bits(n_rows[segment - 1], *rng);

				ASSERT_NO_FATAL_FAILURE(
					both->change([&](Engine &e, CopyId c) { return e.set_tombstones(c, segment, dead); }));
			}

			const Bytes dead = random_bits(n_delta / 2, *rng);

			ASSERT_NO_FATAL_FAILURE(
				both->change([&](Engine &e, CopyId c) { return e.set_delta_tombstones(c, 8, dead); }));
			ASSERT_NO_FATAL_FAILURE(both->change([&](Engine &e, CopyId c) { return e.trim_delta(c, 21); }));
		}
		ASSERT_NO_FATAL_FAILURE(looked.expect_alike(1, 0, n_rows[0]));
		ASSERT_NO_FATAL_FAILURE(looked.expect_alike(2, 0, n_rows[1]));
		ASSERT_NO_FATAL_FAILURE(looked.expect_alike(engine::kDeltaSegment, marked ? 21 : 0, n_delta));
	}
}

TEST(GpuReadBack, RowsOfEveryMetricAndForm)
{
	for (const auto &[metric, element] :
		{std::pair{Metric::kL2, ElementType::kFloat32}, {Metric::kCosine, ElementType::kFloat32},
			{Metric::kInnerProduct, ElementType::kFloat32}, {Metric::kL1, ElementType::kFloat32},
			{Metric::kL2, ElementType::kFloat16}, {Metric::kHamming, ElementType::kBit}})
		for (const unsigned most : {0u, 255u, 2000u}) // reals, bytes, halves on the device
			for (const uint32_t dim : {1u, 37u, 100u})
			{
				const bool whole = most != 0 && element == ElementType::kFloat32;
				std::mt19937 rng(dim);
				Rows rows({metric, element, dim});
				Both both(rows.spec);

				SCOPED_TRACE(testing::Message() << metric_name(metric) << " element " << static_cast<int>(element)
												<< " dim " << dim << " most " << most);
				if (whole)
					add_whole_numbers(&rows, 6000, most, rng, 1);
				else
					rows.add_random(6000, element == ElementType::kFloat32 ? Data::kExtremes : Data::kGaussian, rng, 1);
				ASSERT_NO_FATAL_FAILURE(both.load(1, rows, 0, 4001));
				ASSERT_NO_FATAL_FAILURE(both.load(2, rows, 4001, 999));
				for (size_t first = 5000; first < 6000; first += 100)
					ASSERT_NO_FATAL_FAILURE(both.change(
						[&](Engine &e, CopyId c) { return e.append_delta(c, first - 5000, rows.block(first, 100)); }));
				ASSERT_NO_FATAL_FAILURE(expect_alike(&both, {4001, 999}, 1000, &rng));
			}
}

TEST(GpuReadBack, ListsOfEveryElement)
{
	for (const auto &[element, values] : {std::pair{ElementType::kFloat32, Values::kReal},
			 {ElementType::kFloat32, Values::kBytes}, {ElementType::kFloat16, Values::kReal}})
	{
		const DistanceSpec spec = {Metric::kL2, element, 45};
		std::mt19937 rng(8);
		Rows rows(spec), few(spec), delta(spec);
		Both both(engine::CopySpec(spec, CopyKind::kLists));

		add_values(&rows, values, 4, 5003, rng, 1);
		add_values(&few, values, 4, 70, rng, 10001);
		add_values(&delta, values, 4, 150, rng, 20001);

		const ListRows first(rows, 40, rng), second(few, 9, rng);

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return first.load(&e, c, 1); }));
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); }));
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
		ASSERT_NO_FATAL_FAILURE(expect_alike(&both, {5003, 70}, 150, &rng));
		ASSERT_NO_FATAL_FAILURE(
			Looked(both.cuda(), both.cuda_copy(), both.cpu_copy()).expect_structure(1, first.description()));
	}
}

TEST(GpuReadBack, CodesOfEveryKind)
{
	for (const CopyKind kind : {CopyKind::kCodedLists, CopyKind::kCodes})
		for (const CodesCase &codes : {CodesCase{CodeKind::kHalves, 0, 0, false}, {CodeKind::kSq8, 0, 0, false},
				 {CodeKind::kPq, 9, 8, false}, {CodeKind::kPq, 12, 4, true}, {CodeKind::kRabitq, 0, 1, false},
				 {CodeKind::kRabitq, 0, 3, false}, {CodeKind::kRabitq, 0, 6, false}, {CodeKind::kRabitq, 0, 8, false}})
		{
			CodedSegments held({Metric::kL2, ElementType::kFloat32, 45}, kind, codes, false, 5, 2999, Data::kGaussian);

			ASSERT_NO_FATAL_FAILURE(expect_alike(&held.both, {2999, 333}, 60, &held.rng));
			ASSERT_NO_FATAL_FAILURE(Looked(held.both.cuda(), held.both.cuda_copy(), held.both.cpu_copy())
					.expect_structure(1, held.first.coded_description()));
		}
}

TEST(GpuReadBack, GraphsWithCodesAndWithout)
{
	for (const auto &[kind, element] : {std::pair{CopyKind::kGraph, ElementType::kFloat32},
			 {CopyKind::kGraph, ElementType::kBit}, {CopyKind::kHashedGraph, ElementType::kFloat32}})
	{
		const DistanceSpec spec = {element == ElementType::kBit ? Metric::kHamming : Metric::kL2, element, 64};
		std::mt19937 rng(9);
		Rows rows(spec), few(spec), delta(spec);
		Both both(engine::CopySpec(spec, kind));

		rows.add_random(3001, Data::kGaussian, rng, 1);
		few.add_random(200, Data::kGaussian, rng, 10001);
		delta.add_random(150, Data::kGaussian, rng, 20001);

		GraphedRows first(rows, 16, 3, Edges::kRandom), second(few, 8, 1, Edges::kRandom);

		if (kind == CopyKind::kHashedGraph)
		{
			first.add_codes(128, 1);
			second.add_codes(64, 2);
		}
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return first.load(&e, c, 1); }));
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return second.load(&e, c, 2); }));
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); }));
		ASSERT_NO_FATAL_FAILURE(expect_alike(&both, {3001, 200}, 150, &rng));
		ASSERT_NO_FATAL_FAILURE(
			Looked(both.cuda(), both.cuda_copy(), both.cpu_copy()).expect_structure(1, first.description()));
	}
}

// In one part, in parts that the host keeps, and of texts; before a search has sent tombstones and after.
TEST(GpuReadBack, SetsAndTexts)
{
	for (const auto &[metric, memory_bytes] : {std::pair{Metric::kMatchCount, uint64_t{0}},
			 {Metric::kMatchCount, uint64_t{700000}}, {Metric::kEdit, uint64_t{0}}})
	{
		std::unique_ptr<CudaEngine> engine;
		CudaEngineOptions options;
		MatchRows sets(9, 150000, 700, 150);
		TextRows texts(9, 40000, 400, 150);
		MatchRows *rows = metric == Metric::kEdit ? &texts : &sets;
		const size_t n_first = metric == Metric::kEdit ? 40000 : 150000;
		const size_t n_second = metric == Metric::kEdit ? 400 : 700;
		CopyId copy = 0;
		CopyId cpu_copy = 0;

		options.self_test = false;
		options.memory_bytes = memory_bytes;
		ASSERT_OK(make_cuda_engine(options, &engine));
		for (auto [e, made] : {std::pair<Engine *, CopyId *>{engine.get(), &copy}, {cpu_engine(), &cpu_copy}})
		{
			ASSERT_OK(e->create(match_spec(metric), made));
			ASSERT_NO_FATAL_FAILURE(rows->load(e, *made));
		}

		Looked looked(engine.get(), copy, cpu_copy);

		for (int round = 0; round < 3; round++)
		{
			if (round == 1)
			{
				ASSERT_NO_FATAL_FAILURE(rows->kill(engine.get(), copy));
				ASSERT_OK(cpu_engine()->drop(cpu_copy));
				ASSERT_OK(cpu_engine()->create(match_spec(metric), &cpu_copy));
				looked.cpu_copy = cpu_copy;
				ASSERT_NO_FATAL_FAILURE(rows->load(cpu_engine(), cpu_copy));

				Bytes dead((n_first + 7) / 8);

				ASSERT_OK(engine->read_tombstones(copy, 1, 0, n_first, dead.data()));
				ASSERT_OK(cpu_engine()->set_tombstones(cpu_copy, 1, dead));
				dead.assign((n_second + 7) / 8, 0);
				ASSERT_OK(engine->read_tombstones(copy, 2, 0, n_second, dead.data()));
				ASSERT_OK(cpu_engine()->set_tombstones(cpu_copy, 2, dead));
			}
			if (round == 2)
			{
				ASSERT_NO_FATAL_FAILURE(rows->expect_answers(engine.get(), copy, 50));
			}
			ASSERT_NO_FATAL_FAILURE(looked.expect_alike(1, 0, n_first));
			ASSERT_NO_FATAL_FAILURE(looked.expect_alike(2, 0, n_second));
			ASSERT_NO_FATAL_FAILURE(looked.expect_alike(engine::kDeltaSegment, 0, 100, false));
		}
		ASSERT_OK(cpu_engine()->drop(cpu_copy));
	}
}

} // namespace
} // namespace vectorgpu::cuda::test
