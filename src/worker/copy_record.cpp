// See copy_record.hpp.
#include "worker/copy_record.hpp"

#include <algorithm>
#include <span>

namespace vectorgpu::worker
{
namespace
{

constexpr size_t kMoveBytes = size_t{8} << 20; // of vectors at a time
constexpr uint64_t kRowExtraBytes = 16;        // row id, norm

template <class Put>
Status
move_rows(const CopyRecord &copy, const CopyPlace &from, uint64_t first, uint64_t last, SegmentId segment, Put put)
{
	const size_t row_bytes = vector_bytes(copy.spec.distance.element, copy.spec.distance.dim);
	const size_t at_once = std::max<size_t>(1, kMoveBytes / row_bytes);
	std::vector<RowId> row_ids(std::min<uint64_t>(at_once, last - first));
	std::vector<uint8_t> vectors(row_ids.size() * row_bytes);

	while (first < last)
	{
		const size_t n = static_cast<size_t>(std::min<uint64_t>(at_once, last - first));
		Status status = from.engine.read_rows(from.id, segment, first, n, row_ids.data(), vectors.data());

		if (status.is_ok())
			status = put(first, engine::RowBlock{std::span(row_ids).first(n), vectors.data(), n});
		if (!status.is_ok())
			return status;
		first += n;
	}
	return Status::ok();
}

Status
move_structure(const CopyPlace &from, const CopyPlace &to, SegmentId segment, const SegmentRows &rows)
{
	std::vector<uint8_t> bytes(std::min<uint64_t>(kMoveBytes, rows.structure_bytes));
	Status status;

	for (uint64_t first = 0; status.is_ok() && first < rows.structure_bytes; first += bytes.size())
	{
		const size_t n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), rows.structure_bytes - first));

		status = from.engine.read_structure(from.id, segment, first, n, bytes.data());
		if (status.is_ok())
			status = to.engine.load_structure(to.id, segment, rows.parameter, std::span<const uint8_t>(bytes).first(n));
	}
	return status;
}

Status
move_segment(
	const CopyRecord &copy, const CopyPlace &from, const CopyPlace &to, SegmentId segment, const SegmentRows &rows)
{
	Status status = move_rows(copy, from, 0, rows.n_rows, segment,
		[&](uint64_t, const engine::RowBlock &block) { return to.engine.load_segment(to.id, segment, block); });

	if (status.is_ok() && rows.n_rows == 0) // a segment without rows must exist, too
		status = to.engine.load_segment(to.id, segment, {});
	if (status.is_ok() && rows.structure_bytes > 0)
		status = move_structure(from, to, segment, rows);
	if (status.is_ok() && rows.sealed)
		status = to.engine.seal_segment(to.id, segment);
	if (status.is_ok() && !rows.dead.empty())
		status = to.engine.set_tombstones(to.id, segment, rows.dead);
	return status;
}

} // namespace

void
begin_record(const engine::CopySpec &spec, size_t rounded_row_bytes, CopyRecord *copy)
{
	copy->spec = spec;
	copy->bytes_per_row = copy->bytes_per_segment_row =
		vector_bytes(spec.distance.element, spec.distance.dim) + kRowExtraBytes;
	if (engine::segment_vector_bytes(spec) == 0)
		copy->bytes_per_segment_row = sizeof(RowId);
	if (spec.rounded)
		copy->bytes_per_segment_row += rounded_row_bytes;
}

uint64_t
record_bytes(const CopyRecord &copy)
{
	uint64_t bytes = (copy.delta_last - copy.delta_first) * copy.bytes_per_row;

	for (const auto &[segment, rows] : copy.segments)
		bytes += rows.n_rows * copy.bytes_per_segment_row + rows.structure_bytes;
	return bytes;
}

uint64_t
seal_bytes(const CopyRecord &copy, SegmentId segment)
{
	const auto found = copy.segments.find(segment);

	if (copy.spec.kind != engine::CopyKind::kMatch || found == copy.segments.end() || found->second.prepared ||
		found->second.sealed)
		return 0;
	return found->second.structure_bytes;
}

Status
copy_rows(const CopyRecord &copy, const CopyPlace &from, const CopyPlace &to)
{
	Status status = to.engine.trim_delta(to.id, copy.delta_first);

	for (auto segment = copy.segments.begin(); status.is_ok() && segment != copy.segments.end(); ++segment)
		status = move_segment(copy, from, to, segment->first, segment->second);
	if (status.is_ok())
		status = move_rows(copy, from, copy.delta_first, copy.delta_last, engine::kDeltaSegment,
			[&](uint64_t first, const engine::RowBlock &rows) { return to.engine.append_delta(to.id, first, rows); });
	if (status.is_ok() && copy.has_delta_dead)
		status = to.engine.set_delta_tombstones(to.id, copy.delta_dead_first, copy.delta_dead);
	return status;
}

} // namespace vectorgpu::worker
