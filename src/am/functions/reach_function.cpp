// The function behind the columns of the view vectorgpu_indexes that tell of recall targets. It waits for no lock, and
// raises no error for an index that is damaged or of another release. PG dialect.
#include "am/functions/peek.hpp"
#include "am/method/callbacks.hpp"
#include "am/recall/reach.hpp"

extern "C"
{
#include "fmgr.h"

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

/// peek_pages' function; state is a PeekedRow.
void
fill_reach(Relation index, void *state)
{
	PeekedRow *row = static_cast<PeekedRow *>(state);
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
	return peek_row(fcinfo, kReachColumns, fill_reach);
}
