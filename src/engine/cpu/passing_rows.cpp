// See passing_rows.hpp. What is derived of a segment is kept beside the rows that pass (PassingSegment::host), so that
// the next search with the same conditions finds it.
#include "engine/cpu/passing_rows.hpp"

#include <algorithm>

#include "engine/cpu/row_scores.hpp"

namespace vectorgpu::engine
{
namespace
{

bool
bit_at(const uint8_t *bits, uint64_t i)
{
	return ((bits[i / 8] >> (i % 8)) & 1) != 0;
}

/// The numbers of listed rows as places, in order: a bitmap sorts them.
void
list_places(const PassingSegment &segment, const Lists &lists, PassingPlaces *places)
{
	const uint32_t *const place_of = lists.places();
	Bitmap others((segment.n_rows + 7) / 8, 0xFF);
	std::vector<uint32_t> block(256);

	for (const uint32_t number : segment.rows)
		others[place_of[number] / 8] =
			static_cast<uint8_t>(others[place_of[number] / 8] & ~(1 << (place_of[number] % 8)));
	places->listed.reserve(segment.rows.size());
	for (uint64_t first = 0; first < segment.n_rows; first += block.size())
	{
		const size_t n = std::min<uint64_t>(block.size(), segment.n_rows - first);
		const size_t found = zero_bits(others.data(), first, n, block.data());

		for (size_t i = 0; i < found; i++)
			places->listed.push_back(static_cast<uint32_t>(first) + block[i]);
	}
}

/// The bits of a mask by place.
void
mask_places(const PassingSegment &segment, const Lists &lists, PassingPlaces *places)
{
	places->fails.assign((segment.n_rows + 7) / 8, 0xFF);
	places->n_in_list.assign(lists.n_lists(), 0);
	for (uint32_t list = 0; list < lists.n_lists(); list++)
		for (uint64_t place = lists.offsets()[list]; place < lists.offsets()[list + 1]; place++)
		{
			const unsigned pass = bit_at(segment.bits.data(), lists.numbers()[place]) ? 1 : 0;

			places->fails[place / 8] = static_cast<uint8_t>(places->fails[place / 8] ^ (pass << (place % 8)));
			places->n_in_list[list] += pass;
		}
}

/// The places of a segment's rows, made for the first search. They do not depend on tombstones.
std::shared_ptr<const PassingPlaces>
passing_places(const PassingSegment &segment, const std::shared_ptr<const Lists> &lists)
{
	if (const std::shared_ptr<const void> kept = segment.host.get(nullptr, lists); kept != nullptr)
		return std::static_pointer_cast<const PassingPlaces>(kept);

	auto places = std::make_shared<PassingPlaces>();

	if (segment.listed)
		list_places(segment, *lists, places.get());
	else
		mask_places(segment, *lists, places.get());
	segment.host.set(nullptr, lists, places);
	return places;
}

/// The tombstones and the rows that fail, for a segment without lists.
std::shared_ptr<const Bitmap>
joined_tombstones(const PassingSegment &segment, const std::shared_ptr<const Bitmap> &dead)
{
	if (const std::shared_ptr<const void> kept = segment.host.get(nullptr, dead); kept != nullptr)
		return std::static_pointer_cast<const Bitmap>(kept);

	auto joined = std::make_shared<Bitmap>(segment.bits.size());

	for (size_t i = 0; i < joined->size(); i++)
		(*joined)[i] = static_cast<uint8_t>(~segment.bits[i] | (dead != nullptr ? (*dead)[i] : 0));
	segment.host.set(nullptr, dead, joined);
	return joined;
}

bool
fits(const RowsView &view, const PassingSegment &segment)
{
	return segment.n_rows == view.rows.last &&
		(segment.listed ? segment.rows.empty() || segment.rows.back() < segment.n_rows
						: segment.bits.size() == (segment.n_rows + 7) / 8);
}

/// True if few rows of all segments together pass.
bool
few_pass(const Passing &passing)
{
	uint64_t n_pass = 0;
	uint64_t n_rows = 0;

	for (const std::shared_ptr<const PassingSegment> &segment : passing.segments)
	{
		n_pass += segment->n_pass;
		n_rows += segment->n_rows;
	}
	return n_pass <= n_rows / kFewOfRows;
}

/// The delta with tombstones for all rows that fail, those that `passing` does not know among them.
RowsView
mask_delta(const RowsView &delta, const Passing &passing)
{
	const uint64_t first = delta.rows.first / 8 * 8;
	const size_t n = delta.rows.last - first;
	auto joined = std::make_shared<Bitmap>((n + 7) / 8);
	RowsView masked = delta;

	copy_bits(delta.dead.get(), delta.dead_first, first, n, joined->data());
	for (size_t i = 0; i < joined->size(); i++)
	{
		const uint64_t at = first + 8 * i; // delta_first is a multiple of 8 as well
		unsigned pass = 0;

		if (at >= passing.delta_first && at < passing.delta_end)
			pass = passing.delta_bits[(at - passing.delta_first) / 8];
		if (at < passing.delta_end && passing.delta_end - at < 8)
			pass &= (1u << (passing.delta_end - at)) - 1;
		(*joined)[i] = static_cast<uint8_t>((*joined)[i] | ~pass);
	}
	masked.dead = std::move(joined);
	masked.dead_first = first;
	masked.passing = std::make_shared<const PassingRows>();
	return masked;
}

} // namespace

Status
mask_snapshot(const Snapshot &snapshot, const Passing &passing, Snapshot *masked, FilterWay *way)
{
	const bool few = few_pass(passing);

	masked->n_rows = snapshot.delta.rows.last - snapshot.delta.rows.first;
	for (const std::shared_ptr<const RowsView> &view : snapshot.segments)
	{
		const auto found = std::find_if(passing.segments.begin(), passing.segments.end(),
			[&](const std::shared_ptr<const PassingSegment> &one) { return one->segment == view->segment; });

		if (found == passing.segments.end())
			continue;

		const PassingSegment &segment = **found;

		if (!fits(*view, segment))
			return Status::error(StatusCode::kInvalidArgument, "the rows that pass are those of another segment");
		*way = std::max(*way, segment.listed ? FilterWay::kList : FilterWay::kMask);
		if (segment.n_pass == 0)
			continue;

		auto next = std::make_shared<RowsView>(*view);
		auto rows = std::make_shared<PassingRows>();

		rows->segment = *found;
		rows->few = few;
		if (view->lists != nullptr)
			rows->places = passing_places(segment, view->lists);
		else if (!segment.listed)
		{
			next->dead = joined_tombstones(segment, view->dead);
			next->dead_first = 0;
		}
		next->passing = std::move(rows);
		masked->segments.push_back(std::move(next));
		masked->n_rows += segment.n_pass;
	}
	masked->delta = mask_delta(snapshot.delta, passing);
	return Status::ok();
}

} // namespace vectorgpu::engine
