// Faults of the GPU, provoked: operations that must fail do so, processes that must survive do so. Sticky errors break
// the process's context for good, so each is provoked in a process of its own (a death test), which exits as the worker
// does. Needs VECTORGPU_FAULTS.
#include "engine/faults.hpp"
#include "engine/interface/list_builder.hpp"

#ifdef VECTORGPU_FAULTS

namespace vectorgpu::cuda::test
{
namespace
{

void
search_with(const char *fault)
{
	Prepared prepared;
	std::vector<std::vector<Neighbor>> results;

	prepared.expect_answers();
	arm(fault, 1);
	(void) prepared.search(&results).is_ok();
	_exit(0); // not reached: the fault ends the process
}

class GpuFaultDeathTest : public testing::Test
{
protected:
	GpuFaultDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; } // a new process has no context yet
};

TEST_F(GpuFaultDeathTest, AnIllegalAddressEndsTheProcess)
{
	EXPECT_EXIT(search_with("gpu_address"), testing::ExitedWithCode(kExitLost), "GPU lost: .*cudaErrorIllegalAddress");
}

TEST_F(GpuFaultDeathTest, AMisalignedAddressEndsTheProcess)
{
	// While other processes provoke faults, the driver now and then reports this as illegal.
	EXPECT_EXIT(search_with("gpu_misaligned"), testing::ExitedWithCode(kExitLost),
		"GPU lost: .*cudaError(Misaligned|Illegal)Address");
}

TEST_F(GpuFaultDeathTest, ATrapEndsTheProcess)
{
	EXPECT_EXIT(search_with("gpu_trap"), testing::ExitedWithCode(kExitLost), "GPU lost: ");
}

TEST_F(GpuFaultDeathTest, AFailedAssertionEndsTheProcess)
{
	EXPECT_EXIT(search_with("gpu_assert"), testing::ExitedWithCode(kExitLost), "GPU lost: .*cudaErrorAssert");
}

TEST_F(GpuFaultDeathTest, MemoryThatCannotBeCorrectedEndsTheProcess)
{
	EXPECT_EXIT(search_with("gpu_ecc"), testing::ExitedWithCode(kExitLost),
		"GPU lost: could not search: cudaErrorECCUncorrectable");
}

TEST_F(GpuFaultDeathTest, AKernelThatNeverEndsIsGivenUpByTheWatchdog)
{
	EXPECT_EXIT(search_with("gpu_spin"), testing::ExitedWithCode(kExitLost), "GPU lost: a kernel does not end");
}

/// A builder, which has a stream of its own, assigns rows to lists.
void
assign_with(const char *fault)
{
	std::unique_ptr<CudaEngine> engine;
	std::unique_ptr<engine::ListBuilder> builder;
	engine::SearchControl control;
	engine::ListBuildSpec spec;
	Rows rows({Metric::kL2, ElementType::kFloat32, 16});
	std::mt19937 rng(1);
	std::vector<uint32_t> labels(300);
	std::vector<float> scores(300);

	arm("", 0);
	rows.add_random(300, Data::kGaussian, rng, 1);
	spec.rows = rows.spec;
	spec.n_clusters = 20;
	if (!make_cuda_engine(options_with_faults(), &engine).is_ok() ||
		!engine->make_list_builder(spec, &control, &builder).is_ok() ||
		!builder->add_centroids(reinterpret_cast<const float *>(rows.vectors.data()), 20).is_ok() ||
		!builder->assign(0, rows.vectors.data(), 300, labels.data(), scores.data()).is_ok())
		_exit(1);
	arm(fault, 1);
	(void) builder->assign(0, rows.vectors.data(), 300, labels.data(), scores.data()).is_ok();
	_exit(0); // not reached: the fault ends the process
}

TEST_F(GpuFaultDeathTest, TheWatchdogWatchesBuildersOfLists)
{
	EXPECT_EXIT(assign_with("gpu_spin"), testing::ExitedWithCode(kExitLost), "GPU lost: a kernel does not end");
}

// Errors after which the context is broken for good, by the runtime's documentation, whether a kernel can be made to
// cause them or not.
TEST(GpuFault, EachErrorThatBreaksTheContextGivesTheGpuUp)
{
	for (const cudaError_t error : {cudaErrorECCUncorrectable, cudaErrorIllegalAddress, cudaErrorLaunchTimeout,
			 cudaErrorAssert, cudaErrorHardwareStackError, cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
			 cudaErrorInvalidAddressSpace, cudaErrorInvalidPc, cudaErrorLaunchFailure, cudaErrorNvlinkUncorrectable,
			 cudaErrorContextIsDestroyed, cudaErrorExternalDevice, cudaErrorDevicesUnavailable, cudaErrorUnknown})
	{
		Device device;

		EXPECT_EQ(device.check(error, "search").code, StatusCode::kUnavailable) << cudaGetErrorName(error);
		EXPECT_TRUE(device.fatal()) << cudaGetErrorName(error);
	}
	for (const cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorInvalidConfiguration, cudaErrorInvalidValue})
	{
		Device device;

		EXPECT_FALSE(device.check(error, "search").is_ok());
		EXPECT_FALSE(device.fatal()) << cudaGetErrorName(error);
	}
}

TEST(GpuFault, TheLongestWaitIsReported)
{
	Device device;

	EXPECT_EQ(device.waiting_since_ns(), 0u);

	auto first = std::make_unique<GpuWait>(&device);
	const uint64_t since = device.waiting_since_ns();

	EXPECT_GT(since, 0u);
	{
		const GpuWait second(&device);

		EXPECT_EQ(device.waiting_since_ns(), since);
	}
	EXPECT_EQ(device.waiting_since_ns(), since);
	{
		constexpr uint64_t kPatience = uint64_t{1000} * 1000 * 1000 * 1000;
		const GpuWait patient(&device, kPatience);

		EXPECT_EQ(device.waiting_since_ns(), since);
		first.reset();
		EXPECT_GE(device.waiting_since_ns(), since + kPatience);
	}
	EXPECT_EQ(device.waiting_since_ns(), 0u);
}

TEST(GpuFault, ABuilderOfListsWithoutRoomFailsAtTheStart)
{
	CudaEngineOptions options = options_with_faults();
	std::unique_ptr<CudaEngine> engine;
	std::unique_ptr<engine::ListBuilder> builder;
	engine::SearchControl control;
	engine::ListBuildSpec spec;

	arm("", 0);
	options.memory_bytes = size_t{32} << 20;
	ASSERT_OK(make_cuda_engine(options, &engine));
	spec.rows = {Metric::kL2, ElementType::kFloat32, 64};
	spec.n_clusters = 100;
	spec.n_training = 1000;
	ASSERT_OK(engine->make_list_builder(spec, &control, &builder));
	builder.reset();
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
	spec.n_training = 1000000; // 256 MB
	EXPECT_EQ(engine->make_list_builder(spec, &control, &builder).code, StatusCode::kOutOfMemory);
	spec.n_training = 0;
	spec.n_queries = 4000; // with the scores of a batch 262 MB
	spec.k = 10;
	EXPECT_EQ(engine->make_list_builder(spec, &control, &builder).code, StatusCode::kOutOfMemory);
	EXPECT_EQ(builder, nullptr);
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
}

TEST(GpuFault, ARefusedLaunchFailsOneSearchOnly)
{
	Prepared prepared;
	std::vector<std::vector<Neighbor>> results;

	arm("gpu_launch", 1);
	EXPECT_EQ(prepared.search(&results).code, StatusCode::kInternal);
	EXPECT_FALSE(prepared.engine->fatal());
	prepared.expect_answers();
}

TEST(GpuFault, WithoutDeviceMemoryTheCopyStaysUnchanged)
{
	Prepared prepared(false); // rounded rows would give way, and the work succeed

	// Every allocation of a load, an append, and a seal in turn.
	for (int n = 0; n < 3; n++)
	{
		arm("", 0);

		Rows more(prepared.rows.spec);
		std::mt19937 rng(2);
		CopyId other = 0;

		more.add_random(3000, Data::kGaussian, rng, 1);
		ASSERT_OK(prepared.engine->create(more.spec, &other));

		const uint64_t before = prepared.engine->stats().resident_bytes;

		faults.name = "gpu_malloc";
		faults.n_left = 1;
		EXPECT_EQ(prepared.engine->load_segment(other, 1, more.block()).code, StatusCode::kOutOfMemory);
		EXPECT_EQ(prepared.engine->stats().resident_bytes, before);
		ASSERT_OK(prepared.engine->load_segment(other, 1, more.block()));
		faults.n_left = 1;
		EXPECT_EQ(prepared.engine->seal_segment(other, 1).code, StatusCode::kOutOfMemory);
		ASSERT_OK(prepared.engine->seal_segment(other, 1));
		faults.n_left = 2; // room to grow, and room for these rows alone
		EXPECT_EQ(prepared.engine->append_delta(other, 0, more.block(0, 10)).code, StatusCode::kOutOfMemory);
		ASSERT_OK(prepared.engine->append_delta(other, 0, more.block(0, 10)));
		ASSERT_OK(prepared.engine->drop(other));
		EXPECT_EQ(prepared.engine->stats().resident_bytes, before);
		prepared.expect_answers();
	}
}

TEST(GpuFault, AnEngineThatCannotAllocateIsNotMade)
{
	for (const char *name : {"gpu_malloc", "gpu_pinned"})
	{
		std::unique_ptr<CudaEngine> engine;

		arm(name, 1);
		EXPECT_EQ(make_cuda_engine(options_with_faults(), &engine).code, StatusCode::kOutOfMemory) << name;
		EXPECT_EQ(engine, nullptr);
	}
	arm("", 0);
}

TEST(GpuFault, ListsAreBuiltWithoutPinnedMemory)
{
	constexpr size_t kRows = 6000; // more than a megabyte, which host threads would put into such memory
	constexpr uint32_t kLists = 16;
	std::unique_ptr<CudaEngine> engine;
	Rows rows({Metric::kL2, ElementType::kFloat32, 96});
	std::mt19937 rng(5);
	std::vector<uint32_t> labels[2];
	CudaEngineOptions options = options_with_faults();

	options.hang_limit_ms = 30000; // also under a sanitizer
	rows.add_random(kRows, Data::kGaussian, rng, 1);
	ASSERT_OK(make_cuda_engine(options, &engine));
	for (std::vector<uint32_t> &found : labels)
	{
		engine::ListBuildSpec spec;
		engine::SearchControl control;
		std::unique_ptr<engine::ListBuilder> builder;
		std::vector<float> scores(kRows);

		found.resize(kRows);
		spec.rows = rows.spec;
		spec.n_clusters = kLists;
		ASSERT_OK(engine->make_list_builder(spec, &control, &builder));
		ASSERT_OK(builder->add_centroids(static_cast<const float *>(rows.block().vectors), kLists));
		if (&found == labels)
			arm("gpu_pinned", 1);
		ASSERT_OK(builder->assign(0, rows.block().vectors, kRows, found.data(), scores.data()));
		EXPECT_EQ(faults.n_left, 0); // it was asked for
		ASSERT_OK(builder->assign(0, rows.block().vectors, kRows, found.data(), scores.data()));
		EXPECT_EQ(faults.n_left, 0); // and not once more
		arm("", 0);
	}
	EXPECT_EQ(labels[0], labels[1]);
}

TEST(GpuFault, LateAllocationsAreThoseOfAReadyEngine)
{
	CudaEngineOptions options = options_with_faults();
	std::unique_ptr<CudaEngine> engine;
	Rows rows({Metric::kL2, ElementType::kFloat32, 16});
	std::mt19937 rng(4);
	CopyId copy = 0;

	rows.add_random(3000, Data::kGaussian, rng, 1);
	options.self_test = true; // which allocates
	arm("gpu_malloc_late", 1);
	ASSERT_OK(make_cuda_engine(options, &engine));
	EXPECT_EQ(faults.n_left, 1);
	ASSERT_OK(engine->create({rows.spec}, &copy));
	EXPECT_EQ(engine->load_segment(copy, 1, rows.block()).code, StatusCode::kOutOfMemory);
	EXPECT_FALSE(engine->fatal());
	ASSERT_OK(engine->load_segment(copy, 1, rows.block()));
	ASSERT_OK(engine->seal_segment(copy, 1));
	arm("", 0);
	ASSERT_OK(engine->drop(copy));
}

TEST(GpuFault, LaunchesContinueAfterOneThatWasGivenUp)
{
	constexpr size_t kSealed = 17000;
	CudaEngineOptions options = options_with_faults();
	std::unique_ptr<CudaEngine> engine;
	Rows rows({Metric::kL2, ElementType::kFloat32, 100});
	std::mt19937 rng(11);
	CopyId copy = 0;
	CopyId cpu_copy = 0;

	arm("", 0);
	options.filter_min_queries = 2;
	options.one_pass_pause_ms = 0;
	ASSERT_OK(make_cuda_engine(options, &engine));
	add_whole_numbers(&rows, kSealed + 500, 255, rng, 100);
	for (auto [e, made] : {std::pair<Engine *, CopyId *>{engine.get(), &copy}, {cpu_engine(), &cpu_copy}})
	{
		ASSERT_OK(e->create({rows.spec}, made));
		ASSERT_OK(e->load_segment(*made, 1, rows.block(0, kSealed)));
		ASSERT_OK(e->seal_segment(*made, 1));
		ASSERT_OK(e->append_delta(*made, 0, rows.block(kSealed, 500)));
	}
	for (const size_t batch : {2u, 12u, 40u}) // queries among the arguments; thresholds by a block each; queries copied
	{
		std::vector<SearchQuery> all;
		std::vector<std::vector<Neighbor>> expected, found;

		for (size_t i = 0; i < batch; i++)
			all.push_back({rows.vector(i * 400), 10, false, {}});
		ASSERT_OK(cpu_engine()->search(cpu_copy, all, &expected, nullptr));
		for (int round = 0; round < 6; round++)
		{
			const bool gives_up = round % 3 == 1;
			const uint64_t n_before = engine->n_one_pass();
			const uint64_t given_up_before = engine->n_one_pass_given_up();

			arm("gpu_give_up", gives_up ? 1 : 0);
			ASSERT_OK(engine->search(copy, all, &found, nullptr));
			for (size_t i = 0; i < batch; i++)
				ASSERT_NO_FATAL_FAILURE(expect_same(found[i], expected[i]));
			if (batch == 2 && round == 0 && engine->n_one_pass() == 0)
				GTEST_SKIP() << "the device has no products by warp groups";
			EXPECT_EQ(engine->n_one_pass() - n_before, gives_up ? 0 : batch);
			EXPECT_EQ(engine->n_one_pass_given_up() - given_up_before, gives_up ? batch : 0);
		}
	}
	arm("", 0);
	ASSERT_OK(engine->drop(copy));
	ASSERT_OK(cpu_engine()->drop(cpu_copy));
}

TEST(GpuFault, TheBudgetHolds)
{
	CudaEngineOptions options = options_with_faults();
	std::unique_ptr<CudaEngine> engine;
	Rows rows({Metric::kL2, ElementType::kFloat32, 256});
	std::mt19937 rng(3);
	CopyId copy = 0;

	arm("", 0);
	options.memory_bytes = size_t{8} << 20;
	rows.add_random(20000, Data::kGaussian, rng, 1); // 20 MB
	ASSERT_OK(make_cuda_engine(options, &engine));
	EXPECT_EQ(engine->stats().budget_bytes, options.memory_bytes);
	ASSERT_OK(engine->create(rows.spec, &copy));
	EXPECT_EQ(engine->load_segment(copy, 1, rows.block()).code, StatusCode::kOutOfMemory);
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
	ASSERT_OK(engine->load_segment(copy, 1, rows.block(0, 1000)));
	ASSERT_OK(engine->seal_segment(copy, 1));
}

TEST(GpuFault, ABudgetSmallerThanTheSelfTestStillMakesAnEngine)
{
	CudaEngineOptions options = options_with_faults();
	std::unique_ptr<CudaEngine> engine;

	arm("", 0);
	options.memory_bytes = size_t{64} << 10;
	options.self_test = true;
	ASSERT_OK(make_cuda_engine(options, &engine));
	EXPECT_EQ(engine->stats().budget_bytes, options.memory_bytes);
	EXPECT_EQ(engine->stats().resident_bytes, 0u);
}

} // namespace
} // namespace vectorgpu::cuda::test

#endif
