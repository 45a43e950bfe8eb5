// The CUDA engine and the CPU engine with the same rows: their answers must be the same, bit for bit. Shared by the
// tests of this folder.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/held_rows.hpp"

namespace vectorgpu::cuda::test
{

using namespace engine::test;
using engine::CopyId;
using engine::DistanceSpec;
using engine::Engine;
using engine::Neighbor;
using engine::SearchQuery;
using engine::SegmentId;

/// An engine that cannot be made, where others take the GPU's memory, fails the test that needs it, not the program.
inline void
make_or_throw(const CudaEngineOptions &options, std::unique_ptr<CudaEngine> *engine)
{
	if (const Status status = make_cuda_engine(options, engine); !status.is_ok())
		throw std::runtime_error(status.message);
}

/// Made once: opening a GPU takes a second. `narrow` off keeps float32 rows as they are, and only so.
inline CudaEngine *
cuda_engine(bool narrow = true)
{
	static std::unique_ptr<CudaEngine> engines[2];
	std::unique_ptr<CudaEngine> &engine = engines[narrow];

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.narrow = options.rounded = narrow;
		options.workspace_bytes = size_t{512} << 20;
		options.filter_min_queries = 2;
		options.scaled_least_bytes = 1; // tests have few rows; rows in binary16: engine/rounded_rows_test.cpp
		// Queries search graphs and lists, as in the CPU engine; graph_choice_test.cpp and list_choice_test.cpp have
		// engines of their own.
		options.graph_choice = options.list_choice = false;

		make_or_throw(options, &engine);
	}
	return engine.get();
}

/// Another one, which searches lists by the chain of launches for every batch.
inline CudaEngine *
chain_engine()
{
	static std::unique_ptr<CudaEngine> engine;

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.workspace_bytes = size_t{512} << 20;
		options.self_test = options.few_lists = options.few_real_lists = options.list_choice = false;

		make_or_throw(options, &engine);
	}
	return engine.get();
}

inline Engine *
cpu_engine()
{
	static std::unique_ptr<Engine> engine = engine::make_cpu_engine({.n_threads = 8});

	return engine.get();
}

/// The same copy in both engines, dropped at the end.
class Both
{
public:
	explicit Both(const engine::CopySpec &spec, bool narrow = true) : Both(spec, cuda_engine(narrow)) {}

	/// cuda outlives it.
	Both(const engine::CopySpec &spec, CudaEngine *cuda) : cuda_(cuda), cpu_(cpu_engine())
	{
		EXPECT_TRUE(cuda_->create(spec, &cuda_copy_).is_ok());
		EXPECT_TRUE(cpu_->create(spec, &cpu_copy_).is_ok());
	}

	~Both()
	{
		EXPECT_TRUE(cuda_->drop(cuda_copy_).is_ok());
		EXPECT_TRUE(cpu_->drop(cpu_copy_).is_ok());
	}

	Both(const Both &) = delete;
	Both &operator=(const Both &) = delete;

	/// Do the same to both and expect the same code.
	template <class Work>
	void change(Work work)
	{
		const Status on_gpu = work(*static_cast<Engine *>(cuda_), cuda_copy_);
		const Status on_cpu = work(*cpu_, cpu_copy_);

		ASSERT_EQ(on_gpu.code, on_cpu.code) << on_gpu.message << " / " << on_cpu.message;
	}

	void load(SegmentId segment, const Rows &rows, size_t first, size_t n)
	{
		ASSERT_NO_FATAL_FAILURE(
			change([&](Engine &e, CopyId c) { return e.load_segment(c, segment, rows.block(first, n)); }));
		ASSERT_NO_FATAL_FAILURE(change([&](Engine &e, CopyId c) { return e.seal_segment(c, segment); }));
	}

	/// Search one batch; results must be the same.
	void expect_same_answers(const std::vector<SearchQuery> &queries)
	{
		std::vector<std::vector<Neighbor>> on_gpu;
		std::vector<std::vector<Neighbor>> on_cpu;

		ASSERT_OK(cuda_->search(cuda_copy_, queries, &on_gpu, nullptr));
		ASSERT_OK(cpu_->search(cpu_copy_, queries, &on_cpu, nullptr));
		ASSERT_EQ(on_gpu.size(), on_cpu.size());
		for (size_t i = 0; i < queries.size(); i++)
		{
			SCOPED_TRACE(testing::Message() << "query " << i << " of " << queries.size() << ", k " << queries[i].k);
			ASSERT_NO_FATAL_FAILURE(expect_same(on_gpu[i], on_cpu[i]));
		}
	}

	/// Search the first n queries in one batch.
	void expect_same_answers(const Rows &queries, size_t n, size_t k)
	{
		std::vector<SearchQuery> batch;

		for (size_t i = 0; i < n; i++)
			batch.push_back({queries.vector(i), k, false, {}});
		expect_same_answers(batch);
	}

	CudaEngine *cuda() const { return cuda_; }
	Engine *cpu() const { return cpu_; }
	CopyId cuda_copy() const { return cuda_copy_; }
	CopyId cpu_copy() const { return cpu_copy_; }

private:
	CudaEngine *cuda_;
	Engine *cpu_;
	CopyId cuda_copy_ = 0;
	CopyId cpu_copy_ = 0;
};

/// Whole numbers 0 ... most: many ties, and rows that a narrower form holds.
inline void
add_whole_numbers(Rows *rows, size_t n, unsigned most, std::mt19937 &rng, RowId first_id)
{
	std::vector<uint8_t> vector(rows->row_bytes);

	for (size_t i = 0; i < n; i++)
	{
		for (size_t e = 0; e < rows->spec.dim; e++)
		{
			const float value = static_cast<float>(rng() % (most + 1));
			const uint16_t half = float_to_half(value);

			if (rows->spec.element == ElementType::kFloat16)
				std::memcpy(vector.data() + 2 * e, &half, 2);
			else
				std::memcpy(vector.data() + 4 * e, &value, 4);
		}
		rows->add(first_id + i, vector.data());
	}
}

} // namespace vectorgpu::cuda::test
