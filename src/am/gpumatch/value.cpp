// Stored values and queries of gpumatch, made from datums by the functions that the SQL operators use. See
// value_format.hpp.
#include "am/gpumatch/gpumatch.hpp"

#include "common/limits.hpp"

extern "C"
{
#include "catalog/pg_type.h"
}

namespace vectorgpu::am
{

namespace
{

using engine::match::Key;
using types::ElementSource;

constexpr uint32 kSlotPayload = 56; // bytes of a value in one slot of the delta: with its header 64, 127 slots a page
constexpr Size kAttributeBytes = 2;
constexpr Size kMaxKeyBytesInIndex = kAttributeBytes + types::kMaxKeyBytes + 1;

uint8 *
put_key(uint8 *out, uint32 attribute, types::ElementKey key, bool with_attribute)
{
	if (with_attribute)
	{
		*out++ = static_cast<uint8>(attribute >> 8);
		*out++ = static_cast<uint8>(attribute);
	}
	memcpy(out, key.bytes, key.length);
	return out + key.length;
}

/// True if the slice holds one key: high is low and a zero byte.
bool
is_single(const types::Slice &slice)
{
	return slice.high.length == slice.low.length + 1 && slice.high.bytes[slice.low.length] == 0 &&
		memcmp(slice.high.bytes, slice.low.bytes, slice.low.length) == 0;
}

[[noreturn]] void
value_too_large()
{
	ereport(ERROR,
		(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("value is too large for a gpumatch index"),
			errdetail("Its elements take more than %zu bytes.", static_cast<size_t>(kMaxValueBytes))));
}

IndexShape
match_shape(const AccessMethod *am, Relation index)
{
	const int32 code = DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid));
	IndexShape shape = {};

	shape.element = static_cast<ElementType>(code >> 8 & 0xFF);
	shape.metric = static_cast<Metric>(code & 0xFF);
	shape.dim = kSlotPayload;
	if (match_source(code) >= static_cast<int32>(ElementSource::kLshL2) &&
		match_source(code) <= static_cast<int32>(ElementSource::kLshCosine) &&
		TupleDescAttr(RelationGetDescr(index), 0)->atttypmod < 1)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("column does not have dimensions"),
				errhint("Declare the number of dimensions in the column's type, or index an expression "
						"that casts to such a type.")));
	if (!am->supports(shape.element, shape.metric))
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("operator class not supported for %s index", am->name)));
	match_note_options(index, static_cast<ElementSource>(match_source(code)));
	return shape;
}

bool
match_type_holds(Oid type, int32 code)
{
	switch (match_source(code))
	{
		case kSourceOfArray:
		case kSourceOfMinHash:
			return type == ANYARRAYOID;
		case static_cast<int32>(ElementSource::kTsvector):
			return type == TSVECTOROID;
		case static_cast<int32>(ElementSource::kTextGrams):
			return type == TEXTOID;
		default:
			return true;
	}
}

char *
match_store(const IndexShape *shape, Datum datum)
{
	return match_make_value(match_options(shape->am_options), datum);
}

void *
match_query(const IndexShape *shape, Datum argument)
{
	const MatchOptions options = match_options(shape->am_options);
	MatchSearch *search = match_make_query(options, types::slices_of_query(options.source, options.elements, argument));

	if (match_is_signature(options.source))
		search->parts.payload =
			reinterpret_cast<const uint8 *>(match_payload(options, argument, &search->parts.payload_bytes));
	if (options.source == ElementSource::kTextGrams)
		match_prepare_text(search, argument);
	return search;
}

double
match_value_score(const IndexShape *shape, const void *query, const char *value)
{
	const MatchSearch *search = static_cast<const MatchSearch *>(query);
	engine::match::Parts parts;

	if (!engine::match::open_parts(value + sizeof(uint32), stored_bytes(value) - sizeof(uint32), &parts))
		return 0; // found by vectorgpu_check; pages have checksums
	if (match_is_signature(search->options.source))
		return match_exact_distance(search, shape->metric, parts);
	if (shape->metric == Metric::kEdit)
		return match_text_distance(search, parts);

	const uint64 count = engine::match::count_matches(search->parts, parts);

	return count == 0 ? 0.0 : -static_cast<double>(count);
}

bool
match_read_value(Relation index, const MetaData *meta, const SegmentEntry *segment, uint64 n, ValueBuffer *dest,
	BufferAccessStrategy strategy)
{
	uint64 ends[2] = {0, 0};
	uint64 start;
	uint32 length;

	if (!match_has_values(segment))
		return match_remake_value(index, meta, segment, n, dest, strategy);
	if (!stream_read(index, meta, segment, kValueEnds, (n == 0 ? 0 : n - 1) * sizeof(uint64),
			(n == 0 ? 1 : 2) * sizeof(uint64), n == 0 ? &ends[1] : &ends[0], strategy))
		return false;
	start = value_end(ends[0]);
	if (value_end(ends[1]) < start || value_end(ends[1]) - start > kMaxValueBytes ||
		value_end(ends[1]) > segment->streams[static_cast<int>(StreamKind::kVectors)].n_bytes)
		page_corrupted(index, segment->streams[static_cast<int>(kValueEnds)].start_block,
			"The ends of the values are out of order.");
	length = static_cast<uint32>(value_end(ends[1]) - start);
	value_reserve(dest, sizeof(length) + length);
	memcpy(dest->data, &length, sizeof(length));
	return stream_read(
		index, meta, segment, StreamKind::kVectors, start, length, dest->data + sizeof(length), strategy);
}

const char *
match_check_value(const char *value)
{
	engine::match::Parts parts;
	uint64_t n;

	if (!engine::match::open_parts(value + sizeof(uint32), stored_bytes(value) - sizeof(uint32), &parts))
		return "It is not a value.";
	if (!engine::match::elements_valid(parts, &n))
		return "Its elements are not in order.";
	return nullptr;
}

} // namespace

/// Keys of these sources begin with the attribute, big-endian.
bool
match_has_attributes(ElementSource source)
{
	return source == ElementSource::kMatchrow || source >= ElementSource::kMinHashInt4Array;
}

char *
match_make_value(const MatchOptions &options, Datum datum)
{
	const types::ElementList list = types::elements_of_value(options.source, options.elements, datum);
	const bool with_attribute = match_has_attributes(options.source);
	const Size extra = with_attribute ? kAttributeBytes : 0;
	const uint64 size = options.source == ElementSource::kTextGrams ? list.characters : list.n;
	const char *payload = nullptr;
	Size payload_bytes = 0;
	Size body = 0;
	Size n_bytes;
	uint32 length;
	char *value;
	uint8 *out;

	for (int32 i = 0; i < list.n; i++)
		body += engine::match::element_bytes(list.elements[i].key.length + extra);
	if (match_is_signature(options.source))
		payload = match_payload(options, datum, &payload_bytes);
	if (options.source == ElementSource::kTextGrams && options.has_texts) // release 0.1 wrote none
		payload = match_text_payload(datum, &payload_bytes);
	n_bytes = sizeof(uint32) + engine::match::head_bytes(size, body) + body + payload_bytes;
	if (n_bytes > kMaxValueBytes)
		value_too_large();
	value = static_cast<char *>(palloc(n_bytes));
	length = static_cast<uint32>(n_bytes - sizeof(uint32));
	memcpy(value, &length, sizeof(length));
	out = engine::match::put_head(reinterpret_cast<uint8 *>(value) + sizeof(uint32), size, body);
	for (int32 i = 0; i < list.n; i++)
	{
		out = engine::match::put_varint(out, list.elements[i].key.length + extra);
		out = put_key(out, list.elements[i].attribute, list.elements[i].key, with_attribute);
	}
	if (payload_bytes > 0)
		memcpy(out, payload, payload_bytes);
	Assert(out + payload_bytes == reinterpret_cast<uint8 *>(value) + n_bytes);
	return value;
}

MatchSearch *
match_make_query(const MatchOptions &options, const types::SliceList &list)
{
	MatchSearch *search = static_cast<MatchSearch *>(palloc0(sizeof(MatchSearch)));
	const bool with_attribute = match_has_attributes(options.source);
	const Size extra = with_attribute ? kAttributeBytes : 0;
	const uint64 size = options.source == ElementSource::kTextGrams ? list.characters : list.n;
	uint8 *low = static_cast<uint8 *>(palloc(2 * (kMaxKeyBytesInIndex + 1)));
	uint8 *high = low + kMaxKeyBytesInIndex + 1;
	Size body = 0;
	uint8 *bytes;
	uint8 *out;

	for (int32 i = 0; i < list.n; i++)
		body += 2 * (engine::match::kMaxVarintBytes + extra) + list.slices[i].low.length + list.slices[i].high.length;
	bytes = static_cast<uint8 *>(palloc_extended(Max(body, Size(1)), MCXT_ALLOC_HUGE));
	out = bytes;
	for (int32 i = 0; i < list.n; i++)
	{
		const types::Slice &slice = list.slices[i];
		const Key low_key = {low, static_cast<size_t>(put_key(low, slice.attribute, slice.low, with_attribute) - low)};
		Key high_key = {nullptr, 0};

		if (!is_single(slice))
			high_key = {high, static_cast<size_t>(put_key(high, slice.attribute, slice.high, with_attribute) - high)};
		out = engine::match::put_item(out, low_key, high_key);
	}
	pfree(low);
	search->options = options;
	search->parts = {size, bytes, static_cast<size_t>(out - bytes), nullptr, 0};
	search->n_items = list.n;
	search->max_count = list.max_count;
	Assert(engine::match::items_valid(search->parts, &search->n_items));
	return search;
}

const ValueFormat kMatchValues = {
	.element_name = "set",
	.most_terms = kMaxDimensions, // of signatures of vectors
	.scores_may_be_nan = true,    // of cosine distances
	.shape = match_shape,
	.type_holds = match_type_holds,
	.dimensions = nullptr,
	.store = match_store,
	.query = match_query,
	.condition = match_condition,
	.score = match_value_score,
	.read_value = match_read_value,
	.check = match_check_value,
};

} // namespace vectorgpu::am
