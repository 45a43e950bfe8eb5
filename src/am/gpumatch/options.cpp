// Options of the operator classes, and what the metapage keeps of them. PG dialect.
#include "am/gpumatch/gpumatch.hpp"

extern "C"
{
#include "access/reloptions.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(vectorgpu_text_gram_options);
}

namespace vectorgpu::am
{

namespace
{

/// As core parses them.
struct GramOptions
{
	int32 vl_len_;
	int n;
};

types::ElementSource
source_of_array(Oid array_type)
{
	switch (getBaseType(get_base_element_type(array_type)))
	{
		case INT4OID:
			return types::ElementSource::kInt4Array;
		case INT8OID:
			return types::ElementSource::kInt8Array;
		case TEXTOID:
			return types::ElementSource::kTextArray;
		case UUIDOID:
			return types::ElementSource::kUuidArray;
		default:
			break;
	}
	ereport(ERROR,
		(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("type %s cannot be indexed by operator class array_match_ops", format_type_be(array_type)),
			errdetail("Arrays of integer, bigint, text and uuid can."),
			errhint("Index an expression that casts to one of these.")));
	pg_unreachable();
}

} // namespace

void
match_store_options(Relation index, const IndexShape *shape, uint8 *out)
{
	const int32 code = DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid));
	MatchOptions options;
	bytea **parsed;

	memset(static_cast<void *>(&options), 0, sizeof(options));
	options.source = (code >> 16) == kSourceOfArray
		? source_of_array(TupleDescAttr(RelationGetDescr(index), 0)->atttypid)
		: static_cast<types::ElementSource>(code >> 16);
	options.elements = types::ElementOptions();
	if (options.source == types::ElementSource::kTextGrams)
	{
		parsed = RelationGetIndexAttOptions(index, false);
		if (parsed != nullptr && parsed[0] != nullptr)
			options.elements.gram_length = reinterpret_cast<const GramOptions *>(parsed[0])->n;
	}
	memcpy(out, &options, sizeof(options));
}

} // namespace vectorgpu::am

Datum
vectorgpu_text_gram_options(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu;
	local_relopts *options = reinterpret_cast<local_relopts *>(PG_GETARG_POINTER(0));
	const types::ElementOptions defaults;

	init_local_reloptions(options, sizeof(am::GramOptions));
	add_local_int_reloption(options, "n", "characters of an n-gram", defaults.gram_length, types::kMinGramLength,
		types::kMaxGramLength, offsetof(am::GramOptions, n));
	PG_RETURN_VOID();
}

// Support function 1 of the operator classes: constants, so that calling one from SQL does no harm.
#define VG_MATCH_SHAPE(name, source, metric)                                                                           \
	extern "C"                                                                                                         \
	{                                                                                                                  \
		PG_FUNCTION_INFO_V1(vectorgpu_shape_##name);                                                                   \
		Datum vectorgpu_shape_##name(PG_FUNCTION_ARGS)                                                                 \
		{                                                                                                              \
			PG_RETURN_INT32(static_cast<int32>(source) << 16 |                                                         \
							vectorgpu::am::shape_code(vectorgpu::ElementType::kSet, vectorgpu::Metric::metric));       \
		}                                                                                                              \
	}

VG_MATCH_SHAPE(array_match, vectorgpu::am::kSourceOfArray, kMatchCount)
VG_MATCH_SHAPE(tsvector_match, vectorgpu::types::ElementSource::kTsvector, kMatchCount)
VG_MATCH_SHAPE(matchrow_match, vectorgpu::types::ElementSource::kMatchrow, kMatchCount)
VG_MATCH_SHAPE(text_gram, vectorgpu::types::ElementSource::kTextGrams, kEdit)
