// State that the blocks of a search in one pass share: counters on which they wait, and tiles that they share out; and
// the place of a tile.
#pragma once

#include "kernels/filter/group_pipeline.cuh"
#include "kernels/filter/one_pass.hpp"

namespace vectorgpu::kernels
{

__device__ __forceinline__ uint32_t
read_acquire(const uint32_t *p)
{
	uint32_t value;

	asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
	return value;
}

/// By one thread, after a barrier of the threads whose writes have to be visible.
__device__ __forceinline__ void
count_up(uint32_t *counter)
{
	asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

__device__ __forceinline__ void
give_up(const OnePassCounters &counters)
{
	*const_cast<volatile uint32_t *>(counters.counters + OnePassCounters::kGivenUp * OnePassCounters::kStride) =
		counters.launch;
	*const_cast<volatile uint32_t *>(counters.given_up) = counters.launch;
	__threadfence_system();
}

__device__ __forceinline__ bool
has_count(const OnePassCounters &counters, uint32_t which, uint32_t target)
{
	return static_cast<int32_t>(read_acquire(counters.counters + which * OnePassCounters::kStride) - target) >= 0;
}

/// Wait until the counter is `target` or more. False if it took so long that not all blocks can be on the device: the
/// launch is given up, and its results are invalid. A block that goes on after that stays within its memory and counts
/// up the counters that others wait for.
__device__ __forceinline__ bool
wait_for_count(const OnePassCounters &counters, uint32_t which, uint32_t target)
{
	constexpr uint32_t kLooksBetween = 1024; // between looks at whether others have given up

#pragma unroll 1
	for (uint32_t left = counters.most_looks; left > 0; left--)
	{
		if (has_count(counters, which, target))
			return true;
		if (left % kLooksBetween == 0 &&
			read_acquire(counters.counters + OnePassCounters::kGivenUp * OnePassCounters::kStride) == counters.launch)
			break;
	}
	give_up(counters);
	return false;
}

struct OnePassMaps
{
	CUtensorMap rows[kMostParts];
	CUtensorMap queries;
};

/// The place of a tile.
struct TilePlace
{
	uint32_t part;
	uint32_t row; // its first row, of the part
};

__device__ __forceinline__ TilePlace
place_of(const RowParts &parts, uint32_t tile)
{
	const uint32_t number = tile * kFilterTileRows;
	const uint32_t part = part_of(parts, number);

	return {part, number - parts.first_row[part]};
}

/// By one thread.
__device__ __forceinline__ void
stamp(const OnePassStamps &stamps, OnePassStamps::What what)
{
	if (stamps.times == nullptr)
		return;

	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
	stamps.times[blockIdx.x * OnePassStamps::kCount + what] = now;
}

/// By all threads that multiply: the first of them stamps.
__device__ __forceinline__ void
stamp_once(const OnePassStamps &stamps, OnePassStamps::What what)
{
	if (threadIdx.x == 0)
		stamp(stamps, what);
}

/// The tiles of a block in the order in which it takes them: first its own, then tiles of all blocks' ranges that no
/// block has taken, since processors do not get equal shares of the memory's bandwidth. Only the copying thread takes
/// tiles; it announces them in shared memory kAhead tiles ahead, so that others know them when they request values. A
/// block whose range is shorter than n_own takes none from others.
class BlockTiles
{
public:
	static constexpr uint32_t kNone = 0xFFFFFFFFu;
	// Of the values, which each of two groups requests kValueSlots - 1 tiles ahead.
	static constexpr uint32_t kAhead = 2 * kValueSlots;
	// Places of the shared list: more than lie between the first taken and the last read.
	static constexpr uint32_t kPlaces = 32;

	__device__ __forceinline__ BlockTiles(
		const OnePassArgs &args, uint32_t n_tiles_all, const OnePassPlan &plan, volatile uint32_t *list)
		: args_(args), plan_(plan), n_tiles_all_(n_tiles_all), first_(blockIdx.x * plan.tiles_per_block),
		  n_own_(min(plan.n_own, n_tiles_all - first_)),
		  are_shared_(plan.n_own < plan.tiles_per_block && plan.n_own <= n_tiles_all - first_), list_(list)
	{
	}

	__device__ __forceinline__ uint32_t n_own() const { return n_own_; }

	/// Whether the rows of a tile stay in L2; the same for all blocks.
	__device__ __forceinline__ bool stays(uint32_t tile) const
	{
		return tile % plan_.tiles_per_block * plan_.kept_of_16 % 16 < plan_.kept_of_16;
	}

	/// The at-th tile, or kNone. at: less than kAhead beyond a tile that has come.
	__device__ __forceinline__ uint32_t operator[](uint32_t at) const
	{
		if (at < n_own_)
			return first_ + at;
		if (are_shared_)
			return list_[at % kPlaces];
		return kNone;
	}

	/// By the copying thread, before the first tile.
	__device__ __forceinline__ void begin()
	{
		n_known_ = n_own_;
		if (are_shared_)
			next_ = take();
	}

	/// By the copying thread, before it brings the at-th tile: all tiles up to kAhead beyond it are known afterwards.
	__device__ __forceinline__ void look_ahead(uint32_t at)
	{
		while (are_shared_ && n_known_ <= at + kAhead)
		{
			const uint32_t group = next_ - args_.counters.before[OnePassCounters::kShared];
			const uint32_t tile =
				group % gridDim.x * plan_.tiles_per_block + plan_.n_own + group / gridDim.x * plan_.tuning.shared_tiles;

			if (is_over_ || group >= (plan_.tiles_per_block - plan_.n_own) / plan_.tuning.shared_tiles * gridDim.x)
			{
				is_over_ = true;
				list_[n_known_++ % kPlaces] = uint32_t{kNone};
				continue;
			}
			next_ = take(); // the answer comes while others are brought
			for (uint32_t i = 0; i < plan_.tuning.shared_tiles; i++)
				if (tile + i < n_tiles_all_)
					list_[n_known_++ % kPlaces] = tile + i;
		}
	}

private:
	__device__ __forceinline__ uint32_t take()
	{
		return atomicAdd(args_.counters.counters + OnePassCounters::kShared * OnePassCounters::kStride, 1u);
	}

	const OnePassArgs &args_;
	const OnePassPlan &plan_;
	uint32_t n_tiles_all_;
	uint32_t first_;
	uint32_t n_own_;
	bool are_shared_;
	volatile uint32_t *list_;
	uint32_t n_known_ = 0;
	uint32_t next_ = 0; // taken, but not yet in the list
	bool is_over_ = false;
};

} // namespace vectorgpu::kernels
