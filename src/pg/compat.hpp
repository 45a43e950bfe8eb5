// PostgreSQL 15 to 18 under one set of names. Included by postgres.hpp, so every file of the server module has it.
// Other files of this folder may ask for PG_VERSION_NUM too, where a version behaves differently; no file outside of
// it does. PG dialect.
#pragma once

#if PG_VERSION_NUM < 150000
#error "vectorgpu needs PostgreSQL 15 or later: set PG_CONFIG to the pg_config of a server of 15, 16, 17 or 18"
#endif
#if PG_VERSION_NUM >= 190000
#error "vectorgpu does not know PostgreSQL 19 or later: set PG_CONFIG to the pg_config of a server of 15, 16, 17 or 18"
#endif

extern "C"
{
#include "access/genam.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#include "varatt.h"
#else
#include "storage/relfilenode.h"
#endif
}

struct CustomScanState;
struct EquivalenceClass;
struct IndexPath;
struct IndexScanState;
struct List;
struct PathKey;
struct Plan;
struct PlannerInfo;
struct RelOptInfo;
struct TIDBitmap;
struct Tuplesortstate;
struct Var;
struct WaitEventSet;

namespace vectorgpu::pg
{

// --- columns -----------------------------------------------------------------

/// True if the column's values are computed when a query reads them, so that rows do not have them: from 18 on.
inline bool
is_virtual([[maybe_unused]] const FormData_pg_attribute *column)
{
#if PG_VERSION_NUM >= 180000
	return column->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL;
#else
	return false;
#endif
}

// --- files of relations ------------------------------------------------------

/// The files of a relation: a new one after TRUNCATE, REINDEX and whatever else rewrites it.
#if PG_VERSION_NUM >= 160000
using RelationFile = RelFileLocator;
#else
using RelationFile = RelFileNode;
#endif

/// Return the relation's file. Not const, since log_newpages() wants it so.
inline RelationFile &
file_of(Relation relation)
{
#if PG_VERSION_NUM >= 160000
	return relation->rd_locator;
#else
	return relation->rd_node;
#endif
}

inline bool
same_file(const RelationFile &a, const RelationFile &b)
{
#if PG_VERSION_NUM >= 160000
	return RelFileLocatorEquals(a, b);
#else
	return RelFileNodeEquals(a, b);
#endif
}

inline Oid
file_database(const RelationFile &file)
{
#if PG_VERSION_NUM >= 160000
	return file.dbOid;
#else
	return file.dbNode;
#endif
}

inline Oid
file_tablespace(const RelationFile &file)
{
#if PG_VERSION_NUM >= 160000
	return file.spcOid;
#else
	return file.spcNode;
#endif
}

/// Return the number that is the file's name.
inline Oid
file_number(const RelationFile &file)
{
#if PG_VERSION_NUM >= 160000
	return file.relNumber;
#else
	return file.relNode;
#endif
}

/// True if this transaction has created the relation or given it a new file: no other process can see its rows.
inline bool
made_by_this_transaction(Relation relation)
{
#if PG_VERSION_NUM >= 160000
	return relation->rd_createSubid != InvalidSubTransactionId ||
		relation->rd_firstRelfilelocatorSubid != InvalidSubTransactionId;
#else
	return relation->rd_createSubid != InvalidSubTransactionId ||
		relation->rd_firstRelfilenodeSubid != InvalidSubTransactionId;
#endif
}

/// Return the path of the main fork's first file, palloc'd.
char *main_file_path(Oid database, Oid tablespace, Oid number);

/// Return the relation with this file, or InvalidOid. Tablespace: InvalidOid for that of the database.
Oid relation_of_file(Oid tablespace, Oid number);

// --- pages -------------------------------------------------------------------

/// Return memory for n pages that smgrextend() may write: aligned for direct I/O, which 16 and later demand.
char *palloc_pages(Size n, bool zeroed);

/// Raise an error if rows that the snapshot sees may have been removed (old_snapshot_threshold, which 17 dropped).
/// Precondition: the caller has a share lock on the page.
void check_snapshot_age(Snapshot snapshot, Relation relation, char *page);

// --- collations ----------------------------------------------------------------

/// Whether texts sort as their bytes do.
bool collation_sorts_bytes(Oid collation);

// --- rights --------------------------------------------------------------------

bool owns_table(Oid table, Oid role);
bool owns_database(Oid database, Oid role);

// --- scans ---------------------------------------------------------------------

/// Begin a scan that EXPLAIN does not show.
IndexScanDesc begin_index_scan(Relation heap, Relation index, Snapshot snapshot, int n_keys, int n_orders);
/// Begin the scan of core's node as the node does when it is asked for its first row. Its keys are not set.
IndexScanDesc begin_node_scan(IndexScanState *node);
IndexScanDesc begin_bitmap_scan(Relation index, Snapshot snapshot, int n_keys);

/// Call visit(state, …) for each page of the table that the bitmap has, in their order. offsets [n], valid during the
/// call; n < 0: a lossy page, any row of it may be meant. recheck: the rows need a check of the conditions. visit
/// must not raise an error but for want of memory.
void visit_bitmap(TIDBitmap *bitmap,
	void (*visit)(void *state, BlockNumber block, const OffsetNumber *offsets, int n, bool recheck), void *state);

/// Count a search of the index, for the statistics and for "Index Searches" in EXPLAIN of 18.
void count_index_search(IndexScanDesc scan);

// --- planner -------------------------------------------------------------------

/// Make the planner take any other path, even if enable_seqscan and the like are off. For an amcostestimate function.
void forbid_path(IndexPath *path, double *startup_cost, double *total_cost);

/// As core's generate_join_implied_equalities(), for an inner join.
List *implied_join_equalities(PlannerInfo *root, struct Bitmapset *joined, struct Bitmapset *outer, RelOptInfo *inner);

/// True if core hands conditions that are a boolean column to an index of ours.
#if PG_VERSION_NUM >= 160000
constexpr bool kCoreTakesBooleans = true;
#else
constexpr bool kCoreTakesBooleans = false;
#endif

/// Return the number of elements that the planner expects an array expression to have.
double array_length(PlannerInfo *root, struct Node *array);

/// True if the plan costs less than this share of the other one; from 18 on, of plans
/// with as many nodes that settings forbid, since costs do not say so there. Fewer such nodes are less.
bool costs_less(const Plan *plan, const Plan *other, double share);

/// True if the order is descending.
bool is_descending(const PathKey *key);

/// Return the expressions of the relation alone among those that are known to be equal.
List *equal_expressions(EquivalenceClass *equals, RelOptInfo *relation);

/// Move the relation of this number of a query's range table, the permissions that it needs and its row security to
/// another query, which has none, as its first. The caller puts another entry into its place.
void move_entry(Query *from, int number, Query *to);

/// Note that an outer join, by its number in the range table, may make the column NULL; 16 and later want to know.
void set_nulled_by(Var *column, int join);

// --- executor --------------------------------------------------------------------

/// Give a custom scan of a table a slot of the table's kind; 15 knows no way to ask for it, so that what was compiled
/// for another is compiled again. Call it first when the scan begins.
void use_table_slot(CustomScanState *node);

// --- the rest --------------------------------------------------------------------

/// Sleep if VACUUM has used up its cost limit.
void vacuum_pause();

/// Fetch the next datum, a copy that the caller frees. Returns false after the last one.
bool next_sorted(Tuplesortstate *sort, Datum *value, bool *is_null);

/// Create a set of events that lives as long as the process.
WaitEventSet *new_wait_event_set(int n_events);

/// Return what identifies the background worker that was registered last while the server starts; null: none was.
const void *last_registered_worker();

/// Memory for the value of a text setting, and for what its check hook leaves for its assign hook: the server frees it.
/// Null if there is no memory.
void *setting_alloc(Size size);
char *setting_strdup(const char *text);
void setting_free(void *memory);

/// A callback for core's walkers of expressions and plans. Their types do not declare its arguments; compilers accept
/// this cast only through void (*)().
template <class Result, class... Arguments>
auto
as_walker(Result (*function)(Arguments...)) -> Result (*)()
{
	return reinterpret_cast<Result (*)()>(reinterpret_cast<void (*)()>(function));
}

} // namespace vectorgpu::pg
