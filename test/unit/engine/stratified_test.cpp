#include "engine/recall/stratified.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace vectorgpu::engine
{
namespace
{

TEST(Stratified, OneRowOfEachPart)
{
	for (const uint64_t n_rows : {1u, 7u, 1000u, 4294967295u})
		for (const uint64_t n : {uint64_t{1}, n_rows / 3 + 1, n_rows})
			for (uint64_t i = 0; i < n; i += n / 1000 + 1)
			{
				EXPECT_GE(stratified_row(i, n, n_rows), i * n_rows / n);
				EXPECT_LT(stratified_row(i, n, n_rows), (i + 1) * n_rows / n);
			}
}

TEST(Stratified, PeriodicRowsAreAllRepresented)
{
	for (const uint64_t period : {2u, 10u, 20u, 50u})
	{
		std::vector<int> seen(period);

		for (uint64_t i = 0; i < 1000; i++)
			seen[stratified_row(i, 1000, 20000) % period]++;
		for (const int n : seen)
			EXPECT_GT(n, 1000 / static_cast<int>(period) / 3) << period;
	}
}

} // namespace
} // namespace vectorgpu::engine
