// See passing_lists.hpp. Queries with the same conditions follow each other, and up to kListedQueries of them score a
// list together. A chunk has as many queries as the buffers hold, up to kMostAnswers.
#include "cuda/passing/passing_lists.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>

#include "cuda/resident/ivf_lists.hpp"
#include "cuda/device/stop.hpp"
#include "cuda/passing/passing_device.hpp"
#include "cuda/passing/passing_list_chunk.hpp"
#include "kernels/canonical/listed.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Passing;
using engine::PassingSegment;

constexpr uint64_t kMostListedDelta = 65536; // rows of the delta: their list is made and sent for every batch
constexpr uint32_t kLeastShared = 4;         // queries that score a list together; fewer take less time each for itself

/// The rows of a source of the delta that pass.
std::vector<uint32_t>
delta_rows(const Source &source, const Passing &passing)
{
	const uint64_t end = std::min(source.position + source.n_rows, passing.delta_end);
	std::vector<uint32_t> rows;

	for (uint64_t at = std::max(source.position, passing.delta_first); at < end; at++)
	{
		const uint64_t bit = at - passing.delta_first;
		const uint8_t byte = passing.delta_bits[bit / 8];

		if (byte == 0)
			at += 7 - bit % 8;
		else if ((byte >> bit % 8 & 1) != 0)
			rows.push_back(static_cast<uint32_t>(at - source.position));
	}
	return rows;
}

class ListedSearch
{
public:
	ListedSearch(const SearchCall &call, Budget *budget, std::vector<uint32_t> numbers)
		: call_(call), budget_(budget), numbers_(std::move(numbers))
	{
	}

	Status run(std::vector<uint32_t> *left)
	{
		std::stable_sort(numbers_.begin(), numbers_.end(),
			[&](uint32_t a, uint32_t b) { return std::less<>()(call_.queries[a].passing, call_.queries[b].passing); });
		VECTORGPU_TRY(make_units());
		for (size_t first = 0; first < units_.size();)
		{
			const size_t end = end_of_chunk(first);

			if (is_stopped(call_.control))
				return stopped();
			if (end == first)
			{
				left->insert(left->end(), units_[first].numbers.begin(), units_[first].numbers.end());
				first++;
				continue;
			}

			const std::span<ListedUnit> units(units_.data() + first, end - first);
			const uint32_t *const begin = units.front().numbers.data();
			const std::span<const uint32_t> numbers(begin, units.back().numbers.data() + units.back().numbers.size());

			VECTORGPU_TRY(search_listed_chunk(call_, budget_, units, numbers));
			first = end;
		}
		return Status::ok();
	}

private:
	Status make_units()
	{
		const std::span<const uint32_t> all(numbers_);
		const bool may_share = call_.spec.element != ElementType::kBit;

		for (size_t first = 0; first < all.size();)
		{
			const Passing &passing = *call_.queries[all[first]].passing;
			ListedRows &listed = by_passing_[&passing];
			size_t n = 1;

			if (listed.parts.empty())
				VECTORGPU_TRY(find_rows(passing, &listed));
			while (may_share && n < kernels::kListedQueries && first + n < all.size() &&
				call_.queries[all[first + n]].passing == &passing)
				n++;
			if (n < kLeastShared)
				n = 1;
			units_.push_back({&listed, all.subspan(first, n)});
			set_groups(&units_.back());
			first += n;
		}
		return Status::ok();
	}

	Status find_rows(const Passing &passing, ListedRows *listed)
	{
		if (passing.delta_bits.size() < (passing.delta_end - passing.delta_first + 7) / 8)
			return Status::error(StatusCode::kInvalidArgument, "there are too few bits of the delta");
		for (const Source &source : call_.snapshot.sources)
		{
			ListedPart part;

			part.source = &source;
			if (source.segment == engine::kDeltaSegment)
				part.delta_rows = delta_rows(source, passing);
			else
				part.segment = passing.find(source.segment);
			if (part.n_rows() == 0)
				continue;
			if (part.segment != nullptr)
			{
				if (!fits(*part.segment, source))
					return Status::error(
						StatusCode::kInvalidArgument, "the rows that pass are not those of the segment");
				if (part.segment->listed)
					part.kept = kept_of(call_.device, *part.segment, source).rows;
				else
				{
					VECTORGPU_TRY(list_on_device(call_, budget_, *part.segment, source, &part.kept));
					if (part.kept == nullptr)
						return Status::error(StatusCode::kOutOfMemory, "too little memory for rows that pass");
				}
				if (source.lists != nullptr)
					VECTORGPU_TRY(places_of(budget_, call_.context->stream, *source.lists, &part.places));
			}
			listed->n_rows += part.n_rows();
			listed->parts.push_back(std::move(part));
		}
		return Status::ok();
	}

	/// Choose the smallest groups such that no query has too many.
	static void set_groups(ListedUnit *unit)
	{
		unit->group_rows = unit->numbers.size() > 1 ? 32 / kernels::kListedQueries * 2 : 32;
		for (;; unit->group_rows *= 2)
		{
			uint64_t n = 0;

			for (const ListedPart &part : unit->listed->parts)
				n += (part.n_rows() + unit->group_rows - 1) / unit->group_rows;
			unit->n_groups = static_cast<uint32_t>(std::min<uint64_t>(n, UINT32_MAX));
			if (n <= kernels::kMaxGroups)
				return;
		}
	}

	/// The end of the units, from `first` on, that fit the buffers together; `first` if that one does not.
	size_t end_of_chunk(size_t first) const
	{
		const SearchContext &context = *call_.context;
		const size_t descriptions = call_.snapshot.sources.size() * sizeof(kernels::Rows);
		size_t n = 0;
		size_t in = descriptions + padding_of(32);
		size_t on_device = in + padding_of(32);
		uint64_t max_k = 1;
		std::set<const ListedRows *> sent;

		for (size_t i = first; i < units_.size(); i++)
		{
			const ListedUnit &unit = units_[i];
			const size_t here = unit.numbers.size();
			const bool is_new = sent.insert(unit.listed).second;
			const size_t as_bytes = call_.shape.dim_pad + sizeof(int32_t);
			const size_t own =
				here * (call_.shape.query_bytes + as_bytes + kQueryHeadBytes + sizeof(kernels::ListedQuery)) +
				unit.listed->parts.size() * sizeof(kernels::ListedJob) + (is_new ? unit.sent_bytes() : 0);

			for (const uint32_t number : unit.numbers)
				max_k = std::max(max_k, call_.k_of(number));
			n += here;
			in += own;
			on_device += own + here * (unit.n_keys() + unit.n_groups) * sizeof(uint64_t);
			if (n > SearchContext::kMostAnswers || in > context.pinned_in.bytes() ||
				on_device + n * max_k * sizeof(kernels::Entry) > context.workspace.bytes() / 4 * 3 ||
				n * max_k * sizeof(kernels::Entry) > context.pinned_out.bytes())
				return i;
		}
		return units_.size();
	}

	const SearchCall &call_;
	Budget *const budget_;
	std::vector<uint32_t> numbers_; // those with the same conditions follow each other
	std::map<const Passing *, ListedRows> by_passing_;
	std::vector<ListedUnit> units_;
};

} // namespace

bool
is_listed(const Snapshot &snapshot, const Passing &passing)
{
	return std::all_of(snapshot.sources.begin(), snapshot.sources.end(),
			   [&](const Source &source)
			   {
				   const PassingSegment *const segment =
					   source.segment == engine::kDeltaSegment ? nullptr : passing.find(source.segment);

				   return segment == nullptr || segment->listed;
			   }) &&
		may_be_listed(snapshot, passing);
}

bool
may_be_listed(const Snapshot &snapshot, const Passing &passing)
{
	uint64_t n_delta = 0;

	for (const Source &source : snapshot.sources)
		if (source.segment == engine::kDeltaSegment)
			n_delta += source.n_rows;
	if (n_delta <= kMostListedDelta)
		return true;
	n_delta = 0;
	for (const uint8_t byte : passing.delta_bits)
		n_delta += static_cast<uint64_t>(std::popcount(byte));
	return n_delta <= kMostListedDelta;
}

Status
search_listed(const SearchCall &call, Budget *budget, std::vector<uint32_t> numbers, std::vector<uint32_t> *left)
{
	ListedSearch search(call, budget, std::move(numbers)); // the stream is idle before it lets lists go

	return call.end(search.run(left));
}

} // namespace vectorgpu::cuda
