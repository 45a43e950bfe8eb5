// See match_memory.hpp.
#include "am/gpumatch/match_memory.hpp"

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

namespace
{

void *
resize(void *context, void *old, size_t bytes)
{
	if (bytes == 0)
	{
		if (old != nullptr)
			pfree(old);
		return nullptr;
	}
	if (old == nullptr)
		return MemoryContextAllocHuge(static_cast<MemoryContext>(context), bytes);
	return repalloc_huge(old, bytes);
}

} // namespace

engine::match::Memory
match_memory()
{
	return {resize, CurrentMemoryContext};
}

} // namespace vectorgpu::am
