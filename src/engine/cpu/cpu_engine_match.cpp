// See cpu_engine_match.hpp.
#include "engine/cpu/cpu_engine_match.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/cpu/selection.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr size_t kQueriesPerTurn = 16; // that go over the tiles of a segment together
constexpr uint64_t kSlotsPerLook =
	1024; // of the delta, between two looks at what the caller wants: well below a millisecond

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

bool
is_dead(const RowsView &view, uint64_t position)
{
	if (view.dead == nullptr || position < view.dead_first)
		return false;

	const uint64_t bit = position - view.dead_first;

	return bit / 8 < view.dead->size() && (((*view.dead)[bit / 8] >> (bit % 8)) & 1) != 0;
}

const uint8_t *
slot_at(const RowListView &rows, uint64_t position, size_t slot_bytes)
{
	const uint64_t slot = position - rows.chunk_start;

	return rows.chunks[slot / rows.chunk_rows]->vectors() + slot % rows.chunk_rows * slot_bytes;
}

RowId
row_id_at(const RowListView &rows, uint64_t position)
{
	const uint64_t slot = position - rows.chunk_start;

	return rows.chunks[slot / rows.chunk_rows]->row_ids()[slot % rows.chunk_rows];
}

/// The pattern of a query by edit distance; of another one nothing.
class Pattern
{
public:
	Pattern(const DistanceSpec &spec, const match::Parts &query)
	{
		match::GramQuery grams;
		const uint8_t *codes;

		if (spec.metric == Metric::kEdit && match::open_gram_query(query, &grams, &codes))
		{
			made_ = true;
			match::text_pattern_init(&pattern_, match::heap_memory(), codes, grams.size);
		}
	}
	~Pattern()
	{
		if (made_)
			match::text_pattern_free(&pattern_);
	}
	Pattern(const Pattern &) = delete;
	Pattern &operator=(const Pattern &) = delete;

	match::TextPattern *get() { return made_ ? &pattern_ : nullptr; }

private:
	bool made_ = false;
	match::TextPattern pattern_{};
};

} // namespace

Poll
match_poll(SearchControl *control)
{
	const auto look = [](void *context)
	{
		SearchControl *one = static_cast<SearchControl *>(context);

		one->progress.fetch_add(1, std::memory_order_relaxed);
		return !one->stop.load(std::memory_order_relaxed);
	};

	if (control == nullptr)
		return {};
	return {look, control};
}

match::MatchQuery
match_query(const DistanceSpec &spec, const SearchQuery &query)
{
	return {{query.query, query.query_bytes}, query.k, query.has_after, query.after, spec.metric == Metric::kEdit};
}

MatchCopy::MatchCopy(const CopySpec &spec, SegmentHook sealed, std::function<void(SegmentId)> dropped)
	: spec_(spec.distance), sealed_(std::move(sealed)), dropped_(std::move(dropped)),
	  delta_(spec.distance, RowList::Kind::kDelta)
{
}

/// Makes what the members say visible to searches to come. Caller holds the mutex. Throws bad_alloc before any change.
void
MatchCopy::publish()
{
	auto next = std::make_shared<MatchSnapshot>();

	for (const auto &[id, segment] : segments_)
		if (segment.sealed.segment != nullptr)
		{
			next->segments.push_back(segment.sealed);
			next->n_rows += segment.sealed.segment->index.n_rows();
		}
	next->delta.rows = delta_.view();
	next->delta.dead = delta_dead_;
	next->delta.dead_first = delta_dead_first_;
	next->n_rows += delta_.last() - delta_.first();
	snapshot_.set(std::move(next));
	account();
}

/// Counts what is held. Caller holds the mutex.
void
MatchCopy::account()
{
	uint64_t bytes = delta_.memory_bytes() + (delta_dead_ != nullptr ? delta_dead_->size() : 0);

	for (const auto &[id, segment] : segments_)
	{
		bytes += segment.row_ids.size() * sizeof(RowId) + segment.description.size();
		for (const std::shared_ptr<const MatchSegment> &made : {segment.opened, segment.sealed.segment})
			if (made != nullptr)
				bytes += made->index.memory_bytes() + made->description.size();
		if (segment.sealed.dead != nullptr)
			bytes += segment.sealed.dead->size();
	}
	memory_bytes_.store(bytes, std::memory_order_relaxed);
}

Status
MatchCopy::load_segment(SegmentId id, const RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	if (rows.row_ids.size() != rows.n_rows)
		return invalid("the number of row ids differs from the number of rows");

	Segment &segment = segments_[id];

	if (segment.sealed.segment != nullptr)
		return invalid("the segment is sealed");
	segment.row_ids.insert(segment.row_ids.end(), rows.row_ids.begin(), rows.row_ids.end());
	segment.opened = nullptr;
	account();
	return Status::ok();
}

Status
MatchCopy::load_structure(SegmentId id, uint32_t /*parameter*/, std::span<const uint8_t> bytes)
{
	const std::lock_guard lock(mutex_);
	Segment &segment = segments_[id];

	if (segment.sealed.segment != nullptr)
		return invalid("the segment is sealed");
	segment.description.insert(segment.description.end(), bytes.begin(), bytes.end());
	segment.opened = nullptr;
	account();
	return Status::ok();
}

/// Checks what has come of the segment and makes its index. Caller holds the mutex.
Status
MatchCopy::open(SegmentId id, Segment *segment)
{
	auto made = std::make_shared<MatchSegment>();

	if (!std::is_sorted(segment->row_ids.begin(), segment->row_ids.end()))
		return invalid("the row ids do not ascend");
	if (!segment->row_ids.empty() &&
		!made->index.open(segment->description, segment->row_ids, spec_.metric == Metric::kEdit))
		return invalid("the segment has no good inverted index");
	if (segment->row_ids.empty()) // there is no index
		made->description = segment->description;
	if (sealed_ != nullptr)
		if (Status status = sealed_(id, made); !status.is_ok())
			return status;
	segment->opened = std::move(made);
	account();
	return Status::ok();
}

Status
MatchCopy::prepare_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");
	if (found->second.sealed.segment != nullptr || found->second.opened != nullptr)
		return Status::ok();
	return open(id, &found->second);
}

Status
MatchCopy::seal_segment(SegmentId id)
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");

	Segment &segment = found->second;

	if (segment.sealed.segment != nullptr)
		return Status::ok();
	if (segment.opened == nullptr)
		if (Status status = open(id, &segment); !status.is_ok())
			return status;
	segment.sealed = {id, segment.opened, nullptr};
	try
	{
		publish();
	}
	catch (...)
	{
		segment.sealed = {};
		throw;
	}
	segment.opened = nullptr;
	std::vector<RowId>().swap(segment.row_ids);
	std::vector<uint8_t>().swap(segment.description);
	account();
	return Status::ok();
}

Status
MatchCopy::drop_segment(SegmentId id)
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
	if (dropped_ != nullptr)
		dropped_(id);
	return Status::ok();
}

Status
MatchCopy::append_delta(uint64_t position, const RowBlock &rows)
{
	const std::lock_guard lock(mutex_);

	return append(position, rows);
}

bool
MatchCopy::try_append_delta(uint64_t position, const RowBlock &rows, Status *status)
{
	const std::unique_lock lock(mutex_, std::try_to_lock);

	if (!lock.owns_lock())
		return false;
	*status = append(position, rows);
	return true;
}

/// Caller holds the mutex.
Status
MatchCopy::append(uint64_t position, const RowBlock &rows)
{
	if (rows.row_ids.size() != rows.n_rows || (rows.n_rows > 0 && rows.vectors == nullptr))
		return invalid("the slots are not whole");
	if (position > delta_.last())
		return invalid("the rows leave a gap behind the delta that is held");

	const uint64_t held = delta_.last() - position;
	const uint64_t last = delta_.last();

	if (held >= rows.n_rows)
		return Status::ok();
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
MatchCopy::trim_delta(uint64_t position)
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
MatchCopy::set_tombstones(SegmentId id, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");

	MatchSegmentView &view = found->second.sealed;

	if (view.segment == nullptr)
		return invalid("the segment is not sealed");
	if (bits.size() != (view.segment->index.n_rows() + 7) / 8)
		return invalid("the tombstones do not fit the segment");

	auto next = std::make_shared<const Bitmap>(bits.begin(), bits.end());

	view.dead.swap(next);
	try
	{
		publish();
	}
	catch (...)
	{
		view.dead.swap(next);
		throw;
	}
	return Status::ok();
}

Status
MatchCopy::set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits)
{
	const std::lock_guard lock(mutex_);
	auto dead = std::make_shared<const Bitmap>(bits.begin(), bits.end());
	const uint64_t first_before = std::exchange(delta_dead_first_, first_position);

	delta_dead_.swap(dead);
	try
	{
		publish();
	}
	catch (...)
	{
		delta_dead_.swap(dead);
		delta_dead_first_ = first_before;
		throw;
	}
	return Status::ok();
}

/// Of a segment the row ids alone: its rows have no vectors.
Status
MatchCopy::read_rows(SegmentId id, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const
{
	const std::lock_guard lock(mutex_);
	const size_t slot_bytes = vector_bytes(spec_.element, spec_.dim);
	uint8_t *to = static_cast<uint8_t *>(vectors);

	if (id == kDeltaSegment)
	{
		const RowListView rows = delta_.view();

		if (first < rows.first || first > rows.last || n_rows > rows.last - first)
			return invalid("rows that are not held");
		for (uint64_t i = 0; i < n_rows; i++)
		{
			row_ids[i] = row_id_at(rows, first + i);
			std::memcpy(to + i * slot_bytes, slot_at(rows, first + i, slot_bytes), slot_bytes);
		}
		return Status::ok();
	}

	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");

	const MatchSegmentView &view = found->second.sealed;
	const std::span<const RowId> ids =
		view.segment != nullptr ? view.segment->index.row_ids() : std::span<const RowId>(found->second.row_ids);

	if (first > ids.size() || n_rows > ids.size() - first)
		return invalid("rows that are not held");
	std::copy_n(ids.begin() + static_cast<ptrdiff_t>(first), n_rows, row_ids);
	return Status::ok();
}

Status
MatchCopy::read_structure(SegmentId id, uint64_t first, size_t n_bytes, void *bytes) const
{
	uint8_t *const to = static_cast<uint8_t *>(bytes);
	std::shared_ptr<const MatchSegment> sealed;
	{
		const std::lock_guard lock(mutex_);
		const auto found = segments_.find(id);

		if (found == segments_.end())
			return Status::error(StatusCode::kNotFound, "no such segment");
		sealed = found->second.sealed.segment;
		if (sealed == nullptr || sealed->index.n_rows() == 0)
		{
			const std::vector<uint8_t> &description =
				sealed != nullptr ? sealed->description : found->second.description;

			if (first > description.size() || n_bytes > description.size() - first)
				return invalid("bytes that are not held");
			std::copy_n(description.data() + first, n_bytes, to);
			return Status::ok();
		}
	}
	return sealed->index.read_description(first, n_bytes, to) ? Status::ok() : invalid("bytes that are not held");
}

Status
MatchCopy::read_tombstones(SegmentId id, uint64_t first, size_t n_rows, uint8_t *bits) const
{
	const std::lock_guard lock(mutex_);

	if (id == kDeltaSegment)
	{
		if (first < delta_.first() || first > delta_.last() || n_rows > delta_.last() - first)
			return invalid("rows that are not held");
		copy_bits(delta_dead_.get(), delta_dead_first_, first, n_rows, bits);
		return Status::ok();
	}

	const auto found = segments_.find(id);

	if (found == segments_.end())
		return Status::error(StatusCode::kNotFound, "no such segment");

	const MatchSegmentView &view = found->second.sealed;
	const size_t held = view.segment != nullptr ? view.segment->index.n_rows() : found->second.row_ids.size();

	if (first > held || n_rows > held - first)
		return invalid("rows that are not held");
	copy_bits(view.dead.get(), 0, first, n_rows, bits);
	return Status::ok();
}

Status
MatchCopy::check_derived(SegmentId id, uint64_t first, size_t n_rows, uint64_t *n_different) const
{
	std::shared_ptr<const MatchSegment> segment;

	*n_different = 0;
	{
		const std::lock_guard lock(mutex_);
		const auto found = segments_.find(id);

		if (id == kDeltaSegment)
			return Status::ok(); // is searched as it came
		if (found == segments_.end())
			return Status::error(StatusCode::kNotFound, "no such segment");
		segment = found->second.sealed.segment;
	}
	if (segment == nullptr)
		return Status::ok();
	if (first > segment->index.n_rows() || n_rows > segment->index.n_rows() - first)
		return invalid("rows that are not held");
	*n_different = segment->index.count_different(static_cast<size_t>(first), n_rows);
	return Status::ok();
}

Status
check_match_queries(const DistanceSpec &spec, std::span<const SearchQuery> queries)
{
	for (const SearchQuery &query : queries)
	{
		match::Parts parts;
		uint64_t n_items;

		if (query.query == nullptr || !match::open_parts(query.query, query.query_bytes, &parts) ||
			!match::items_valid(parts, &n_items))
			return invalid("a query that is not one");
		match::GramQuery grams;
		const uint8_t *codes;

		if (spec.metric == Metric::kEdit && !match::open_gram_query(parts, &grams, &codes))
			return invalid("a query without its text");
	}
	return Status::ok();
}

bool
offer_match_delta(
	const DistanceSpec &spec, const RowsView &delta, const SearchQuery &query, TopK *topk, SearchControl *control)
{
	const RowListView &rows = delta.rows;
	const size_t slot_bytes = vector_bytes(spec.element, spec.dim);
	std::vector<uint8_t> value;
	match::Parts wanted;
	uint64_t n_slots = 1;            // of what is at `at`
	uint64_t next_look = rows.first; // at control

	if (!match::open_parts(query.query, query.query_bytes, &wanted) || slot_bytes < sizeof(uint32_t))
		return true;

	Pattern pattern(spec, wanted);

	for (uint64_t at = rows.first; at < rows.last; at += n_slots)
	{
		uint32_t length;
		match::Parts parts;

		if (control != nullptr && at >= next_look)
		{
			if (control->stop.load(std::memory_order_relaxed))
				return false;
			control->progress.fetch_add(1, std::memory_order_relaxed);
			next_look = at + kSlotsPerLook;
		}
		n_slots = 1;
		if (is_dead(delta, at))
			continue;
		std::memcpy(&length, slot_at(rows, at, slot_bytes), sizeof(length));

		const uint64_t n_bytes = sizeof(length) + uint64_t{length};
		const uint64_t n_wanted = (n_bytes + slot_bytes - 1) / slot_bytes;

		if (n_wanted > rows.last - at)
			continue;
		n_slots = n_wanted; // no other value begins there, so that each slot is read once
		value.resize(n_slots * slot_bytes);
		for (uint64_t i = 0; i < n_slots; i++)
			std::memcpy(value.data() + i * slot_bytes, slot_at(rows, at + i, slot_bytes), slot_bytes);

		const bool good = match::open_parts(value.data() + sizeof(length), length, &parts);
		const RowId row = row_id_at(rows, at);

		if (pattern.get() != nullptr)
		{
			match::TextView text = {nullptr, 0, 1};

			// What is no value is as far away as the empty text.
			(void) (good && match::open_text_payload(parts, &text));
			match::offer_text(topk, pattern.get(), text, row, match_poll(control));
			continue;
		}

		const uint64_t count = good ? match::count_matches(wanted, parts) : 0;
		const double score = count == 0 ? 0.0 : -static_cast<double>(count); // 0.0 - count is -0 with some compilers

		topk_push(topk, &score, &row, 1, nullptr, 0);
	}
	return true;
}

uint64_t
search_match(const DistanceSpec &spec, const MatchSnapshot &snapshot, std::span<const SearchQuery> queries,
	ThreadPool &pool, std::vector<std::vector<Neighbor>> *results, SearchControl *control)
{
	const size_t per_turn = std::max<size_t>(1, std::min(kQueriesPerTurn, queries.size() / pool.n_threads()));
	const size_t n_turns = (queries.size() + per_turn - 1) / per_turn;
	std::atomic<size_t> next_turn{0};
	std::atomic<uint64_t> n_compared{0};

	results->assign(queries.size(), {});
	pool.run(std::min(pool.n_threads(), n_turns),
		[&](size_t)
		{
			for (size_t turn; (turn = next_turn.fetch_add(1, std::memory_order_relaxed)) < n_turns;)
			{
				const std::span<const SearchQuery> some =
					queries.subspan(turn * per_turn, std::min(per_turn, queries.size() - turn * per_turn));
				std::vector<match::MatchQuery> wanted;
				std::vector<Selection> selections(some.size());

				if (control != nullptr && control->stop.load(std::memory_order_relaxed))
					return;
				for (size_t i = 0; i < some.size(); i++)
				{
					wanted.push_back(match_query(spec, some[i]));
					selections[i].start(some[i], snapshot.n_rows);
				}
				for (const MatchSegmentView &view : snapshot.segments)
				{
					std::vector<std::vector<Neighbor>> found;
					uint64_t n_texts = 0;

					(void) view.segment->index.search(wanted, view.dead == nullptr ? nullptr : view.dead->data(),
						&found, match_poll(control), &n_texts);
					n_compared.fetch_add(n_texts, std::memory_order_relaxed);
					if (control != nullptr && control->stop.load(std::memory_order_relaxed))
						return;
					for (size_t i = 0; i < found.size(); i++)
						for (const Neighbor &one : found[i])
							topk_push(selections[i].topk(), &one.score, &one.row, 1, nullptr, 0);
					if (control != nullptr)
						control->progress.fetch_add(1, std::memory_order_relaxed);
				}
				for (size_t i = 0; i < some.size(); i++)
				{
					if (!offer_match_delta(spec, snapshot.delta, some[i], selections[i].topk(), control))
						return;
					(*results)[turn * per_turn + i] = selections[i].finish();
					if (some[i].coverage != nullptr)
						*some[i].coverage = Coverage::kAll;
				}
			}
		});
	return n_compared;
}

} // namespace vectorgpu::engine
