// What the ways of a search with conditions take, in us of a batch on one H200: README.md, "A choice by time". The
// choices that they make are between ways that find the same rows, or between some lists and all rows that pass.
#pragma once

#include <span>

#include "cuda/search/search_call.hpp"

namespace vectorgpu::cuda
{

/// To score the rows that pass one by one, for each of n queries.
double listed_us(const SearchCall &call, const engine::Passing &passing, size_t n_queries);

/// A pass over all these rows, some of them left out by a mask, for the queries of these numbers. Infinite if the
/// filter does not serve.
double pass_us(const SearchCall &call, const Snapshot &rows, std::span<const uint32_t> numbers);

/// A pass over the rows that pass, where call.options.packed has packed them in `rows` (any: in some source), or would.
/// Infinite if there are no such rows or the filter does not serve.
double packed_us(const SearchCall &call, const Snapshot &rows, const engine::Passing &passing, bool any,
	std::span<const uint32_t> numbers);

/// One query over inverted lists of a masked snapshot that hold this many bytes of rows. 0 where that is not known: of
/// reals.
double lists_us(const SearchCall &call, const Snapshot &view, double bytes);

} // namespace vectorgpu::cuda
