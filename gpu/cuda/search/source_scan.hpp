// The ways in which a chunk of exact queries goes over one source. Each merges the rows found into the chunk's results:
//   bounded  canonical scores of all rows of a small source, without those beyond the k-th found before -> merge
//   direct   canonical scores of all rows, minima of groups of rows -> threshold -> the few rows below it -> merge
//   filter   tensor-core estimates of a sample -> threshold -> estimates of all rows -> rescore those below the
//            threshold -> merge
//   bins     PartialReduce: tensor-core estimates of all rows, the smallest of each bin -> rescore the k first -> merge
#pragma once

#include <array>

#include "cuda/search/chunk.hpp"
#include "cuda/search/filter_plan.hpp"
#include "kernels/filter/filter.hpp"

namespace vectorgpu::cuda
{

struct ExactChunk : QueryChunk
{
	kernels::Incoming incoming; // the queries are still to be sent
	kernels::FilterQueries prepared;
	std::array<void *, 5> operands{}; // by form; null: not yet made
	float *thresholds = nullptr;
	uint64_t *n_rescored = nullptr;
	uint32_t *n_bounded = nullptr; // [queries] candidates of a bounded scan; 0 before and after each
	kernels::Answers answers;      // from the last kernel of the chunk; no heads: the results are copied
};

/// Rows of a group, so that n_rows make at most kMaxGroups groups. The scan keeps the smallest score of each group.
uint32_t rows_per_group(uint32_t n_rows);

/// The filter's bound over a source's rows, read as `rows`: in their form or rounded. Form::kScaled: without queries.
kernels::FilterBound filter_bound_of(const engine::DistanceSpec &spec, const Source &source, const kernels::Rows &rows);

/// Queues the work on the call's stream. The arena's pieces are needed until the stream has done it.
class SourceScan
{
public:
	/// ends_search: false if the rows found are not the answer of the search.
	SourceScan(const SearchCall &call, Arena *arena, bool ends_search = true)
		: call_(call), arena_(arena), ends_search_(ends_search)
	{
	}

	Status bounded(const Source &source, const ExactChunk &chunk);
	Status direct(const Source &source, const ExactChunk &chunk);

	// The next two need an operand. They set chunk->answers where they end the search.
	Status filter(const Source &source, uint64_t n_before, ExactChunk *chunk);
	Status bins(const Source &source, ExactChunk *chunk, uint32_t n_bins);

	/// Converts the chunk's queries for products of this form, once for all sources of the form. Sends them first if
	/// that is to be done.
	Status prepare_operand(kernels::Form form, ExactChunk *chunk);

private:
	struct Passes;
	struct Ranges;

	Status scale_queries(const kernels::Incoming &incoming, ExactChunk *chunk);
	void keep_in_cache(const FilterPlan &plan, const ExactChunk &chunk, kernels::FilterArgs *args) const;
	Status begin_passes(
		const Source &source, const kernels::Rows &rows, uint32_t capacity, ExactChunk *chunk, Passes *passes);
	Status end_passes(Passes *passes, ExactChunk *chunk);
	Status plan_ranges(const Source &source, const ExactChunk &chunk, Ranges *ranges);
	Status scan_range(
		const Source &source, const ExactChunk &chunk, const Ranges &ranges, uint32_t first, uint32_t row);

	const SearchCall &call_;
	Arena *const arena_;
	const bool ends_search_;
};

} // namespace vectorgpu::cuda
