// Makes the codes of code_scores.hpp, of either kind. Plain functions over the caller's memory; every machine makes the
// same codes.
#pragma once

#include "engine/graph/graph.hpp"

namespace vectorgpu::engine::graph
{

struct CodeSpec
{
	DistanceSpec rows; // float32 or float16
	uint32_t bits = 0; // code_scores.hpp
	uint64_t seed = 1;
};

/// Whether angles tell distances of this metric apart, and products of vectors give them.
constexpr bool
codes_support(Metric metric)
{
	return metric == Metric::kL2 || metric == Metric::kCosine || metric == Metric::kInnerProduct;
}

/// The parameters of codes that depend on the rows. A plain struct over the caller's memory.
struct CodeModel
{
	CodeSpec spec;
	float bound = 0;               // projections for the inner product: the largest |x|^2
	const float *floats = nullptr; // [code_model_floats]
};

/// Rows of codes, as searches compare them.
inline GraphRows
rows_of_codes(uint32_t bits, uint32_t dim, const void *codes, uint32_t n_rows)
{
	return {{Metric::kL2, ElementType::kFloat32, dim}, codes, code_bytes(bits, dim), n_rows, bits};
}

/// Floats of work memory of the functions below.
size_t code_work_floats(const CodeSpec &spec);

/// Number of rows, at least 1, whose codes take some milliseconds: a caller checks for a stop between such pieces.
uint32_t code_piece_rows(const CodeSpec &spec);

/// Set *bound and floats [code_model_floats] from a sample of the rows. False if call.progress, called every few
/// milliseconds, said stop; then both are undefined.
bool train_codes(
	const CodeSpec &spec, const GraphRows &rows, float *bound, float *floats, float *work, const Call &call = {});

/// codes [n_rows, code_bytes].
void make_codes(const CodeModel &model, const GraphRows &rows, uint8_t *codes, float *work);

/// code [code_query_bytes] of a query, a vector of the rows' type.
void make_query_code(const CodeModel &model, const void *query, uint8_t *code, float *work);

} // namespace vectorgpu::engine::graph
