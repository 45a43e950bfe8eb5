// libFuzzer target: input of matchrow and matchquery. The first byte selects type and form (bit 0: matchquery, bit 1:
// binary). A value that is read is written and read again, in both forms: the bytes stay the same, since equal values
// are stored alike.
#include "fake_server.hpp"

#include <cstring>

#include "types/match/row_value.hpp"

extern "C"
{
	Datum vectorgpu_matchrow_in(PG_FUNCTION_ARGS);
	Datum vectorgpu_matchrow_out(PG_FUNCTION_ARGS);
	Datum vectorgpu_matchrow_recv(PG_FUNCTION_ARGS);
	Datum vectorgpu_matchrow_send(PG_FUNCTION_ARGS);
	Datum vectorgpu_matchrow_cmp(PG_FUNCTION_ARGS);
	Datum vectorgpu_matchquery_in(PG_FUNCTION_ARGS);
	Datum vectorgpu_matchquery_out(PG_FUNCTION_ARGS);
	Datum vectorgpu_matchquery_recv(PG_FUNCTION_ARGS);
	Datum vectorgpu_matchquery_send(PG_FUNCTION_ARGS);
}

using namespace vectorgpu;

namespace
{

struct Functions
{
	PGFunction in, out, recv, send;
};

constexpr Functions kTypes[] = {
	{vectorgpu_matchrow_in, vectorgpu_matchrow_out, vectorgpu_matchrow_recv, vectorgpu_matchrow_send},
	{vectorgpu_matchquery_in, vectorgpu_matchquery_out, vectorgpu_matchquery_recv, vectorgpu_matchquery_send},
};

Datum
call(PGFunction function, Datum a, Datum b = 0)
{
	LOCAL_FCINFO(fcinfo, 2);

	InitFunctionCallInfoData(*fcinfo, nullptr, 2, InvalidOid, nullptr, nullptr);
	fcinfo->args[0] = {a, false};
	fcinfo->args[1] = {b, false};
	return function(fcinfo);
}

/// Receive a value from a message of exactly that size.
Datum
receive(const Functions &type, const char *bytes, size_t n)
{
	char *copy = static_cast<char *>(palloc(n));
	StringInfoData message = {copy, static_cast<int>(n), static_cast<int>(n), 0};

	memcpy(copy, bytes, n);
	return call(type.recv, PointerGetDatum(&message));
}

bool
same(Datum a, Datum b)
{
	const void *x = DatumGetPointer(a);
	const void *y = DatumGetPointer(b);

	return VARSIZE(x) == VARSIZE(y) && memcmp(x, y, VARSIZE(x)) == 0;
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static Datum value; // written before a jump, read behind it

	if (size < 1)
		return 0;
	const Functions &type = kTypes[data[0] & 1];
	const char *rest = reinterpret_cast<const char *>(data) + 1;
	const bool binary = (data[0] & 2) != 0;
	const size_t n = size - 1;
	// A string of a message may hold a zero byte here, where the server's encoding check would have refused it.
	const bool has_zero = memchr(rest, 0, n) != nullptr;

	const fuzz::Call one_call;
	if (!fuzz::no_error(
			[&] { value = binary ? receive(type, rest, n) : call(type.in, CStringGetDatum(pnstrdup(rest, n))); }))
		return 0;
	if (!binary || !has_zero)
		REQUIRE(fuzz::no_error([&] { REQUIRE(same(value, call(type.in, call(type.out, value)))); }));
	REQUIRE(fuzz::no_error(
		[&]
		{
			const bytea *sent = DatumGetByteaPP(call(type.send, value));

			REQUIRE(same(value, receive(type, VARDATA_ANY(sent), VARSIZE_ANY_EXHDR(sent))));
		}));
	if (&type == &kTypes[0])
		REQUIRE(fuzz::no_error([&] { REQUIRE(DatumGetInt32(call(vectorgpu_matchrow_cmp, value, value)) == 0); }));
	return 0;
}
