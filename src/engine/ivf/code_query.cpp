// See code_query.hpp.
#include "engine/ivf/code_query.hpp"

#include <algorithm>

#include "common/limits.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kWidenedFloats = 16384; // of halves that are scored at a time

/// Rows of halves widened at a time.
size_t
widened_rows(uint32_t dim)
{
	return std::max<size_t>(kWidenedFloats / dim, 1);
}

struct QueryMemory
{
	float *widened; // kHalves
	float *sq8;
	void *pq; // kPq, kRabitq
	size_t pq_bytes;
};

RabitqSpec
rabitq_spec(const CodeSpec &spec)
{
	return {spec.metric, spec.dim, spec.bits};
}

QueryMemory
take_query_memory(Arena *arena, const CodeSpec &spec)
{
	QueryMemory memory = {};

	switch (spec.kind)
	{
		case CodeKind::kHalves:
			memory.widened = arena->take<float>(widened_rows(spec.dim) * spec.dim);
			break;
		case CodeKind::kSq8:
			memory.sq8 = arena->take<float>(sq8_query_floats(spec.dim));
			break;
		case CodeKind::kPq:
			memory.pq_bytes = pq_query_bytes(spec.pq);
			memory.pq = arena->take<uint8_t>(memory.pq_bytes);
			break;
		case CodeKind::kRabitq:
			memory.pq_bytes = rabitq_query_bytes(rabitq_spec(spec));
			memory.pq = arena->take<uint8_t>(memory.pq_bytes);
			break;
		case CodeKind::kNone:
			break;
	}
	return memory;
}

void
half_scores(const CodeQuery &query, const uint8_t *codes, size_t n_rows, double *scores)
{
	const CodeSpec &spec = query.model->spec;
	const DistanceSpec distance = {spec.metric, ElementType::kFloat32, spec.dim};
	const size_t batch = widened_rows(spec.dim);

	for (size_t first = 0; first < n_rows; first += batch)
	{
		const size_t n = std::min(batch, n_rows - first);

		widen_halves(codes + first * code_bytes(spec), n * spec.dim, query.widened);
		compute_scores(distance, query.query, query.widened, spec.dim * sizeof(float), n, scores + first, 0);
	}
}

} // namespace

const char *
code_spec_error(const CodeSpec &spec)
{
	if (spec.dim < 1 || spec.dim > static_cast<uint32_t>(kMaxDimensions))
		return "number of dimensions is out of range";
	switch (spec.kind)
	{
		case CodeKind::kHalves:
		case CodeKind::kSq8:
			return nullptr;
		case CodeKind::kPq:
			return pq_check(spec.pq).message;
		case CodeKind::kRabitq:
			return rabitq_check(rabitq_spec(spec)).message;
		case CodeKind::kNone:
			break;
	}
	return "unknown kind of codes";
}

size_t
code_bytes(const CodeSpec &spec)
{
	switch (spec.kind)
	{
		case CodeKind::kHalves:
			return spec.dim * sizeof(uint16_t);
		case CodeKind::kSq8:
			return spec.dim;
		case CodeKind::kPq:
			return pq_code_bytes(spec.pq);
		case CodeKind::kRabitq:
			return rabitq_code_bytes(rabitq_spec(spec));
		case CodeKind::kNone:
			break;
	}
	return 0;
}

bool
code_has_terms(const CodeSpec &spec)
{
	return spec.kind == CodeKind::kPq && pq_has_row_terms(spec.pq);
}

uint64_t
all_code_bytes(const CodeSpec &spec, uint64_t n_rows)
{
	return code_unit_rows(spec) > 1 ? interleaved_bytes(n_rows, code_bytes(spec)) : n_rows * code_bytes(spec);
}

void
code_make_blocks(const CodeSpec &spec, const uint8_t *codes, size_t n_rows, uint8_t *blocks)
{
	const size_t bytes = code_bytes(spec);

	if (spec.kind == CodeKind::kPq)
	{
		interleave_codes(codes, n_rows, bytes, blocks);
		return;
	}
	for (size_t first = 0; first < n_rows; first += kCodeBlockRows)
		rabitq_make_block(
			rabitq_spec(spec), codes + first * bytes, std::min(kCodeBlockRows, n_rows - first), blocks + first * bytes);
}

void
code_read_block(const CodeSpec &spec, const uint8_t *blocks, size_t i, uint8_t *code)
{
	const size_t bytes = code_bytes(spec);
	const uint8_t *block = blocks + i / kCodeBlockRows * kCodeBlockRows * bytes;

	if (spec.kind == CodeKind::kRabitq)
		rabitq_read_block(rabitq_spec(spec), block, i % kCodeBlockRows, code);
	else
		for (size_t j = 0; j < bytes; j++)
			code[j] = block[j * kCodeBlockRows + i % kCodeBlockRows];
}

size_t
code_model_floats(const CodeSpec &spec)
{
	switch (spec.kind)
	{
		case CodeKind::kSq8:
			return size_t{2} * spec.dim;
		case CodeKind::kPq:
			return pq_codebook_floats(spec.pq) + pq_rotation_floats(spec.pq);
		case CodeKind::kRabitq:
			return rabitq_model_floats(rabitq_spec(spec));
		case CodeKind::kHalves:
		case CodeKind::kNone:
			break;
	}
	return 0;
}

CodeModel
make_code_model(const CodeSpec &spec, float *floats)
{
	CodeModel model;

	model.spec = spec;
	if (spec.kind == CodeKind::kSq8)
		model.sq8 = {floats, floats + spec.dim};
	if (spec.kind == CodeKind::kPq)
		model.pq = {spec.pq, floats, spec.pq.opq ? floats + pq_codebook_floats(spec.pq) : nullptr};
	if (spec.kind == CodeKind::kRabitq)
		model.rabitq = {rabitq_spec(spec), floats, floats + spec.dim};
	return model;
}

size_t
code_query_bytes(const CodeSpec &spec)
{
	Arena arena;

	take_query_memory(&arena, spec);
	return arena.bytes_needed();
}

Outcome
code_query_prepare(const CodeModel &model, const float *query, void *memory, size_t memory_bytes, CodeQuery *prepared)
{
	const CodeSpec &spec = model.spec;
	Arena arena(memory, memory_bytes);
	const QueryMemory taken = take_query_memory(&arena, spec);

	if (arena.is_short())
		return work_memory_short();
	*prepared = {};
	prepared->model = &model;
	prepared->query = query;
	prepared->widened = taken.widened;
	if (spec.kind == CodeKind::kSq8)
		prepared->sq8 = sq8_prepare(model.sq8, spec.metric, query, spec.dim, taken.sq8);
	if (spec.kind == CodeKind::kPq)
		return pq_prepare(model.pq, query, taken.pq, taken.pq_bytes, &prepared->pq);
	if (spec.kind == CodeKind::kRabitq)
		return rabitq_prepare(model.rabitq, query, taken.pq, taken.pq_bytes, &prepared->rabitq);
	return {};
}

void
code_scores(const CodeQuery &query, double list_constant, const uint8_t *codes, const float *terms, size_t n_rows,
	double *scores, double limit)
{
	constexpr size_t kRows = 16 * kCodeBlockRows;
	const size_t bytes = code_bytes(query.model->spec);
	double constants[kRows];

	std::fill_n(constants, std::min(kRows, n_rows), list_constant);
	for (size_t first = 0; first < n_rows; first += kRows)
		mixed_code_scores(query, constants, codes + first * bytes, terms == nullptr ? nullptr : terms + first,
			std::min(kRows, n_rows - first), scores + first, limit);
}

void
mixed_code_scores(const CodeQuery &query, const double *constants, const uint8_t *codes, const float *terms,
	size_t n_rows, double *scores, double limit)
{
	switch (query.model->spec.kind)
	{
		case CodeKind::kHalves:
			half_scores(query, codes, n_rows, scores);
			break;
		case CodeKind::kSq8:
			sq8_scores(query.sq8, codes, n_rows, scores);
			break;
		case CodeKind::kPq:
			pq_scores(query.pq, 0, codes, terms, n_rows, scores);
			break;
		case CodeKind::kRabitq:
			rabitq_scores(query.rabitq, constants, codes, n_rows, limit, scores);
			return;
		case CodeKind::kNone:
			return;
	}
	// Added last, so that the row's own part does not depend on its list.
	for (size_t i = 0; i < n_rows; i++)
		scores[i] += constants[i];
}

} // namespace vectorgpu::engine::ivf
