// See passing_lists.hpp. Queries with the same conditions follow each other, and up to kListedQueries of them score a
// list together. A chunk has as many queries as the buffers hold, up to kMostAnswers.
#include "cuda/passing/passing_lists.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "cuda/device/stop.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/answers.hpp"
#include "cuda/search/chunk.hpp"
#include "cuda/passing/passing_device.hpp"
#include "kernels/canonical/listed.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Passing;
using engine::PassingSegment;

constexpr uint64_t kMostListedDelta = 65536; // rows of the delta: their list is made and sent for every batch
constexpr uint32_t kLeastShared = 4;         // queries that score a list together; fewer take less time each for itself

/// The rows of one source that pass.
struct ListedPart
{
	const Source *source = nullptr;
	const PassingSegment *segment = nullptr; // null: of the delta
	std::shared_ptr<const Held> kept;        // the list on the device
	std::shared_ptr<const Held> places;      // of a segment with lists
	std::vector<uint32_t> delta_rows;        // of the source
	ChunkStaging::Piece<uint32_t> sent = {}; // the list as the chunk sends it
	std::shared_ptr<Held> made;              // to be kept after the chunk

	std::span<const uint32_t> rows() const
	{
		return segment != nullptr ? std::span<const uint32_t>(segment->rows) : std::span<const uint32_t>(delta_rows);
	}
};

/// The rows that pass some conditions.
struct ListedRows
{
	std::vector<ListedPart> parts; // with rows
	uint64_t n_rows = 0;
};

/// Queries that score the same lists together.
struct Unit
{
	ListedRows *listed;
	std::span<const uint32_t> numbers;
	uint32_t group_rows = 0;
	uint32_t n_groups = 0;

	uint64_t n_keys() const { return uint64_t{n_groups} * group_rows; }

	/// Bytes of lists that have to be sent.
	size_t sent_bytes() const
	{
		size_t bytes = 0;

		for (const ListedPart &part : listed->parts)
			bytes += part.kept != nullptr ? 0 : part.rows().size_bytes() + kArenaAlignment;
		return bytes;
	}
};

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

/// A chunk on its way.
class Chunk
{
public:
	Chunk(const SearchCall &call, Budget *budget, std::span<Unit> units, std::span<const uint32_t> numbers)
		: call_(call), budget_(budget), units_(units), numbers_(numbers),
		  arena_(call.context->workspace.get(), call.context->workspace.bytes()), staging_(call, numbers, &arena_)
	{
	}

	Status run()
	{
		std::vector<uint32_t> redo; // stays empty
		NewRows new_rows(call_.options.lane, call_.stream());

		VECTORGPU_TRY(stage());
		for (const Unit &unit : units_)
			for (const ListedPart &part : unit.listed->parts)
				VECTORGPU_TRY(new_rows.await(part.source->ticket));
		for (ListedPart *part : sent_)
			VECTORGPU_TRY(copy_list(part));
		args_.metric = call_.spec.metric;
		args_.queries = chunk_.queries;
		args_.best = chunk_.best;
		answers_ = begin_answers(call_.context, numbers_.size(), chunk_.max_k);
		if (answers_.heads == nullptr)
			return too_small();
		VECTORGPU_TRY(call_.check(kernels::launch_listed_scores(args_, call_.stream()), "score listed rows"));
		VECTORGPU_TRY(call_.check(
			kernels::launch_listed_select(args_, chunk_.max_k, answers_, call_.stream()), "select listed rows"));
		VECTORGPU_TRY(end_answers(call_, answers_, numbers_, &redo));
		new_rows.has_run();
		call_.progress();
		keep_lists();
		return Status::ok();
	}

private:
	/// Take the pieces that the host fills, then those of the device alone, and send the former.
	Status stage()
	{
		size_t n_jobs = 0;
		size_t n_keys = 0;
		size_t n_groups = 0;

		for (const Unit &unit : units_)
		{
			n_jobs += unit.listed->parts.size();
			n_keys += unit.numbers.size() * unit.n_keys();
			n_groups += unit.numbers.size() * unit.n_groups;
		}
		chunk_.best.counts = staging_.take_zeros<uint32_t>(numbers_.size());

		const auto listed = staging_.take<kernels::ListedQuery>(numbers_.size());
		const auto jobs = staging_.take<kernels::ListedJob>(n_jobs);
		const auto sources = staging_.take<kernels::Rows>(call_.snapshot.sources.size());

		for (const Unit &unit : units_)
			for (ListedPart &part : unit.listed->parts)
				if (part.kept == nullptr && part.sent.device == nullptr)
				{
					part.sent = staging_.take<uint32_t>(part.rows().size());
					sent_.push_back(&part);
				}
		if (staging_.failed())
			return too_small();
		staging_.put_heads(&chunk_);
		for (size_t i = 0; i < call_.snapshot.sources.size(); i++)
			sources.host[i] = call_.snapshot.sources[i].rows();
		for (const ListedPart *part : sent_)
			std::memcpy(part->sent.host, part->rows().data(), part->rows().size_bytes());
		put_jobs(listed.host, jobs.host);
		VECTORGPU_TRY(staging_.put_and_send());

		args_.listed = listed.device;
		args_.jobs = jobs.device;
		args_.sources = sources.device;
		args_.n_jobs = static_cast<uint32_t>(n_jobs);
		args_.keys = arena_.take<uint64_t>(n_keys);
		args_.minima = arena_.take<uint64_t>(n_groups);
		chunk_.best.stride = chunk_.max_k;
		chunk_.best.entries = arena_.take<kernels::Entry>(numbers_.size() * chunk_.max_k);
		return arena_.failed() ? too_small() : Status::ok();
	}

	/// Fill the descriptions of the queries and of their jobs.
	void put_jobs(kernels::ListedQuery *listed, kernels::ListedJob *jobs)
	{
		uint32_t query = 0;
		uint32_t job = 0;
		uint64_t key = 0;
		uint64_t minimum = 0;

		for (const Unit &unit : units_)
		{
			const uint32_t n = static_cast<uint32_t>(unit.numbers.size());
			const uint32_t n_parts = static_cast<uint32_t>(unit.listed->parts.size());
			uint32_t group = 0;

			for (uint32_t i = 0; i < n; i++)
			{
				listed[query + i] = {key, minimum, unit.n_groups, unit.group_rows, job, n_parts};
				key += unit.n_keys();
				minimum += unit.n_groups;
			}
			for (const ListedPart &part : unit.listed->parts)
			{
				const uint32_t n_rows = static_cast<uint32_t>(part.rows().size());
				const uint32_t n_groups = (n_rows + unit.group_rows - 1) / unit.group_rows;

				jobs[job++] = {list_of(part), part.places == nullptr ? nullptr : part.places->as<uint32_t>(), n_rows,
					static_cast<uint32_t>(part.source - call_.snapshot.sources.data()), args_.n_groups, query, n,
					group};
				args_.forms[static_cast<size_t>(part.source->block->form)] = true;
				args_.n_groups += n_groups;
				group += n_groups;
			}
			query += n;
		}
	}

	static const uint32_t *list_of(const ListedPart &part)
	{
		return part.kept != nullptr ? part.kept->as<uint32_t>() : part.sent.device;
	}

	/// Begin to keep the list of a segment that is sent with the chunk. Without room it is sent again another time.
	Status copy_list(ListedPart *part)
	{
		if (part->segment == nullptr)
			return Status::ok();

		const size_t bytes = part->rows().size_bytes();
		auto made = std::make_shared<Held>();

		if (!made->allocate(budget_, bytes, "rows that pass").is_ok())
			return Status::ok();
		part->made = std::move(made);
		return call_.check(cudaMemcpyAsync(part->made->as<uint8_t>(), part->sent.device, bytes,
							   cudaMemcpyDeviceToDevice, call_.stream()),
			"keep rows that pass");
	}

	/// The stream has made the copies.
	void keep_lists()
	{
		for (ListedPart *part : sent_)
		{
			part->sent = {};
			if (part->made == nullptr)
				continue;
			keep(*part->segment, *part->source, {part->made, nullptr});
			part->kept = std::move(part->made);
		}
	}

	const SearchCall &call_;
	Budget *const budget_;
	const std::span<Unit> units_;
	const std::span<const uint32_t> numbers_;
	Arena arena_;
	ChunkStaging staging_;
	QueryChunk chunk_;
	kernels::Answers answers_;
	std::vector<ListedPart *> sent_;
	kernels::ListedArgs args_;
};

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

			const std::span<Unit> units(units_.data() + first, end - first);
			const uint32_t *const begin = units.front().numbers.data();
			const std::span<const uint32_t> numbers(begin, units.back().numbers.data() + units.back().numbers.size());

			VECTORGPU_TRY(Chunk(call_, budget_, units, numbers).run());
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
			if (part.rows().empty())
				continue;
			if (part.segment != nullptr)
			{
				if (!fits(*part.segment, source))
					return Status::error(
						StatusCode::kInvalidArgument, "the rows that pass are not those of the segment");
				part.kept = kept_of(*part.segment, source).rows;
				if (source.lists != nullptr)
					VECTORGPU_TRY(places_of(budget_, call_.context->stream, *source.lists, &part.places));
			}
			listed->n_rows += part.rows().size();
			listed->parts.push_back(std::move(part));
		}
		return Status::ok();
	}

	/// The smallest groups of which a query has few enough.
	static void set_groups(Unit *unit)
	{
		unit->group_rows = unit->numbers.size() > 1 ? 32 / kernels::kListedQueries * 2 : 32;
		for (;; unit->group_rows *= 2)
		{
			uint64_t n = 0;

			for (const ListedPart &part : unit->listed->parts)
				n += (part.rows().size() + unit->group_rows - 1) / unit->group_rows;
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
			const Unit &unit = units_[i];
			const size_t here = unit.numbers.size();
			const bool is_new = sent.insert(unit.listed).second;
			const size_t own = here * (call_.shape.query_bytes + kQueryHeadBytes + sizeof(kernels::ListedQuery)) +
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
	std::vector<Unit> units_;
};

} // namespace

bool
is_listed(const Snapshot &snapshot, const Passing &passing)
{
	uint64_t n_delta = 0;

	for (const Source &source : snapshot.sources)
	{
		const PassingSegment *const segment =
			source.segment == engine::kDeltaSegment ? nullptr : passing.find(source.segment);

		if (segment != nullptr && !segment->listed)
			return false;
		if (source.segment == engine::kDeltaSegment)
			n_delta += source.n_rows;
	}
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
