// Options of the operator classes, and their form in the metapage. PG dialect.
#include "am/gpumatch/gpumatch.hpp"

#include "engine/match/lsh.hpp"
#include "pg/fault.hpp"

#include <cmath>

extern "C"
{
#include "access/reloptions.h"
#include "catalog/pg_type.h"
#include "utils/lsyscache.h"

	PG_FUNCTION_INFO_V1(vectorgpu_text_gram_options);
	PG_FUNCTION_INFO_V1(vectorgpu_minhash_options);
	PG_FUNCTION_INFO_V1(vectorgpu_lsh_options);
}

namespace vectorgpu::am
{

namespace
{

/// As core parses them.
struct ParsedOptions
{
	int32 vl_len_;
	int n;
	int hashes;
	int buckets;
	int seed;
	double width;
};

types::ElementSource
source_of_array(Oid array_type, int32 code)
{
	const bool hashed = code == kSourceOfMinHash;

	switch (getBaseType(get_base_element_type(array_type)))
	{
		case INT4OID:
			return hashed ? types::ElementSource::kMinHashInt4Array : types::ElementSource::kInt4Array;
		case INT8OID:
			return hashed ? types::ElementSource::kMinHashInt8Array : types::ElementSource::kInt8Array;
		case TEXTOID:
			return hashed ? types::ElementSource::kMinHashTextArray : types::ElementSource::kTextArray;
		case UUIDOID:
			return hashed ? types::ElementSource::kMinHashUuidArray : types::ElementSource::kUuidArray;
		default:
			break;
	}
	ereport(ERROR,
		(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			errmsg("type %s cannot be indexed by operator class %s", format_type_be(array_type),
				hashed ? "array_minhash_ops" : "array_match_ops"),
			errdetail("It takes arrays of integer, bigint, text and uuid."),
			errhint("Index an expression that casts to one of these.")));
	pg_unreachable();
}

/// The elements that the operator class makes of the column's type.
types::ElementSource
source_of_index(Relation index)
{
	const int32 code =
		match_source(DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid)));

	if (code == kSourceOfArray || code == kSourceOfMinHash)
		return source_of_array(TupleDescAttr(RelationGetDescr(index), 0)->atttypid, code);
	return static_cast<types::ElementSource>(code);
}

} // namespace

const char *
match_check_options(Relation index, const MetaData *meta)
{
	const MatchOptions options = match_options(meta->am_options);
	const types::ElementOptions &elements = options.elements;

	if (options.source != source_of_index(index))
		return "The metapage is of another operator class.";
	if (elements.gram_length < types::kMinGramLength || elements.gram_length > types::kMaxGramLength ||
		elements.hashes < 1 || elements.hashes > types::kMaxHashes || elements.buckets < 2 ||
		elements.buckets > types::kMaxBuckets || !std::isfinite(elements.width) || elements.width <= 0)
		return "An option of the operator class is out of range.";
	return nullptr;
}

void
match_note_options(Relation index, types::ElementSource source)
{
	const types::ElementOptions defaults;
	bytea **parsed = RelationGetIndexAttOptions(index, false);
	const ParsedOptions *given;
	bool width;

	if (source != types::ElementSource::kLshCosine || parsed == nullptr || parsed[0] == nullptr)
		return;
	given = reinterpret_cast<const ParsedOptions *>(parsed[0]);
	width = given->width != defaults.width;
	if (!width && given->buckets == defaults.buckets)
		return;
	ereport(NOTICE,
		(errmsg("option \"%s\" changes nothing for operator class vector_lsh_cosine_ops", width ? "width" : "buckets"),
			errdetail("Its hash functions say on which side of a plane a vector lies: each has two values."),
			errhint("The options are for vector_lsh_l2_ops and vector_lsh_l1_ops; more hashes tell more directions "
					"apart.")));
}

void
match_store_options(Relation index, const IndexShape *shape, uint8 *out)
{
	MatchOptions options;
	bytea **parsed;

	memset(static_cast<void *>(&options), 0, sizeof(options));
	options.source = source_of_index(index);
	options.has_texts = options.source == types::ElementSource::kTextGrams && !VG_FAULT("match_options") ? 1 : 0;
	options.elements = types::ElementOptions();
	parsed = RelationGetIndexAttOptions(index, false);
	if (parsed != nullptr && parsed[0] != nullptr)
	{
		const ParsedOptions *given = reinterpret_cast<const ParsedOptions *>(parsed[0]);

		if (given->n > 0)
			options.elements.gram_length = given->n;
		if (given->hashes > 0)
			options.elements.hashes = given->hashes;
		if (given->buckets > 0)
			options.elements.buckets = given->buckets;
		if (given->width > 0)
			options.elements.width = given->width;
		options.elements.seed = static_cast<uint64>(given->seed);
	}
	memcpy(out, &options, sizeof(options));
}

} // namespace vectorgpu::am

namespace
{

/// Core's own message about numbers out of bounds prints all digits and six decimals.
void
check_width(void *parsed, relopt_value *, int)
{
	using namespace vectorgpu;
	const double width = static_cast<const am::ParsedOptions *>(parsed)->width;

	if (!(width >= engine::kMinLshWidth && width <= engine::kMaxLshWidth))
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("value %g out of bounds for option \"width\"", width),
				errdetail("Valid values are from %g to %g.", engine::kMinLshWidth, engine::kMaxLshWidth)));
}

/// Defines the options of a source: others stay 0.
void
define_options(local_relopts *options, bool grams, bool lsh)
{
	using namespace vectorgpu;
	using am::ParsedOptions;
	const types::ElementOptions defaults;

	init_local_reloptions(options, sizeof(ParsedOptions));
	if (grams)
	{
		add_local_int_reloption(options, "n", "characters of an n-gram", defaults.gram_length, types::kMinGramLength,
			types::kMaxGramLength, offsetof(ParsedOptions, n));
		return;
	}
	add_local_int_reloption(
		options, "hashes", "hash functions", defaults.hashes, 1, types::kMaxHashes, offsetof(ParsedOptions, hashes));
	add_local_int_reloption(options, "seed", "of the hash functions", 0, 0, INT_MAX, offsetof(ParsedOptions, seed));
	if (!lsh)
		return;
	add_local_int_reloption(options, "buckets", "values of a hash function", defaults.buckets, 2, types::kMaxBuckets,
		offsetof(ParsedOptions, buckets));
	add_local_real_reloption(options, "width", "of a bucket, in units of the data", defaults.width, -INFINITY, INFINITY,
		offsetof(ParsedOptions, width));
	register_reloptions_validator(options, check_width);
}

} // namespace

Datum
vectorgpu_text_gram_options(PG_FUNCTION_ARGS)
{
	define_options(reinterpret_cast<local_relopts *>(PG_GETARG_POINTER(0)), true, false);
	PG_RETURN_VOID();
}

Datum
vectorgpu_minhash_options(PG_FUNCTION_ARGS)
{
	define_options(reinterpret_cast<local_relopts *>(PG_GETARG_POINTER(0)), false, false);
	PG_RETURN_VOID();
}

Datum
vectorgpu_lsh_options(PG_FUNCTION_ARGS)
{
	define_options(reinterpret_cast<local_relopts *>(PG_GETARG_POINTER(0)), false, true);
	PG_RETURN_VOID();
}

// Support function 1 of the operator classes: constants, so that calling one from SQL does no harm. Those named foreign
// are for the type and the operators of pgvector.
#define VG_MATCH_CODE(name, code)                                                                                      \
	extern "C"                                                                                                         \
	{                                                                                                                  \
		PG_FUNCTION_INFO_V1(vectorgpu_shape_##name);                                                                   \
		Datum vectorgpu_shape_##name(PG_FUNCTION_ARGS)                                                                 \
		{                                                                                                              \
			PG_RETURN_INT32(code);                                                                                     \
		}                                                                                                              \
	}

#define VG_MATCH_SHAPE(name, source, metric)                                                                           \
	VG_MATCH_CODE(name,                                                                                                \
		static_cast<int32>(source) << 16 |                                                                             \
			vectorgpu::am::shape_code(vectorgpu::ElementType::kSet, vectorgpu::Metric::metric))

#define VG_LSH_SHAPE(name, source, metric)                                                                             \
	VG_MATCH_SHAPE(name, source, metric)                                                                               \
	VG_MATCH_CODE(foreign_##name,                                                                                      \
		vectorgpu::am::kForeignDistance | static_cast<int32>(source) << 16 |                                           \
			vectorgpu::am::shape_code(vectorgpu::ElementType::kSet, vectorgpu::Metric::metric))

VG_MATCH_SHAPE(array_match, vectorgpu::am::kSourceOfArray, kMatchCount)
VG_MATCH_SHAPE(tsvector_match, vectorgpu::types::ElementSource::kTsvector, kMatchCount)
VG_MATCH_SHAPE(matchrow_match, vectorgpu::types::ElementSource::kMatchrow, kMatchCount)
VG_MATCH_SHAPE(text_gram, vectorgpu::types::ElementSource::kTextGrams, kEdit)
VG_MATCH_SHAPE(array_minhash, vectorgpu::am::kSourceOfMinHash, kJaccard)
VG_LSH_SHAPE(vector_lsh_l2, vectorgpu::types::ElementSource::kLshL2, kL2)
VG_LSH_SHAPE(vector_lsh_l1, vectorgpu::types::ElementSource::kLshL1, kL1)
VG_LSH_SHAPE(vector_lsh_cosine, vectorgpu::types::ElementSource::kLshCosine, kCosine)
