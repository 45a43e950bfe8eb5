// Codes of the rows of a segment with inverted lists (CopyKind::kCodedLists and kCodes), as handed to an engine: behind
// the description of the lists (lists_layout.hpp). kCodedLists also has the rows, as kLists: codes choose candidates,
// canonical scores decide. kCodes has row ids alone: the candidates are the answer, and the caller compares the rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/distance/distance.hpp"
#include "engine/ivf/code_query.hpp"
#include "engine/interface/lists_layout.hpp"

namespace vectorgpu::engine
{

/// How codes are made.
struct CodesHead
{
	uint32_t kind; // ivf::CodeKind
	uint32_t pq_m; // kPq, else 0
	uint32_t bits; // kPq: of a part; kRabitq: of a dimension; else 0
	uint32_t opq;  // kPq: 0 or 1; else 0
};
static_assert(sizeof(CodesHead) == 16);

inline CodesHead
head_of(const ivf::CodeSpec &spec)
{
	const bool pq = spec.kind == ivf::CodeKind::kPq;

	return {static_cast<uint32_t>(spec.kind), pq ? spec.pq.m : 0, pq ? spec.pq.bits : spec.bits,
		pq && spec.pq.opq ? 1u : 0u};
}

/// Set *spec to the codes of such rows. Return null, or what is wrong with the head.
inline const char *
code_spec_of(const CodesHead &head, const DistanceSpec &rows, ivf::CodeSpec *spec)
{
	*spec = {};
	spec->kind = static_cast<ivf::CodeKind>(head.kind);
	spec->metric = rows.metric;
	spec->dim = rows.dim;
	if (spec->kind == ivf::CodeKind::kPq)
		spec->pq = {rows.metric, rows.dim, head.pq_m, head.bits, head.opq != 0};
	if (spec->kind == ivf::CodeKind::kRabitq)
		spec->bits = head.bits;
	if (head.opq > 1 || (spec->kind != ivf::CodeKind::kPq && (head.pq_m != 0 || head.opq != 0)) ||
		(spec->kind != ivf::CodeKind::kPq && spec->kind != ivf::CodeKind::kRabitq && head.bits != 0))
		return "parameters that do not apply to the codes";
	return ivf::code_spec_error(*spec);
}

/// Layout behind the lists, little endian, one part behind the other:
///   head   CodesHead
///   model  float32 [code_model_floats]: the model of the codes
///   terms  float32 [n_rows] by place, if codes have terms
///   codes  by place; kPq, kRabitq: in blocks of 32 places, whatever their lists
struct CodesLayout
{
	ivf::CodeSpec spec;
	uint64_t n_rows = 0;

	static constexpr uint64_t model_at() { return sizeof(CodesHead); }
	uint64_t terms_at() const { return model_at() + ivf::code_model_floats(spec) * sizeof(float); }
	uint64_t codes_at() const { return terms_at() + (ivf::code_has_terms(spec) ? n_rows * sizeof(float) : 0); }
	uint64_t bytes() const { return codes_at() + ivf::all_code_bytes(spec, n_rows); }
};

} // namespace vectorgpu::engine
