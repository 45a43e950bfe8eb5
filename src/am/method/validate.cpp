// amvalidate: an operator class has support function 1 and, for ORDER BY, strategy 1 with a float8 distance operator;
// filter classes are checked in am/keys. PG dialect. Called by core's amvalidate() and CREATE OPERATOR CLASS checks in
// tests.
#include "am/keys/key_validate.hpp"
#include "am/method/callbacks.hpp"
#include "storage/value_format.hpp"

extern "C"
{
#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
}

namespace vectorgpu::am
{

namespace
{

/// The operator class being checked, for the messages.
struct Subject
{
	const AccessMethod *am;
	NameData family;
	Oid input_type;
	IndexShape shape; // of support function 1, once seen
	bool shape_known;
};

bool
complain(const Subject *subject, const char *what)
{
	ereport(INFO,
		(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			errmsg(
				"operator family \"%s\" of access method %s %s", NameStr(subject->family), subject->am->name, what)));
	return false;
}

/// The description for an operator class with these support functions: am, or am->sparse.
const AccessMethod *
method_of_class(const AccessMethod *am, const CatCList *functions, Oid input_type)
{
	for (int i = 0; i < functions->n_members && am->sparse != nullptr; i++)
	{
		const Form_pg_amproc form = reinterpret_cast<Form_pg_amproc>(GETSTRUCT(&functions->members[i]->tuple));

		if (form->amprocnum == kShapeSupport && form->amproclefttype == input_type &&
			check_amproc_signature(form->amproc, INT4OID, true, 0, 0) &&
			shape_element(DatumGetInt32(OidFunctionCall0(form->amproc))) == ElementType::kSet)
			return am->sparse;
	}
	return am;
}

NameData
family_name(Oid family)
{
	HeapTuple tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(family));
	NameData name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator family %u", family);
	name = reinterpret_cast<Form_pg_opfamily>(GETSTRUCT(tuple))->opfname;
	ReleaseSysCache(tuple);
	return name;
}

/// True if values of the type have the layout of the element type.
bool
type_holds(Oid type, ElementType element)
{
	HeapTuple tuple;
	const char *expected = nullptr;
	bool same;

	switch (element)
	{
		case ElementType::kBit:
			return type == BITOID;
		case ElementType::kFloat32:
			expected = "vector";
			break;
		case ElementType::kFloat16:
			expected = "halfvec";
			break;
		case ElementType::kSet:
			return false;
	}
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (expected == nullptr || !HeapTupleIsValid(tuple))
		return false;
	same = strcmp(NameStr(reinterpret_cast<Form_pg_type>(GETSTRUCT(tuple))->typname), expected) == 0;
	ReleaseSysCache(tuple);
	return same;
}

bool
check_support(Subject *subject, Form_pg_amproc form)
{
	int32 code;

	if (form->amproclefttype != form->amprocrighttype)
		return complain(subject, "contains a support function for two different types");
	if (form->amprocnum == subject->am->options_support && form->amprocnum > 0)
		return check_amoptsproc_signature(form->amproc) ||
			complain(subject, "contains a support function with a wrong signature");
	if (form->amprocnum == subject->am->condition_support && form->amprocnum > 0)
		return (get_func_rettype(form->amproc) == BYTEAOID && get_func_nargs(form->amproc) == 2) ||
			complain(subject, "contains a support function with a wrong signature");
	if (form->amprocnum != kShapeSupport)
		return complain(subject, "contains a support function with a wrong number");
	if (!check_amproc_signature(form->amproc, INT4OID, true, 0, 0))
		return complain(subject, "contains a support function with a wrong signature");
	if (form->amproclefttype != subject->input_type)
		return true;

	code = DatumGetInt32(OidFunctionCall0(form->amproc));
	subject->shape = {};
	subject->shape.element = static_cast<ElementType>(code >> 8 & 0xFF);
	subject->shape.metric = static_cast<Metric>(code & 0xFF);
	subject->shape_known = true;
	if (!subject->am->supports(subject->shape.element, subject->shape.metric))
		return complain(subject, "has a support function that names a metric the access method cannot search");
	if (subject->am->values != nullptr ? !subject->am->values->type_holds(subject->input_type, code)
									   : !type_holds(subject->input_type, subject->shape.element))
		return complain(subject, "has a support function for another type of element");
	return true;
}

bool
check_operator(Subject *subject, Form_pg_amop form)
{
	if (form->amopstrategy == kConditionStrategy && subject->am->condition_support > 0)
		return (form->amoppurpose == AMOP_SEARCH &&
				   check_amop_signature(form->amopopr, BOOLOID, form->amoplefttype, BYTEAOID)) ||
			complain(subject, "contains a search operator with a wrong signature");
	if (form->amopstrategy != kDistanceStrategy)
		return complain(subject, "contains an operator with a wrong strategy number");
	if (form->amoppurpose != AMOP_ORDER)
		return complain(subject, "contains an operator that is not for ordering");
	if (form->amoplefttype != form->amoprighttype && subject->am->values == nullptr)
		return complain(subject, "contains an operator of two different types");
	if (!check_amop_signature(form->amopopr, FLOAT8OID, form->amoplefttype, form->amoprighttype))
		return complain(subject, "contains an operator that does not return double precision");
	if (!opfamily_can_sort_type(form->amopsortfamily, FLOAT8OID))
		return complain(subject, "contains an operator whose sort family does not sort double precision");
	return true;
}

} // namespace

bool
shared_validate(const AccessMethod *am, Oid opclass_oid)
{
	HeapTuple class_tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass_oid));
	Form_pg_opclass class_form;
	Subject subject = {};
	CatCList *operators;
	CatCList *functions;
	bool has_operator = false;
	bool valid = true;

	if (!HeapTupleIsValid(class_tuple))
		elog(ERROR, "cache lookup failed for operator class %u", opclass_oid);
	class_form = reinterpret_cast<Form_pg_opclass>(GETSTRUCT(class_tuple));
	subject.am = am;
	subject.family = family_name(class_form->opcfamily);
	subject.input_type = class_form->opcintype;
	if (is_filter_class_of(class_form->opcfamily, subject.input_type))
	{
		valid = validate_filter_class(am->name, class_form->opcfamily, subject.input_type);
		ReleaseSysCache(class_tuple);
		return valid;
	}
	if (OidIsValid(class_form->opckeytype) && class_form->opckeytype != class_form->opcintype)
		valid = complain(&subject, "stores another type than it indexes");

	operators = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(class_form->opcfamily));
	functions = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(class_form->opcfamily));
	subject.am = am = method_of_class(am, functions, subject.input_type);
	for (int i = 0; i < functions->n_members; i++)
		valid &= check_support(&subject, reinterpret_cast<Form_pg_amproc>(GETSTRUCT(&functions->members[i]->tuple)));
	for (int i = 0; i < operators->n_members; i++)
	{
		Form_pg_amop form = reinterpret_cast<Form_pg_amop>(GETSTRUCT(&operators->members[i]->tuple));

		valid &= check_operator(&subject, form);
		has_operator |= am->values != nullptr ||
			(form->amoplefttype == subject.input_type && form->amoprighttype == subject.input_type);
	}
	if (!subject.shape_known)
		valid = complain(&subject, "lacks support function 1");
	if (!has_operator)
		valid = complain(&subject, "lacks a distance operator");

	ReleaseCatCacheList(functions);
	ReleaseCatCacheList(operators);
	ReleaseSysCache(class_tuple);
	return valid;
}

} // namespace vectorgpu::am
