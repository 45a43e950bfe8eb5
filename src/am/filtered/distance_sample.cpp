// See distance_sample.hpp. Samples stay until the table's or the index's description changes, as it does with ANALYZE
// and VACUUM, or the table's size. The rows are those of blocks that lie at equal distances, so that one table always
// gives one sample. Planning, as EXPLAIN alone, must not call what the table's owner has written: the planner runs as
// the user who asks.
#include "am/filtered/distance_sample.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

extern "C"
{
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_index.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr int kMostRows = 128;
constexpr int kLeastRows = 16;
constexpr Size kMostBytes = 512 * 1024; // rows beyond the least keep within this
constexpr uint32 kMostBlocks = 64;
constexpr int kMostMisses = 16;     // places in a block without a row, one behind another, until the next block is read
constexpr int kLikeRows = 8;        // rows that stand for a query that is not known
constexpr int kTail = 12;           // below the distance of this rank, shares are extrapolated
constexpr double kLeastPart = 1e-3; // of that distance: nearer rows, such as the query's own, count as this near
constexpr Size kMostKept = 32 * 1024 * 1024; // of all samples of a session
constexpr int kFirstSamples = 32;            // room in the table of them at first
constexpr BlockNumber kMostGrowth = 2;       // of the table, or shrinkage, until it is read anew

/// Distances to one query.
struct Distances
{
	int n;
	double sorted[kMostRows]; // [n] without NaN
};

struct Sample
{
	uint64 last_use;
	Oid index;
	Oid table;
	bool stale;
	BlockNumber n_blocks; // of the table
	MemoryContext context;
	int n_seen; // rows, those with NULL among them
	int n;
	Datum values[kMostRows]; // [n] in `context`, not compressed
	Oid like_function;       // of `like`; InvalidOid: not computed yet
	Distances like[kLikeRows];
};

struct SampleEntry
{
	Oid index; // key
	Sample *sample;
};

HTAB *samples;
uint64 n_uses;
Size n_bytes; // of all samples

/// Relcache callback. A sample may be in use.
void
note_changed(Datum unused, Oid relation)
{
	HASH_SEQ_STATUS scan;
	SampleEntry *entry;

	hash_seq_init(&scan, samples);
	while ((entry = static_cast<SampleEntry *>(hash_seq_search(&scan))) != nullptr)
		if (!OidIsValid(relation) || relation == entry->index || relation == entry->sample->table)
			entry->sample->stale = true;
}

/// expression_tree_walker() callback. True unless the expression has nothing but columns, constants, tests and
/// operators of PostgreSQL's own types.
bool
has_other_code(Node *node, void *unused)
{
	if (node == nullptr)
		return false;
	switch (nodeTag(node))
	{
		case T_List:
		case T_BoolExpr:
		case T_BooleanTest:
			break;
		case T_NullTest:
			if (reinterpret_cast<NullTest *>(node)->argisrow)
				return true;
			if (IsA(reinterpret_cast<NullTest *>(node)->arg, Var)) // of any type
				return false;
			break;
		case T_Var:
		case T_Const:
		case T_RelabelType:
			if (exprType(node) >= FirstGenbkiObjectId)
				return true;
			break;
		case T_OpExpr:
			if (reinterpret_cast<OpExpr *>(node)->opno >= FirstGenbkiObjectId)
				return true;
			break;
		case T_ScalarArrayOpExpr:
			if (reinterpret_cast<ScalarArrayOpExpr *>(node)->opno >= FirstGenbkiObjectId)
				return true;
			break;
		default:
			return true;
	}
	return expression_tree_walker(node, pg::as_walker(has_other_code), unused);
}

/// What reading the table takes.
struct Reader
{
	Relation table;
	EState *estate;
	AttrNumber column;
	ExprState *predicate;
	TupleTableSlot *slot;
};

/// Add the row at this place to the sample. False: there is no live one that the index has.
bool
add_row(Reader *reader, ItemPointer place, Sample *sample)
{
	Datum value;
	bool is_null;

	ResetPerTupleExprContext(reader->estate);
	// By the query's snapshot a serializable transaction would count as one that has read these rows. They stay as long
	// as it does.
	if (!table_tuple_fetch_row_version(reader->table, place, SnapshotSelf, reader->slot) ||
		!ExecQual(reader->predicate, GetPerTupleExprContext(reader->estate)))
		return false;
	sample->n_seen++;
	value = slot_getattr(reader->slot, reader->column, &is_null);
	if (!is_null)
	{
		const MemoryContext before = MemoryContextSwitchTo(sample->context);

		sample->values[sample->n++] = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
		MemoryContextSwitchTo(before);
	}
	return true;
}

void
read_blocks(Reader *reader, Sample *sample)
{
	const uint64 n_blocks = RelationGetNumberOfBlocks(reader->table);
	const uint64 n_read = Min(n_blocks, kMostBlocks);
	const int per_block = n_read > 0 ? (kMostRows + static_cast<int>(n_read) - 1) / static_cast<int>(n_read) : 0;

	for (uint64 i = 0; i < n_read; i++)
	{
		int n_found = 0;
		int n_missed = 0;

		CHECK_FOR_INTERRUPTS();
		for (OffsetNumber offset = FirstOffsetNumber;
			offset <= MaxHeapTuplesPerPage && n_found < per_block && n_missed < kMostMisses; offset++)
		{
			ItemPointerData place;

			if (sample->n_seen >= kMostRows ||
				(sample->n >= kLeastRows && MemoryContextMemAllocated(sample->context, false) > kMostBytes))
				return;
			ItemPointerSet(&place, static_cast<BlockNumber>((2 * i + 1) * n_blocks / (2 * n_read)), offset);
			if (add_row(reader, &place, sample))
			{
				n_found++;
				n_missed = 0;
			}
			else
				n_missed++;
		}
	}
}

/// Read the rows of the sample's index. The sample stays without any if that took code of the owner.
void
read_rows(Relation index, Sample *sample)
{
	List *predicate = RelationGetIndexPredicate(index);
	Reader reader = {nullptr, nullptr, index->rd_index->indkey.values[0], nullptr, nullptr};

	if (!AttributeNumberIsValid(reader.column) || has_other_code(reinterpret_cast<Node *>(predicate), nullptr))
		return;
	reader.table = table_open(sample->table, NoLock);
	reader.estate = CreateExecutorState();
	reader.predicate = ExecPrepareQual(predicate, reader.estate);
	reader.slot = table_slot_create(reader.table, nullptr);
	GetPerTupleExprContext(reader.estate)->ecxt_scantuple = reader.slot;
	read_blocks(&reader, sample);
	ExecDropSingleTupleTableSlot(reader.slot);
	FreeExecutorState(reader.estate);
	table_close(reader.table, NoLock);
}

Sample *
read_sample(Oid table, Oid index_oid, BlockNumber n_blocks)
{
	const MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "vectorgpu sample", ALLOCSET_DEFAULT_SIZES);
	Sample *sample = static_cast<Sample *>(MemoryContextAllocZero(context, sizeof(Sample)));
	Relation index = index_open(index_oid, NoLock); // the planner holds locks

	sample->index = index_oid;
	sample->table = table;
	sample->n_blocks = n_blocks;
	sample->context = context;
	read_rows(index, sample);
	index_close(index, NoLock);
	MemoryContextSetParent(context, CacheMemoryContext);
	return sample;
}

void
drop(SampleEntry *entry)
{
	Sample *sample = entry->sample;

	n_bytes -= MemoryContextMemAllocated(sample->context, true);
	hash_search(samples, &entry->index, HASH_REMOVE, nullptr);
	MemoryContextDelete(sample->context);
}

SampleEntry *
oldest()
{
	HASH_SEQ_STATUS scan;
	SampleEntry *entry;
	SampleEntry *oldest = nullptr;

	hash_seq_init(&scan, samples);
	while ((entry = static_cast<SampleEntry *>(hash_seq_search(&scan))) != nullptr)
		if (oldest == nullptr || entry->sample->last_use < oldest->sample->last_use)
			oldest = entry;
	return oldest;
}

/// Add a sample, and drop those not used for longest to make room.
void
keep(Sample *sample)
{
	const Size more = MemoryContextMemAllocated(sample->context, true);

	while (n_bytes > 0 && n_bytes + more > kMostKept)
		drop(oldest());
	static_cast<SampleEntry *>(hash_search(samples, &sample->index, HASH_ENTER, nullptr))->sample = sample;
	n_bytes += more;
}

/// True if the sample may stand for the rows of the index, whose table has this number of blocks.
bool
is_good(const Sample *sample, BlockNumber n_blocks)
{
	return !sample->stale && n_blocks / kMostGrowth <= sample->n_blocks && sample->n_blocks / kMostGrowth <= n_blocks;
}

/// The sample of an index; one with too few rows stays, too, so that they are not read again each time.
Sample *
sample_of(Oid table, Oid index, BlockNumber n_blocks)
{
	SampleEntry *entry;
	Sample *sample;

	if (samples == nullptr)
	{
		HASHCTL control = {};

		control.keysize = sizeof(Oid);
		control.entrysize = sizeof(SampleEntry);
		samples = hash_create("vectorgpu samples", kFirstSamples, &control, HASH_ELEM | HASH_BLOBS);
		CacheRegisterRelcacheCallback(note_changed, static_cast<Datum>(0));
	}
	entry = static_cast<SampleEntry *>(hash_search(samples, &index, HASH_FIND, nullptr));
	if (entry == nullptr || !is_good(entry->sample, n_blocks))
	{
		sample = read_sample(table, index, n_blocks);
		entry = static_cast<SampleEntry *>(hash_search(samples, &index, HASH_FIND, nullptr));
		if (entry != nullptr)
			drop(entry);
		keep(sample);
	}
	else
		sample = entry->sample;
	sample->last_use = ++n_uses;
	return sample;
}

/// True if the values have one number of dimensions, which all types have behind the length: the distance of others
/// would be an error.
bool
same_dimensions(Datum a, Datum b)
{
	const varlena *one = reinterpret_cast<const varlena *>(DatumGetPointer(a));
	const varlena *other = reinterpret_cast<const varlena *>(DatumGetPointer(b));

	return VARSIZE_ANY_EXHDR(one) >= sizeof(int32) && VARSIZE_ANY_EXHDR(other) >= sizeof(int32) &&
		memcmp(VARDATA_ANY(one), VARDATA_ANY(other), sizeof(int32)) == 0;
}

/// Compute the distances of the sample's rows to a query. left_out: the row that is the query itself; -1: none.
void
compute(const Sample *sample, FmgrInfo *function, Oid collation, Datum query, int left_out, Distances *distances)
{
	distances->n = 0;
	for (int i = 0; i < sample->n; i++)
	{
		double distance;

		if (i == left_out || !same_dimensions(sample->values[i], query))
			continue;
		distance = DatumGetFloat8(FunctionCall2Coll(function, collation, sample->values[i], query));
		if (!std::isnan(distance))
			distances->sorted[distances->n++] = distance;
	}
	std::sort(distances->sorted, distances->sorted + distances->n);
}

void
compute_like(Sample *sample, FmgrInfo *function, Oid collation)
{
	if (sample->like_function == function->fn_oid)
		return;
	for (int i = 0; i < kLikeRows; i++)
	{
		const int row = i * sample->n / kLikeRows;

		compute(sample, function, collation, sample->values[row], row, &sample->like[i]);
	}
	sample->like_function = function->fn_oid;
}

/// The share of the distances below a limit. Few of them show how the numbers of rows fall off towards the nearest: as
/// a power of the distance, or, of distances that may be negative, exponentially. Hill's estimator says how fast.
double
share_below(const Distances &distances, double limit, bool or_equal)
{
	const double *sorted = distances.sorted;
	const double *end = sorted + distances.n;
	const int n_below = static_cast<int>(
		(or_equal ? std::upper_bound(sorted, end, limit) : std::lower_bound(sorted, end, limit)) - sorted);
	const int n_tail = Min(kTail, distances.n);
	double edge;
	double sum = 0;
	const bool of_power = distances.n > 0 && sorted[0] >= 0;
	const auto place = [&](double distance)
	{ return of_power ? std::log(Max(distance, edge * kLeastPart)) : distance; };

	if (distances.n == 0 || std::isnan(limit))
		return distances.n == 0 ? 0 : 1;
	edge = sorted[n_tail - 1];
	if (n_below >= n_tail || !std::isfinite(edge) || (of_power && edge <= 0))
		return static_cast<double>(n_below) / distances.n;
	if (of_power && (limit < 0 || (limit == 0 && !or_equal)))
		return 0;
	for (int i = 0; i < n_tail - 1; i++)
		sum += place(edge) - place(sorted[i]);
	if (sum <= 0)
		return static_cast<double>(n_below) / distances.n;
	return static_cast<double>(n_tail) / distances.n * std::exp(-(place(edge) - place(limit)) * (n_tail - 1) / sum);
}

} // namespace

bool
distance_sample_share(PlannerInfo *root, const IndexOptInfo *index, const DistanceRange &range, double *share)
{
	const MemoryContext context =
		AllocSetContextCreate(CurrentMemoryContext, "vectorgpu share", ALLOCSET_DEFAULT_SIZES);
	const MemoryContext before = MemoryContextSwitchTo(context);
	Sample *sample = nullptr;
	FmgrInfo function;
	double sum = 0;
	int n = 0;

	if (ActiveSnapshotSet())
		sample = sample_of(planner_rt_fetch(index->rel->relid, root)->relid, index->indexoid, index->rel->pages);
	if (sample != nullptr && sample->n >= kLeastRows)
	{
		const Datum query =
			range.has_query ? PointerGetDatum(PG_DETOAST_DATUM_PACKED(range.query)) : static_cast<Datum>(0);

		fmgr_info(range.function, &function);
		if (range.has_query && same_dimensions(sample->values[0], query))
		{
			Distances distances;

			compute(sample, &function, range.collation, query, -1, &distances);
			sum = share_below(distances, range.limit, range.or_equal) * distances.n / sample->n_seen;
			n = 1;
		}
		else
		{
			compute_like(sample, &function, range.collation);
			for (n = 0; n < kLikeRows; n++)
				sum += share_below(sample->like[n], range.limit, range.or_equal) * sample->n / sample->n_seen;
		}
	}
	if (n > 0)
		*share = Min(Max(sum / n, 0.0), 1.0);
	MemoryContextSwitchTo(before);
	MemoryContextDelete(context);
	return n > 0;
}

} // namespace vectorgpu::am
