// A warp's products on tensor cores (mma, sm_80 and later), its fragments, and the copies that bring them to shared
// memory, as plain functions. Hopper's products by warp groups: wgmma.cuh.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

__device__ __forceinline__ uint32_t
shared_address(const void *p)
{
	return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/// The type of sums of products.
template <Form form>
struct Accumulator
{
	using Type = float;
};
template <>
struct Accumulator<Form::kByte>
{
	using Type = int;
};
template <>
struct Accumulator<Form::kScaled>
{
	using Type = int;
};

/// Start the copy of 16 bytes to shared memory.
__device__ __forceinline__ void
copy_async_16(uint32_t to, const void *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// Close a group of copies.
__device__ __forceinline__ void
copies_commit()
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Wait until at most kLeft groups of this thread's copies are under way.
template <int kLeft>
__device__ __forceinline__ void
copies_wait()
{
	asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Load four 8 x 8 matrices of halves, the fragments of a product; lane i gives the address of a row of 16 bytes.
__device__ __forceinline__ void
load_matrix_x4(uint32_t (&r)[4], uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		: "r"(address)
		: "memory");
}

/// As load_matrix_x4: two matrices.
__device__ __forceinline__ void
load_matrix_x2(uint32_t &r0, uint32_t &r1, uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
		: "=r"(r0), "=r"(r1)
		: "r"(address)
		: "memory");
}

/// c += rows (16 x 32 bytes of K) · queries (32 bytes of K x 8), by a warp.
template <Form form>
__device__ __forceinline__ void multiply(
	typename Accumulator<form>::Type (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
	if constexpr (form == Form::kByte)
		asm volatile(
			"mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
			: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
	else if constexpr (form == Form::kScaled)
		asm volatile(
			"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
			: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
	else if constexpr (form == Form::kFloat16)
		asm volatile(
			"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
	else
		asm volatile(
			"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
			: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

} // namespace vectorgpu::kernels
