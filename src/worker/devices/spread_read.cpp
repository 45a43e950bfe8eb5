// See spread_read.hpp.
#include "worker/devices/spread_read.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::worker
{
namespace
{

constexpr size_t kBlockBytes = size_t{4} << 20; // of a structure that is compared

/// Call read(engine, copy) in the first replica, or the shard that `place` names, whose device is not lost.
template <class Read>
Status
read_one(DeviceSet *devices, const SpreadCopy &copy, const DevicePlace *place, Read read)
{
	Status status = DeviceSet::gone();

	for (const PlacePtr &held : copy.places)
	{
		if (place != nullptr && held.get() != place)
			continue;
		status = devices->run(held->device.get(), [&](engine::Engine &engine) { return read(engine, held->id); });
		if (status.code != StatusCode::kUnavailable)
			return status;
	}
	return Status::error(StatusCode::kNotFound, "the copy is not resident");
}

const DevicePlace *
home_of(const SpreadCopy &copy)
{
	return copy.sharded ? copy.places.front().get() : nullptr;
}

/// Call part(place, first of the place, n, offset) for each range of rows [first, first + n_rows) of a segment.
template <class Part>
Status
each_range(const SpreadCopy &copy, SegmentId segment, uint64_t first, uint64_t n_rows, Part part)
{
	const auto found = copy.ranges.find(segment);

	if (!copy.sharded || segment == engine::kDeltaSegment || found == copy.ranges.end())
		return part(home_of(copy), first, n_rows, size_t{0});

	uint64_t done = 0;

	for (const RowRange &range : found->second)
	{
		const uint64_t from = std::max(first, range.first);
		const uint64_t to = std::min(first + n_rows, range.first + range.n_rows);

		if (from >= to)
			continue;
		if (const Status status = part(range.place, range.at + from - range.first, to - from, from - first);
			!status.is_ok())
			return status;
		done += to - from;
	}
	return done == n_rows ? Status::ok() : Status::error(StatusCode::kInvalidArgument, "not all rows are held");
}

/// Count bytes of the structure in which another replica differs from the first.
Status
compare_structure(DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t *n_different)
{
	const auto found = copy.record.segments.find(segment);
	const uint64_t n_bytes = found == copy.record.segments.end() ? 0 : found->second.structure_bytes;
	std::vector<uint8_t> one(std::min<uint64_t>(kBlockBytes, n_bytes));
	std::vector<uint8_t> other(one.size());
	Status status;

	for (uint64_t first = 0; status.is_ok() && first < n_bytes; first += one.size())
	{
		const size_t n = static_cast<size_t>(std::min<uint64_t>(one.size(), n_bytes - first));

		status = read_spread_structure(devices, copy, segment, first, n, one.data());
		for (size_t i = 1; status.is_ok() && i < copy.places.size(); i++)
		{
			status = read_one(devices, copy, copy.places[i].get(), [&](engine::Engine &engine, CopyId id)
				{ return engine.read_structure(id, segment, first, n, other.data()); });
			for (size_t byte = 0; status.is_ok() && byte < n; byte++)
				*n_different += one[byte] != other[byte] ? 1 : 0;
		}
	}
	return status;
}

/// Count rows in which another replica differs from the first.
Status
compare_rows(
	DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different)
{
	const engine::DistanceSpec &spec = copy.record.spec.distance;
	const size_t row_bytes = segment == engine::kDeltaSegment ? vector_bytes(spec.element, spec.dim)
															  : engine::segment_vector_bytes(copy.record.spec);
	std::vector<RowId> ids[2] = {std::vector<RowId>(n_rows), std::vector<RowId>(n_rows)};
	std::vector<uint8_t> vectors[2] = {std::vector<uint8_t>(n_rows * row_bytes), {}};
	std::vector<uint8_t> bits[2] = {std::vector<uint8_t>((n_rows + 7) / 8), {}};
	Status status = read_spread_rows(devices, copy, segment, first, n_rows, ids[0].data(), vectors[0].data());

	vectors[1].resize(vectors[0].size());
	bits[1].resize(bits[0].size());
	if (status.is_ok())
		status = read_spread_tombstones(devices, copy, segment, first, n_rows, bits[0].data());
	for (size_t i = 1; status.is_ok() && i < copy.places.size(); i++)
	{
		status = read_one(devices, copy, copy.places[i].get(),
			[&](engine::Engine &engine, CopyId id)
			{
				const Status read = engine.read_rows(id, segment, first, n_rows, ids[1].data(), vectors[1].data());

				return read.is_ok() ? engine.read_tombstones(id, segment, first, n_rows, bits[1].data()) : read;
			});
		for (size_t row = 0; status.is_ok() && row < n_rows; row++)
			*n_different += ids[0][row] != ids[1][row] ||
					memcmp(vectors[0].data() + row * row_bytes, vectors[1].data() + row * row_bytes, row_bytes) != 0 ||
					((bits[0][row / 8] ^ bits[1][row / 8]) >> (row % 8) & 1) != 0
				? 1
				: 0;
	}
	return status;
}

} // namespace

Status
read_spread_rows(DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_rows,
	RowId *row_ids, void *vectors)
{
	const engine::DistanceSpec &spec = copy.record.spec.distance;
	const size_t row_bytes = segment == engine::kDeltaSegment ? vector_bytes(spec.element, spec.dim)
															  : engine::segment_vector_bytes(copy.record.spec);

	return each_range(copy, segment, first, n_rows,
		[&](const DevicePlace *place, uint64_t at, uint64_t n, size_t offset)
		{
			return read_one(devices, copy, place,
				[&](engine::Engine &engine, CopyId id)
				{
					return engine.read_rows(
						id, segment, at, n, row_ids + offset, static_cast<uint8_t *>(vectors) + offset * row_bytes);
				});
		});
}

Status
read_spread_structure(
	DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_bytes, void *bytes)
{
	const auto found = copy.ranges.find(segment);
	const DevicePlace *place = copy.sharded && found != copy.ranges.end() && !found->second.empty()
		? found->second.front().place
		: home_of(copy);

	return read_one(devices, copy, place,
		[&](engine::Engine &engine, CopyId id) { return engine.read_structure(id, segment, first, n_bytes, bytes); });
}

Status
read_spread_tombstones(
	DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits)
{
	std::vector<uint8_t> all((n_rows + 7) / 8);
	const Status status = each_range(copy, segment, first, n_rows,
		[&](const DevicePlace *place, uint64_t at, uint64_t n, size_t offset)
		{
			std::vector<uint8_t> part((n + 7) / 8);
			const Status read = read_one(devices, copy, place, [&](engine::Engine &engine, CopyId id)
				{ return engine.read_tombstones(id, segment, at, n, part.data()); });

			move_bits(part, 0, n, &all, offset);
			return read;
		});

	if (status.is_ok())
		std::copy(all.begin(), all.end(), bits);
	return status;
}

Status
check_spread(
	DeviceSet *devices, const SpreadCopy &copy, SegmentId segment, uint64_t first, size_t n_rows, uint64_t *n_different)
{
	*n_different = 0;
	if (copy.sharded)
		return each_range(copy, segment, first, n_rows,
			[&](const DevicePlace *place, uint64_t at, uint64_t n, size_t)
			{
				uint64_t found = 0;
				const Status checked = read_one(devices, copy, place, [&](engine::Engine &engine, CopyId id)
					{ return engine.check_derived(id, segment, at, n, &found); });

				*n_different += found;
				return checked;
			});

	Status status =
		copy.places.empty() ? Status::error(StatusCode::kNotFound, "the copy is not resident") : Status::ok();

	for (const PlacePtr &place : copy.places)
	{
		uint64_t found = 0;

		if (place->device->lost)
			continue;
		status = read_one(devices, copy, place.get(), [&](engine::Engine &engine, CopyId id)
			{ return engine.check_derived(id, segment, first, n_rows, &found); });
		if (!status.is_ok())
			return status;
		*n_different += found;
	}
	if (copy.places.size() > 1)
		status = compare_rows(devices, copy, segment, first, n_rows, n_different);
	if (status.is_ok() && copy.places.size() > 1 && first == 0 && segment != engine::kDeltaSegment)
		status = compare_structure(devices, copy, segment, n_different);
	return status;
}

} // namespace vectorgpu::worker
