// Huge pages for large arrays: a page fault for every 4 KB takes longer than copying what is put there.
#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/mman.h>

namespace vectorgpu
{

/// Ask the kernel to back the whole huge pages in [memory, memory + n_bytes) by such ones, before they are touched.
/// Where it has none, or may not, small ones do. memory: of an allocation that will be written soon; it is not changed.
inline void
ask_for_huge_pages(void *memory, size_t n_bytes)
{
	constexpr uintptr_t kHugePageBytes = uintptr_t{2} << 20;
	const uintptr_t begin =
		(reinterpret_cast<uintptr_t>(memory) + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
	const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + n_bytes) / kHugePageBytes * kHugePageBytes;

	if (begin < end)
		(void) madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
}

} // namespace vectorgpu
