// Shared by the tests of rounded rows: engines, rows by a rule, what the filter passed on.
#pragma once

#include "engines.hpp"

namespace vectorgpu::cuda::test
{

constexpr double kMostRescored = 500; // far below the room for candidates, beyond which queries go another way
constexpr Metric kRoundedMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine};

/// An engine whose filter takes batches of any size. scaled: as in CudaEngineOptions.
inline CudaEngine *
rounded_engine(bool scaled)
{
	static std::unique_ptr<CudaEngine> engines[2];
	std::unique_ptr<CudaEngine> &engine = engines[scaled];

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.self_test = false;
		options.workspace_bytes = size_t{512} << 20;
		options.scaled = scaled;
		options.scaled_least_bytes = 1; // tests have few rows

		const Status status = make_cuda_engine(options, &engine);

		EXPECT_TRUE(status.is_ok()) << status.message;
	}
	return engine.get();
}

/// Adds n rows of element(row, e).
template <class Element>
void
add_rows(Rows *rows, size_t n, Element element)
{
	std::vector<float> vector(rows->spec.dim);

	for (size_t i = 0; i < n; i++)
	{
		for (size_t e = 0; e < vector.size(); e++)
			vector[e] = element(i, e);
		rows->add(rows->n(), reinterpret_cast<const uint8_t *>(vector.data()));
	}
}

inline uint64_t
resident_bytes(Engine *engine)
{
	return engine->stats().resident_bytes;
}

/// The bytes of a sealed segment of float32 rows on the device, with norms and row ids.
inline uint64_t
bytes_alone(const Rows &rows)
{
	return rows.n() * ((rows.spec.dim + 31) / 32 * 32 * sizeof(float) + sizeof(float) + sizeof(RowId));
}

/// The same with rows in binary16.
inline uint64_t
bytes_with_halves(const Rows &rows)
{
	return bytes_alone(rows) + rows.n() * ((rows.spec.dim + 31) / 32 * 32 * 2);
}

/// The same with scaled rows.
inline uint64_t
bytes_with_scaled(const Rows &rows)
{
	return bytes_alone(rows) + rows.n() * ((rows.spec.dim + 31) / 32 * 32 + 8);
}

/// Expects the same answers in batches of several sizes; returns the rows that the filter passed on to each query that
/// wants 10, 0 for one that went another way.
inline void
search_in_batches(Both *both, const Rows &queries, double *rescored)
{
	size_t n_queries = 0;
	const uint64_t before = both->cuda()->stats().n_rescored;

	for (size_t batch : {2, 9, 33, 70})
	{
		ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, batch, 10));
		n_queries += batch;
	}
	*rescored = static_cast<double>(both->cuda()->stats().n_rescored - before) / static_cast<double>(n_queries);
	ASSERT_NO_FATAL_FAILURE(both->expect_same_answers(queries, 20, 150));
}

} // namespace vectorgpu::cuda::test
