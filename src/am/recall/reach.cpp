// See reach.hpp.
#include "am/recall/reach.hpp"

#include <cstdlib>

extern "C"
{
#include "utils/guc.h"
}

namespace vectorgpu::am
{

namespace
{

// Few rows give few queries to measure with (one for 20 rows), and a look at all of them takes little: 56 us for 1,000
// of 128 dimensions (src/am/gpugraph/README.md, "Cost").
constexpr uint64 kFewRows = 1000;

/// A target of 1 is no fault of the index: it asks for a look at all rows.
bool
falls_short(const RecallReach &reach, double target)
{
	return reach.measured && !reach.saves_nothing && target < 1 && reach.recall < target - reach.margin;
}

} // namespace

double
default_recall_target(const AccessMethod *am)
{
	const char *setting = am->approximate->target_setting;

	// In parallel mode it may not be defined yet (pg/define_setting.hpp).
	return GetConfigOption(setting, true, false) != nullptr ? std::strtod(GetConfigOptionResetString(setting), nullptr)
															: kDefaultRecallTarget;
}

bool
index_reach(Relation index, const MetaData *meta, RecallReach *reach)
{
	const AccessMethod *am = access_method(index, meta);
	const SegmentEntry *largest = nullptr;

	*reach = {};
	if (am->approximate == nullptr || am->approximate->describe_reach == nullptr)
		return true;
	for (uint32 i = 0; i < meta->n_segments; i++)
		if (meta->segments[i].n_rows > (largest != nullptr ? largest->n_rows : 0))
			largest = &meta->segments[i];
	if (largest == nullptr)
		return true;
	if (!am->approximate->describe_reach(index, meta, largest, reach))
		return false;
	reach->saves_nothing = reach->saves_nothing || largest->n_rows < kFewRows;
	return true;
}

void
warn_of_reach(Relation index, const RecallReach *before)
{
	MetaData *meta = static_cast<MetaData *>(palloc(sizeof(MetaData)));
	RecallReach reach;
	const AccessMethod *am;

	meta_read(index, nullptr, meta);
	am = access_method(index, meta);
	if (index_reach(index, meta, &reach) && reach.measured)
	{
		const double target = default_recall_target(am);

		if (falls_short(reach, target) && !(before != nullptr && falls_short(*before, target)))
			ereport(WARNING,
				(errmsg("searches %s do not reach the default recall target of index \"%s\"", reach.of,
					 RelationGetRelationName(index)),
					errdetail("The widest ones found %.3f of the nearest rows. Where %s is higher than that (it is %g "
							  "by default), scans look at all rows, and take longer.",
						reach.recall, am->approximate->target_setting, target),
					errhint("%s", reach.hint)));
	}
	pfree(meta);
}

} // namespace vectorgpu::am
