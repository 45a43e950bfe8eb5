// See passing_times.hpp.
#include "cuda/passing/passing_times.hpp"

#include <algorithm>
#include <limits>

#include "cuda/passing/packed_rows.hpp"
#include "cuda/passing/passing_list_chunk.hpp"
#include "kernels/filter/one_pass.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A way that takes `start`, and so much more for each byte (or element) and query.
struct Cost
{
	double start;
	double each_us; // bytes or elements
	double query;

	double us(double bytes, double n_queries) const { return start + bytes / each_us + n_queries * query; }
};

// gpu_passing_bench, rows of bytes and of halves, 1 to 64 queries; those of bytes for few queries from SQL.
constexpr Cost kListed = {22, 1.8e6, 0};
constexpr Cost kListedFew = {22, .7e6, 0}; // each query by itself
constexpr Cost kListedBytes = {22, 3e6, 0};
constexpr Cost kListedBytesFew = {26, 1.7e6, 0};
constexpr Cost kMasked = {32, 2.6e6, .25};
constexpr Cost kMaskedBytesFew = {32, 2.2e6, .25}; // at random less, where rows that pass lie away from the query more
constexpr Cost kOnePass = {28.5, 2.9e6, .5};       // without a mask: README.md, "Packed rows"
constexpr Cost kLists = {42, 5.9e6, .35};          // of bytes
constexpr size_t kFew = 4;                         // queries; fewer score a list each by itself

bool
by_products(const SearchCall &call)
{
	return call.spec.metric == Metric::kL2 || call.spec.metric == Metric::kInnerProduct;
}

bool
all_bytes(const Snapshot &rows)
{
	return std::all_of(rows.sources.begin(), rows.sources.end(),
		[](const Source &source) { return source.block->form == kernels::Form::kByte; });
}

/// What the filter needs to know of a batch; false if it does not serve.
bool
filter_serves(const SearchCall &call, const Snapshot &rows, std::span<const uint32_t> numbers, uint32_t *max_k)
{
	*max_k = 0;
	for (const uint32_t number : numbers)
	{
		if (call.queries[number].has_after)
			return false;
		*max_k = std::max(*max_k, static_cast<uint32_t>(std::min<uint64_t>(call.k_of(number), kernels::kMaxSelectK)));
	}
	return std::all_of(
		rows.sources.begin(), rows.sources.end(), [](const Source &source) { return source.filterable; });
}

} // namespace

double
listed_us(const SearchCall &call, const engine::Passing &passing, size_t n_queries)
{
	const bool few = n_queries < kFew;
	const Cost &cost = may_list_bytes(call) ? (few ? kListedBytesFew : kListedBytes) : (few ? kListedFew : kListed);
	const double n = static_cast<double>(n_queries);

	return cost.us(n * static_cast<double>(passing.n_pass) * call.shape.dim_pad, n);
}

double
pass_us(const SearchCall &call, const Snapshot &rows, std::span<const uint32_t> numbers)
{
	const auto n = static_cast<uint32_t>(numbers.size());
	uint32_t max_k = 0;
	double bytes = 0;

	if (!filter_serves(call, rows, numbers, &max_k))
		return kNever;
	for (const Source &source : rows.sources)
		bytes += static_cast<double>(source.n_rows) * source.filter_rows(n, max_k).pitch_bytes;
	return (n < kFew && all_bytes(rows) ? kMaskedBytesFew : kMasked).us(bytes, n);
}

double
packed_us(const SearchCall &call, const Snapshot &rows, const engine::Passing &passing, bool any,
	std::span<const uint32_t> numbers)
{
	const PackedPool *const pool = call.options.packed;
	const auto n = static_cast<uint32_t>(numbers.size());
	uint32_t max_k = 0;
	double bytes = 0;

	if (pool == nullptr || !filter_serves(call, rows, numbers, &max_k))
		return kNever;
	for (const Source &source : rows.sources)
	{
		const engine::PassingSegment *const segment =
			source.segment == engine::kDeltaSegment ? nullptr : passing.find(source.segment);
		const bool packs = segment != nullptr && pool->serves(call, *segment, source);

		bytes +=
			static_cast<double>(packs ? segment->n_pass : source.n_rows) * source.filter_rows(n, max_k).pitch_bytes;
		any |= packs;
	}
	if (!any)
		return kNever;

	const bool one_pass = call.options.one_pass != nullptr && by_products(call) && all_bytes(rows) &&
		n <= kernels::kOnePassMostQueries && max_k <= kernels::kFinishMostK;

	return (one_pass ? kOnePass : kMasked).us(bytes, n);
}

double
lists_us(const SearchCall &call, const Snapshot &view, double bytes)
{
	return by_products(call) && all_bytes(view) ? kLists.us(bytes, 1) : 0;
}

} // namespace vectorgpu::cuda
