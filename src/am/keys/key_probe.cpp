// Test builds only (FAULTS=1): what codes say of a condition, without an index, so that a test can compare it with the
// operator. The extension's script does not create this function; a test does: CREATE FUNCTION … AS
// '$libdir/vectorgpu', 'vectorgpu_key_probe'. PG dialect.
#include "pg/postgres.hpp"

#ifdef VECTORGPU_FAULTS

#include "am/keys/key_condition.hpp"
#include "engine/predicate/evaluate.hpp"

extern "C"
{
#include "commands/defrem.h"
#include "utils/lsyscache.h"

	PG_FUNCTION_INFO_V1(vectorgpu_key_probe);
}

namespace
{

using namespace vectorgpu::am;
using namespace vectorgpu::engine::predicate;

/// The column of a type's default filter class of an access method.
void
open_column(Oid type, Oid collation, const char *method, KeyColumn *column)
{
	const Oid opclass = GetDefaultOpClass(type, get_index_am_oid(method, false));

	if (!OidIsValid(opclass))
		elog(ERROR, "type %u has no default operator class for %s", type, method);
	key_column_open(get_opclass_family(opclass), get_opclass_input_type(opclass), type, collation, column);
}

} // namespace

/// vectorgpu_key_probe(value "any", strategy int, constant "any", kind int) → int: 0: the code fails, 1: it may pass,
/// 2: it passes, but values are to be checked, 3: it passes, and nothing is to be checked. Kind 0: by the operator, 1:
/// IS NULL, 2: IS NOT NULL. Value and constant may be NULL.
Datum
vectorgpu_key_probe(PG_FUNCTION_ARGS)
{
	const Oid type = get_fn_expr_argtype(fcinfo->flinfo, 0);
	const int kind = PG_GETARG_INT32(3);
	Oid constant_type = getBaseType(get_fn_expr_argtype(fcinfo->flinfo, 2));
	KeyColumn column;
	ScanKeyData key = {};
	KeyProgram program;
	uint64 codes[kMostKeyStreams] = {};
	RowVerdict verdict;

	if (kind == 3)
		constant_type = get_element_type(constant_type);
	open_column(type, PG_GET_COLLATION(), "gpuflat", &column);
	key.sk_attno = 2;
	key.sk_strategy = static_cast<StrategyNumber>(PG_GETARG_INT32(1));
	key.sk_subtype = constant_type == column.type ? column.class_type : constant_type;
	key.sk_flags = kind == 1 ? SK_SEARCHNULL | SK_ISNULL
		: kind == 2          ? SK_SEARCHNOTNULL | SK_ISNULL
		: kind == 3          ? SK_SEARCHARRAY
							 : 0;
	if (PG_ARGISNULL(2))
		key.sk_flags |= SK_ISNULL;
	else
		key.sk_argument = PG_GETARG_DATUM(2);
	make_key_program(&column, 1, &key, 1, nullptr, &program);
	if (!PG_ARGISNULL(0))
		key_encode(&column, PG_GETARG_DATUM(0), codes);
	verdict = evaluate_row(program.program, codes, PG_ARGISNULL(0) ? ~UINT64CONST(0) : 0);
	if (verdict == RowVerdict::kPasses)
		PG_RETURN_INT32(program.program.exact ? 3 : 2);
	PG_RETURN_INT32(verdict == RowVerdict::kMaybe ? 1 : 0);
}

#endif
