// The shape of an index by the catalogs, and the parts of a handler that all access methods share. PG dialect.
#include "am/keys/key_kind.hpp"
#include "am/method/callbacks.hpp"
#include "pg/parallel_build.hpp"
#include "storage/value_format.hpp"

#include "common/limits.hpp"

extern "C"
{
#include "access/reloptions.h"
#include "commands/vacuum.h"
}

namespace vectorgpu::am
{

namespace
{

int
max_dimensions(ElementType element)
{
	return element == ElementType::kBit ? kMaxBitDimensions : kMaxDimensions;
}

} // namespace

const AccessMethod *
method_of_index(const AccessMethod *am, Relation index)
{
	int32 code;

	if (am->sparse == nullptr)
		return am;
	code = DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid));
	return !is_filter_class(code) && shape_element(code) == ElementType::kSet ? am->sparse : am;
}

IndexShape
index_shape(const AccessMethod *am, Relation index)
{
	const Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(index), 0);
	const int32 code = DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid));
	const int dim = attribute->atttypmod;
	IndexShape shape = {};

	if (is_filter_class(code))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg(
					"column \"%s\" cannot be the first key column of %s index", NameStr(attribute->attname), am->name),
				errdetail("Its operator class is for conditions, not for searches by distance."),
				errhint(
					"Name the column to search first, and this one behind it. Operator classes for the first column: "
					"\\dAc %s in psql.",
					am->name)));
	if (am->values != nullptr)
	{
		shape = am->values->shape(am, index);
		shape.am = am->id;
		if (am->store_options != nullptr)
			am->store_options(index, &shape, shape.am_options);
		return shape;
	}
	shape.am = am->id;
	shape.element = static_cast<ElementType>(code >> 8 & 0xFF);
	shape.metric = static_cast<Metric>(code & 0xFF);
	if (!am->supports(shape.element, shape.metric))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("operator class not supported for %s index", am->name),
				errdetail("The access method cannot search by the distance of this operator class."),
				errhint("Operator classes of the extension: \\dAc %s in psql.", am->name)));
	if (dim < 1)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("column does not have dimensions"),
				errhint("Declare the number of dimensions in the column's type, or index an expression "
						"that casts to such a type.")));
	if (dim > max_dimensions(shape.element))
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				// hnsw and ivfflat say what pgvector says.
				shape.element == ElementType::kBit && !am->named_for_pgvector
					? errmsg(
						  "column cannot have more than %d bits for %s index", max_dimensions(shape.element), am->name)
					: errmsg("column cannot have more than %d dimensions for %s index", max_dimensions(shape.element),
						  am->name),
				errdetail("The column has %d.", dim),
				errhint("Index an expression that takes a part of the value, or fewer dimensions of the data.")));
	shape.dim = static_cast<uint32>(dim);
	return shape;
}

IndexAmRoutine *
new_routine()
{
	IndexAmRoutine *routine = makeNode(IndexAmRoutine);

	routine->amstrategies = 0; // operators are known by opclass: no fixed set of strategies
	routine->amsupport = kLastSupport;
	routine->amoptsprocnum = 0;
	routine->amcanorder = false;
	routine->amcanorderbyop = true;
	routine->amcanbackward = false;
	routine->amcanunique = false;
	routine->amcanmulticol = true;
	routine->amoptionalkey = true; // NULLs are indexed, so that a scan can answer without any key
	routine->amsearcharray = false;
	routine->amsearchnulls = true;
	routine->amstorage = false;
	routine->amclusterable = false;
	routine->ampredlocks = false; // core locks the whole index under SERIALIZABLE
	routine->amcanparallel = false;
	routine->amcaninclude = false;
	pg::allow_parallel_build(routine);
	routine->amusemaintenanceworkmem = true;
	routine->amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL;
	routine->amkeytype = InvalidOid;
	return routine;
}

bytea *
no_options(Datum reloptions, bool validate)
{
	static relopt_kind kind = RELOPT_KIND_LOCAL;

	if (kind == RELOPT_KIND_LOCAL)
		kind = add_reloption_kind();
	return static_cast<bytea *>(build_reloptions(reloptions, validate, kind, 0, nullptr, 0));
}

} // namespace vectorgpu::am

// Support function 1 of the operator classes. They take no argument and return a constant, so that calling one from SQL
// does no harm. Those named foreign are for the types and operators of pgvector.
#define VG_SHAPE_FUNCTION(name, element, metric)                                                                       \
	extern "C"                                                                                                         \
	{                                                                                                                  \
		PG_FUNCTION_INFO_V1(vectorgpu_shape_##name);                                                                   \
		Datum vectorgpu_shape_##name(PG_FUNCTION_ARGS)                                                                 \
		{                                                                                                              \
			PG_RETURN_INT32(vectorgpu::am::shape_code(vectorgpu::ElementType::element, vectorgpu::Metric::metric));    \
		}                                                                                                              \
		PG_FUNCTION_INFO_V1(vectorgpu_shape_foreign_##name);                                                           \
		Datum vectorgpu_shape_foreign_##name(PG_FUNCTION_ARGS)                                                         \
		{                                                                                                              \
			PG_RETURN_INT32(vectorgpu::am::kForeignDistance |                                                          \
				vectorgpu::am::shape_code(vectorgpu::ElementType::element, vectorgpu::Metric::metric));                \
		}                                                                                                              \
	}

VG_SHAPE_FUNCTION(vector_l2, kFloat32, kL2)
VG_SHAPE_FUNCTION(vector_ip, kFloat32, kInnerProduct)
VG_SHAPE_FUNCTION(vector_cosine, kFloat32, kCosine)
VG_SHAPE_FUNCTION(vector_l1, kFloat32, kL1)
VG_SHAPE_FUNCTION(halfvec_l2, kFloat16, kL2)
VG_SHAPE_FUNCTION(halfvec_ip, kFloat16, kInnerProduct)
VG_SHAPE_FUNCTION(halfvec_cosine, kFloat16, kCosine)
VG_SHAPE_FUNCTION(halfvec_l1, kFloat16, kL1)
VG_SHAPE_FUNCTION(sparsevec_l2, kSet, kL2)
VG_SHAPE_FUNCTION(sparsevec_ip, kSet, kInnerProduct)
VG_SHAPE_FUNCTION(sparsevec_cosine, kSet, kCosine)
VG_SHAPE_FUNCTION(sparsevec_l1, kSet, kL1)
VG_SHAPE_FUNCTION(bit_hamming, kBit, kHamming)
VG_SHAPE_FUNCTION(bit_jaccard, kBit, kJaccard)
