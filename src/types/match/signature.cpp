// Signatures: min-hash of sets and locality-sensitive hashes of vectors, as elements and as arrays for SQL. PG dialect.
#include "types/match/signature.hpp"

#include "types/match/element_list.hpp"
#include "types/sql_function.hpp"

#include <algorithm>

extern "C"
{
#include "catalog/pg_type.h"
#include "utils/array.h"
}

#include "engine/match/lsh.hpp"
#include "engine/match/minhash.hpp"

namespace vectorgpu::types
{
namespace
{

/// Return a signature as elements: function i has attribute i.
ElementList
signature_elements(const uint32 *values, int32 n)
{
	Element *elements = new_elements(n);
	uint8 *keys = new_bytes(4 * static_cast<int64>(n));

	for (int32 i = 0; i < n; i++)
	{
		uint8 *const key = keys + 4 * static_cast<int64>(i);

		put_uint32(key, values[i]);
		elements[i] = {static_cast<uint32>(i), {key, 4}};
	}
	return {elements, n, 0};
}

// --- min-hash ----------------------------------------------------------------

/// values [hashes]
uint32 *
minhash_values(const ElementList &set, const ElementOptions &options)
{
	uint64 *minima = static_cast<uint64 *>(allocate_array(options.hashes, sizeof(uint64)));
	uint32 *values = static_cast<uint32 *>(allocate_array(options.hashes, sizeof(uint32)));

	std::fill(minima, minima + options.hashes, PG_UINT64_MAX);
	for (int32 i = 0; i < set.n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		engine::minhash_add(engine::hash_bytes(set.elements[i].key.bytes, set.elements[i].key.length), options.seed,
			options.hashes, minima);
	}
	for (int32 i = 0; i < options.hashes; i++)
		values[i] = engine::minhash_value(minima[i]);
	pfree(minima);
	return values;
}

// --- LSH -----------------------------------------------------------------------

/// Cached random numbers for one set of options, kept for the life of the backend: generating them takes a thousand
/// times as long as one signature.
struct LshTable
{
	engine::LshOptions options;
	void *numbers; // null if unused
	uint64 used;   // time of last use, from a counter
};

constexpr int kLshTables = 4;
LshTable lsh_tables[kLshTables];
uint64 lsh_uses;

bool
same_options(const engine::LshOptions &a, const engine::LshOptions &b)
{
	return a.family == b.family && a.dim == b.dim && a.hashes == b.hashes && a.buckets == b.buckets &&
		a.width == b.width && a.seed == b.seed;
}

const void *
lsh_table(const engine::LshOptions &options)
{
	LshTable *oldest = &lsh_tables[0];

	for (LshTable &table : lsh_tables)
	{
		if (table.numbers != nullptr && same_options(table.options, options))
		{
			table.used = ++lsh_uses;
			return table.numbers;
		}
		if (table.used < oldest->used)
			oldest = &table;
	}
	if (static_cast<int64>(options.dim) * options.hashes > kMaxLshNumbers)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("too many hash functions for the dimensions of the vectors"),
				errdetail("%u functions of %u dimensions need %lld random numbers, the limit is %lld.", options.hashes,
					options.dim, static_cast<long long>(options.dim) * options.hashes,
					static_cast<long long>(kMaxLshNumbers))));
	if (oldest->numbers != nullptr)
		pfree(oldest->numbers);
	oldest->numbers = nullptr;
	oldest->used = 0;
	oldest->options = options;

	void *numbers = MemoryContextAllocHuge(TopMemoryContext, engine::lsh_table_bytes(options));

	engine::lsh_make_table(options, numbers);
	oldest->numbers = numbers;
	oldest->used = ++lsh_uses;
	return numbers;
}

engine::LshOptions
lsh_options(ElementSource source, const ElementOptions &options, int dim)
{
	engine::LshOptions lsh;

	lsh.family = source == ElementSource::kLshL2
		? engine::LshFamily::kL2
		: (source == ElementSource::kLshL1 ? engine::LshFamily::kL1 : engine::LshFamily::kCosine);
	lsh.dim = static_cast<uint32_t>(dim);
	lsh.hashes = static_cast<uint32_t>(options.hashes);
	lsh.seed = options.seed;
	if (source != ElementSource::kLshCosine)
	{
		lsh.buckets = static_cast<uint32_t>(options.buckets);
		lsh.width = options.width;
	}
	return lsh;
}

/// values [hashes]
uint32 *
lsh_values(ElementSource source, const ElementOptions &options, const VectorValue *vector)
{
	const engine::LshOptions lsh = lsh_options(source, options, vector->dim);
	const void *table = lsh_table(lsh);
	double *scratch = static_cast<double *>(allocate_array(options.hashes, sizeof(double)));
	uint32 *values = static_cast<uint32 *>(allocate_array(options.hashes, sizeof(uint32)));

	engine::lsh_signature(lsh, table, elements_of<Float32>(vector), scratch, values);
	pfree(scratch);
	return values;
}

// --- SQL -----------------------------------------------------------------------

int32
int_argument(FunctionCallInfo fcinfo, int argument, const char *name, int low, int high)
{
	const int32 value = PG_GETARG_INT32(argument);

	if (value < low || value > high)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("value %d is out of range for \"%s\"", value, name),
				errdetail("Valid values are from %d to %d.", low, high)));
	return value;
}

Datum
int_array(const uint32 *values, int n)
{
	Datum *elements = static_cast<Datum *>(allocate_array(n, sizeof(Datum)));

	for (int i = 0; i < n; i++)
		elements[i] = Int32GetDatum(static_cast<int32>(values[i]));
	PG_RETURN_ARRAYTYPE_P(construct_array(elements, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
}

/// minhash(array, hashes, seed)
Datum
minhash(FunctionCallInfo fcinfo, ElementSource source)
{
	const ElementList set = elements_of_value(source, {}, PG_GETARG_DATUM(0));
	ElementOptions options;

	options.hashes = int_argument(fcinfo, 1, "hashes", 1, kMaxHashes);
	options.seed = static_cast<uint64>(PG_GETARG_INT64(2));
	if (set.n == 0)
		return int_array(nullptr, 0);
	return int_array(minhash_values(set, options), options.hashes);
}

/// lsh_l2(vector, hashes, width, buckets, seed) and lsh_l1, lsh_cosine(vector, hashes, seed)
Datum
lsh(FunctionCallInfo fcinfo, ElementSource source)
{
	const VectorValue *vector = vector_from_datum(PG_GETARG_DATUM(0));
	const bool widths = source != ElementSource::kLshCosine;
	ElementOptions options;

	options.hashes = int_argument(fcinfo, 1, "hashes", 1, kMaxHashes);
	if (widths)
	{
		options.width = PG_GETARG_FLOAT8(2);
		if (!(options.width >= engine::kMinLshWidth && options.width <= engine::kMaxLshWidth))
			ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					errmsg("value %g is out of range for \"width\"", options.width),
					errdetail("Valid values are from %g to %g.", engine::kMinLshWidth, engine::kMaxLshWidth)));
		options.buckets = int_argument(fcinfo, 3, "buckets", 2, kMaxBuckets);
	}
	options.seed = static_cast<uint64>(PG_GETARG_INT64(widths ? 4 : 2));
	return int_array(lsh_values(source, options, vector), options.hashes);
}

/// The values of a signature without NULLs.
const int32 *
signature_argument(FunctionCallInfo fcinfo, int argument, int *n)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(argument);

	*n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	if (array_contains_nulls(array))
		ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("signature must not contain nulls")));
	return reinterpret_cast<const int32 *>(ARR_DATA_PTR(array));
}

Datum
signature_matches(FunctionCallInfo fcinfo)
{
	int n;
	int other;
	const int32 *a = signature_argument(fcinfo, 0, &n);
	const int32 *b = signature_argument(fcinfo, 1, &other);
	int32 matches = 0;

	if (n == 0 || other == 0) // the signature of an empty set agrees with none
		PG_RETURN_INT32(0);
	if (n != other)
		ereport(ERROR,
			(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("different lengths of signatures %d and %d", n, other),
				errhint("Compare signatures of the same number of hash functions.")));
	for (int i = 0; i < n; i++)
		matches += a[i] == b[i];
	PG_RETURN_INT32(matches);
}

Datum
hashes_for(FunctionCallInfo fcinfo)
{
	const float8 epsilon = PG_GETARG_FLOAT8(0);
	const float8 delta = PG_GETARG_FLOAT8(1);

	if (!(epsilon > 0 && epsilon < 1 && delta > 0 && delta < 1))
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("epsilon and delta must be greater than 0 and less than 1"),
				errdetail("They are %g and %g.", epsilon, delta)));
	PG_RETURN_INT64(engine::lsh_hashes(epsilon, delta));
}

} // namespace

ElementList
minhash_elements(const ElementList &set, const ElementOptions &options)
{
	if (set.n == 0)
		return {nullptr, 0, 0};
	return signature_elements(minhash_values(set, options), options.hashes);
}

ElementList
lsh_elements(ElementSource source, const ElementOptions &options, Datum datum)
{
	const VectorValue *vector = vector_from_datum(datum);
	const float *elements = elements_of<Float32>(vector);

	// the cosine distance of a zero vector is NaN, so it has no elements
	if (source == ElementSource::kLshCosine &&
		std::all_of(elements, elements + vector->dim, [](float x) { return x == 0; }))
		return {nullptr, 0, 0};
	return signature_elements(lsh_values(source, options, vector), options.hashes);
}

} // namespace vectorgpu::types

VG_SQL_FUNCTION(int4_array_minhash, vectorgpu::types::minhash(fcinfo, vectorgpu::types::ElementSource::kInt4Array))
VG_SQL_FUNCTION(int8_array_minhash, vectorgpu::types::minhash(fcinfo, vectorgpu::types::ElementSource::kInt8Array))
VG_SQL_FUNCTION(text_array_minhash, vectorgpu::types::minhash(fcinfo, vectorgpu::types::ElementSource::kTextArray))
VG_SQL_FUNCTION(uuid_array_minhash, vectorgpu::types::minhash(fcinfo, vectorgpu::types::ElementSource::kUuidArray))
VG_SQL_FUNCTION(lsh_l2, vectorgpu::types::lsh(fcinfo, vectorgpu::types::ElementSource::kLshL2))
VG_SQL_FUNCTION(lsh_l1, vectorgpu::types::lsh(fcinfo, vectorgpu::types::ElementSource::kLshL1))
VG_SQL_FUNCTION(lsh_cosine, vectorgpu::types::lsh(fcinfo, vectorgpu::types::ElementSource::kLshCosine))
VG_SQL_FUNCTION(signature_matches, vectorgpu::types::signature_matches(fcinfo))
VG_SQL_FUNCTION(lsh_hashes, vectorgpu::types::hashes_for(fcinfo))
