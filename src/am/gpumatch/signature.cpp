// Sources whose elements only stand for the value: min-hash of sets, locality-sensitive hashes of vectors. Counts find
// candidates; scans return, and order by, the exact distance from the payload of the stored value: the set's own
// elements as a stored value without its length, or the vector. See README.md ("Signatures"). PG dialect.
#include "am/gpumatch/gpumatch.hpp"

#include "am/method/row_value.hpp"
#include "engine/distance/distance.hpp"

namespace vectorgpu::am
{

namespace
{

using types::ElementSource;

/// The source of the elements of the sets themselves.
ElementSource
set_source(ElementSource source)
{
	return static_cast<ElementSource>(static_cast<int>(source) - static_cast<int>(ElementSource::kMinHashInt4Array));
}

static_assert(static_cast<int>(ElementSource::kMinHashUuidArray) - static_cast<int>(ElementSource::kMinHashInt4Array) ==
	static_cast<int>(ElementSource::kUuidArray) - static_cast<int>(ElementSource::kInt4Array));
static_assert(static_cast<int>(ElementSource::kInt4Array) == 0);

/// The number of elements that two sets, each ascending, have in common.
uint64
common_elements(const engine::match::Parts &a, const engine::match::Parts &b)
{
	engine::match::ElementReader readers[2] = {engine::match::read_elements(a), engine::match::read_elements(b)};
	engine::match::Key keys[2];
	uint64 n = 0;
	bool more =
		engine::match::next_element(&readers[0], &keys[0]) && engine::match::next_element(&readers[1], &keys[1]);

	while (more)
	{
		const int order = engine::match::key_compare(keys[0], keys[1]);

		n += order == 0;
		more = (order > 0 || engine::match::next_element(&readers[0], &keys[0])) &&
			(order < 0 || engine::match::next_element(&readers[1], &keys[1]));
	}
	return n;
}

} // namespace

bool
match_is_signature(ElementSource source)
{
	return source >= ElementSource::kMinHashInt4Array;
}

char *
match_payload(const MatchOptions &options, Datum datum, Size *n_bytes)
{
	if (options.source >= ElementSource::kLshL2)
	{
		RowValue vector = row_value_open(ElementType::kFloat32, datum);
		char *payload;

		*n_bytes = vector_bytes(ElementType::kFloat32, vector.dim);
		payload = static_cast<char *>(palloc(Max(*n_bytes, Size(1))));
		memcpy(payload, vector.vector, *n_bytes);
		row_value_close(&vector);
		return payload;
	}

	MatchOptions set = options;
	char *value;

	set.source = set_source(options.source);
	value = match_make_value(set, datum);
	*n_bytes = stored_bytes(value) - sizeof(uint32);
	return value + sizeof(uint32);
}

double
match_exact_distance(const MatchSearch *query, Metric metric, const engine::match::Parts &value)
{
	if (metric == Metric::kJaccard)
	{
		engine::match::Parts a;
		engine::match::Parts b;
		uint64 common;

		if (!engine::match::open_parts(query->parts.payload, query->parts.payload_bytes, &a) ||
			!engine::match::open_parts(value.payload, value.payload_bytes, &b))
			elog(ERROR, "a stored value has no set");
		// The operator's own formula (types/match/jaccard.cpp), so that its bits are the same.
		common = common_elements(a, b);
		return common == 0 ? 1.0 : 1.0 - static_cast<double>(common) / static_cast<double>(a.size + b.size - common);
	}

	const uint32 dim = static_cast<uint32>(query->parts.payload_bytes / sizeof(float));

	if (query->parts.payload_bytes != value.payload_bytes)
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
				errmsg("different vector dimensions %zu and %u", value.payload_bytes / sizeof(float), dim)));
	return engine::distance({metric, ElementType::kFloat32, dim}, query->parts.payload, value.payload);
}

} // namespace vectorgpu::am
