// What PostgreSQL 15 to 18 do in different ways. See compat.hpp.
#include "pg/postgres.hpp"

extern "C"
{
#include "access/relscan.h"
#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/vacuum.h"
#include "access/tableam.h"
#include "common/relpath.h"
#include "access/htup_details.h"
#include "executor/executor.h"
#include "nodes/pathnodes.h"
#include "nodes/tidbitmap.h"
#include "optimizer/cost.h"
#include "optimizer/paths.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "pgstat.h"
#include "postmaster/bgworker_internals.h"
#include "rewrite/rewriteManip.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/smgr.h"
#include "utils/acl.h"
#include "utils/guc.h"
// ICU is not used here, and its headers need not be installed.
#undef USE_ICU
#include "utils/pg_locale.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"
#if PG_VERSION_NUM >= 170000
#include "storage/procnumber.h"
#else
#include "storage/backendid.h"
#endif
#if PG_VERSION_NUM >= 160000
#include "utils/relfilenumbermap.h"
#else
#include "utils/relfilenodemap.h"
#endif
}

namespace vectorgpu::pg
{

#if PG_VERSION_NUM >= 180000
namespace
{

// A plan is chosen first by its number of disabled nodes: more than any plan without the path can have.
constexpr int kForbiddenNodes = 1000;

} // namespace
#endif

char *
main_file_path(Oid database, Oid tablespace, Oid number)
{
#if PG_VERSION_NUM >= 180000
	return pstrdup(GetRelationPath(database, tablespace, number, INVALID_PROC_NUMBER, MAIN_FORKNUM).str);
#elif PG_VERSION_NUM >= 170000
	return GetRelationPath(database, tablespace, number, INVALID_PROC_NUMBER, MAIN_FORKNUM);
#else
	return GetRelationPath(database, tablespace, number, InvalidBackendId, MAIN_FORKNUM);
#endif
}

Oid
relation_of_file(Oid tablespace, Oid number)
{
#if PG_VERSION_NUM >= 160000
	return RelidByRelfilenumber(tablespace, number);
#else
	return RelidByRelfilenode(tablespace, number);
#endif
}

char *
palloc_pages(Size n, bool zeroed)
{
#if PG_VERSION_NUM >= 160000
	return static_cast<char *>(palloc_aligned(n * BLCKSZ, PG_IO_ALIGN_SIZE, zeroed ? MCXT_ALLOC_ZERO : 0));
#else
	return static_cast<char *>(zeroed ? palloc0(n * BLCKSZ) : palloc(n * BLCKSZ));
#endif
}

void
check_snapshot_age(Snapshot snapshot, Relation relation, char *page)
{
#if PG_VERSION_NUM < 170000
	TestForOldSnapshot(snapshot, relation, page);
#endif
}

bool
collation_sorts_bytes(Oid collation)
{
#if PG_VERSION_NUM >= 180000
	return pg_newlocale_from_collation(collation)->collate_is_c;
#else
	return lc_collate_is_c(collation);
#endif
}

bool
owns_table(Oid table, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(RelationRelationId, table, role);
#else
	return pg_class_ownercheck(table, role);
#endif
}

bool
owns_database(Oid database, Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_ownercheck(DatabaseRelationId, database, role);
#else
	return pg_database_ownercheck(database, role);
#endif
}

IndexScanDesc
begin_index_scan(Relation heap, Relation index, Snapshot snapshot, int n_keys, int n_orders)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan(heap, index, snapshot, nullptr, n_keys, n_orders);
#else
	return index_beginscan(heap, index, snapshot, n_keys, n_orders);
#endif
}

IndexScanDesc
begin_node_scan(IndexScanState *node)
{
	const Relation heap = node->ss.ss_currentRelation;
	const Snapshot snapshot = node->ss.ps.state->es_snapshot;

#if PG_VERSION_NUM >= 180000
	return index_beginscan(
		heap, node->iss_RelationDesc, snapshot, &node->iss_Instrument, node->iss_NumScanKeys, node->iss_NumOrderByKeys);
#else
	return index_beginscan(heap, node->iss_RelationDesc, snapshot, node->iss_NumScanKeys, node->iss_NumOrderByKeys);
#endif
}

IndexScanDesc
begin_bitmap_scan(Relation index, Snapshot snapshot, int n_keys)
{
#if PG_VERSION_NUM >= 180000
	return index_beginscan_bitmap(index, snapshot, nullptr, n_keys);
#else
	return index_beginscan_bitmap(index, snapshot, n_keys);
#endif
}

void
visit_bitmap(TIDBitmap *bitmap,
	void (*visit)(void *state, BlockNumber block, const OffsetNumber *offsets, int n, bool recheck), void *state)
{
#if PG_VERSION_NUM >= 180000
	TBMPrivateIterator *iterator = tbm_begin_private_iterate(bitmap);
	OffsetNumber offsets[TBM_MAX_TUPLES_PER_PAGE];
	TBMIterateResult page;

	while (tbm_private_iterate(iterator, &page))
		visit(state, page.blockno, offsets,
			page.lossy ? -1 : tbm_extract_page_tuple(&page, offsets, TBM_MAX_TUPLES_PER_PAGE), page.recheck);
	tbm_end_private_iterate(iterator);
#else
	TBMIterator *iterator = tbm_begin_iterate(bitmap);

	for (const TBMIterateResult *page = tbm_iterate(iterator); page != nullptr; page = tbm_iterate(iterator))
		visit(state, page->blockno, page->offsets, page->ntuples, page->recheck);
	tbm_end_iterate(iterator);
#endif
}

void
count_index_search(IndexScanDesc scan)
{
	pgstat_count_index_scan(scan->indexRelation);
#if PG_VERSION_NUM >= 180000
	if (scan->instrument != nullptr)
		scan->instrument->nsearches++;
#endif
}

void
forbid_path(IndexPath *path, double *startup_cost, double *total_cost)
{
#if PG_VERSION_NUM >= 180000
	path->path.disabled_nodes = kForbiddenNodes;
#endif
	*startup_cost = *total_cost = disable_cost * 1e10;
}

List *
implied_join_equalities(PlannerInfo *root, Bitmapset *joined, Bitmapset *outer, RelOptInfo *inner)
{
#if PG_VERSION_NUM >= 160000
	return generate_join_implied_equalities(root, joined, outer, inner, nullptr);
#else
	return generate_join_implied_equalities(root, joined, outer, inner);
#endif
}

double
array_length(PlannerInfo *root, Node *array)
{
#if PG_VERSION_NUM >= 170000
	return estimate_array_length(root, array);
#else
	return estimate_array_length(array);
#endif
}

bool
costs_less(const Plan *plan, const Plan *other, double share)
{
#if PG_VERSION_NUM >= 180000
	if (plan->disabled_nodes != other->disabled_nodes)
		return plan->disabled_nodes < other->disabled_nodes;
#endif
	return plan->total_cost < share * other->total_cost;
}

bool
is_descending(const PathKey *key)
{
#if PG_VERSION_NUM >= 180000
	return key->pk_cmptype == COMPARE_GT;
#else
	return key->pk_strategy == BTGreaterStrategyNumber;
#endif
}

List *
equal_expressions(EquivalenceClass *equals, RelOptInfo *relation)
{
	List *expressions = NIL;
	EquivalenceMember *member;

#if PG_VERSION_NUM >= 180000
	EquivalenceMemberIterator members;

	setup_eclass_member_iterator(&members, equals, relation->relids);
	while ((member = eclass_member_iterator_next(&members)) != nullptr)
		if (bms_equal(member->em_relids, relation->relids))
			expressions = lappend(expressions, member->em_expr);
#else
	ListCell *cell;

	foreach (cell, equals->ec_members)
	{
		member = lfirst_node(EquivalenceMember, cell);
		if (bms_equal(member->em_relids, relation->relids))
			expressions = lappend(expressions, member->em_expr);
	}
#endif
	return expressions;
}

void
move_entry(Query *from, int number, Query *to)
{
	RangeTblEntry *entry = rt_fetch(number, from->rtable);

	to->rtable = list_make1(entry);
#if PG_VERSION_NUM >= 160000
	if (entry->perminfoindex != 0)
		to->rteperminfos = list_make1(getRTEPermissionInfo(from->rteperminfos, entry));
	entry->perminfoindex = entry->perminfoindex != 0 ? 1 : 0;
#endif
	ChangeVarNodes(reinterpret_cast<Node *>(entry->securityQuals), number, 1, 0);
}

void
set_nulled_by([[maybe_unused]] Var *column, [[maybe_unused]] int join)
{
#if PG_VERSION_NUM >= 160000
	column->varnullingrels = bms_make_singleton(join);
#endif
}

void
use_table_slot(CustomScanState *node)
{
	::ScanState *scan = &node->ss;
	const Plan *plan = scan->ps.plan;

	ExecInitScanTupleSlot(scan->ps.state, scan, RelationGetDescr(scan->ss_currentRelation),
		table_slot_callbacks(scan->ss_currentRelation));
	ExecAssignScanProjectionInfo(scan);
	scan->ps.subPlan = NIL;
	scan->ps.qual = ExecInitQual(plan->qual, &scan->ps);
}

void
vacuum_pause()
{
#if PG_VERSION_NUM >= 180000
	vacuum_delay_point(false);
#else
	vacuum_delay_point();
#endif
}

bool
next_sorted(Tuplesortstate *sort, Datum *value, bool *is_null)
{
#if PG_VERSION_NUM >= 160000
	return tuplesort_getdatum(sort, true, true, value, is_null, nullptr);
#else
	return tuplesort_getdatum(sort, true, value, is_null, nullptr);
#endif
}

WaitEventSet *
new_wait_event_set(int n_events)
{
#if PG_VERSION_NUM >= 170000
	return CreateWaitEventSet(nullptr, n_events);
#else
	return CreateWaitEventSet(TopMemoryContext, n_events);
#endif
}

const void *
last_registered_worker()
{
#if PG_VERSION_NUM >= 180000
	return dlist_is_empty(&BackgroundWorkerList) ? nullptr : dlist_head_node(&BackgroundWorkerList);
#else
	return BackgroundWorkerList.head.next;
#endif
}

void *
setting_alloc(Size size)
{
#if PG_VERSION_NUM >= 160000
	return guc_malloc(LOG, size);
#else
	return malloc(size);
#endif
}

char *
setting_strdup(const char *text)
{
#if PG_VERSION_NUM >= 160000
	return guc_strdup(LOG, text);
#else
	return strdup(text);
#endif
}

void
setting_free(void *memory)
{
#if PG_VERSION_NUM >= 160000
	guc_free(memory);
#else
	free(memory);
#endif
}

} // namespace vectorgpu::pg
