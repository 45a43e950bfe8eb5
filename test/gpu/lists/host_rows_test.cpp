// Rows that codes choose in host memory, which the GPU reads over the bus: the CPU engine's answers, bit for bit, in
// every state of a copy; rows that move there and back, beside searches; memory that lacks on either side.
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../engine/passing_world.hpp"
#include "lists/coded_segments.hpp"
#include "worker/tiers/tiered_engine.hpp"

namespace vectorgpu::cuda::test
{
namespace
{

constexpr CodesCase kCodes[] = {
	{CodeKind::kHalves, 0, 0, false},
	{CodeKind::kSq8, 0, 0, false},
	{CodeKind::kPq, 16, 8, false},
	{CodeKind::kPq, 5, 4, true},
	{CodeKind::kRabitq, 0, 4, false},
};

engine::CopySpec
host_spec(const DistanceSpec &distance)
{
	engine::CopySpec spec(distance, CopyKind::kCodedLists);

	spec.rows_on_host = true;
	return spec;
}

/// Bytes of a row in host memory: padded vector and row id.
uint64_t
host_row_bytes(const DistanceSpec &spec, uint64_t element_bytes)
{
	return (spec.dim + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes * element_bytes + sizeof(RowId);
}

/// Two segments and a delta, whose rows begin in host memory.
struct HostSegments
{
	static constexpr uint32_t kLists = 30;
	static constexpr uint32_t kFewLists = 7;

	HostSegments(const DistanceSpec &spec, const CodesCase &codes, Values values, uint32_t seed, size_t n = 3000,
		CudaEngine *engine = cuda_engine())
		: rng(seed), first(coded(spec, codes, values, n, kLists, 1)),
		  second(coded(spec, codes, values, 333, kFewLists, 1000001)), delta(spec), queries(spec),
		  both(host_spec(spec), engine)
	{
		add_values(&delta, values, 200, 60, rng, 2000001);
		add_values(&queries, values, 200, 40, rng, 0);
		queries.add_random(3, Data::kExtremes, rng, 1000);
		both.change([&](Engine &e, CopyId c) { return load_in_parts(first, &e, c, 1); });
		both.change([&](Engine &e, CopyId c) { return second.load_coded(&e, c, 2); });
		both.change([&](Engine &e, CopyId c) { return e.append_delta(c, 0, delta.block()); });
	}

	CodedRows coded(
		const DistanceSpec &spec, const CodesCase &codes, Values values, size_t n, uint32_t n_lists, RowId first_id)
	{
		Rows rows(spec);

		add_values(&rows, values, 200, n, rng, first_id);
		return CodedRows(
			ListRows(rows, n_lists, rng), codes.kind, std::min(codes.pq_m, spec.dim), codes.bits, codes.opq);
	}

	static Status load_in_parts(const CodedRows &segment, Engine *engine, CopyId copy, SegmentId id)
	{
		const Bytes vectors = segment.vectors_by_place();
		const Rows &rows = segment.rows;
		Status status;

		for (size_t at = 0; status.is_ok() && at < rows.n(); at += 701)
		{
			const size_t n = std::min<size_t>(701, rows.n() - at);

			status =
				engine->load_segment(copy, id, {{rows.ids.data() + at, n}, vectors.data() + at * rows.row_bytes, n});
		}
		if (status.is_ok())
			status = engine->load_structure(copy, id, segment.n_lists, segment.coded_description());
		return status.is_ok() ? engine->seal_segment(copy, id) : status;
	}

	/// n queries with other k, probes and candidates each; some name all lists of a segment, some of all.
	void expect_right(size_t n, size_t k, uint32_t most_probes, uint32_t candidates, bool with_after = false)
	{
		std::vector<std::array<SegmentProbes, 2>> named(n);
		std::vector<SearchQuery> batch;

		for (size_t i = 0; i < n; i++)
		{
			const uint32_t divisor = 1 + static_cast<uint32_t>(i % 3);
			SearchQuery query = {queries.vector(i % queries.n()), std::max<size_t>(1, k - i % 2), false, {}};

			named[i] = {SegmentProbes{1, std::max(1u, most_probes / divisor), std::max(1u, candidates / divisor)},
				SegmentProbes{2, i % 5 == 3 ? kFewLists : std::max(1u, most_probes / 4), candidates}};
			if (i % 7 != 6)
				query.probes = named[i];
			if (with_after && i % 2 == 0)
			{
				query.has_after = true;
				query.after = {oracle_score(first.rows.spec, query.query, first.rows.vector(17)), first.rows.ids[17]};
			}
			batch.push_back(query);
		}
		SCOPED_TRACE(testing::Message() << metric_name(first.rows.spec.metric) << " dim " << first.rows.spec.dim
										<< " codes " << static_cast<int>(first.spec.kind) << " batch " << n << " k "
										<< k << " probes " << most_probes << " candidates " << candidates);
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
	}

	uint64_t host_bytes() const { return both.cuda()->host_bytes(both.cuda_copy()); }

	/// Rows, structures and tombstones as they were given, and nothing derived that differs.
	void expect_held()
	{
		for (const auto &[id, segment] : {std::pair{SegmentId{1}, &first}, {SegmentId{2}, &second}})
		{
			const Rows &rows = segment->rows;
			const Bytes vectors = segment->vectors_by_place();
			const Bytes given = segment->coded_description();
			std::vector<RowId> ids(rows.n());
			Bytes held(vectors.size());
			Bytes structure(given.size());
			uint64_t n_different = 1;

			ASSERT_OK(both.cuda()->read_rows(both.cuda_copy(), id, 0, rows.n(), ids.data(), held.data()));
			EXPECT_EQ(ids, rows.ids);
			EXPECT_EQ(held, vectors);
			ASSERT_OK(both.cuda()->read_rows(both.cuda_copy(), id, 100, 33, ids.data(), held.data()));
			EXPECT_EQ(ids[32], rows.ids[132]);
			EXPECT_EQ(std::memcmp(held.data(), vectors.data() + 100 * rows.row_bytes, 33 * rows.row_bytes), 0);
			ASSERT_OK(both.cuda()->read_structure(both.cuda_copy(), id, 0, given.size(), structure.data()));
			EXPECT_EQ(structure, given);
			ASSERT_OK(both.cuda()->check_derived(both.cuda_copy(), id, 0, rows.n(), &n_different));
			EXPECT_EQ(n_different, 0u);
		}
	}

	std::mt19937 rng;
	CodedRows first;
	CodedRows second;
	Rows delta;
	Rows queries;
	Both both;
};

TEST(HostRows, EveryMetricFormAndKindOfCodes)
{
	for (const CodesCase &codes : kCodes)
		for (const Metric metric : kFloatMetrics)
			for (const Values values : {Values::kReal, Values::kBytes})
				for (const uint32_t dim : {7u, 40u, 130u})
				{
					if (!exists(metric, codes))
						continue;

					const ElementType element = dim == 40 ? ElementType::kFloat16 : ElementType::kFloat32;
					const DistanceSpec spec = {metric, element, dim};
					HostSegments held(spec, codes, values, dim);
					const uint64_t element_bytes = dim == 40 ? 2 : values == Values::kBytes ? 1 : 4;

					EXPECT_EQ(held.host_bytes(), 3333 * host_row_bytes(spec, element_bytes));
					for (const size_t n : {1u, 40u, 300u})
						ASSERT_NO_FATAL_FAILURE(held.expect_right(n, 10, 8, 50));
					ASSERT_NO_FATAL_FAILURE(held.expect_right(40, 200, 29, 700));
					ASSERT_NO_FATAL_FAILURE(held.expect_right(40, 30, 30, 5000));
					ASSERT_NO_FATAL_FAILURE(held.expect_right(40, 10, 8, 50, true));
					ASSERT_NO_FATAL_FAILURE(held.expect_held());
				}
}

TEST(HostRows, RowsGoAndComeBackWhileCopiesChange)
{
	for (const Values values : {Values::kReal, Values::kBytes})
	{
		HostSegments held({Metric::kL2, ElementType::kFloat32, 48}, kCodes[1], values, 7);
		CudaEngine *cuda = held.both.cuda();
		const CopyId copy = held.both.cuda_copy();
		const uint64_t all = held.host_bytes();
		const uint64_t none = cuda->stats().resident_bytes;
		std::vector<uint8_t> dead(3000 / 8);
		const auto look = [&]
		{
			for (const size_t n : {1u, 40u})
				ASSERT_NO_FATAL_FAILURE(held.expect_right(n, 50, 10, 100));
			ASSERT_NO_FATAL_FAILURE(held.expect_held());
		};

		for (int round = 0; round < 2; round++)
		{
			ASSERT_NO_FATAL_FAILURE(look());
			ASSERT_OK(cuda->attach(copy)); // back on the device
			EXPECT_EQ(held.host_bytes(), 0u);
			EXPECT_GE(cuda->stats().resident_bytes, none + all);
			ASSERT_NO_FATAL_FAILURE(look());
			for (uint8_t &byte : dead)
				byte = static_cast<uint8_t>(held.rng() | held.rng());
			ASSERT_NO_FATAL_FAILURE(
				held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
			ASSERT_NO_FATAL_FAILURE(look());
			EXPECT_EQ(cuda->move_rows_to_host(copy, 100).code, StatusCode::kOutOfMemory);
			EXPECT_EQ(held.host_bytes(), 0u);
			ASSERT_OK(cuda->move_rows_to_host(copy, all)); // the larger segment
			EXPECT_EQ(held.host_bytes(), all / 3333 * 3000);
			ASSERT_NO_FATAL_FAILURE(look());
			ASSERT_OK(cuda->move_rows_to_host(copy, all));
			EXPECT_EQ(held.host_bytes(), all);
			ASSERT_OK(cuda->move_rows_to_host(copy, all)); // those of segments that come
			EXPECT_EQ(cuda->move_rows_to_host(copy, all).code, StatusCode::kNotFound);
			for (uint8_t &byte : dead)
				byte = static_cast<uint8_t>(held.rng() & held.rng());
			ASSERT_NO_FATAL_FAILURE(
				held.both.change([&](Engine &e, CopyId c) { return e.set_tombstones(c, 1, dead); }));
		}

		// A merge: another segment instead of the first one and the delta.
		const CodedRows merged = held.coded(held.delta.spec, kCodes[1], values, 2000, HostSegments::kLists, 5000001);

		ASSERT_NO_FATAL_FAILURE(
			held.both.change([&](Engine &e, CopyId c) { return HostSegments::load_in_parts(merged, &e, c, 3); }));
		EXPECT_EQ(held.host_bytes(), all / 3333 * 5333);
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.drop_segment(c, 1); }));
		ASSERT_NO_FATAL_FAILURE(held.both.change([&](Engine &e, CopyId c) { return e.trim_delta(c, 60); }));
		EXPECT_EQ(held.host_bytes(), all / 3333 * 2333);
		ASSERT_NO_FATAL_FAILURE(held.expect_right(40, 50, 10, 100)); // segment 1 is named: the largest effort
	}
}

TEST(HostRows, ASegmentMovesWhileItIsLoaded)
{
	for (const Values values : {Values::kReal, Values::kBytes})
	{
		const DistanceSpec spec = {Metric::kCosine, ElementType::kFloat32, 40};
		std::mt19937 rng(3);
		Rows rows(spec);
		Both both(engine::CopySpec(spec, CopyKind::kCodedLists));
		CudaEngine *cuda = both.cuda();
		const CopyId copy = both.cuda_copy();
		std::vector<RowId> ids(1500);

		add_values(&rows, values, 200, 3000, rng, 1);

		const CodedRows lists(ListRows(rows, 11, rng), CodeKind::kSq8);
		const Bytes vectors = lists.vectors_by_place();
		Bytes held(1500 * rows.row_bytes);
		const auto load = [&](Engine &e, CopyId c, size_t first, size_t n)
		{ return e.load_segment(c, 1, {{rows.ids.data() + first, n}, vectors.data() + first * rows.row_bytes, n}); };

		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return load(e, c, 0, 1100); }));
		EXPECT_EQ(cuda->host_bytes(copy), 0u);
		ASSERT_OK(cuda->move_rows_to_host(copy, ~uint64_t{0}));
		EXPECT_EQ(cuda->host_bytes(copy), 1100 * host_row_bytes(spec, 4)); // narrowed at the end
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return load(e, c, 1100, 1900); }));
		ASSERT_OK(cuda->read_rows(copy, 1, 500, 1500, ids.data(), held.data()));
		EXPECT_EQ(ids[1499], rows.ids[1999]);
		EXPECT_EQ(std::memcmp(held.data(), vectors.data() + 500 * rows.row_bytes, held.size()), 0);
		ASSERT_NO_FATAL_FAILURE(
			both.change([&](Engine &e, CopyId c) { return e.load_structure(c, 1, 11, lists.coded_description()); }));
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.prepare_segment(c, 1); }));
		ASSERT_NO_FATAL_FAILURE(both.change([&](Engine &e, CopyId c) { return e.seal_segment(c, 1); }));
		EXPECT_EQ(cuda->host_bytes(copy), 3000 * host_row_bytes(spec, values == Values::kBytes ? 1 : 4));

		const SegmentProbes probes[] = {{1, 4, 60}};
		std::vector<SearchQuery> batch;

		for (size_t i = 0; i < 50; i++)
		{
			batch.push_back({rows.vector(i * 3), 12, false, {}});
			batch.back().probes = probes;
		}
		ASSERT_NO_FATAL_FAILURE(both.expect_same_answers(batch));
	}
}

TEST(HostRows, SearchesBesideMoves)
{
	HostSegments held({Metric::kL2, ElementType::kFloat32, 64}, kCodes[2], Values::kReal, 5);
	CudaEngine *cuda = held.both.cuda();
	const CopyId copy = held.both.cuda_copy();
	const SegmentProbes probes[] = {{1, 6, 80}, {2, 3, 80}};
	std::vector<SearchQuery> batch;
	std::vector<std::vector<Neighbor>> right;
	std::atomic<bool> done{false};
	std::atomic<int> n_wrong{0};
	std::atomic<int> n_searches{0};
	std::vector<std::thread> searchers;

	for (size_t i = 0; i < 40; i++)
	{
		batch.push_back({held.queries.vector(i), 10, false, {}});
		if (i % 4 != 3)
			batch.back().probes = probes;
	}
	ASSERT_OK(held.both.cpu()->search(held.both.cpu_copy(), batch, &right, nullptr));
	for (int t = 0; t < 2; t++)
		searchers.emplace_back(
			[&]
			{
				std::vector<std::vector<Neighbor>> found;

				while (!done)
				{
					if (!cuda->search(copy, batch, &found, nullptr).is_ok())
						n_wrong++;
					for (size_t i = 0; i < found.size(); i++)
						n_wrong += found[i].size() == right[i].size() &&
								std::equal(found[i].begin(), found[i].end(), right[i].begin(),
									[](const Neighbor &a, const Neighbor &b)
									{ return a.row == b.row && bits_of(a.score) == bits_of(b.score); })
							? 0
							: 1;
					n_searches++;
				}
			});
	for (int round = 0; round < 30; round++)
	{
		EXPECT_TRUE(cuda->attach(copy).is_ok());
		EXPECT_TRUE(cuda->move_rows_to_host(copy, ~uint64_t{0}).is_ok());
		EXPECT_TRUE(cuda->move_rows_to_host(copy, ~uint64_t{0}).is_ok());
	}
	done = true;
	for (std::thread &searcher : searchers)
		searcher.join();
	EXPECT_EQ(n_wrong, 0);
	EXPECT_GT(n_searches, 2);
}

// All three ways of searches with conditions.
TEST(HostRows, Conditions)
{
	for (const Values values : {Values::kReal, Values::kBytes})
	{
		engine::CopySpec spec({Metric::kL2, ElementType::kFloat32, 32}, CopyKind::kCodedLists);

		spec.rows_on_host = true;

		PassingWorld world(spec, values, {12000, 700, 300}, 43);

		EXPECT_GT(world.engine()->host_bytes(world.copy()), 0u);
		world.kill_rows();
		for (const double share : {.002, .05, .5})
		{
			const auto passing = world.passing(random_condition(share, 1));

			for (const size_t n : {1, 6, 40})
				ASSERT_NO_FATAL_FAILURE(world.expect_right(world.batch({passing.get()}, n, 10)));
		}
	}
}

/// An engine with a small budget.
std::unique_ptr<CudaEngine>
small_engine(uint64_t memory_bytes)
{
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.memory_bytes = memory_bytes;
	options.workspace_bytes = size_t{256} << 20;
	options.self_test = false;

	make_or_throw(options, &engine);
	return engine;
}

// The tiers above: 20,000 rows of 1 KB, codes of a fourth of that. Where each budget ends, the next place follows.
TEST(HostRows, BudgetsOfDeviceAndHost)
{
	const DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, 256};
	std::mt19937 rng(9);
	Rows rows(spec);

	rows.add_random(20000, Data::kGaussian, rng, 1);

	const CodedRows lists(ListRows(rows, 40, rng), CodeKind::kSq8);
	const SegmentProbes probes[] = {{1, 8, 200}};
	std::vector<SearchQuery> batch;
	std::vector<std::vector<Neighbor>> right;
	CopyId plain = 0;

	for (size_t i = 0; i < 30; i++)
	{
		batch.push_back({rows.vector(i * 11), 10, false, {}});
		batch.back().probes = probes;
	}
	ASSERT_OK(cpu_engine()->create({spec, CopyKind::kCodedLists}, &plain));
	ASSERT_OK(lists.load_coded(cpu_engine(), plain, 1));
	ASSERT_OK(cpu_engine()->search(plain, batch, &right, nullptr));

	struct
	{
		uint64_t device_bytes;
		uint64_t host_bytes;
		bool fits;
		bool on_device; // codes
		bool rows_moved;
	} const cases[] = {
		{uint64_t{64} << 20, 0, true, true, false},
		{uint64_t{12} << 20, uint64_t{64} << 20, true, true, true},
		{uint64_t{12} << 20, uint64_t{8} << 20, false, false, false},
		{uint64_t{3} << 20, uint64_t{64} << 20, true, false, false},
		{uint64_t{3} << 20, uint64_t{8} << 20, false, false, false},
	};

	for (const auto &expected : cases)
	{
		SCOPED_TRACE(testing::Message() << expected.device_bytes << " and " << expected.host_bytes << " bytes");

		std::unique_ptr<CudaEngine> made = small_engine(expected.device_bytes);
		CudaEngine *cuda = made.get();
		worker::TieredEngineOptions options;
		std::vector<std::vector<Neighbor>> found;
		CopyId copy = 0;

		options.host_bytes = expected.host_bytes;
		options.background = false;

		const auto tiered = worker::make_tiered_engine(std::move(made), engine::make_cpu_engine({}), options);

		ASSERT_OK(tiered->create({spec, CopyKind::kCodedLists}, &copy));
		EXPECT_EQ(HostSegments::load_in_parts(lists, tiered.get(), copy, 1).is_ok(), expected.fits);
		if (expected.fits)
		{
			const uint64_t before = cuda->stats().n_searches;

			EXPECT_EQ(tiered->on_device(copy), expected.on_device && !expected.rows_moved);
			ASSERT_OK(tiered->search(copy, batch, &found, nullptr));
			for (size_t i = 0; i < batch.size(); i++)
				ASSERT_NO_FATAL_FAILURE(expect_same(found[i], right[i]));
			EXPECT_EQ(cuda->stats().n_searches - before, expected.on_device ? batch.size() : 0);
			EXPECT_LE(cuda->stats().resident_bytes, expected.device_bytes);
			EXPECT_EQ(cuda->stats().resident_bytes < 20000u * 256 * 4, expected.rows_moved || !expected.on_device);
			// Changes find room for as long as there is some.
			ASSERT_OK(tiered->append_delta(copy, 0, rows.block(0, 10)));
			ASSERT_OK(tiered->trim_delta(copy, 10));
		}
		ASSERT_OK(tiered->drop(copy));
		EXPECT_EQ(tiered->stats().resident_bytes, 0u);
	}
	ASSERT_OK(cpu_engine()->drop(plain));
}

#ifdef VECTORGPU_FAULTS
TEST(HostRows, MemoryThatCannotBePinned)
{
	static std::string fault;
	static std::atomic<int> n_left{0};
	std::unique_ptr<CudaEngine> engine;
	CudaEngineOptions options;

	options.workspace_bytes = size_t{256} << 20;
	options.self_test = false;
	options.fault = [](const char *name) { return fault == name && n_left.fetch_sub(1) > 0; };
	fault.clear();
	ASSERT_OK(make_cuda_engine(options, &engine));
	{
		HostSegments held({Metric::kL2, ElementType::kFloat32, 48}, kCodes[1], Values::kReal, 7, 3000, engine.get());
		const CopyId copy = held.both.cuda_copy();
		const CodedRows more = held.coded(held.delta.spec, kCodes[1], Values::kBytes, 900, 9, 7000001);
		const Bytes vectors = more.vectors_by_place();
		const engine::RowBlock block = {{more.rows.ids.data(), more.rows.n()}, vectors.data(), more.rows.n()};
		const uint64_t before = held.host_bytes();

		ASSERT_OK(engine->attach(copy));
		for (const char *name : {"gpu_host_rows", "gpu_pin"})
		{
			fault = name;
			n_left = 1;
			EXPECT_EQ(engine->move_rows_to_host(copy, ~uint64_t{0}).code, StatusCode::kOutOfMemory) << name;
			EXPECT_EQ(held.host_bytes(), 0u);
			ASSERT_NO_FATAL_FAILURE(held.expect_right(40, 10, 8, 50));
		}
		for (int i = 0; i < 3; i++) // both segments, and those that come
			ASSERT_OK(engine->move_rows_to_host(copy, ~uint64_t{0}));
		EXPECT_EQ(held.host_bytes(), before);
		fault = "gpu_host_rows";
		n_left = 1;
		EXPECT_EQ(engine->load_segment(copy, 3, block).code, StatusCode::kOutOfMemory);
		ASSERT_OK(engine->load_segment(copy, 3, block));
		ASSERT_OK(engine->load_structure(copy, 3, more.n_lists, more.coded_description()));
		for (const char *name : {"gpu_host_rows", "gpu_pin", "gpu_malloc_late"})
		{
			fault = name;
			n_left = 2; // it is tried again through host memory
			EXPECT_EQ(engine->prepare_segment(copy, 3).code, StatusCode::kOutOfMemory) << name;
			n_left = 0;
		}
		EXPECT_FALSE(engine->fatal());

		Bytes read(vectors.size());
		std::vector<RowId> ids(more.rows.n());

		ASSERT_OK(engine->read_rows(copy, 3, 0, more.rows.n(), ids.data(), read.data()));
		EXPECT_EQ(read, vectors);
		ASSERT_OK(engine->seal_segment(copy, 3));
		ASSERT_OK(engine->read_rows(copy, 3, 0, more.rows.n(), ids.data(), read.data()));
		EXPECT_EQ(ids, more.rows.ids);
		EXPECT_EQ(read, vectors);

		// A byte that is damaged there is seen.
		ASSERT_OK(engine->load_segment(copy, 4, block));
		ASSERT_OK(engine->load_structure(copy, 4, more.n_lists, more.coded_description()));
		fault = "gpu_flip";
		n_left = 1;
		ASSERT_OK(engine->seal_segment(copy, 4));
		ASSERT_OK(engine->read_rows(copy, 4, 0, more.rows.n(), ids.data(), read.data()));
		EXPECT_NE(read, vectors);
	}
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
}
#endif

// For the sanitizers.
TEST(HostRows, Reduced)
{
	for (const Values values : {Values::kReal, Values::kBytes})
		for (const CodesCase &codes : {kCodes[1], kCodes[3]})
		{
			HostSegments held({Metric::kL2, ElementType::kFloat32, 40}, codes, values, 19, 800);

			ASSERT_NO_FATAL_FAILURE(held.expect_right(5, 10, 8, 50));
			ASSERT_OK(held.both.cuda()->attach(held.both.cuda_copy()));
			ASSERT_OK(held.both.cuda()->move_rows_to_host(held.both.cuda_copy(), ~uint64_t{0}));
			ASSERT_NO_FATAL_FAILURE(held.expect_right(8, 10, 8, 50));
		}
}

} // namespace
} // namespace vectorgpu::cuda::test
