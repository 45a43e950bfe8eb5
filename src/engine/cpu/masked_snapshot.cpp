// See masked_snapshot.hpp.
#include "engine/cpu/masked_snapshot.hpp"

#include <algorithm>
#include <utility>

namespace vectorgpu::engine
{
namespace
{

bool
has_bit(const std::vector<uint8_t> &bits, uint64_t i)
{
	return ((bits[i / 8] >> (i % 8)) & 1) != 0;
}

/// Bits [0, n_rows): 1 for the rows that fail or have a tombstone.
std::shared_ptr<const Bitmap>
join(const PassingSegment &passing, const Bitmap *dead)
{
	auto joined = std::make_shared<Bitmap>((passing.n_rows + 7) / 8);

	for (size_t i = 0; i < joined->size(); i++)
	{
		const unsigned gone = dead != nullptr && i < dead->size() ? (*dead)[i] : 0;

		(*joined)[i] = static_cast<uint8_t>(gone | ~unsigned{passing.bits[i]});
	}
	return joined;
}

/// The same for the rows of the delta that the view has.
std::shared_ptr<const Bitmap>
join_delta(const Passing &passing, const RowsView &delta)
{
	auto joined = std::make_shared<Bitmap>((delta.rows.last - delta.rows.first + 7) / 8);

	for (uint64_t position = delta.rows.first; position < delta.rows.last; position++)
	{
		const uint64_t bit = position - delta.rows.first;
		const bool passes = position >= passing.delta_first && position < passing.delta_end &&
			has_bit(passing.delta_bits, position - passing.delta_first);

		if (!passes || is_dead(delta, position))
			(*joined)[bit / 8] = static_cast<uint8_t>((*joined)[bit / 8] | 1u << (bit % 8));
	}
	return joined;
}

/// The number of passing rows in each list.
std::shared_ptr<const PassingMask>
count_in_lists(const PassingSegment &passing, const Lists *lists)
{
	auto mask = std::make_shared<PassingMask>();

	mask->n_pass = passing.n_pass;
	if (lists == nullptr)
		return mask;
	mask->in_lists.resize(lists->n_lists());
	for (uint32_t list = 0; list < lists->n_lists(); list++)
		for (uint64_t place = lists->offsets()[list]; place < lists->offsets()[list + 1]; place++)
			mask->in_lists[list] += has_bit(passing.bits, lists->numbers()[place]) ? 1 : 0;
	return mask;
}

/// The places of the listed rows in a segment with lists.
std::vector<uint32_t>
places_of(const PassingSegment &passing, const Lists &lists)
{
	std::vector<uint32_t> places;
	std::vector<uint8_t> wanted((passing.n_rows + 7) / 8);

	places.reserve(passing.rows.size());
	for (const uint32_t row : passing.rows)
		wanted[row / 8] = static_cast<uint8_t>(wanted[row / 8] | 1u << (row % 8));
	for (uint64_t place = 0; place < passing.n_rows; place++)
		if (has_bit(wanted, lists.numbers()[place]))
			places.push_back(static_cast<uint32_t>(place));
	return places;
}

/// What is kept beside a PassingSegment, of one state of its tombstones.
struct HostPassing
{
	std::shared_ptr<const Bitmap> dead;
	std::shared_ptr<const PassingMask> mask;
	std::vector<uint32_t> places; // of listed rows, in a segment with lists
};

std::shared_ptr<const HostPassing>
host_passing(const PassingSegment &passing, const RowsView &view)
{
	const std::shared_ptr<const void> of =
		passing.listed ? std::shared_ptr<const void>(view.lists) : std::shared_ptr<const void>(view.dead);

	if (const std::shared_ptr<const void> kept = passing.host.get(of); kept != nullptr)
		return std::static_pointer_cast<const HostPassing>(kept);

	auto made = std::make_shared<HostPassing>();

	if (passing.listed)
		made->places = places_of(passing, *view.lists);
	else
	{
		made->dead = join(passing, view.dead.get());
		made->mask = count_in_lists(passing, view.lists.get());
	}
	passing.host.set(of, made);
	return made;
}

} // namespace

MaskedSnapshot
mask_snapshot(const Snapshot &snapshot, const Passing &passing)
{
	MaskedSnapshot masked;

	for (const std::shared_ptr<const RowsView> &segment : snapshot.segments)
	{
		const PassingSegment *const rows = passing.find(segment->segment);

		// Rows of a segment that is not named, or is another one, are newer than the search.
		if (rows == nullptr || rows->n_pass == 0 || rows->n_rows != segment->rows.last)
			continue;

		if (rows->listed && segment->lists == nullptr) // places are numbers
		{
			masked.listed.push_back({segment, nullptr, &rows->rows});
			continue;
		}

		const std::shared_ptr<const HostPassing> host = host_passing(*rows, *segment);

		if (rows->listed)
		{
			masked.listed.push_back({segment, host, &host->places});
			continue;
		}

		auto view = std::make_shared<RowsView>(*segment);

		view->dead = host->dead;
		view->dead_first = 0;
		view->mask = host->mask;
		masked.snapshot.segments.push_back(std::move(view));
		masked.snapshot.n_rows += rows->n_rows;
	}
	masked.snapshot.delta = snapshot.delta;
	if (snapshot.delta.rows.last > snapshot.delta.rows.first)
	{
		auto mask = std::make_shared<PassingMask>();

		mask->n_pass = passing.n_pass; // at most
		masked.snapshot.delta.dead = join_delta(passing, snapshot.delta);
		masked.snapshot.delta.dead_first = snapshot.delta.rows.first;
		masked.snapshot.delta.mask = std::move(mask);
	}
	masked.snapshot.n_rows += snapshot.delta.rows.last - snapshot.delta.rows.first;
	return masked;
}

} // namespace vectorgpu::engine
