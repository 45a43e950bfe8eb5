// The cost of a scan of gpumatch: the pages and lists of the query's items, as far as the query is known, and the
// comparisons of texts that LIMIT needs. PG dialect. Called by the planner; reads the metapage, but raises no error
// about it, so that a damaged index disturbs no query that does not use it.
#include "am/gpumatch/gpumatch.hpp"

#include "am/method/cost.hpp"

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
constexpr double kBound = 0.4;     // one row's bound of an edit distance
constexpr double kCompare = 5;     // one text, or one value of a signature, compared
constexpr double kDeltaRow = 25;   // one row of the delta
constexpr double kReturned = 40;   // one returned row, beside core's cost of its page
constexpr double kRangeShare = 0.25; // of the rows, for a range
constexpr double kUnknownItems = 10; // of a query that is not known yet
constexpr double kBatchGrowth = 16;
constexpr double kNearest = 0.04;           // of the texts are compared for the nearest one,
constexpr double kNearestDecade = 0.17;     // and this share more for ten times as many
constexpr double kPagesRead = 0.25;         // of the index, where the metapage is unknown
constexpr Size kMostQueryBytes = 64 * 1024; // of a query that is parsed only to count its items

struct IndexSizes
{
	double rows; // of segments
	double keys;
	double postings;
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
			meta->magic == kMetaMagic && meta->version == kFormatVersion && page_checksum_ok(page) &&
			meta->complete == 1 && meta->n_segments <= kMaxSegments;
		for (uint32 i = 0; intact && i < meta->n_segments; i++)
		{
			const StreamEntry *streams = meta->segments[i].streams;

			sizes->rows += static_cast<double>(meta->segments[i].n_rows);
			sizes->keys +=
				static_cast<double>(streams[static_cast<int>(kDictionary)].n_bytes) / sizeof(DictionaryEntry);
			sizes->postings += static_cast<double>(streams[static_cast<int>(kPostings)].n_bytes) / sizeof(uint32);
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

/// A search of all segments and the delta for `wanted` of `all` rows, without the cost of returning them.
Cost
search_cost(const IndexSizes &sizes, const QueryItems &items, double all, double wanted)
{
	const double steps = 1 + std::log2(Max(sizes.keys, 1.0));
	// Queries ask for frequent keys more often, as rows have them more often: this is the length of the list of a row's
	// key by Zipf's law.
	const double list =
		Min(Max(sizes.postings / Max(sizes.keys, 1.0), sizes.rows / std::log(Max(sizes.keys, 3.0))), sizes.rows);
	const double touched = Min(items.n_single * list + items.n_ranges * sizes.rows * kRangeShare, sizes.postings);
	double cost = kScan + (items.n_single + items.n_ranges) * steps * kItem + touched * kPosting +
		sizes.rows * kCounter + Max(all - sizes.rows, 0.0) * kDeltaRow;

	if (sizes.options.source == ElementSource::kTextGrams)
		cost += sizes.rows * (kBound + kCompare * Min(kNearest + kNearestDecade * std::log10(Max(wanted, 1.0)), 1.0));
	else if (match_is_signature(sizes.options.source))
		cost += Min(Max(16 * wanted, 400.0), sizes.rows) * kCompare * 8; // candidates, scattered over the pages
	return cost * cpu_operator_cost;
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

} // namespace

void
match_cost_estimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost, Cost *total_cost,
	Selectivity *selectivity, double *correlation, double *pages)
{
	const ScanDemand demand = scan_demand(root, path);
	const double rows = demand.rows;
	const double wanted = demand.visited;
	IndexSizes sizes;
	double returned = rows;
	Cost pass;
	Cost last_pass;

	if (path->indexclauses == NIL &&
		common_cost_estimate(path, startup_cost, total_cost, selectivity, correlation, pages))
		return;
	if (path->indexclauses != NIL)
	{
		*selectivity = clauselist_selectivity(root, get_quals_from_indexclauses(path->indexclauses),
			static_cast<int>(path->indexinfo->rel->relid), JOIN_INNER, nullptr);
		*correlation = 0;
		*pages = Max(static_cast<double>(path->indexinfo->pages) * kPagesRead, 1.0);
		if (path->path.pathtype == T_IndexOnlyScan || list_length(path->indexorderbys) > 1)
		{
			*startup_cost = *total_cost = disable_cost * 1e10;
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
			*startup_cost = *total_cost = disable_cost * 1e10;
			return;
		}
		pass = search_cost(sizes, items, rows, wanted);
		last_pass = search_cost(sizes, items, rows, rows);
		if (match_is_signature(sizes.options.source) && demand.exact)
			pass = last_pass;
	}
	else
		pass = last_pass = pass_cost(path, *pages * kPagesRead, rows);
	if (path->indexorderbys != NIL)
		pass += visit_cost(root, path, demand);
	*startup_cost = pass;
	*total_cost = pass + last_pass * (passes_for(returned, wanted) - 1) + returned * cpu_operator_cost * kReturned;
}

} // namespace vectorgpu::am
