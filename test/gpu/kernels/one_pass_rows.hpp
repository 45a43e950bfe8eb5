// Rows and checks that the tests of searches in one pass share.
#pragma once

#include "answers.hpp"

namespace vectorgpu::cuda::test
{

constexpr size_t kRows = 18000; // 141 tiles of 128 rows: more than a GPU has processors

inline void
append(Both *both, const Rows &rows, size_t first, size_t n, uint64_t position)
{
	ASSERT_NO_FATAL_FAILURE(
		both->change([&](Engine &e, CopyId c) { return e.append_delta(c, position, rows.block(first, n)); }));
}

/// True if the device has the kernel (warp groups): then 17,000 rows of few dimensions are searched by it.
inline bool
has_one_pass()
{
	static const bool has = []
	{
		std::mt19937 rng(1);
		Rows rows({Metric::kL2, ElementType::kFloat32, 32}), queries(rows.spec);
		Both both(rows.spec);
		const uint64_t before = both.cuda()->n_one_pass();

		add_whole_numbers(&rows, kRows, 255, rng, 0);
		add_whole_numbers(&queries, 2, 255, rng, 0);
		both.load(1, rows, 0, rows.n());
		both.expect_same_answers(queries, 2, 10);
		return both.cuda()->n_one_pass() > before;
	}();

	return has;
}

} // namespace vectorgpu::cuda::test
