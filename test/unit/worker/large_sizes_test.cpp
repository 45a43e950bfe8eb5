// The charges for copies and builds of more than 2^31 and 2^32 bytes.
#include <gtest/gtest.h>

#include "worker/residency/residency.hpp"

namespace vectorgpu::worker
{
namespace
{

__extension__ using Wide = unsigned __int128;

TEST(LargeCopies, bytes_of_rows_do_not_wrap)
{
	for (const size_t row_bytes : {size_t{0}, size_t{4}, size_t{8000}, size_t{64000}})
		for (const uint64_t n : {uint64_t{0}, (uint64_t{1} << 31) / (row_bytes + 16) + 1,
				 (uint64_t{1} << 32) / (row_bytes + 16) + 1, uint64_t{1} << 32, uint64_t{1} << 41})
			EXPECT_TRUE(rows_bytes(n, row_bytes) == Wide{n} * (row_bytes + 16))
				<< n << " rows of " << row_bytes << " bytes";
}

} // namespace
} // namespace vectorgpu::worker
