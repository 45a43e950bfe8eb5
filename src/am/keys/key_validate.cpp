// See key_validate.hpp.
#include "am/keys/key_validate.hpp"

#include "am/keys/exact_code.hpp"
#include "am/method/am_interface.hpp"

extern "C"
{
#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace vectorgpu::am
{

namespace
{

/// The class being checked.
struct Subject
{
	const char *method;
	Oid family;
	Oid input_type;
	int kind; // KeyKind, as far as the class names one
};

bool
complain(const Subject *subject, const char *what)
{
	HeapTuple tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(subject->family));
	bool is_null;
	Datum name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", subject->family);
	name = SysCacheGetAttr(OPFAMILYOID, tuple, Anum_pg_opfamily_opfname, &is_null);
	ereport(INFO,
		(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			errmsg(
				"operator family \"%s\" of access method %s %s", NameStr(*DatumGetName(name)), subject->method, what)));
	ReleaseSysCache(tuple);
	return false;
}

bool
check_support(const Subject *subject, Form_pg_amproc form)
{
	const Oid left = form->amproclefttype;
	const Oid right = form->amprocrighttype;
	bool right_signature;

	switch (form->amprocnum)
	{
		case kShapeSupport:
			right_signature = left == right && check_amproc_signature(form->amproc, INT4OID, true, 0, 0);
			break;
		case kCompareSupport:
			right_signature = check_amproc_signature(form->amproc, INT4OID, true, 2, 2, left, right);
			break;
		case kHashSupport:
			// Core's function for bytea is declared for any varlena.
			right_signature = left == right &&
				(check_amproc_signature(form->amproc, INT8OID, true, 2, 2, left, INT8OID) ||
					(left == BYTEAOID &&
						check_amproc_signature(form->amproc, INT8OID, true, 2, 2, INTERNALOID, INT8OID)));
			break;
		default:
			return complain(subject, "contains a support function with a wrong number");
	}
	return right_signature || complain(subject, "contains a support function with a wrong signature");
}

bool
is_strategy_of(int kind, int16 strategy)
{
	if (kind == static_cast<int>(KeyKind::kArray))
		return strategy == BTEqualStrategyNumber || (strategy >= kOverlapStrategy && strategy <= kLastStrategy);
	return strategy >= 1 && strategy <= kNotEqualStrategy;
}

bool
check_operator(const Subject *subject, Form_pg_amop form)
{
	const bool of_one_type = form->amoplefttype == form->amoprighttype;

	if (!is_strategy_of(subject->kind, form->amopstrategy))
		return complain(subject, "contains an operator with a wrong strategy number");
	if (form->amoppurpose != AMOP_SEARCH)
		return complain(subject, "contains an operator that is not for search");
	if (!check_amop_signature(form->amopopr, BOOLOID, form->amoplefttype, form->amoprighttype))
		return complain(subject, "contains an operator with a wrong signature");
	if (!of_one_type &&
		!OidIsValid(get_opfamily_proc(subject->family, form->amoplefttype, form->amoprighttype, kCompareSupport)))
		return complain(subject, "lacks a comparison function for an operator of two types");
	return true;
}

/// What the kind of the class needs.
bool
check_kind(const Subject *subject)
{
	const int kind = subject->kind;
	const bool of_hashes = kind == static_cast<int>(KeyKind::kText) || kind == static_cast<int>(KeyKind::kBytea) ||
		kind == static_cast<int>(KeyKind::kInet);

	if (kind < 1 || kind > kLastKeyKind)
		return complain(subject, "has a support function that names no kind of codes");
	if (of_hashes &&
		!OidIsValid(get_opfamily_proc(subject->family, subject->input_type, subject->input_type, kHashSupport)))
		return complain(subject, "lacks a hash function");
	if (kind == static_cast<int>(KeyKind::kEnum) &&
		!OidIsValid(get_opfamily_proc(subject->family, subject->input_type, subject->input_type, kCompareSupport)))
		return complain(subject, "lacks a comparison function");
	return true;
}

} // namespace

bool
is_filter_class_of(Oid family, Oid input_type)
{
	const Oid shape = get_opfamily_proc(family, input_type, input_type, kShapeSupport);

	return OidIsValid(shape) && check_amproc_signature(shape, INT4OID, true, 0, 0) &&
		is_filter_class(DatumGetInt32(OidFunctionCall0(shape)));
}

bool
validate_filter_class(const char *method, Oid family, Oid input_type)
{
	const Oid shape = get_opfamily_proc(family, input_type, input_type, kShapeSupport);
	const Subject subject = {method, family, input_type, DatumGetInt32(OidFunctionCall0(shape)) & 0xFF};
	CatCList *operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(family));
	CatCList *functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(family));
	bool valid = check_kind(&subject);

	for (int i = 0; i < functions->n_members; i++)
		valid &= check_support(&subject, reinterpret_cast<Form_pg_amproc>(GETSTRUCT(&functions->members[i]->tuple)));
	for (int i = 0; i < operators->n_members; i++)
		valid &= check_operator(&subject, reinterpret_cast<Form_pg_amop>(GETSTRUCT(&operators->members[i]->tuple)));
	if (!OidIsValid(get_opfamily_member(family, input_type, input_type, BTEqualStrategyNumber)))
		valid = complain(&subject, "lacks an equality operator");
	ReleaseCatCacheList(functions);
	ReleaseCatCacheList(operators);
	return valid;
}

} // namespace vectorgpu::am
