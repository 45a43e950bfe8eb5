// WarpSelect in the form of Johnson, Douze, Jégou, "Billion-scale similarity search with GPUs", section 4: k-selection
// by one warp in registers. Thread queues of t keys a lane, a warp queue of k keys across the lanes, odd-size merging
// networks between them.
//
// Written over a vector of one key per lane, so that the same template is a kernel's code (DeviceWarp: a vector is a
// register) and plain host code (HostWarp: 32 numbers), which the unit tests run. Element i of an array x[N] of vectors
// ("lane-stride") is lane i % 32 of x[i / 32]. Keys are compared as unsigned numbers; kWarpSelectMost is the sentinel,
// not a key.
#pragma once

#include <array>
#include <cstdint>

#ifdef __CUDACC__
#define VECTORGPU_LANES __host__ __device__ __forceinline__
#else
#define VECTORGPU_LANES inline
#endif
#ifdef __CUDA_ARCH__ // the host's compiler warns of pragmas that it does not know
#define VECTORGPU_UNROLL _Pragma("unroll")
#else
#define VECTORGPU_UNROLL
#endif

namespace vectorgpu::kernels
{

constexpr uint64_t kWarpSelectMost = ~uint64_t{0};

/// A warp on the host.
struct HostWarp
{
	using Vec = std::array<uint64_t, 32>;

	static Vec all(uint64_t key)
	{
		Vec v;

		v.fill(key);
		return v;
	}

	static Vec smaller(const Vec &a, const Vec &b)
	{
		Vec v;

		for (int lane = 0; lane < 32; lane++)
			v[lane] = a[lane] < b[lane] ? a[lane] : b[lane];
		return v;
	}

	static Vec larger(const Vec &a, const Vec &b)
	{
		Vec v;

		for (int lane = 0; lane < 32; lane++)
			v[lane] = a[lane] < b[lane] ? b[lane] : a[lane];
		return v;
	}

	/// Lane i gets lane i ^ mask.
	static Vec exchange(const Vec &a, int mask)
	{
		Vec v;

		for (int lane = 0; lane < 32; lane++)
			v[lane] = a[lane ^ mask];
		return v;
	}

	/// a in lanes below their partner lane ^ mask, b in the others.
	static Vec split(const Vec &a, const Vec &b, int mask)
	{
		Vec v;

		for (int lane = 0; lane < 32; lane++)
			v[lane] = lane < (lane ^ mask) ? a[lane] : b[lane];
		return v;
	}

	static uint64_t last_lane(const Vec &a) { return a[31]; }

	static bool any_less(const Vec &a, uint64_t key)
	{
		for (const uint64_t one : a)
			if (one < key)
				return true;
		return false;
	}
};

#ifdef __CUDACC__
/// All 32 lanes call every function together.
struct DeviceWarp
{
	using Vec = uint64_t;

	static __device__ __forceinline__ Vec all(uint64_t key) { return key; }
	static __device__ __forceinline__ Vec smaller(Vec a, Vec b) { return a < b ? a : b; }
	static __device__ __forceinline__ Vec larger(Vec a, Vec b) { return a < b ? b : a; }

	static __device__ __forceinline__ Vec exchange(Vec a, int mask)
	{
		return __shfl_xor_sync(0xFFFFFFFFu, static_cast<unsigned long long>(a), mask);
	}

	static __device__ __forceinline__ Vec split(Vec a, Vec b, int mask)
	{
		const int lane = static_cast<int>(threadIdx.x % 32);

		return lane < (lane ^ mask) ? a : b;
	}

	static __device__ __forceinline__ uint64_t last_lane(Vec a)
	{
		return __shfl_sync(0xFFFFFFFFu, static_cast<unsigned long long>(a), 31);
	}

	static __device__ __forceinline__ bool any_less(Vec a, uint64_t key) { return __any_sync(0xFFFFFFFFu, a < key); }
};
#endif

/// The networks. Lengths are in vectors, so in multiples of 32 elements; ascending order.
template <class Warp>
struct Network
{
	using Vec = typename Warp::Vec;

	/// The largest power of two below n (n > 1): h of merge-odd-continue, in vectors.
	static constexpr VECTORGPU_LANES int half(int n)
	{
		int h = 1;

		while (h * 2 < n)
			h *= 2;
		return h;
	}

	static VECTORGPU_LANES void compare_swap(Vec &low, Vec &high)
	{
		const Vec a = low;

		low = Warp::smaller(a, high);
		high = Warp::larger(a, high);
	}

	/// Compare-swap of lanes i < i ^ mask with their partners.
	static VECTORGPU_LANES void compare_swap_lanes(Vec &x, int mask)
	{
		const Vec other = Warp::exchange(x, mask);

		x = Warp::split(Warp::smaller(x, other), Warp::larger(x, other), mask);
	}

	/// Algorithm 1, merge-odd-continue: sorts x[N], whose missing elements up to the next power of two are assumed
	/// before (kLeft) or after it.
	template <int N, bool kLeft>
	static VECTORGPU_LANES void merge_continue(Vec *x)
	{
		if constexpr (N == 1)
		{
			VECTORGPU_UNROLL
			for (int mask = 16; mask >= 1; mask /= 2)
				compare_swap_lanes(*x, mask);
		}
		else if constexpr (N > 1)
		{
			constexpr int H = half(N);

			VECTORGPU_UNROLL
			for (int i = 0; i < N - H; i++)
				compare_swap(x[i], x[i + H]);
			if constexpr (kLeft)
			{
				merge_continue<N - H, true>(x);
				merge_continue<H, false>(x + (N - H));
			}
			else
			{
				merge_continue<H, true>(x);
				merge_continue<N - H, false>(x + H);
			}
		}
	}

	/// Algorithm 1, merge-odd: left [NL] and right [NR], each ascending, become one ascending array across both.
	template <int NL, int NR>
	static VECTORGPU_LANES void merge(Vec *left, Vec *right)
	{
		constexpr int N = NL < NR ? NL : NR;

		// The inverted first stage: element NL * 32 - 1 - i meets element i; their lanes mirror each other.
		VECTORGPU_UNROLL
		for (int i = 0; i < N; i++)
		{
			const Vec a = left[NL - 1 - i];
			const Vec b = right[i];

			left[NL - 1 - i] = Warp::smaller(a, Warp::exchange(b, 31));
			right[i] = Warp::larger(b, Warp::exchange(a, 31));
		}
		merge_continue<NL, true>(left);
		merge_continue<NR, false>(right);
	}

	/// Algorithm 2, sort-odd.
	template <int N>
	static VECTORGPU_LANES void sort(Vec *x)
	{
		if constexpr (N == 1)
		{
			// Within a vector sizes are powers of two: the first stage of a merge of 2 s elements mirrors them.
			VECTORGPU_UNROLL
			for (int size = 2; size <= 32; size *= 2)
			{
				compare_swap_lanes(*x, size - 1);
				VECTORGPU_UNROLL
				for (int mask = size / 4; mask >= 1; mask /= 2)
					compare_swap_lanes(*x, mask);
			}
		}
		else if constexpr (N > 1)
		{
			sort<N / 2>(x);
			sort<N - N / 2>(x + N / 2);
			merge<N / 2, N - N / 2>(x, x + N / 2);
		}
	}
};

/// Algorithm 3. W: vectors of the warp queue (k rounded up to 32 W), T: keys of a thread queue.
template <class Warp, int W, int T>
class WarpSelect
{
public:
	using Vec = typename Warp::Vec;

	VECTORGPU_LANES void init()
	{
		VECTORGPU_UNROLL
		for (int i = 0; i < W; i++)
			warp_queue[i] = Warp::all(kWarpSelectMost);
		VECTORGPU_UNROLL
		for (int i = 0; i < T; i++)
			thread_queue[i] = Warp::all(kWarpSelectMost);
		kth = kWarpSelectMost;
	}

	/// One key a lane; kWarpSelectMost: none.
	VECTORGPU_LANES void add(const Vec &key)
	{
		// Thread queues descend. Without a branch: a key that is not below the largest leaves the queue as it is.
		VECTORGPU_UNROLL
		for (int i = 0; i < T; i++)
		{
			const Vec kept = Warp::smaller(key, thread_queue[i]);

			thread_queue[i] = i + 1 < T ? Warp::larger(thread_queue[i + 1 < T ? i + 1 : i], kept) : kept;
		}
		if (Warp::any_less(thread_queue[0], kth))
			restore();
	}

	/// All keys added are in the warp queue now, if they are among the 32 W smallest.
	VECTORGPU_LANES void finish() { restore(); }

	Vec warp_queue[W]; // ascending, lane-stride

private:
	/// The thread queues, taken as one unsorted lane-stride array, are sorted and merged with the warp queue; the rest
	/// goes back, reversed.
	VECTORGPU_LANES void restore()
	{
		Network<Warp>::template sort<T>(thread_queue);
		Network<Warp>::template merge<W, T>(warp_queue, thread_queue);
		VECTORGPU_UNROLL
		for (int i = 0; i < T / 2; i++)
		{
			const Vec a = thread_queue[i];

			thread_queue[i] = thread_queue[T - 1 - i];
			thread_queue[T - 1 - i] = a;
		}
		kth = Warp::last_lane(warp_queue[W - 1]);
	}

	Vec thread_queue[T]; // of each lane, descending
	uint64_t kth;        // the last of the warp queue
};

} // namespace vectorgpu::kernels
