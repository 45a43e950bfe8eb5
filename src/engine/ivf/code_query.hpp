// Codes of any of this folder's quantisers, and a query against them. A backend that reads lists from pages and an
// engine that holds them use this code, and so compute the same bits.
#pragma once

#include <limits>

#include "engine/distance/topk.hpp"
#include "engine/ivf/pq_scan.hpp"
#include "engine/ivf/rabitq/rabitq_scan.hpp"
#include "engine/ivf/sq8.hpp"

namespace vectorgpu::engine::ivf
{

/// Kinds of codes. On the wire: never renumber.
enum class CodeKind : uint32_t
{
	kNone = 0,
	kHalves = 1, // float16 of float32 elements
	kSq8 = 2,
	kPq = 3,
	kRabitq = 4,
};

struct CodeSpec
{
	CodeKind kind = CodeKind::kNone;
	Metric metric = Metric::kL2;
	uint32_t dim = 0;
	PqSpec pq;         // kPq only
	uint32_t bits = 0; // kRabitq only: of a dimension
};

/// Describe what is wrong with a spec; null if such codes can be made.
const char *code_spec_error(const CodeSpec &spec);

/// Bytes of a row's code.
size_t code_bytes(const CodeSpec &spec);

/// Whether rows have a term of their own (PqQuery).
bool code_has_terms(const CodeSpec &spec);

/// True if codes have to do with the list of their row: centroids are needed to make and to decode them.
constexpr bool
code_is_residual(const CodeSpec &spec)
{
	return spec.kind == CodeKind::kPq || spec.kind == CodeKind::kRabitq;
}

/// The number of rows whose codes lie in a block (kPq, kRabitq); 1: row by row.
constexpr size_t
code_unit_rows(const CodeSpec &spec)
{
	return spec.kind == CodeKind::kPq || spec.kind == CodeKind::kRabitq ? kCodeBlockRows : 1;
}

/// Put codes [n_rows, code_bytes] into blocks, the last one filled up with zeros; and back: the code of row i of the
/// blocks. Codes with code_unit_rows above 1 only.
void code_make_blocks(const CodeSpec &spec, const uint8_t *codes, size_t n_rows, uint8_t *blocks);
void code_read_block(const CodeSpec &spec, const uint8_t *blocks, size_t i, uint8_t *code);

/// Bytes of the codes of all rows of a segment, by place.
uint64_t all_code_bytes(const CodeSpec &spec, uint64_t n_rows);

/// Floats of the model of codes: low [dim], step [dim] of SQ8; codebook, then rotation of PQ (PqModel);
/// centre [dim], seed of RaBitQ.
size_t code_model_floats(const CodeSpec &spec);

struct CodeModel
{
	CodeSpec spec;
	Sq8Ranges sq8;
	PqModel pq;
	RabitqModel rabitq;
};

/// floats [code_model_floats] have to live as long as the model. Nothing here writes to them.
CodeModel make_code_model(const CodeSpec &spec, float *floats);

/// A query against codes. A plain struct over the caller's memory.
struct CodeQuery
{
	const CodeModel *model = nullptr;
	const float *query = nullptr; // [dim]
	Sq8Query sq8;
	PqQuery pq;
	RabitqQuery rabitq;
	float *widened = nullptr; // kHalves: scratch
};

size_t code_query_bytes(const CodeSpec &spec);

/// query [dim] float32, for cosine of length 1; memory [code_query_bytes], which this function aligns to 64 bytes. Both
/// have to live as long as the prepared query, and model must not move.
Outcome code_query_prepare(
	const CodeModel &model, const float *query, void *memory, size_t memory_bytes, CodeQuery *prepared);

/// Estimate scores [n_rows] of rows of one list. codes: row by row, or in blocks, from the beginning of a block on.
/// terms [n_rows], or null. list_constant: code_list_constant. A score above `limit` may come out as any number above
/// it that is not larger, which takes less time (kRabitq). Two threads must not use the same query at a time.
void code_scores(const CodeQuery &query, double list_constant, const uint8_t *codes, const float *terms, size_t n_rows,
	double *scores, double limit = std::numeric_limits<double>::infinity());

/// The same for rows of several lists: constants [n_rows] of each row's list.
void mixed_code_scores(const CodeQuery &query, const double *constants, const uint8_t *codes, const float *terms,
	size_t n_rows, double *scores, double limit = std::numeric_limits<double>::infinity());

/// True if scores above a limit take less time.
constexpr bool
code_has_bounds(const CodeSpec &spec)
{
	return spec.kind == CodeKind::kRabitq && spec.bits > 1;
}

/// Rows to score before the next ones are chosen: at most `most`, a multiple of kCodeBlockRows, and few as long as the
/// selection has no limit for them.
inline size_t
code_step_rows(const CodeSpec &spec, const TopK &topk, size_t most)
{
	return code_has_bounds(spec) && !topk.full ? 2 * kCodeBlockRows : most;
}

/// The summand of all estimates of a list, from the canonical score between query and centroid.
constexpr double
code_list_constant(const CodeSpec &spec, double coarse_score)
{
	return code_is_residual(spec) ? pq_list_constant(spec.metric, coarse_score) : 0;
}

} // namespace vectorgpu::engine::ivf
