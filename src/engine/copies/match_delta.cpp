// See match_delta.hpp.
#include "engine/copies/match_delta.hpp"

#include <cstring>
#include <vector>

#include "engine/copies/slot_values.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint64_t kSlotsPerLook = 1024; // between two looks at the control: well below a millisecond

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

/// The pattern of a query by edit distance; empty for other metrics.
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

Status
check_match_queries(const DistanceSpec &spec, std::span<const SearchQuery> queries)
{
	for (const SearchQuery &query : queries)
	{
		match::Parts parts;
		uint64_t n_items;

		if (query.query == nullptr || !match::open_parts(query.query, query.query_bytes, &parts) ||
			!match::items_valid(parts, &n_items))
			return invalid("a malformed query");
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
	uint64_t n_slots = 1;            // of the value at `at`
	uint64_t next_look = rows.first; // at control

	if (!match::open_parts(query.query, query.query_bytes, &wanted) || slot_bytes < sizeof(uint32_t))
		return true;

	Pattern pattern(spec, wanted);

	for (uint64_t at = rows.first; at < rows.last; at += n_slots)
	{
		match::Parts parts;

		if (control != nullptr && at >= next_look)
		{
			if (control->stop.load(std::memory_order_relaxed))
				return false;
			control->progress.fetch_add(1, std::memory_order_relaxed);
			next_look = at + kSlotsPerLook;
		}
		n_slots = 1;
		// No other value begins in the slots of a value, so that each slot is read once.
		if (is_dead(delta, at) || !read_slot_value(rows, at, slot_bytes, UINT32_MAX, &value, &n_slots))
			continue;

		uint32_t length;

		std::memcpy(&length, value.data(), sizeof(length));

		const bool good = match::open_parts(value.data() + sizeof(length), length, &parts);
		const RowId row = rows.row_id(at);

		if (pattern.get() != nullptr)
		{
			match::TextView text = {nullptr, 0, 1};

			// A malformed value is as far away as the empty text.
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

} // namespace vectorgpu::engine
