// The access method gpumatch: an inverted index that counts matches. See README.md. PG dialect.
#pragma once

#include <type_traits>

#include "am/shared/value_format.hpp"
#include "engine/match/element_set.hpp"
#include "types/match/element.hpp"

namespace vectorgpu::am
{

/// Streams of a segment, beside the common ones. kVectors holds the bytes of the rows' stored values, one behind the other.
constexpr StreamKind kValueEnds = StreamKind{4};  // n_rows uint64, by row: see value_end, value_size
constexpr StreamKind kKeyBytes = StreamKind{5};   // the keys, ascending, one behind the other
constexpr StreamKind kDictionary = StreamKind{6}; // DictionaryEntry, by code: the number of a key in ascending order
constexpr StreamKind kPostings = StreamKind{7};   // uint32 row (number in the segment), by code, then ascending

struct DictionaryEntry
{
	uint64 prefix;       // engine::match::key_prefix
	uint64 key_end;      // in kKeyBytes; it starts where the one before ends
	uint64 postings_end; // items of kPostings, likewise
};

static_assert(sizeof(DictionaryEntry) == 24);

/// An item of kValueEnds: where the value ends in kVectors, and what a measure needs of it without reading it.
constexpr int kValueSizeShift = 48;
constexpr uint64 kMaxValueSize = 0xFFFF; // so much or more

inline uint64
value_end(uint64 item)
{
	return item & ((UINT64CONST(1) << kValueSizeShift) - 1);
}

inline uint64
value_size(uint64 item)
{
	return item >> kValueSizeShift;
}

/// What MetaData::am_options holds.
struct MatchOptions
{
	types::ElementSource source;
	types::ElementOptions elements;
};

static_assert(sizeof(MatchOptions) <= kAmOptionBytes && std::is_trivially_copyable_v<MatchOptions>);

inline MatchOptions
match_options(const uint8 *am_options)
{
	MatchOptions options;

	memcpy(&options, am_options, sizeof(options));
	return options;
}

/// A query of the index: what SegmentSearch::query points to.
struct MatchSearch
{
	MatchOptions options;
	engine::match::Parts parts;
	uint64 n_items;
	uint64 max_count; // no row can count more
};

/// Support function 1 returns source << 16 | shape code; 2, if there is one, defines the options. The source may be
/// kSourceOfArray: the column's type tells.
constexpr int32 kSourceOfArray = 0xFF;

constexpr int16 kOptionsSupport = 2;

/// gpumatch.cpp. Makes the access method known; called from _PG_init.
void match_init();

/// value.cpp
extern const ValueFormat kMatchValues;

/// segment.cpp
extern const SegmentFormat kMatchFormat;

/// segment_check.cpp. SegmentFormat::check_entry and check.
const char *match_check_entry(const MetaData *meta, const SegmentEntry *segment);
void match_check(Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep,
	BufferAccessStrategy strategy);

/// options.cpp. AccessMethod::store_options.
void match_store_options(Relation index, const IndexShape *shape, uint8 *options);

/// search.cpp. AccessMethod::search_segment.
bool match_search_segment(const SegmentSearch *search);

/// score.cpp. The score of a row by its count and the size of its value.
double match_score(const MatchSearch *query, Metric metric, uint64 count, uint64 size);

/// The least count of a row whose score can be at most `worst`.
uint64 match_least_count(const MatchSearch *query, Metric metric, double worst);

} // namespace vectorgpu::am
