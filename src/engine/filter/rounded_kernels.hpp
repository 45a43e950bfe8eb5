// The interface between rounded_rows.cpp and its kernels, one file per instruction set. No standard templates: code
// that a kernel's file compiles must not be shared with code for other CPUs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

constexpr size_t kRoundedStep = 64; // rows of bytes are padded with zeros to a multiple

/// products [n]: exact inner products of a query [n_bytes] with rows [n][n_bytes]. n_bytes: a multiple of kRoundedStep,
/// at most 2^16. Values are in [-127, 127].
using RoundedKernel = void (*)(
	const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products);

void rounded_products_scalar(
	const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products);
void rounded_products_avx2(const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products);
void rounded_products_avx512(
	const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products);
/// For CPUs that have AVX512_VNNI, too.
void rounded_products_vnni(const int8_t *const *rows, size_t n, size_t n_bytes, const int8_t *query, int32_t *products);

} // namespace vectorgpu::engine
