// Hopper's warp-group products (wgmma), bulk tensor copies (TMA) and barriers, as plain functions. Code for other
// devices has none of them: VECTORGPU_HAS_WGMMA is 1 in the compiler's pass for sm_90a.
//
// Operands lie in shared memory as 128 bytes of K of each row, row after row, units of 16 bytes swizzled as by the
// copies ("128B swizzle"), beginning at multiples of 1024.
#pragma once

#include <cuda.h>

#include "kernels/warp_block/mma.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define VECTORGPU_HAS_WGMMA 1
#else
#define VECTORGPU_HAS_WGMMA 0
#endif

namespace vectorgpu::kernels
{

__device__ __forceinline__ void
barrier_init(uint32_t barrier, uint32_t n_arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals) : "memory");
}

/// After barrier_init, by the same thread, before a barrier of all threads: makes the barriers visible to copies.
__device__ __forceinline__ void
barriers_visible()
{
	asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
}

__device__ __forceinline__ void
barrier_arrive(uint32_t barrier)
{
	asm volatile("{\n.reg .b64 t;\nmbarrier.arrive.shared::cta.b64 t, [%0];\n}" ::"r"(barrier) : "memory");
}

/// Arrive, and make the phase wait for this many bytes of copies.
__device__ __forceinline__ void
barrier_expect(uint32_t barrier, uint32_t bytes)
{
	asm volatile("{\n.reg .b64 t;\nmbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1;\n}" ::"r"(barrier), "r"(bytes)
		: "memory");
}

/// Wait until the phase of that parity is over.
__device__ __forceinline__ void
barrier_wait(uint32_t barrier, uint32_t parity)
{
	asm volatile(
		"{\n.reg .pred over;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n@over bra.uni done;\n"
		"bra.uni again;\ndone:\n}" ::"r"(barrier),
		"r"(parity)
		: "memory");
}

/// Policy for copies of rows that other data in L2 replaces first.
__device__ __forceinline__ uint64_t
l2_policy_first()
{
	uint64_t policy;

	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
	return policy;
}

/// Policy for copies of rows that stay in L2 like other data.
__device__ __forceinline__ uint64_t
l2_policy_normal()
{
	uint64_t policy;

	asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
	return policy;
}

/// copy_box with one of the policies above.
__device__ __forceinline__ void
copy_box_for(uint32_t to, const CUtensorMap *map, uint32_t x, uint32_t y, uint32_t barrier, uint64_t policy)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
				 "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
		"l"(reinterpret_cast<uint64_t>(map)), "r"(x), "r"(y), "r"(barrier), "l"(policy)
		: "memory");
}

/// Start the copy of a box of the tensor to shared memory; its bytes count for the barrier.
__device__ __forceinline__ void
copy_box(uint32_t to, const CUtensorMap *map, uint32_t x, uint32_t y, uint32_t barrier)
{
	asm volatile(
		"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
			to),
		"l"(reinterpret_cast<uint64_t>(map)), "r"(x), "r"(y), "r"(barrier)
		: "memory");
}

/// By all threads of a warp group: reduce the registers of each thread to this number.
template <int kRegisters>
__device__ __forceinline__ void
give_registers()
{
#if VECTORGPU_HAS_WGMMA
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

/// As give_registers: raise the number, once other groups have given theirs.
template <int kRegisters>
__device__ __forceinline__ void
take_registers()
{
#if VECTORGPU_HAS_WGMMA
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
#endif
}

/// The descriptor of an operand at a shared address: K-major, 128B swizzle, 1024 bytes from 8 rows to the next 8.
__device__ __forceinline__ uint64_t
operand_descriptor(uint32_t address)
{
	return (uint64_t{1} << 62) | (uint64_t{1024 / 16} << 32) | (uint64_t{1} << 16) | (address >> 4 & 0x3FFF);
}

/// Before the first product of a group: orders earlier writes of registers before it.
__device__ __forceinline__ void
products_begin()
{
#if VECTORGPU_HAS_WGMMA
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Close a group of products.
__device__ __forceinline__ void
products_commit()
{
#if VECTORGPU_HAS_WGMMA
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Wait until at most kLeft groups are under way.
template <int kLeft>
__device__ __forceinline__ void
products_wait()
{
#if VECTORGPU_HAS_WGMMA
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
#endif
}

/// Keep the compiler from moving uses of sums across this place: products write them asynchronously.
template <int NT, class Sum>
__device__ __forceinline__ void
hold_sums(Sum (&sums)[NT][4])
{
#pragma unroll
	for (int i = 0; i < NT * 4; i++)
		if constexpr (std::is_same_v<Sum, int>)
			asm volatile("" : "+r"(sums[i / 4][i % 4])::"memory");
		else
			asm volatile("" : "+f"(sums[i / 4][i % 4])::"memory");
}

/// sums += rows · queries over 32 bytes of K: 64 rows of a warp group, NT * 8 queries; with accumulate = 0 earlier sums
/// are dropped. By all four warps.
template <Form form, int NT>
struct GroupProduct;

#if VECTORGPU_HAS_WGMMA
// Registers of the sums, and after them the operands, in the assembler's syntax.
#define VECTORGPU_4(c, j) c(sums[j][0]), c(sums[j][1]), c(sums[j][2]), c(sums[j][3])
#define VECTORGPU_8(c, j) VECTORGPU_4(c, j), VECTORGPU_4(c, j + 1)
#define VECTORGPU_16(c, j) VECTORGPU_8(c, j), VECTORGPU_8(c, j + 2)
#define VECTORGPU_32(c, j) VECTORGPU_16(c, j), VECTORGPU_16(c, j + 4)
#define VECTORGPU_64(c, j) VECTORGPU_32(c, j), VECTORGPU_32(c, j + 8)
#define VECTORGPU_LIST_4 "%0, %1, %2, %3"
#define VECTORGPU_LIST_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define VECTORGPU_LIST_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define VECTORGPU_LIST_32                                                                                              \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define VECTORGPU_LIST_64                                                                                              \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                                 \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                 \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define VECTORGPU_PRODUCT(form, nt, n_sums, type, sum, constraint, tail, a, b, c)                                      \
	template <>                                                                                                        \
	struct GroupProduct<form, nt>                                                                                      \
	{                                                                                                                  \
		static __device__ __forceinline__ void add(                                                                    \
			sum (&sums)[nt][4], uint64_t rows, uint64_t queries, uint32_t accumulate = 1)                              \
		{                                                                                                              \
			asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #c ", 0;\nwgmma.mma_async.sync.aligned." type            \
						 " {" VECTORGPU_LIST_##n_sums "}, %" #a ", %" #b tail ";\n}"                                   \
				: VECTORGPU_##n_sums(constraint, 0)                                                                    \
				: "l"(rows), "l"(queries), "r"(accumulate));                                                           \
		}                                                                                                              \
	};
VECTORGPU_PRODUCT(Form::kByte, 1, 4, "m64n8k32.s32.u8.u8", int, "+r", ", p", 4, 5, 6)
VECTORGPU_PRODUCT(Form::kByte, 2, 8, "m64n16k32.s32.u8.u8", int, "+r", ", p", 8, 9, 10)
VECTORGPU_PRODUCT(Form::kByte, 4, 16, "m64n32k32.s32.u8.u8", int, "+r", ", p", 16, 17, 18)
VECTORGPU_PRODUCT(Form::kByte, 8, 32, "m64n64k32.s32.u8.u8", int, "+r", ", p", 32, 33, 34)
VECTORGPU_PRODUCT(Form::kByte, 16, 64, "m64n128k32.s32.u8.u8", int, "+r", ", p", 64, 65, 66)
VECTORGPU_PRODUCT(Form::kScaled, 1, 4, "m64n8k32.s32.s8.s8", int, "+r", ", p", 4, 5, 6)
VECTORGPU_PRODUCT(Form::kScaled, 2, 8, "m64n16k32.s32.s8.s8", int, "+r", ", p", 8, 9, 10)
VECTORGPU_PRODUCT(Form::kScaled, 4, 16, "m64n32k32.s32.s8.s8", int, "+r", ", p", 16, 17, 18)
VECTORGPU_PRODUCT(Form::kScaled, 8, 32, "m64n64k32.s32.s8.s8", int, "+r", ", p", 32, 33, 34)
VECTORGPU_PRODUCT(Form::kScaled, 16, 64, "m64n128k32.s32.s8.s8", int, "+r", ", p", 64, 65, 66)
VECTORGPU_PRODUCT(Form::kFloat16, 1, 4, "m64n8k16.f32.f16.f16", float, "+f", ", p, 1, 1, 0, 0", 4, 5, 6)
VECTORGPU_PRODUCT(Form::kFloat16, 2, 8, "m64n16k16.f32.f16.f16", float, "+f", ", p, 1, 1, 0, 0", 8, 9, 10)
VECTORGPU_PRODUCT(Form::kFloat16, 4, 16, "m64n32k16.f32.f16.f16", float, "+f", ", p, 1, 1, 0, 0", 16, 17, 18)
VECTORGPU_PRODUCT(Form::kFloat16, 8, 32, "m64n64k16.f32.f16.f16", float, "+f", ", p, 1, 1, 0, 0", 32, 33, 34)
VECTORGPU_PRODUCT(Form::kFloat16, 16, 64, "m64n128k16.f32.f16.f16", float, "+f", ", p, 1, 1, 0, 0", 64, 65, 66)
VECTORGPU_PRODUCT(Form::kFloat32, 1, 4, "m64n8k8.f32.tf32.tf32", float, "+f", ", p, 1, 1", 4, 5, 6)
VECTORGPU_PRODUCT(Form::kFloat32, 2, 8, "m64n16k8.f32.tf32.tf32", float, "+f", ", p, 1, 1", 8, 9, 10)
VECTORGPU_PRODUCT(Form::kFloat32, 4, 16, "m64n32k8.f32.tf32.tf32", float, "+f", ", p, 1, 1", 16, 17, 18)
VECTORGPU_PRODUCT(Form::kFloat32, 8, 32, "m64n64k8.f32.tf32.tf32", float, "+f", ", p, 1, 1", 32, 33, 34)
VECTORGPU_PRODUCT(Form::kFloat32, 16, 64, "m64n128k8.f32.tf32.tf32", float, "+f", ", p, 1, 1", 64, 65, 66)
#undef VECTORGPU_PRODUCT
#undef VECTORGPU_64
#undef VECTORGPU_32
#undef VECTORGPU_16
#undef VECTORGPU_8
#undef VECTORGPU_4
#endif

} // namespace vectorgpu::kernels
