// The cost of a scan of gpumatch: the pages and lists of the query's items, as far as the query is known, and the
// comparisons of texts that LIMIT needs. PG dialect. Called by the planner; reads the metapage, but raises no error
// about it, so that a damaged index disturbs no query that does not use it.
#include "am/gpumatch/gpumatch.hpp"

#include "am/method/cost.hpp"
#include "am/scan/batch_plan.hpp"
#include "am/scan/few_rows.hpp"
#include "engine/match/tile_lists.hpp"

#include <cmath>

extern "C"
{
#include "access/detoast.h"
#include "access/genam.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "storage/bufmgr.h"
#include "utils/selfuncs.h"
}

namespace vectorgpu::am
{

namespace
{

using types::ElementSource;

// All times cpu_operator_cost, which is a fiftieth of a microsecond by the cost of a sequential scan (README.md,
// "Cost").
constexpr double kScan = 2000;     // beginning a scan
constexpr double kItem = 0.2;      // one step of the bisection that finds an item's keys: less than measured, since the
								   // operator's cost ignores items
constexpr double kPosting = 0.035; // one entry of a list
constexpr double kCounter = 0.002; // one row's counter, compared
constexpr double kCompare = 5;     // one value of a signature compared
constexpr double kDeltaRow = 25;   // one row of the delta
constexpr double kReturned = 40;   // one returned row, beside core's cost of its page
constexpr double kValue = 250;     // one value read by itself and scored, where few rows meet conditions
constexpr double kRangeShare = 0.25; // of the rows, for a range
constexpr double kUnknownItems = 10; // of a query that is not known yet
constexpr double kBatchGrowth = 16;
constexpr double kPagesRead = 0.25;         // of the index, where the metapage is unknown
constexpr Size kMostQueryBytes = 64 * 1024; // of a query that is parsed only to count its items

// Texts, in microseconds: words of 8 letters, and sentences of 214 (README.md, "Edit distance"). A query of more than
// 64 characters takes a word of bits for each 64.
constexpr double kOperationUs = 0.02;  // cpu_operator_cost, of the constants above
constexpr double kListFactor = 3;      // a text's grams are more frequent than Zipf's law has them
constexpr double kBoundUs = 0.025;     // one row's bound
constexpr double kTextUs = 0.05;       // one text compared, and for each of its characters
constexpr double kCharacterUs = 0.004; // ... to read it, and to compare it with a word
constexpr double kOperatorUs = 0.1;    // the same by the operator, which decodes both
constexpr double kDecodeUs = 0.005;
constexpr double kWordCharacters = 64;
constexpr double kScanRowUs = 0.12;     // a sequential scan, for each row and
constexpr double kScanPageUs = 1.6;     // each page
constexpr double kNearest = 0.03;       // of the texts are compared for the nearest one,
constexpr double kNearestDecade = 0.15; // this share more for ten times as many,
constexpr double kShortText = 48;       // and the longer the query, the less its bounds tell: above this up to ...
constexpr double kLongText = 112;
constexpr double kLongShare = 0.6; // ... this share more

struct IndexSizes
{
	double rows; // of segments
	double keys;
	double postings;   // where keys have rows in several tiles, a little more
	double characters; // of all texts, those of more than a byte counted by their bytes
	MatchOptions options;
};

/// False if the index has no intact metapage that this release knows.
bool
read_sizes(const IndexOptInfo *info, IndexSizes *sizes)
{
	Relation index;
	Buffer buffer;
	Page page;
	const MetaData *meta;
	bool intact = false;

	if (info->hypothetical)
		return false;
	memset(static_cast<void *>(sizes), 0, sizeof(*sizes));
	index = index_open(info->indexoid, NoLock); // the planner has locked it
	if (RelationGetNumberOfBlocks(index) > 0)
	{
		buffer = ReadBufferExtended(index, MAIN_FORKNUM, 0, RBM_NORMAL, nullptr);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		meta = reinterpret_cast<const MetaData *>(page_payload(page));
		intact = !PageIsNew(page) && page_tag(page)->magic == kPageMagic && page_tag(page)->role == PageRole::kMeta &&
			meta->magic == kMetaMagic && meta_version_known(meta->version) && page_checksum_ok(page) &&
			meta->complete == 1 && meta->n_segments <= kMaxSegments;
		for (uint32 i = 0; intact && i < meta->n_segments; i++)
		{
			const StreamEntry *streams = meta->segments[i].streams;

			sizes->rows += static_cast<double>(meta->segments[i].n_rows);
			const double keys =
				static_cast<double>(streams[static_cast<int>(kDictionary)].n_bytes) / sizeof(DictionaryEntry);

			sizes->keys += keys;
			sizes->postings += static_cast<double>(streams[static_cast<int>(kPostings)].n_bytes) / sizeof(uint32);
			sizes->postings += Max(static_cast<double>(streams[static_cast<int>(kTileLists)].n_bytes) / sizeof(uint16) -
					engine::match::kTileHeadItems * keys,
				0.0);
			sizes->characters += static_cast<double>(streams[static_cast<int>(kTexts)].n_bytes);
		}
		if (intact)
			sizes->options = match_options(meta->am_options);
		UnlockReleaseBuffer(buffer);
	}
	index_close(index, NoLock);
	return intact;
}

/// Items of a query: equalities and ranges.
struct QueryItems
{
	double n_single;
	double n_ranges;
};

bool
is_range(const types::Slice &slice)
{
	return slice.high.length != slice.low.length + 1 ||
		memcmp(slice.high.bytes, slice.low.bytes, slice.low.length) != 0;
}

QueryItems
count_items(const MatchOptions &options, const IndexPath *path)
{
	const Node *clause =
		path->indexorderbys != NIL ? static_cast<const Node *>(linitial(path->indexorderbys)) : nullptr;
	const Node *argument;
	const Const *value;
	QueryItems items = {0, 0};

	if (match_is_signature(options.source))
		return {static_cast<double>(options.elements.hashes), 0};
	if (clause == nullptr || !IsA(clause, OpExpr) || list_length(reinterpret_cast<const OpExpr *>(clause)->args) != 2)
		return {kUnknownItems, 0};
	argument = static_cast<const Node *>(lsecond(reinterpret_cast<const OpExpr *>(clause)->args));
	if (!IsA(argument, Const))
		return {kUnknownItems, 0};
	value = reinterpret_cast<const Const *>(argument);
	if (value->constisnull)
		return items;
	if (toast_raw_datum_size(value->constvalue) > kMostQueryBytes)
		return {static_cast<double>(toast_raw_datum_size(value->constvalue)) / sizeof(uint64), 0};

	const types::SliceList list = types::slices_of_query(options.source, options.elements, value->constvalue);

	for (int32 i = 0; i < list.n; i++)
		++*(is_range(list.slices[i]) ? &items.n_ranges : &items.n_single);
	return items;
}

/// Entries of the lists of the query's items.
double
entries_of(const IndexSizes &sizes, const QueryItems &items)
{
	// Queries ask for frequent keys more often, as rows have them more often: this is the length of the list of a row's
	// key by Zipf's law.
	const double list =
		Min(Max(sizes.postings / Max(sizes.keys, 1.0), sizes.rows / std::log(Max(sizes.keys, 3.0))), sizes.rows);

	return Min(items.n_single * list + items.n_ranges * sizes.rows * kRangeShare, sizes.postings);
}

/// A count of all segments and the delta, x cpu_operator_cost.
double
count_cost(const IndexSizes &sizes, const QueryItems &items, double entries, double all)
{
	const double steps = 1 + std::log2(Max(sizes.keys, 1.0));

	return kScan + (items.n_single + items.n_ranges) * steps * kItem + entries * kPosting + sizes.rows * kCounter +
		Max(all - sizes.rows, 0.0) * kDeltaRow;
}

/// A search of all segments and the delta for `wanted` of `all` rows, without the cost of returning them. Not of texts.
Cost
search_cost(const IndexSizes &sizes, const QueryItems &items, double all, double wanted)
{
	double cost = count_cost(sizes, items, entries_of(sizes, items), all);

	if (match_is_signature(sizes.options.source))
		cost += Min(Max(16 * wanted, 400.0), sizes.rows) * kCompare * 8; // candidates, scattered over the pages
	return cost * cpu_operator_cost;
}

/// The planner's cost of what takes a sequential scan of the table a microsecond. The operator has one cost, whatever
/// the texts: compared by it, long ones cost the planner next to nothing, and a search that compares them must cost no
/// more.
double
cost_per_us(PlannerInfo *root, const IndexPath *path, double share, double operator_us)
{
	const RelOptInfo *rel = path->indexinfo->rel;
	const double compared = rel->tuples * share;
	const Cost scan = rel->pages * seq_page_cost + rel->tuples * (cpu_tuple_cost + rel->baserestrictcost.per_tuple);
	QualCost distance;

	if (path->indexorderbys == NIL)
		return cpu_operator_cost / kOperationUs;
	cost_qual_eval_node(&distance, static_cast<Node *>(linitial(path->indexorderbys)), root);
	return (scan + compared * distance.per_tuple) /
		Max(rel->pages * kScanPageUs + rel->tuples * kScanRowUs + compared * operator_us, 1.0);
}

/// A search for `wanted` of `all` texts.
Cost
text_search_cost(PlannerInfo *root, const IndexPath *path, const IndexSizes &sizes, const QueryItems &items,
	const ScanDemand &demand, double wanted)
{
	const double query = items.n_single + sizes.options.elements.gram_length - 1; // an item for each of its grams
	const double words = std::ceil(query / kWordCharacters);
	const double size = sizes.characters / Max(sizes.rows, 1.0);
	const double compare_us = kTextUs + kCharacterUs * size * (words > 1 ? 1 + words : 1);
	const double operator_us = kOperatorUs + (kDecodeUs + kCharacterUs * words) * size;
	const double is_long = Min(Max((query - kShortText) / (kLongText - kShortText), 0.0), 1.0);
	const double compared =
		Min(kNearest + kNearestDecade * std::log10(Max(wanted, 1.0)) + is_long * kLongShare, demand.passing) *
		sizes.rows;
	const double entries = Min(entries_of(sizes, items) * kListFactor, sizes.postings);
	const double us =
		count_cost(sizes, items, entries, demand.rows) * kOperationUs + sizes.rows * kBoundUs + compared * compare_us;

	return us * cost_per_us(root, path, demand.share, operator_us);
}

/// The searches until the demand is met, by steps of rank or by batches.
struct Searches
{
	Cost needed;
	Cost of_all; // one for all rows
};

Searches
searches_cost(PlannerInfo *root, const IndexPath *path, const IndexSizes &sizes, const QueryItems &items,
	const ScanDemand &demand)
{
	const double n_batches = path->indexorderbys != NIL ? batch_plan_exact_batches(demand, 0, 0) : 1;
	const double passing = demand.rows * demand.passing;
	Searches cost = {0, 0};

	if (demand.passing * (sizes.options.source == ElementSource::kTextGrams ? kFewOfTexts : kFewOfValues) <= 1)
	{
		cost.of_all = (kScan + passing * kValue + Max(demand.rows - sizes.rows, 0.0) * kDeltaRow) * cpu_operator_cost;
		return {cost.of_all * n_batches, cost.of_all};
	}
	if (sizes.options.source == ElementSource::kTextGrams)
		return {text_search_cost(root, path, sizes, items, demand, demand.visited) * n_batches,
			text_search_cost(root, path, sizes, items, demand, passing)};
	cost.of_all = search_cost(sizes, items, demand.rows, passing);
	if (!match_is_signature(sizes.options.source))
		cost.needed = search_cost(sizes, items, demand.rows, demand.visited) * n_batches;
	else if (demand.exact || demand.within < 1) // there is no recall target for a range
		cost.needed = cost.of_all * n_batches;
	else
		for (uint64 begin, end = 0; batch_plan_next_step(demand, &begin, &end);)
			cost.needed += search_cost(sizes, items, demand.rows, static_cast<double>(end));
	return cost;
}

/// The number of passes that return `rows` rows.
double
passes_for(double rows, double first)
{
	double passes = 1;

	for (double batch = first; batch < rows; batch *= kBatchGrowth)
		passes++;
	return passes;
}

/// True if the path has a search operator on the first column.
bool
has_match_condition(const IndexPath *path)
{
	ListCell *cell;

	foreach (cell, path->indexclauses)
	{
		const IndexClause *clause = lfirst_node(IndexClause, cell);

		if (clause->indexcol == 0 && !IsA(clause->rinfo->clause, NullTest))
			return true;
	}
	return false;
}

} // namespace

void
match_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const ScanDemand demand = scan_demand(root, path);
	const double rows = demand.rows;
	IndexSizes sizes;
	double returned = rows * demand.passing;
	Searches searches;

	if (!has_match_condition(path) &&
		common_cost_estimate(root, path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	if (has_match_condition(path))
	{
		*selectivity = clauselist_selectivity(root, get_quals_from_indexclauses(path->indexclauses),
			static_cast<int>(path->indexinfo->rel->relid), JOIN_INNER, nullptr);
		*correlation = 0;
		*pages = Max(static_cast<double>(path->indexinfo->pages) * kPagesRead, 1.0);
		if (path->path.pathtype == T_IndexOnlyScan || list_length(path->indexorderbys) > 1)
		{
			pg::forbid_path(path, startup_cost, total_cost);
			return;
		}
		if (path->indexorderbys == NIL)
			returned = rows * *selectivity;
	}
	if (read_sizes(path->indexinfo, &sizes))
	{
		const QueryItems items = count_items(sizes.options, path);

		// Built by release 0.1: a scan in order ends with an error that asks for REINDEX; other plans work.
		if (path->indexorderbys != NIL && sizes.options.source == types::ElementSource::kTextGrams &&
			!sizes.options.has_texts)
		{
			pg::forbid_path(path, startup_cost, total_cost);
			return;
		}
		searches = searches_cost(root, path, sizes, items, demand);
	}
	else
		searches.needed = searches.of_all = pass_cost(path, *pages * kPagesRead, rows);
	*startup_cost = searches.needed + codes_cost(path);
	if (path->indexorderbys != NIL)
		*startup_cost += visit_cost(root, path, demand);
	*total_cost = *startup_cost + searches.of_all * (passes_for(returned, demand.visited) - 1) +
		returned * cpu_operator_cost * kReturned;
}

} // namespace vectorgpu::am
