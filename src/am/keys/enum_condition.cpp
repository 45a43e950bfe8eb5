// See enum_condition.hpp.
#include "am/keys/enum_condition.hpp"

extern "C"
{
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_enum.h"
#include "utils/catcache.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

#include <algorithm>

namespace vectorgpu::am
{

namespace
{

bool
passes(StrategyNumber strategy, int32 order)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return order < 0;
		case BTLessEqualStrategyNumber:
			return order <= 0;
		case BTGreaterEqualStrategyNumber:
			return order >= 0;
		default:
			return order > 0;
	}
}

} // namespace

void
enum_condition(
	const KeyColumn *column, uint16 stream, StrategyNumber strategy, Datum constant, engine::predicate::Node *node)
{
	const Oid label = DatumGetObjectId(constant);
	const Oid function = get_opfamily_proc(column->family, column->class_type, column->class_type, kCompareSupport);
	FmgrInfo compare;
	CatCList *labels;
	uint64 *codes;
	uint32 n_codes = 0;

	if (strategy == BTEqualStrategyNumber || strategy == kNotEqualStrategy)
	{
		*node = strategy == BTEqualStrategyNumber ? engine::predicate::equal(stream, label, false)
												  : engine::predicate::not_equal(stream, label, false);
		return;
	}
	if (!OidIsValid(function))
		elog(ERROR, "missing support function %d in operator family %u", kCompareSupport, column->family);
	fmgr_info(function, &compare);
	// A transaction that holds its locks takes no invalidations by itself, and would miss labels added meanwhile.
	AcceptInvalidationMessages();
	labels = SearchSysCacheList1(ENUMTYPOIDNAME, ObjectIdGetDatum(column->type));
	codes = static_cast<uint64 *>(palloc((static_cast<size_t>(labels->n_members) + 1) * sizeof(uint64)));
	for (int i = 0; i < labels->n_members; i++)
	{
		const Oid one = reinterpret_cast<Form_pg_enum>(GETSTRUCT(&labels->members[i]->tuple))->oid;

		if (passes(strategy, DatumGetInt32(FunctionCall2(&compare, ObjectIdGetDatum(one), constant))))
			codes[n_codes++] = one;
	}
	ReleaseCatCacheList(labels);
	std::sort(codes, codes + n_codes);
	*node = engine::predicate::in_list(stream, codes, n_codes, false);
}

} // namespace vectorgpu::am
