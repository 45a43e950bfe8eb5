// See cpu_engine_copy.hpp. Each writer prepares everything that can fail, then changes the copy.
#include "engine/cpu/cpu_engine_copy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "engine/copies/narrow_scores.hpp"
#include "engine/copies/rounded_trial.hpp"
#include "engine/filter/gemm_filter.hpp"

namespace vectorgpu::engine
{
namespace
{

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

/// Whether the norm and the rounded row of a slot are those of its vector.
bool
same_derived(const DistanceSpec &spec, const RowChunk &chunk, size_t slot, const uint8_t *vector)
{
	const double norm = square_norm(spec, vector);

	if (std::bit_cast<uint64_t>(norm) != std::bit_cast<uint64_t>(chunk.square_norms()[slot]))
		return false;
	if (chunk.roundings() == nullptr)
		return true;

	std::vector<int8_t> rounded(rounded_bytes(spec));
	const Rounding rounding = round_row(spec, reinterpret_cast<const float *>(vector), norm, rounded.data());

	return std::equal(rounded.begin(), rounded.end(), chunk.rounded(slot)) &&
		std::memcmp(&rounding, &chunk.roundings()[slot], sizeof(rounding)) == 0;
}

bool
rounded_rows_lead(const DistanceSpec &spec, const CpuSegment &segment)
{
	const RowListView rows = segment.rows.view();

	if (!NarrowScores::serve(spec, rows))
		return false;

	const RoundedTrial trial(*segment.graph);

	return trial.passes(spec, rows, trial.nodes());
}

} // namespace

CpuCopy::CpuCopy(const CopySpec &spec, Populator *populator)
	: HostCopy(spec.distance), kind_(spec.kind), with_vectors_(engine::segment_vector_bytes(spec) > 0),
	  rounded_(spec.rounded && rounded_row_bytes(spec) > 0), populator_(populator)
{
}

size_t
CpuCopy::rounded_row_bytes(const CopySpec &spec)
{
	const bool scores_rows =
		spec.kind == CopyKind::kRows || spec.kind == CopyKind::kLists || spec.kind == CopyKind::kGraph;

	return scores_rows && rounds(spec.distance) ? rounded_slot_bytes(spec.distance) : 0;
}

std::shared_ptr<const Snapshot>
CpuCopy::make_snapshot() const
{
	auto next = std::make_shared<Snapshot>();

	for (const auto &[id, segment] : segments_)
		if (segment.sealed != nullptr)
		{
			next->segments.push_back(segment.sealed);
			next->n_rows += segment.rows.last();
		}
	next->delta = delta_view();
	next->n_rows += n_delta_rows();
	return next;
}

uint64_t
CpuCopy::bytes_of(const CpuSegment &segment) const
{
	const RowsView *const sealed = segment.sealed.get();

	return segment.rows.memory_bytes() + segment.structure().size() +
		(segment.lists != nullptr ? segment.lists->places_bytes() : 0) +
		(sealed != nullptr && sealed->dead != nullptr ? sealed->dead->size() : 0);
}

/// change(&segment) with a segment that takes more; a new one goes again if that throws.
template <class Change>
Status
CpuCopy::change_segment(SegmentId id, Change change)
{
	const auto [found, is_new] = segments_.try_emplace(id, spec(), populator_, with_vectors_, rounded_);

	if (found->second.prepared)
		return invalid("the segment is sealed");
	try
	{
		if (Status status = change(&found->second); !status.is_ok())
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

Status
CpuCopy::load_segment(SegmentId id, const RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	if (Status status = check_rows(rows, with_vectors_); !status.is_ok())
		return status;
	return change_segment(id,
		[&](CpuSegment *segment)
		{
			segment->rows.append(rows.row_ids.data(), static_cast<const uint8_t *>(rows.vectors), rows.n_rows);
			return Status::ok();
		});
}

Status
CpuCopy::append_structure(CpuSegment *segment, uint32_t parameter, std::span<const uint8_t> bytes) const
{
	if (kind_ == CopyKind::kGraph || kind_ == CopyKind::kHashedGraph)
	{
		if (segment->graph == nullptr)
			segment->graph = std::make_shared<SegmentGraph>();
		return segment->graph->append(parameter, bytes);
	}
	if (kind_ == CopyKind::kSparse)
	{
		if (segment->sparse == nullptr)
			segment->sparse = std::make_shared<SparseRows>();
		segment->sparse->append(segment->rows.last(), bytes);
		return Status::ok();
	}
	if (segment->lists == nullptr)
		segment->lists = std::make_shared<Lists>();
	return segment->lists->append(parameter, bytes);
}

/// The segment has rows.
Status
CpuCopy::check_structure(const CpuSegment &segment) const
{
	switch (kind_)
	{
		case CopyKind::kLists:
			return segment.lists == nullptr ? invalid("the segment has no lists")
											: segment.lists->check(spec().dim, segment.rows.last());
		case CopyKind::kCodedLists:
		case CopyKind::kCodes:
			return segment.lists == nullptr ? invalid("the segment has no lists")
											: segment.lists->check_coded(spec(), segment.rows.last());
		case CopyKind::kGraph:
		case CopyKind::kHashedGraph:
			return segment.graph == nullptr
				? invalid("the segment has no graph")
				: segment.graph->check(segment.rows.last(), spec().dim, kind_ == CopyKind::kHashedGraph);
		case CopyKind::kSparse:
			return segment.sparse == nullptr ? invalid("the segment has no vectors")
											 : segment.sparse->check(segment.rows.last());
		default:
			return Status::ok();
	}
}

Status
CpuCopy::load_structure(SegmentId id, uint32_t parameter, std::span<const uint8_t> bytes)
{
	const std::lock_guard lock(mutex_);

	if (kind_ == CopyKind::kRows)
		return invalid("the copy has rows only");
	return change_segment(id, [&](CpuSegment *segment) { return append_structure(segment, parameter, bytes); });
}

/// Caller holds the mutex.
Status
CpuCopy::prepare(CpuSegment *segment) const
{
	if (segment->prepared)
		return Status::ok();
	if (segment->rows.last() > 0)
		if (Status status = check_structure(*segment); !status.is_ok())
			return status;
	if (kind_ == CopyKind::kGraph && rounded_ && segment->rows.last() > 0)
		segment->rounded_lead = rounded_rows_lead(spec(), *segment);
	segment->prepared = true;
	segment->rows.finish();
	return Status::ok();
}

Status
CpuCopy::prepare_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	CpuSegment *const segment = find_segment(id);

	return segment == nullptr ? no_segment() : prepare(segment);
}

Status
CpuCopy::seal_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	CpuSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();
	if (segment->sealed != nullptr)
		return Status::ok();
	if (Status status = prepare(segment); !status.is_ok())
		return status;
	segment->sealed = std::make_shared<const RowsView>(RowsView{segment->rows.view(), nullptr, 0, id, segment->lists,
		segment->graph, nullptr, segment->sparse, segment->rounded_lead});
	publish_or([&] { segment->sealed = nullptr; });
	return Status::ok();
}

Status
CpuCopy::set_tombstones(SegmentId id, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	CpuSegment *const segment = find_segment(id);

	if (segment == nullptr)
		return no_segment();
	if (segment->sealed == nullptr)
		return invalid("the segment is not sealed");
	if (bits.size() != (segment->rows.last() + 7) / 8)
		return invalid("the tombstones do not fit the segment");

	auto next = std::make_shared<RowsView>(*segment->sealed);

	next->dead = std::make_shared<const Bitmap>(bits.begin(), bits.end());

	std::shared_ptr<const RowsView> before = std::exchange(segment->sealed, std::move(next));

	publish_or([&] { segment->sealed = std::move(before); });
	return Status::ok();
}

/// Give the view that holds rows [first, first + n_rows) of a segment, sealed or not, or of the delta.
Status
CpuCopy::find_rows(SegmentId id, uint64_t first, size_t n_rows, RowsView *view) const
{
	{
		const std::lock_guard lock(mutex_);
		const CpuSegment *const segment = find_segment(id);

		if (id == kDeltaSegment)
			*view = delta_view();
		else if (segment == nullptr)
			return no_segment();
		else if (segment->sealed != nullptr)
			*view = *segment->sealed;
		else
			view->rows = segment->rows.view();
	}
	return view->holds(first, n_rows) ? Status::ok() : not_held();
}

Status
CpuCopy::read_rows(SegmentId id, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const
{
	const size_t row_bytes = id == kDeltaSegment || with_vectors_ ? vector_bytes(spec().element, spec().dim) : 0;
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
CpuCopy::read_tombstones(SegmentId id, uint64_t first, size_t n_rows, uint8_t *bits) const
{
	RowsView view;

	if (Status status = find_rows(id, first, n_rows, &view); !status.is_ok())
		return status;
	copy_bits(view.dead.get(), view.dead_first, first, n_rows, bits);
	return Status::ok();
}

/// The norms of rows, and rounded rows: all else is searched as it came.
Status
CpuCopy::check_derived(SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	const size_t row_bytes = vector_bytes(spec().element, spec().dim);
	RowsView view;

	*n_different = 0;
	if (Status status = find_rows(id, first, n_rows, &view); !status.is_ok())
		return status;
	for_each_piece(view.rows, first, n_rows,
		[&](const RowChunk &chunk, size_t at, size_t n)
		{
			for (size_t i = at; chunk.square_norms() != nullptr && i < at + n; i++)
				*n_different += same_derived(spec(), chunk, i, chunk.vectors() + i * row_bytes) ? 0 : 1;
		});
	return Status::ok();
}

void
CpuCopy::recount()
{
	const std::unique_lock lock(mutex_, std::try_to_lock);

	if (lock.owns_lock()) // else the writer counts
		account();
}

std::shared_ptr<const SegmentGraph>
CpuCopy::prepared_graph(SegmentId id) const
{
	const std::lock_guard lock(mutex_);
	const CpuSegment *const segment = find_segment(id);

	return segment != nullptr && segment->prepared ? segment->graph : nullptr;
}

std::shared_ptr<const SparseRows>
CpuCopy::prepared_sparse(SegmentId id) const
{
	const std::lock_guard lock(mutex_);
	const CpuSegment *const segment = find_segment(id);

	return segment != nullptr && segment->prepared ? segment->sparse : nullptr;
}

Status
CpuCopy::read_structure(SegmentId id, uint64_t first, size_t n_bytes, void *bytes) const
{
	const std::lock_guard lock(mutex_); // the structure may still grow
	const CpuSegment *const segment = find_segment(id);

	if (segment == nullptr || (segment->lists == nullptr && segment->graph == nullptr && segment->sparse == nullptr))
		return Status::error(StatusCode::kNotFound, "no such structure");

	const std::span<const uint8_t> held = segment->structure();

	if (first > held.size() || n_bytes > held.size() - first)
		return invalid("bytes that are not held");
	std::copy_n(held.data() + first, n_bytes, static_cast<uint8_t *>(bytes));
	return Status::ok();
}

} // namespace vectorgpu::engine
