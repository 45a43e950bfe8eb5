// Codes of rows by RaBitQ (engine/ivf/rabitq) with one centroid, the mean of a sample of the rows: a graph has no
// lists. 1, 2 or 4 bits for each dimension of the rotated residual, and two factors. A query's elements are rounded to
// int8, so that products are sums of whole numbers, and scores the same with any instructions. What scores stand for:
// |x - q|^2 less |q - centre|^2 for L2, -x·q less -centre·q for the inner product and, of vectors of length 1, for
// cosine. A function that codes.hpp calls; the caller's memory.
#pragma once

#include "engine/graph/codes/codes.hpp"

namespace vectorgpu::engine::graph
{

size_t rabitq_work_floats(const CodeSpec &spec);
uint32_t rabitq_piece_rows(const CodeSpec &spec);
bool rabitq_train_centre(const CodeSpec &spec, const GraphRows &rows, float *centre, float *work, const Call &call);
void rabitq_rows(const CodeModel &model, const GraphRows &rows, uint8_t *codes, float *work);
void rabitq_query(const CodeModel &model, const void *query, uint8_t *code, float *work);

/// Σ numbers · elements of a code's numbers [n_bytes] and a query's elements [8 / bits, n_bytes], and slack.
using RabitqProduct = int32_t (*)(const uint8_t *numbers, const int8_t *elements, size_t n_bytes);

/// rabitq_codes_avx2.cpp. Null for other bits. Only for CPUs with AVX2.
RabitqProduct rabitq_product_avx2(uint32_t bits);

} // namespace vectorgpu::engine::graph
