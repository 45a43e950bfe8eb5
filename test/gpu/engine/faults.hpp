// Faults to provoke in the CUDA engine, and an engine that meets them; shared by the tests of faults and of damage.
// Needs VECTORGPU_FAULTS.
#pragma once

#include "engines.hpp"

#ifdef VECTORGPU_FAULTS

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>

#include <unistd.h>

namespace vectorgpu::cuda::test
{

constexpr int kExitLost = 3;

/// The faults in force; counted down.
struct Faults
{
	std::string name;
	std::atomic<int> n_left{0};
};

inline Faults faults;

inline CudaEngineOptions
options_with_faults()
{
	CudaEngineOptions options;

	options.workspace_bytes = size_t{256} << 20;
	options.pinned_bytes = size_t{8} << 20;
	options.self_test = false;
	options.hang_limit_ms = 2000;
	options.log = [](const char *line) { fprintf(stderr, "%s\n", line); };
	options.on_fatal = [] { _exit(kExitLost); };
	options.fault = [](const char *name) { return faults.name == name && faults.n_left.fetch_sub(1) > 0; };
	return options;
}

inline void
arm(const char *name, int n)
{
	faults.name = name;
	faults.n_left = n;
}

struct Prepared
{
	std::unique_ptr<CudaEngine> engine;
	CopyId copy = 0;
	Rows rows{{Metric::kL2, ElementType::kFloat32, 16}};

	/// rounded, scaled: as in CudaEngineOptions.
	explicit Prepared(bool rounded = true, bool scaled = true)
	{
		std::mt19937 rng(1);
		CudaEngineOptions options = options_with_faults();

		arm("", 0);
		options.rounded = rounded;
		options.scaled = scaled;
		options.scaled_least_bytes = 1;
		rows.add_random(20000, Data::kGaussian, rng, 1);
		make_or_throw(options, &engine);
		EXPECT_TRUE(engine->create(rows.spec, &copy).is_ok());
		EXPECT_TRUE(engine->load_segment(copy, 1, rows.block()).is_ok());
		EXPECT_TRUE(engine->seal_segment(copy, 1).is_ok());
	}

	Status search(std::vector<std::vector<Neighbor>> *results)
	{
		const SearchQuery query = {rows.vector(77), 10, false, {}};

		return engine->search(copy, {&query, 1}, results, nullptr);
	}

	void expect_answers()
	{
		std::vector<std::vector<Neighbor>> results;

		ASSERT_OK(search(&results));
		ASSERT_NO_FATAL_FAILURE(expect_same(results[0], rows.nearest(rows.vector(77), 10)));
	}
};

} // namespace vectorgpu::cuda::test

#endif
