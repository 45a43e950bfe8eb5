// See spread_copy.hpp.
#include "worker/devices/spread_copy.hpp"

#include <algorithm>

namespace vectorgpu::worker
{

bool
SpreadView::broken() const
{
	const auto is_lost = [](const PlacePtr &place) { return place->device->lost.load(); };

	return sharded ? std::any_of(places.begin(), places.end(), is_lost)
				   : std::all_of(places.begin(), places.end(), is_lost);
}

void
SpreadCopy::publish()
{
	auto next = std::make_shared<SpreadView>();

	next->sharded = sharded;
	next->places = places;
	for (const auto &[segment, cut] : ranges)
		if (const auto found = record.segments.find(segment); found != record.segments.end() && found->second.sealed)
			next->ranges.emplace(segment, cut);

	ViewPtr old = std::move(next); // destroyed after the lock is released

	{
		const std::lock_guard lock(view_mutex_);

		view_.swap(old);
	}
}

PlacePtr
SpreadCopy::place_on(const OpenedDevice *device) const
{
	for (const PlacePtr &place : places)
		if (place->device.get() == device)
			return place;
	return nullptr;
}

void
SpreadCopy::charge()
{
	// Of a copy with rows in host memory the device has so much less.
	const auto charge_place = [this](const PlacePtr &place, uint64_t bytes)
	{
		const auto counted = DeviceSet::count_call(place->device.get());
		const bool apart = !place->device->lost && place->device->engine->may_keep_rows_on_host(record.spec);

		place->charge(bytes - std::min(bytes, apart ? place->device->engine->host_bytes(place->id) : 0));
	};

	if (!sharded)
	{
		for (const PlacePtr &place : places)
			charge_place(place, record_bytes(record));
		return;
	}
	for (const PlacePtr &place : places)
	{
		uint64_t bytes = place == places.front() ? (record.delta_last - record.delta_first) * record.bytes_per_row : 0;

		for (const auto &[segment, cut] : ranges)
		{
			const SegmentRows &rows = record.segments[segment];

			for (const RowRange &range : cut)
				if (range.place == place.get())
					bytes += range.n_rows * record.bytes_per_segment_row +
						(range.first == 0 ? rows.structure_bytes : 0); // the structure is with the first row
		}
		charge_place(place, bytes);
	}
}

void
move_bits(const std::vector<uint8_t> &from, uint64_t first, uint64_t n, std::vector<uint8_t> *to, uint64_t at)
{
	const uint64_t held = uint64_t{from.size()} * 8;
	uint64_t i = 0;

	if (to->size() < (at + n + 7) / 8)
		to->resize((at + n + 7) / 8);
	while (i < n)
	{
		const uint64_t bit = first + i;
		const uint64_t target = at + i;

		if (bit % 8 == 0 && target % 8 == 0 && n - i >= 8)
		{
			(*to)[target / 8] = bit / 8 < from.size() ? from[bit / 8] : uint8_t{0};
			i += 8;
			continue;
		}

		const unsigned value = bit < held ? from[bit / 8] >> (bit % 8) & 1 : 0;
		const unsigned mask = 1U << (target % 8);

		(*to)[target / 8] = static_cast<uint8_t>(((*to)[target / 8] & ~mask) | (value != 0 ? mask : 0));
		i++;
	}
}

} // namespace vectorgpu::worker
