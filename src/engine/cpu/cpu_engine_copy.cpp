// See cpu_engine_copy.hpp. Each writer prepares everything that can fail, then changes the copy, so that out of memory
// leaves it as it was.
#include "engine/cpu/cpu_engine_copy.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/cpu/gemm_filter.hpp"

namespace vectorgpu::engine
{
namespace
{

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

Status
check(const RowBlock &rows, bool with_vectors)
{
	if (rows.row_ids.size() != rows.n_rows)
		return invalid("the number of row ids differs from the number of rows");
	if (rows.n_rows > 0 && with_vectors && rows.vectors == nullptr)
		return invalid("rows without vectors");
	return Status::ok();
}

/// work(chunk, at, n) for the pieces of rows [first, first + n_rows), which the view has: n rows of a chunk from its
/// slot `at` on.
template <class Work>
void
for_each_piece(const RowListView &rows, uint64_t first, size_t n_rows, Work work)
{
	for (uint64_t slot = first - rows.chunk_start; n_rows > 0;)
	{
		const size_t at = slot % rows.chunk_rows;
		const size_t here = std::min(n_rows, rows.chunk_rows - at);

		work(*rows.chunks[slot / rows.chunk_rows], at, here);
		slot += here;
		n_rows -= here;
	}
}

} // namespace

void
copy_bits(const Bitmap *bitmap, uint64_t bitmap_first, uint64_t first, size_t n, uint8_t *bits)
{
	const uint64_t end = bitmap == nullptr ? bitmap_first : bitmap_first + uint64_t{bitmap->size()} * 8;

	std::fill_n(bits, (n + 7) / 8, uint8_t{0});
	for (uint64_t row = std::max(first, bitmap_first); row < std::min(end, first + n); row++)
	{
		const uint64_t from = row - bitmap_first;
		const uint64_t to = row - first;

		bits[to / 8] = static_cast<uint8_t>(bits[to / 8] | ((*bitmap)[from / 8] >> (from % 8) & 1) << (to % 8));
	}
}

CpuEngineCopy::CpuEngineCopy(const CopySpec &spec, Populator *populator)
	: spec_(spec.distance), kind_(spec.kind), with_vectors_(engine::segment_vector_bytes(spec) > 0),
	  populator_(populator), delta_(spec.distance, RowList::Kind::kDelta)
{
}

/// Makes what the members say visible to searches to come. Caller holds the mutex. Throws bad_alloc before any change.
void
CpuEngineCopy::publish()
{
	auto next = std::make_shared<Snapshot>();

	for (const auto &[id, segment] : segments_)
		if (segment.sealed != nullptr)
		{
			next->segments.push_back(segment.sealed);
			next->n_rows += segment.rows.last();
		}
	next->delta = {delta_.view(), delta_dead_, delta_dead_first_, kDeltaSegment, nullptr, nullptr};
	next->n_rows += delta_.last() - delta_.first();
	snapshot_.set(std::move(next));
	account();
}

void
CpuEngineCopy::account()
{
	uint64_t bytes = delta_.memory_bytes() + (delta_dead_ != nullptr ? delta_dead_->size() : 0);

	for (const auto &[id, segment] : segments_)
	{
		bytes += segment.rows.memory_bytes() + (segment.lists != nullptr ? segment.lists->bytes().size() : 0) +
			(segment.graph != nullptr ? segment.graph->bytes().size() : 0);
		if (segment.sealed != nullptr && segment.sealed->dead != nullptr)
			bytes += segment.sealed->dead->size();
	}
	memory_bytes_.store(bytes, std::memory_order_relaxed);
}

Status
CpuEngineCopy::load_segment(SegmentId id, const RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	if (Status status = check(rows, with_vectors_); !status.is_ok())
		return status;

	const auto [found, is_new] = segments_.try_emplace(id, spec_, populator_, with_vectors_);

	if (found->second.prepared)
		return invalid("the segment is sealed");
	try
	{
		found->second.rows.append(rows.row_ids.data(), static_cast<const uint8_t *>(rows.vectors), rows.n_rows);
	}
	catch (...)
	{
		if (is_new)
			segments_.erase(found);
		throw;
	}
	account();
	return Status::ok();
}

Status
CpuEngineCopy::append_structure(Segment *segment, uint32_t parameter, std::span<const uint8_t> bytes) const
{
	if (kind_ == CopyKind::kGraph || kind_ == CopyKind::kHashedGraph)
	{
		if (segment->graph == nullptr)
			segment->graph = std::make_shared<SegmentGraph>();
		return segment->graph->append(parameter, bytes);
	}
	if (segment->lists == nullptr)
		segment->lists = std::make_shared<Lists>();
	return segment->lists->append(parameter, bytes);
}

/// Of a segment with rows.
Status
CpuEngineCopy::check_structure(Segment *segment) const
{
	switch (kind_)
	{
		case CopyKind::kLists:
			return segment->lists == nullptr ? invalid("the segment has no lists")
											 : segment->lists->check(spec_.dim, segment->rows.last());
		case CopyKind::kCodedLists:
		case CopyKind::kCodes:
			return segment->lists == nullptr ? invalid("the segment has no lists")
											 : segment->lists->check_coded(spec_, segment->rows.last());
		case CopyKind::kGraph:
		case CopyKind::kHashedGraph:
			return segment->graph == nullptr
				? invalid("the segment has no graph")
				: segment->graph->check(segment->rows.last(), kind_ == CopyKind::kHashedGraph);
		default:
			return Status::ok();
	}
}

Status
CpuEngineCopy::load_structure(SegmentId id, uint32_t parameter, std::span<const uint8_t> bytes)
{
	const std::lock_guard lock(mutex_);

	if (kind_ == CopyKind::kRows)
		return invalid("the copy has rows only");

	const auto [found, is_new] = segments_.try_emplace(id, spec_, populator_, with_vectors_);
	Segment &segment = found->second;

	if (segment.prepared)
		return invalid("the segment is sealed");
	try
	{
		if (Status status = append_structure(&segment, parameter, bytes); !status.is_ok())
			return status;
	}
	catch (...)
	{
		if (is_new)
			segments_.erase(found);
		throw;
	}
	account();
	return Status::ok();
}

/// Caller holds the mutex.
Status
CpuEngineCopy::prepare(Segment *segment)
{
	if (segment->prepared)
		return Status::ok();
	if (segment->rows.last() > 0)
		if (Status status = check_structure(segment); !status.is_ok())
			return status;
	segment->prepared = true;
	segment->rows.finish();
	return Status::ok();
}

Status
CpuEngineCopy::prepare_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	return found == segments_.end() ? Status::error(StatusCode::kNotFound, "no such segment") : prepare(&found->second);
}

Status
CpuEngineCopy::seal_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");

	Segment &segment = found->second;

	if (segment.sealed != nullptr)
		return Status::ok();
	if (Status status = prepare(&segment); !status.is_ok())
		return status;
	segment.sealed =
		std::make_shared<const RowsView>(RowsView{segment.rows.view(), nullptr, 0, id, segment.lists, segment.graph});
	try
	{
		publish();
	}
	catch (...)
	{
		segment.sealed = nullptr;
		throw;
	}
	return Status::ok();
}

Status
CpuEngineCopy::drop_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	auto dropped = segments_.extract(id);

	if (dropped.empty())
		return Status::error(StatusCode::kNotFound, "no such segment");
	try
	{
		publish();
	}
	catch (...)
	{
		segments_.insert(std::move(dropped));
		throw;
	}
	return Status::ok();
}

Status
CpuEngineCopy::append_delta(uint64_t position, const RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	return append(position, rows);
}

bool
CpuEngineCopy::try_append_delta(uint64_t position, const RowBlock &rows, Status *status)
{
	const std::unique_lock lock(mutex_, std::try_to_lock);

	if (!lock.owns_lock())
		return false;
	*status = append(position, rows);
	return true;
}

/// Caller holds the mutex.
Status
CpuEngineCopy::append(uint64_t position, const RowBlock &rows)
{
	if (Status status = check(rows, true); !status.is_ok())
		return status;
	if (position > delta_.last())
		return invalid("the rows leave a gap behind the delta that is held");

	const uint64_t held = delta_.last() - position;

	if (held >= rows.n_rows)
		return Status::ok();

	const uint64_t last = delta_.last();

	delta_.append(rows.row_ids.data() + held,
		static_cast<const uint8_t *>(rows.vectors) + held * vector_bytes(spec_.element, spec_.dim), rows.n_rows - held);
	try
	{
		publish();
	}
	catch (...)
	{
		delta_.truncate(last);
		throw;
	}
	return Status::ok();
}

Status
CpuEngineCopy::trim_delta(uint64_t position)
{
	const std::lock_guard lock(mutex_);
	const RowList before = delta_; // its chunks are shared

	delta_.trim(position);
	try
	{
		publish();
	}
	catch (...)
	{
		delta_ = before;
		throw;
	}
	return Status::ok();
}

Status
CpuEngineCopy::set_tombstones(SegmentId id, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");

	Segment &segment = found->second;

	if (segment.sealed == nullptr)
		return invalid("the segment is not sealed");
	if (bits.size() != (segment.rows.last() + 7) / 8)
		return invalid("the tombstones do not fit the segment");

	auto next = std::make_shared<RowsView>(*segment.sealed);

	next->dead = std::make_shared<const Bitmap>(bits.begin(), bits.end());

	std::shared_ptr<const RowsView> before = std::exchange(segment.sealed, std::move(next));

	try
	{
		publish();
	}
	catch (...)
	{
		segment.sealed = std::move(before);
		throw;
	}
	return Status::ok();
}

Status
CpuEngineCopy::set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	auto dead = std::make_shared<const Bitmap>(bits.begin(), bits.end());
	const uint64_t first_before = std::exchange(delta_dead_first_, first_position);
	std::shared_ptr<const Bitmap> before = std::exchange(delta_dead_, std::move(dead));

	try
	{
		publish();
	}
	catch (...)
	{
		delta_dead_ = std::move(before);
		delta_dead_first_ = first_before;
		throw;
	}
	return Status::ok();
}

/// What holds rows [first, first + n_rows) of a segment, sealed or not, or of the delta.
Status
CpuEngineCopy::find_rows(SegmentId id, uint64_t first, size_t n_rows, RowsView *view) const
{
	{
		const std::lock_guard lock(mutex_);

		if (id == kDeltaSegment)
			*view = {delta_.view(), delta_dead_, delta_dead_first_, kDeltaSegment, nullptr, nullptr};
		else if (const auto found = segments_.find(id); found == segments_.end())
			return Status::error(StatusCode::kNotFound, "no such segment");
		else if (found->second.sealed != nullptr)
			*view = *found->second.sealed;
		else
			view->rows = found->second.rows.view();
	}

	const RowListView &rows = view->rows;

	return first < rows.first || first > rows.last || n_rows > rows.last - first ? invalid("rows that are not held")
																				 : Status::ok();
}

Status
CpuEngineCopy::read_rows(SegmentId id, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const
{
	const size_t row_bytes = id == kDeltaSegment || with_vectors_ ? delta_.row_bytes() : 0;
	uint8_t *to = static_cast<uint8_t *>(vectors);
	RowsView view;

	if (Status status = find_rows(id, first, n_rows, &view); !status.is_ok())
		return status;
	for_each_piece(view.rows, first, n_rows,
		[&](const RowChunk &chunk, size_t at, size_t n)
		{
			row_ids = std::copy_n(chunk.row_ids() + at, n, row_ids);
			to = std::copy_n(chunk.vectors() + at * row_bytes, n * row_bytes, to);
		});
	return Status::ok();
}

Status
CpuEngineCopy::read_tombstones(SegmentId id, uint64_t first, size_t n_rows, uint8_t *bits) const
{
	RowsView view;

	if (Status status = find_rows(id, first, n_rows, &view); !status.is_ok())
		return status;
	copy_bits(view.dead.get(), view.dead_first, first, n_rows, bits);
	return Status::ok();
}

/// The norms of rows: all else is searched as it came.
Status
CpuEngineCopy::check_derived(SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	const size_t row_bytes = delta_.row_bytes();
	RowsView view;

	*n_different = 0;
	if (Status status = find_rows(id, first, n_rows, &view); !status.is_ok())
		return status;
	for_each_piece(view.rows, first, n_rows,
		[&](const RowChunk &chunk, size_t at, size_t n)
		{
			for (size_t i = at; chunk.square_norms() != nullptr && i < at + n; i++)
				*n_different += std::bit_cast<uint64_t>(square_norm(spec_, chunk.vectors() + i * row_bytes)) !=
						std::bit_cast<uint64_t>(chunk.square_norms()[i])
					? 1
					: 0;
		});
	return Status::ok();
}

std::shared_ptr<const SegmentGraph>
CpuEngineCopy::prepared_graph(SegmentId id) const
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	return found != segments_.end() && found->second.prepared ? found->second.graph : nullptr;
}

Status
CpuEngineCopy::read_structure(SegmentId id, uint64_t first, size_t n_bytes, void *bytes) const
{
	const std::lock_guard lock(mutex_); // it may still grow
	const auto found = segments_.find(id);
	std::span<const uint8_t> held;

	if (found == segments_.end() || (found->second.lists == nullptr && found->second.graph == nullptr))
		return Status::error(StatusCode::kNotFound, "no such structure");
	held = found->second.lists != nullptr ? found->second.lists->bytes() : found->second.graph->bytes();
	if (first > held.size() || n_bytes > held.size() - first)
		return invalid("bytes that are not held");
	std::copy_n(held.data() + first, n_bytes, static_cast<uint8_t *>(bytes));
	return Status::ok();
}

} // namespace vectorgpu::engine
