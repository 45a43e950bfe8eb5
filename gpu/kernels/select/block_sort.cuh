// A power-of-two bitonic sort of entries inside one block.
#pragma once

#include "kernels/select/kth.cuh"

namespace vectorgpu::kernels
{

/// Sort entries [n], shared memory, n a power of two. All of Threads call it; ends with a barrier.
template <class Threads = WholeBlock>
__device__ inline void
block_sort(Entry *entries, uint32_t n)
{
	for (uint32_t size = 2; size <= n; size *= 2)
		for (uint32_t stride = size / 2; stride > 0; stride /= 2)
		{
			Threads::sync();
			for (uint32_t i = threadIdx.x; i < n / 2; i += Threads::size())
			{
				const uint32_t low = 2 * i - (i & (stride - 1));
				const uint32_t high = low + stride;
				const bool ascending = (low & size) == 0;
				const Entry a = entries[low];
				const Entry b = entries[high];

				if (entry_less(b, a) == ascending)
				{
					entries[low] = b;
					entries[high] = a;
				}
			}
		}
	Threads::sync();
}

} // namespace vectorgpu::kernels
