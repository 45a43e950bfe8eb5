// Binary form of matchrow and matchquery (COPY BINARY, binary parameters and results), and their equality, order and
// hash. PG dialect.
//
// Format, big-endian; a string's bytes are in the client's encoding:
//   both        int8 1, int16 n, n attributes or items
//   key         int8 kind, int32 length, bytes as stored (row_value.hpp)
//   attribute   int8 0 for NULL, or int8 1, key
//   item        int8 0 for NULL, or int8 1, int32 number of slices, slices
//   slice       int8 0, key: equal to it; or int8 1, int8 kind, low bound, high bound: a range
//   bound       int8 0: open; or int8 1 (inclusive) or 2 (exclusive), key
#include "types/match/row_value.hpp"
#include "types/match/value_text.hpp"
#include "types/sql_function.hpp"

extern "C"
{
#include "common/hashfn.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
}

namespace vectorgpu::types
{
namespace
{

constexpr int kOpen = 0;
constexpr int kInclusive = 1;
constexpr int kExclusive = 2;

[[noreturn]] void invalid_binary(const char *type_name, const char *detail);

void
invalid_binary(const char *type_name, const char *detail)
{
	ereport(ERROR,
		(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION), errmsg("invalid binary value of type %s", type_name),
			errdetail("%s", detail)));
}

// --- input -------------------------------------------------------------------

int
receive_flag(StringInfo message, int last, const char *type_name)
{
	const int flag = pq_getmsgbyte(message);

	if (flag > last)
		invalid_binary(type_name, "A flag has a value that means nothing.");
	return flag;
}

ElementKey
receive_key(StringInfo message, const char *type_name)
{
	const int kind = pq_getmsgbyte(message);
	const int32 length = static_cast<int32>(pq_getmsgint(message, 4));
	const char *bytes;
	uint8 *key;
	int n_bytes = length;

	if (length < 0 || length > message->len - message->cursor)
		invalid_binary(type_name, "A value is longer than the message.");
	bytes = pq_getmsgbytes(message, length);
	if (kind == static_cast<int>(ValueKind::kString))
	{
		bytes = pg_client_to_server(bytes, length); // checks the encoding
		if (bytes != message->data + message->cursor - length)
			n_bytes = static_cast<int>(strlen(bytes));
	}
	key = new_bytes(n_bytes + 1);
	key[0] = static_cast<uint8>(kind);
	memcpy(key + 1, bytes, n_bytes);
	if (!key_is_valid({key, static_cast<uint32>(n_bytes) + 1}))
		invalid_binary(type_name, "A value is none of its kind.");
	return {key, static_cast<uint32>(n_bytes) + 1};
}

int32
receive_head(StringInfo message, const char *type_name)
{
	int32 n;

	if (pq_getmsgbyte(message) != kRowFormat)
		invalid_binary(type_name, "The version of the format is not 1.");
	n = static_cast<int32>(pq_getmsgint(message, 2));
	check_attributes(n, type_name);
	return n;
}

Datum
row_recv(FunctionCallInfo fcinfo)
{
	StringInfo message = reinterpret_cast<StringInfo>(PG_GETARG_POINTER(0));
	const int32 n = receive_head(message, "matchrow");
	StringInfoData value;

	begin_value(&value, n);
	for (int32 i = 0; i < n; i++)
	{
		if (receive_flag(message, 1, "matchrow") == 0)
			append_varint(&value, 0);
		else
			append_key(&value, receive_key(message, "matchrow"));
	}
	return finish_value(&value);
}

void
receive_range(StringInfo message, SliceSet *set)
{
	const int kind = pq_getmsgbyte(message);
	ElementKey bounds[2] = {{nullptr, 0}, {nullptr, 0}};
	int flags[2];

	if (kind < kFirstKind || kind > kLastKind || kind == static_cast<int>(ValueKind::kString))
		invalid_binary("matchquery", "The values of a range are of a kind that has no ranges.");
	for (int i = 0; i < 2; i++)
	{
		flags[i] = receive_flag(message, kExclusive, "matchquery");
		if (flags[i] != kOpen)
		{
			bounds[i] = receive_key(message, "matchquery");
			if (bounds[i].bytes[0] != kind)
				invalid_binary("matchquery", "A bound of a range is of another kind.");
		}
	}
	if (flags[0] != kOpen && flags[1] != kOpen && compare_keys(bounds[0], bounds[1]) > 0)
		invalid_binary("matchquery", "The bounds of a range are reversed.");
	add_range(set, static_cast<ValueKind>(kind), bounds[0], flags[0] == kInclusive, bounds[1], flags[1] == kInclusive);
}

Datum
query_recv(FunctionCallInfo fcinfo)
{
	StringInfo message = reinterpret_cast<StringInfo>(PG_GETARG_POINTER(0));
	const int32 n = receive_head(message, "matchquery");
	StringInfoData value;

	begin_value(&value, n);
	for (int32 i = 0; i < n; i++)
	{
		SliceSet set = {receive_flag(message, 1, "matchquery") == 0, nullptr, 0, 0};
		const int64 n_slices = set.is_null ? 0 : static_cast<int32>(pq_getmsgint(message, 4));

		for (int64 j = 0; j < n_slices; j++)
		{
			CHECK_FOR_INTERRUPTS();
			if (receive_flag(message, 1, "matchquery") == 0)
				add_point(&set, receive_key(message, "matchquery"));
			else
				receive_range(message, &set);
		}
		if (n_slices < 0)
			invalid_binary("matchquery", "A number of slices is negative.");
		append_item(&value, &set);
	}
	return finish_value(&value);
}

// --- output ------------------------------------------------------------------

void
send_key(StringInfo message, ElementKey key)
{
	const char *bytes = reinterpret_cast<const char *>(key.bytes + 1);
	int length = static_cast<int>(key.length) - 1;

	if (key.bytes[0] == static_cast<uint8>(ValueKind::kString))
	{
		char *converted = pg_server_to_client(bytes, length);

		if (converted != bytes)
			length = static_cast<int>(strlen(converted));
		bytes = converted;
	}
	pq_sendbyte(message, key.bytes[0]);
	pq_sendint32(message, static_cast<uint32>(length));
	pq_sendbytes(message, bytes, length);
}

void
send_head(StringInfo message, int32 n)
{
	pq_begintypsend(message);
	pq_sendbyte(message, kRowFormat);
	pq_sendint16(message, static_cast<uint16>(n));
}

Datum
row_send(FunctionCallInfo fcinfo)
{
	ValueReader reader = open_value(PG_GETARG_DATUM(0), "matchrow");
	StringInfoData message;

	send_head(&message, reader.n);
	for (int32 i = 0; i < reader.n; i++)
	{
		const ElementKey key = read_key(&reader);

		pq_sendbyte(&message, key.length > 0);
		if (key.length > 0)
			send_key(&message, key);
	}
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}

void
send_bound(StringInfo message, ElementKey key, bool inclusive)
{
	pq_sendbyte(message, key.length == 0 ? kOpen : (inclusive ? kInclusive : kExclusive));
	if (key.length > 0)
		send_key(message, key);
}

Datum
query_send(FunctionCallInfo fcinfo)
{
	ValueReader reader = open_value(PG_GETARG_DATUM(0), "matchquery");
	StringInfoData message;

	send_head(&message, reader.n);
	for (int32 i = 0; i < reader.n; i++)
	{
		const bool asked = reader.next < reader.end && *reader.next++ != 0;
		const uint32 n = asked ? read_varint(&reader) : 0;

		pq_sendbyte(&message, asked);
		if (asked)
			pq_sendint32(&message, n);
		for (uint32 j = 0; j < n; j++)
		{
			const StoredSlice slice = read_stored_slice(&reader);

			pq_sendbyte(&message, !slice.exact);
			if (slice.exact)
				send_key(&message, slice.low);
			else
			{
				pq_sendbyte(&message, static_cast<uint8>(slice.kind));
				send_bound(&message, slice.low, slice.low_inclusive);
				send_bound(&message, slice.high, slice.high_inclusive);
			}
		}
	}
	PG_RETURN_BYTEA_P(pq_endtypsend(&message));
}

// --- comparison --------------------------------------------------------------

/// Equal values have equal bytes, so this function serves both types.
bool
same_bytes(FunctionCallInfo fcinfo)
{
	const struct varlena *a = PG_GETARG_VARLENA_PP(0);
	const struct varlena *b = PG_GETARG_VARLENA_PP(1);

	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

Datum
hash(FunctionCallInfo fcinfo)
{
	const struct varlena *value = PG_GETARG_VARLENA_PP(0);

	return hash_any(
		reinterpret_cast<const unsigned char *>(VARDATA_ANY(value)), static_cast<int>(VARSIZE_ANY_EXHDR(value)));
}

Datum
hash_extended(FunctionCallInfo fcinfo)
{
	const struct varlena *value = PG_GETARG_VARLENA_PP(0);

	return hash_any_extended(reinterpret_cast<const unsigned char *>(VARDATA_ANY(value)),
		static_cast<int>(VARSIZE_ANY_EXHDR(value)), static_cast<uint64>(PG_GETARG_INT64(1)));
}

/// Compare attribute by attribute, NULL last, then by number of attributes; values of different kinds compare by kind.
int
compare_rows(FunctionCallInfo fcinfo)
{
	ValueReader a = open_value(PG_GETARG_DATUM(0), "matchrow");
	ValueReader b = open_value(PG_GETARG_DATUM(1), "matchrow");

	for (int32 i = 0; i < Min(a.n, b.n); i++)
	{
		const ElementKey x = read_key(&a);
		const ElementKey y = read_key(&b);
		const int order = (x.length == 0) != (y.length == 0) ? (x.length == 0 ? 1 : -1) : compare_keys(x, y);

		if (order != 0)
			return order;
	}
	return a.n == b.n ? 0 : (a.n < b.n ? -1 : 1);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(matchrow_recv, vectorgpu::types::row_recv(fcinfo))
VG_SQL_FUNCTION(matchrow_send, vectorgpu::types::row_send(fcinfo))
VG_SQL_FUNCTION(matchquery_recv, vectorgpu::types::query_recv(fcinfo))
VG_SQL_FUNCTION(matchquery_send, vectorgpu::types::query_send(fcinfo))
VG_SQL_FUNCTION(match_eq, BoolGetDatum(vectorgpu::types::same_bytes(fcinfo)))
VG_SQL_FUNCTION(match_ne, BoolGetDatum(!vectorgpu::types::same_bytes(fcinfo)))
VG_SQL_FUNCTION(match_hash, vectorgpu::types::hash(fcinfo))
VG_SQL_FUNCTION(match_hash_extended, vectorgpu::types::hash_extended(fcinfo))
VG_SQL_FUNCTION(matchrow_cmp, Int32GetDatum(vectorgpu::types::compare_rows(fcinfo)))
VG_SQL_FUNCTION(matchrow_lt, BoolGetDatum(vectorgpu::types::compare_rows(fcinfo) < 0))
VG_SQL_FUNCTION(matchrow_le, BoolGetDatum(vectorgpu::types::compare_rows(fcinfo) <= 0))
VG_SQL_FUNCTION(matchrow_ge, BoolGetDatum(vectorgpu::types::compare_rows(fcinfo) >= 0))
VG_SQL_FUNCTION(matchrow_gt, BoolGetDatum(vectorgpu::types::compare_rows(fcinfo) > 0))
