// Searches of a loaded copy: truth, recall against the number of lists looked at, and queries a second.
#pragma once

#include <span>

#include "large_lists.hpp"

namespace vectorgpu::bench
{

constexpr size_t kNeighbors = 10;

using Answers = std::vector<std::vector<engine::Neighbor>>;

/// Queries as float16 [n, dim].
struct Queries
{
	uint32_t dim = 0;
	std::vector<uint16_t> halves;

	size_t n() const { return halves.size() / dim; }
	const uint16_t *at(size_t i) const { return halves.data() + i * dim; }
};

/// The nearest rows of the first n_judged queries, by the exact search of a copy of the rows, which is dropped again.
Answers find_truth(engine::Engine *engine, const RowStore &store, const Queries &queries, const Options &options);

struct SearchedCopy
{
	engine::Engine *engine;
	engine::CopyId copy;
	engine::CopyKind kind;
	const RowStore &store; // kCodes: the rows that are compared
	const Storage &storage;
	double row_bytes; // of a code
};

/// Measure the points of one storage; false if none has the least recall that the options ask for.
bool measure_curve(
	const SearchedCopy &copy, const Queries &queries, const Answers &truth, const Options &options, Report *report);

} // namespace vectorgpu::bench
