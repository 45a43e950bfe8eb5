// The access method gpumatch: an inverted index that counts matches. See README.md. PG dialect.
#pragma once

#include <type_traits>

#include "am/method/am_interface.hpp"
#include "storage/value_format.hpp"
#include "engine/match/element_set.hpp"
#include "engine/match/text_distance.hpp"
#include "types/match/element.hpp"

extern "C"
{
#include "nodes/pathnodes.h"
}

namespace vectorgpu::am
{

/// Streams of a segment, beside the common ones. kVectors holds the bytes of the rows' stored values, one behind the
/// other. A segment with texts has no values (match_has_values): the text makes the value anew.
constexpr StreamKind kValueEnds = StreamKind{4};  // n_rows uint64, by row: see value_end, value_size
constexpr StreamKind kKeyBytes = StreamKind{5};   // the keys, ascending, one behind the other
constexpr StreamKind kDictionary = StreamKind{6}; // DictionaryEntry, by code: the number of a key in ascending order
constexpr StreamKind kPostings = StreamKind{7};   // of release 0.2: uint32 row (number in the segment), by code, then
												  // ascending
constexpr StreamKind kTextItems = StreamKind{8}; // n_rows engine::match::text_item, by row; of texts only, as is kTexts
constexpr StreamKind kTexts = StreamKind{9};     // the rows' texts, one behind the other
constexpr StreamKind kTileLists = StreamKind{10}; // uint16, by code: the rows as engine/match/tile_lists.hpp has them

struct DictionaryEntry
{
	uint64 prefix;       // engine::match::key_prefix
	uint64 key_end;      // in kKeyBytes; it starts where the one before ends
	uint64 postings_end; // items of match_lists, likewise
};

static_assert(sizeof(DictionaryEntry) == 24);

/// An item of kValueEnds: the end of the value in kVectors, and its size.
constexpr int kValueSizeShift = 48;
constexpr uint64 kMaxValueSize = 0xFFFF; // this size or more

static_assert(kMaxValueSize == engine::match::kMostRowSize);

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

/// False for a segment with texts, if it was not written by release 0.2.
inline bool
match_has_values(const SegmentEntry *segment)
{
	return segment->streams[static_cast<int>(kValueEnds)].n_bytes > 0;
}

/// The lists of a segment: kPostings or kTileLists.
inline StreamKind
match_lists(const SegmentEntry *segment)
{
	return segment->streams[static_cast<int>(kPostings)].n_bytes > 0 ? kPostings : kTileLists;
}

/// Bytes of an item of these lists.
inline Size
match_list_item_bytes(StreamKind lists)
{
	return lists == kPostings ? sizeof(uint32) : sizeof(uint16);
}

/// The contents of MetaData::am_options.
struct MatchOptions
{
	types::ElementSource source;
	uint8 has_texts; // 1: segments, and values of the delta, hold the texts themselves; 0 of an index by text_gram_ops
					 // of release 0.1
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

/// A query of the index: SegmentSearch::query points to it.
struct MatchSearch
{
	MatchOptions options;
	engine::match::Parts parts;
	uint64 n_items;
	uint64 max_count;                    // no row can count more
	engine::match::GramQuery grams;      // of a text
	engine::match::TextPattern *pattern; // of a text, else null
};

/// Support function 1 returns source << 16 | shape code; 2, if there is one, defines the options. The source may be
/// kSourceOfArray: the column's type tells which array.
constexpr int32 kSourceOfArray = 0xFF;
constexpr int32 kSourceOfMinHash = 0xFE; // the same for min-hash

/// The source in such a code.
constexpr int32
match_source(int32 code)
{
	return code >> 16 & 0xFF;
}

constexpr int16 kOptionsSupport = 2;

/// Support function 3 makes the argument of the search operator from a query and a least count (condition.cpp).
constexpr int16 kConditionSupport = 3;

/// gpumatch.cpp. Makes the access method known; called from _PG_init.
void match_init();

/// value.cpp. True if elements of the source have attributes: keys begin with the attribute.
bool match_has_attributes(types::ElementSource source);

/// value.cpp. A query from its slices, palloc'd.
MatchSearch *match_make_query(const MatchOptions &options, const types::SliceList &list);

/// value.cpp. The stored value of a datum, palloc'd.
char *match_make_value(const MatchOptions &options, Datum datum);

/// condition.cpp. ValueFormat::condition.
void *match_condition(const IndexShape *shape, Datum argument, double *worst);

/// match_cost.cpp. amcostestimate.
void match_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages);

/// value.cpp
extern const ValueFormat kMatchValues;

/// segment.cpp
extern const SegmentFormat kMatchFormat;

/// match_worker.cpp. AccessMethod::worker_structure.
extern const WorkerStructure kMatchWorkerStructure;

/// segment_check.cpp. SegmentFormat::check_entry and check.
const char *match_check_entry(const MetaData *meta, const SegmentEntry *segment);
void match_check(
	Relation index, const MetaData *meta, const SegmentEntry *segment, bool deep, BufferAccessStrategy strategy);

/// match_options.cpp. At a build: a NOTICE for operator class options that change nothing.
void match_note_options(Relation index, types::ElementSource source);

/// match_options.cpp. AccessMethod::store_options.
void match_store_options(Relation index, const IndexShape *shape, uint8 *options);

/// AccessMethod::check_options: also says if the options are another operator class's.
const char *match_check_options(Relation index, const MetaData *meta);

/// match_search.cpp. AccessMethod::search_segment.
bool match_search_segment(const SegmentSearch *search);

/// signature.cpp. True for sources whose counts only find candidates.
bool match_is_signature(types::ElementSource source);

/// signature.cpp. The data of the exact distance, palloc'd.
char *match_payload(const MatchOptions &options, Datum datum, Size *n_bytes);

/// signature.cpp. The operator's distance of a query and a stored value of such a source.
double match_exact_distance(const MatchSearch *query, Metric metric, const engine::match::Parts &value);

/// match_search_signature.cpp. Offers the rows of a segment that are among those with the most matches in all segments,
/// with their exact distances. An exact search offers all rows. False if a page was foreign.
bool match_search_signatures(const SegmentSearch *search, const MatchSearch *query);

/// match_search_signature.cpp. WorkerStructure::n_candidates.
uint64 match_n_candidates(const MetaData *meta, uint32 round, uint64 wanted);

/// match_worker.cpp. WorkerStructure::metric: the score of rows before a signature's candidates get their distances.
Metric match_copy_metric(const MetaData *meta);

/// match_search.cpp. Counts, and offers the rows of the segment to the selection, with the scores of match_copy_metric.
/// False if a page was foreign.
bool match_count_segment(const SegmentSearch *search, const MatchSearch *query, engine::TopK *topk);

/// match_search.cpp. Counters of rows [first_row, first_row + n_rows) of a segment, of `width` bytes
/// (engine/match/count_tile.hpp), for a tile of the query's postings.
struct MatchCounters
{
	void *counters;
	Size width;
	uint64 first_row;
	uint64 n_rows;
};

/// match_search_text.cpp. Offers the rows of a tile that can be among the first, with their edit distances. False if a
/// page was foreign.
bool match_offer_texts(
	const SegmentSearch *search, const MatchSearch *query, const MatchCounters &tile, engine::TopK *topk);

/// text_value.cpp. The payloads of a text in stored values and queries, palloc'd.
char *match_text_payload(Datum datum, Size *n_bytes);
void match_prepare_text(MatchSearch *search, Datum argument);

/// text_value.cpp. Reads the text of row n, by TID, of a segment. *text points into the buffer. False if a page was
/// foreign.
bool match_read_text(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 n, ValueBuffer *buffer,
	engine::match::TextView *text, BufferAccessStrategy strategy);

/// text_value.cpp. ValueFormat::read_value of a segment without values: makes the value of the row's text.
bool match_remake_value(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 n, ValueBuffer *dest,
	BufferAccessStrategy strategy);

/// For engine::Poll: looks at interrupts.
bool match_check_interrupts(void *);

/// The edit distance of a query and a stored value.
double match_text_distance(const MatchSearch *query, const engine::match::Parts &value);

} // namespace vectorgpu::am
