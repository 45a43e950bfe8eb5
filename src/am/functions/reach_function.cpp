// The function behind the columns of the view vectorgpu_indexes that tell of recall targets. It waits for no lock, and
// raises no error for an index that is damaged or of another release. PG dialect.
#include "am/functions/peek.hpp"
#include "am/method/callbacks.hpp"
#include "am/method/index_access.hpp"
#include "am/recall/reach.hpp"
#include "pg/privilege.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/index.h"
#include "funcapi.h"

	PG_FUNCTION_INFO_V1(vectorgpu_index_reach);
}

namespace vectorgpu::am
{

namespace
{

constexpr int kReachTries = 4; // the first, and three more if a standby finds pages recycled

enum ReachColumn
{
	kTarget,
	kReached,
	kReachColumns,
};

struct ReachRow
{
	Datum values[kReachColumns];
	bool nulls[kReachColumns];
};

/// peek_pages' function; state is a ReachRow.
void
fill_reach(Relation index, void *state)
{
	ReachRow *row = static_cast<ReachRow *>(state);
	MetaData *meta;
	RecallReach reach;
	bool intact = false;
	uint32 version;

	if (!peek_metapage(index, &version))
		return;
	meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	for (int i = 0; i < kReachTries && !intact; i++)
	{
		meta_read(index, nullptr, meta);
		intact = index_reach(index, meta, &reach);
	}
	if (!intact)
		page_recycled(index, 0);

	const ApproximateMethod *approximate = access_method(index, meta)->approximate;

	if (approximate != nullptr && approximate->target_setting != nullptr)
	{
		row->values[kTarget] = Float8GetDatum(default_recall_target(access_method(index, meta)));
		row->nulls[kTarget] = false;
	}
	if (reach.measured)
	{
		row->values[kReached] = Float8GetDatum(reach.recall);
		row->nulls[kReached] = false;
	}
	pfree(meta);
}

} // namespace
} // namespace vectorgpu::am

/// vectorgpu_index_reach(index): one row; NULLs where there is nothing to tell, or the caller may not see it.
Datum
vectorgpu_index_reach(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	const Oid index_oid = PG_GETARG_OID(0);
	const Oid heap = IndexGetRelation(index_oid, true);
	ReachRow row = {{}, {true, true}};
	TupleDesc descriptor;
	Relation index;

	if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE || descriptor->natts != kReachColumns)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
	if (OidIsValid(heap) && vectorgpu::pg::may_read_table(heap) && peek_open(index_oid, &index) && index != nullptr)
	{
		if (is_vectorgpu_index(index) && peek_has_pages(index))
			(void) peek_pages(index, fill_reach, &row);
		relation_close(index, AccessShareLock);
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), row.values, row.nulls));
}
