// See pq_scan.hpp.
#include "engine/ivf/pq_scan.hpp"

#include <algorithm>
#include <cmath>

#include "engine/ivf/ivf_kernels.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

/// The number of sub-quantisers that a code has room for.
size_t
n_places(const PqSpec &spec)
{
	return spec.bits == 8 ? spec.m : (spec.m + size_t{1}) / 2 * 2;
}

struct QueryMemory
{
	float *rotated;      // [padded_dim]
	float *table;        // [n_places, n_codewords]
	uint8_t *byte_table; // [n_places, 16]
};

QueryMemory
take_query_memory(Arena *arena, const PqSpec &spec)
{
	QueryMemory memory;

	memory.rotated = arena->take<float>(pq_padded_dim(spec));
	memory.table = arena->take<float>(n_places(spec) * pq_n_codewords(spec));
	memory.byte_table = arena->take<uint8_t>(spec.bits == 4 ? n_places(spec) * 16 : 0);
	return memory;
}

struct EntryRange
{
	float low;
	float high;
};

/// The range of a table's entries. Starts from the first one, so that NaN among them has the same effect in every
/// engine.
EntryRange
range_of(const float *entries, size_t n)
{
	EntryRange range = {entries[0], entries[0]};

	for (size_t i = 1; i < n; i++)
	{
		range.low = entries[i] < range.low ? entries[i] : range.low;
		range.high = range.high < entries[i] ? entries[i] : range.high;
	}
	return range;
}

/// Make bytes of the entries of all tables by one scale: the widest table spans 0 .. 255. Sums of bytes are exact,
/// whatever their number, so that nothing can overflow.
void
make_byte_table(const PqSpec &spec, const float *table, uint8_t *bytes, PqQuery *query)
{
	constexpr size_t kEntries = 16;
	double widest = 0;

	query->byte_base = 0;
	for (size_t j = 0; j < spec.m; j++)
	{
		const EntryRange range = range_of(table + j * kEntries, kEntries);

		widest = std::max(widest, static_cast<double>(range.high) - static_cast<double>(range.low));
		query->byte_base += static_cast<double>(range.low);
	}
	query->byte_scale = std::isfinite(widest) ? widest / 255 : 0;
	std::fill_n(bytes, n_places(spec) * kEntries, uint8_t{0});
	for (size_t j = 0; query->byte_scale > 0 && j < spec.m; j++)
	{
		const float *entries = table + j * kEntries;
		const double low = static_cast<double>(range_of(entries, kEntries).low);

		for (size_t i = 0; i < kEntries; i++)
			bytes[j * kEntries + i] = static_cast<uint8_t>(
				std::min(255.0, std::nearbyint((static_cast<double>(entries[i]) - low) / query->byte_scale)));
	}
	query->error = spec.m * query->byte_scale / 2 * (1 + 0x1p-40) + std::fabs(query->byte_base) * 0x1p-50;
}

} // namespace

size_t
pq_query_bytes(const PqSpec &spec)
{
	Arena arena;

	take_query_memory(&arena, spec);
	return arena.bytes_needed();
}

Outcome
pq_prepare(const PqModel &model, const float *query, void *memory, size_t memory_bytes, PqQuery *prepared)
{
	const PqSpec &spec = model.spec;
	const IvfKernels &kernels = ivf_kernels();
	const size_t n_codewords = pq_n_codewords(spec);
	const size_t sub_dim = pq_sub_dim(spec);
	const float factor = spec.metric == Metric::kL2 ? -2.0f : -1.0f;
	Arena arena(memory, memory_bytes);
	const QueryMemory taken = take_query_memory(&arena, spec);

	if (arena.is_short())
		return work_memory_short();
	pq_rotate(model, query, 1, taken.rotated);
	std::fill_n(taken.table, n_places(spec) * n_codewords, 0.0f);
	for (size_t j = 0; j < spec.m; j++)
		for (size_t d = j * sub_dim; d < (j + 1) * sub_dim; d++)
			kernels.multiply_add(factor * taken.rotated[d], model.codebook + d * n_codewords, n_codewords,
				taken.table + j * n_codewords);
	*prepared = {};
	prepared->model = &model;
	prepared->table = taken.table;
	if (spec.bits == 4)
	{
		prepared->byte_table = taken.byte_table;
		make_byte_table(spec, taken.table, taken.byte_table, prepared);
	}
	return {};
}

void
pq_scores(const PqQuery &query, double list_constant, const uint8_t *codes, const float *row_terms, size_t n_rows,
	double *scores)
{
	const PqSpec &spec = query.model->spec;
	const IvfKernels &kernels = ivf_kernels();
	const size_t code_bytes = pq_code_bytes(spec);

	for (size_t first = 0; first < n_rows; first += kCodeBlockRows, codes += kCodeBlockRows * code_bytes)
	{
		const size_t n = std::min(kCodeBlockRows, n_rows - first);
		double sums[kCodeBlockRows];

		if (spec.bits == 8)
		{
			float block[kCodeBlockRows];

			kernels.pq8(codes, code_bytes, query.table, block);
			for (size_t i = 0; i < kCodeBlockRows; i++)
				sums[i] = list_constant + static_cast<double>(block[i]);
		}
		else
		{
			uint32_t block[kCodeBlockRows];

			kernels.pq4(codes, code_bytes, query.byte_table, block);
			for (size_t i = 0; i < kCodeBlockRows; i++)
				sums[i] = list_constant + (query.byte_base + query.byte_scale * static_cast<double>(block[i]));
		}
		for (size_t i = 0; i < n; i++)
			scores[first + i] = row_terms == nullptr ? sums[i] : sums[i] + static_cast<double>(row_terms[first + i]);
	}
}

double
pq_score_error(const PqQuery &query, double list_constant, double largest_row_term)
{
	const PqSpec &spec = query.model->spec;
	const double unit = 0x1p-24;
	double sum = 0;

	for (size_t j = 0; j < spec.m; j++)
	{
		double largest = 0;

		for (size_t i = 0; i < pq_n_codewords(spec); i++)
			largest = std::max(largest, std::fabs(static_cast<double>(query.table[j * pq_n_codewords(spec) + i])));
		sum += largest;
	}
	return query.error + (spec.m + 2.0) * unit * sum + unit * std::fabs(largest_row_term) +
		0x1p-50 * (sum + std::fabs(list_constant) + std::fabs(largest_row_term));
}

} // namespace vectorgpu::engine::ivf
