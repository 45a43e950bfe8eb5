// See fake_server.hpp: memory, errors, strings, the frontend protocol's messages, dates.
#include "fake_server.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

extern "C"
{
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "utils/datetime.h"
}

namespace vectorgpu::fuzz
{

std::jmp_buf on_error;
char error_text[1024];
int error_code;

namespace
{

std::unordered_set<void *> allocations;
std::unordered_set<void *> lasting; // of TopMemoryContext: the module keeps them from call to call
int error_level;

constexpr Size kMostMemory = Size{256} << 20; // of one piece: as if the server had no more

[[noreturn]] void
out_of_memory()
{
	error_code = ERRCODE_OUT_OF_MEMORY;
	std::longjmp(on_error, 1);
}

void *
allocate(Size n, bool zero)
{
	if (n > kMostMemory)
		out_of_memory();

	void *memory = zero ? std::calloc(1, n > 0 ? n : 1) : std::malloc(n > 0 ? n : 1);

	if (memory == nullptr)
		std::abort();
	allocations.insert(memory);
	return memory;
}

void *
allocate_checked(Size n, Size limit, bool zero)
{
	if (n > limit)
		out_of_memory();
	return allocate(n, zero);
}

} // namespace

void
free_memory()
{
	for (void *memory : allocations)
		std::free(memory);
	allocations.clear();
}

void
broken(const char *what)
{
	std::fprintf(stderr, "does not hold: %s (last error: %s)\n", what, error_text);
	std::abort();
}

} // namespace vectorgpu::fuzz

using namespace vectorgpu::fuzz;

// --- memory --------------------------------------------------------------------

extern "C"
{

	MemoryContext CurrentMemoryContext = nullptr;
	static MemoryContextData top_context;
	MemoryContext TopMemoryContext = &top_context;
	volatile sig_atomic_t InterruptPending = 0;

	void ProcessInterrupts() {}

	void *palloc(Size n)
	{
		return allocate_checked(n, MaxAllocSize, false);
	}

	void *palloc0(Size n)
	{
		return allocate_checked(n, MaxAllocSize, true);
	}

	void *palloc_extended(Size n, int flags)
	{
		return allocate_checked(
			n, (flags & MCXT_ALLOC_HUGE) != 0 ? MaxAllocHugeSize : MaxAllocSize, (flags & MCXT_ALLOC_ZERO) != 0);
	}

	void *MemoryContextAlloc(MemoryContext context, Size n)
	{
		return palloc(n);
	}

	void *MemoryContextAllocZero(MemoryContext context, Size n)
	{
		return palloc0(n);
	}

	void *MemoryContextAllocZeroAligned(MemoryContext context, Size n)
	{
		return palloc0(n);
	}

	void *MemoryContextAllocHuge(MemoryContext context, Size n)
	{
		void *memory = palloc_extended(n, MCXT_ALLOC_HUGE);

		if (context == TopMemoryContext)
		{
			allocations.erase(memory);
			lasting.insert(memory);
		}
		return memory;
	}

	void *MemoryContextAllocExtended(MemoryContext context, Size n, int flags)
	{
		return palloc_extended(n, flags);
	}

	void pfree(void *memory)
	{
		REQUIRE(allocations.erase(memory) + lasting.erase(memory) == 1);
		std::free(memory);
	}

	void *repalloc(void *memory, Size n)
	{
		void *grown;

		if (n > MaxAllocSize)
			out_of_memory();
		REQUIRE(allocations.erase(memory) == 1);
		grown = std::realloc(memory, n > 0 ? n : 1);
		allocations.insert(grown);
		return grown;
	}

	void *repalloc_huge(void *memory, Size n)
	{
		void *grown;

		REQUIRE(allocations.erase(memory) == 1);
		grown = std::realloc(memory, n > 0 ? n : 1);
		if (grown == nullptr)
			out_of_memory();
		allocations.insert(grown);
		return grown;
	}

	// --- errors ----------------------------------------------------------------------

	static void format_error(const char *format, va_list arguments)
	{
		const size_t length = std::strlen(error_text);

		std::vsnprintf(error_text + length, sizeof(error_text) - length, format, arguments);
	}

	bool errstart(int level, const char *domain)
	{
		error_level = level;
		error_code = level >= ERROR ? ERRCODE_INTERNAL_ERROR : 0;
		error_text[0] = '\0';
		return level >= ERROR;
	}

	bool errstart_cold(int level, const char *domain)
	{
		return errstart(level, domain);
	}

	int errcode(int code)
	{
		error_code = code;
		return 0;
	}

#define ERROR_TEXT_FUNCTION(name)                                                                                      \
	int name(const char *format, ...)                                                                                  \
	{                                                                                                                  \
		va_list arguments;                                                                                             \
                                                                                                                       \
		va_start(arguments, format);                                                                                   \
		format_error(format, arguments);                                                                               \
		va_end(arguments);                                                                                             \
		return 0;                                                                                                      \
	}

	ERROR_TEXT_FUNCTION(errmsg)
	ERROR_TEXT_FUNCTION(errmsg_internal)
	ERROR_TEXT_FUNCTION(errdetail)
	ERROR_TEXT_FUNCTION(errdetail_internal)
	ERROR_TEXT_FUNCTION(errhint)

	// A failed assertion, in a build that has them.
	void ExceptionalCondition(const char *condition, const char *kind, const char *file, int line)
	{
		std::fprintf(stderr, "%s:%d: ", file, line);
		broken(condition);
	}

	void errfinish(const char *file, int line, const char *function)
	{
		if (error_level >= ERROR)
			std::longjmp(on_error, 1);
	}

	// --- strings ----------------------------------------------------------------------

	void initStringInfo(StringInfo string)
	{
		string->data = static_cast<char *>(palloc(64));
		string->maxlen = 64;
		string->len = string->cursor = 0;
		string->data[0] = '\0';
	}

	// Exactly as much as requested, so that the sanitizer sees one byte more.
	void enlargeStringInfo(StringInfo string, int needed)
	{
		const Size wanted = static_cast<Size>(string->len) + static_cast<Size>(needed) + 1;

		if (needed < 0 || wanted > MaxAllocSize)
			out_of_memory();
		if (wanted <= static_cast<Size>(string->maxlen))
			return;
		string->data = static_cast<char *>(repalloc(string->data, wanted));
		string->maxlen = static_cast<int>(wanted);
	}

	void appendBinaryStringInfo(StringInfo string, const char *data, int n)
	{
		enlargeStringInfo(string, n);
		std::memcpy(string->data + string->len, data, static_cast<size_t>(n));
		string->len += n;
		string->data[string->len] = '\0';
	}

	void appendStringInfoString(StringInfo string, const char *text)
	{
		appendBinaryStringInfo(string, text, static_cast<int>(std::strlen(text)));
	}

	void appendStringInfoChar(StringInfo string, char c)
	{
		appendBinaryStringInfo(string, &c, 1);
	}

	void appendStringInfoSpaces(StringInfo string, int n)
	{
		for (int i = 0; i < n; i++)
			appendStringInfoChar(string, ' ');
	}

	void appendStringInfo(StringInfo string, const char *format, ...)
	{
		va_list arguments;
		char *text = nullptr;

		va_start(arguments, format);
		REQUIRE(vasprintf(&text, format, arguments) >= 0);
		va_end(arguments);
		appendStringInfoString(string, text);
		std::free(text);
	}

	char *psprintf(const char *format, ...)
	{
		va_list arguments;
		char text[2048];

		va_start(arguments, format);
		std::vsnprintf(text, sizeof(text), format, arguments);
		va_end(arguments);
		return pnstrdup(text, std::strlen(text));
	}

	char *pnstrdup(const char *text, Size n)
	{
		const Size length = strnlen(text, n);
		char *copy = static_cast<char *>(palloc(length + 1));

		std::memcpy(copy, text, length);
		copy[length] = '\0';
		return copy;
	}

	int pg_mblen(const char *)
	{
		return 1;
	}

	int pg_mbstrlen_with_len(const char *, int n_bytes)
	{
		return n_bytes;
	}

	char *text_to_cstring(const text *value)
	{
		return pnstrdup(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value));
	}

	struct varlena *pg_detoast_datum(struct varlena *datum)
	{
		return datum;
	}

	struct varlena *pg_detoast_datum_packed(struct varlena *datum)
	{
		return datum;
	}

	// Server and client speak SQL_ASCII here.
	char *pg_client_to_server(const char *text, int n)
	{
		return const_cast<char *>(text);
	}

	char *pg_server_to_client(const char *text, int n)
	{
		return const_cast<char *>(text);
	}

	// --- messages -----------------------------------------------------------------------

	int pq_getmsgbyte(StringInfo message)
	{
		return static_cast<unsigned char>(*pq_getmsgbytes(message, 1));
	}

	unsigned int pq_getmsgint(StringInfo message, int n)
	{
		const unsigned char *bytes = reinterpret_cast<const unsigned char *>(pq_getmsgbytes(message, n));
		unsigned int value = 0;

		for (int i = 0; i < n; i++)
			value = value << 8 | bytes[i];
		return value;
	}

	const char *pq_getmsgbytes(StringInfo message, int n)
	{
		const char *bytes;

		if (n < 0 || n > message->len - message->cursor)
			ereport(ERROR, (errcode(ERRCODE_PROTOCOL_VIOLATION), errmsg("insufficient data left in message")));
		bytes = message->data + message->cursor;
		message->cursor += n;
		return bytes;
	}

	void pq_sendbytes(StringInfo message, const char *bytes, int n)
	{
		appendBinaryStringInfo(message, bytes, n);
	}

	void pq_begintypsend(StringInfo message)
	{
		initStringInfo(message);
		appendBinaryStringInfo(message, "\0\0\0\0", 4);
	}

	bytea *pq_endtypsend(StringInfo message)
	{
		SET_VARSIZE(message->data, message->len);
		return reinterpret_cast<bytea *>(message->data);
	}

	// --- dates: the proleptic Gregorian calendar, by eras of 400 years ---------------------

	const int day_tab[2][13] = {
		{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0}, {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0}};

	constexpr int64 kEraDays = 146097;
	constexpr int64 kMarchOfYearZero = 1721120; // Julian day of 0000-03-01

	int date2j(int year, int month, int day)
	{
		const int64 from_march = month > 2 ? month - 3 : month + 9;
		const int64 y = static_cast<int64>(year) - (month <= 2);
		const int64 era = (y >= 0 ? y : y - 399) / 400;
		const int64 year_of_era = y - era * 400;

		return static_cast<int>(kMarchOfYearZero + era * kEraDays + year_of_era * 365 + year_of_era / 4 -
			year_of_era / 100 + (153 * from_march + 2) / 5 + day - 1);
	}

	void j2date(int julian, int *year, int *month, int *day)
	{
		const int64 elapsed = static_cast<int64>(julian) - kMarchOfYearZero;
		const int64 era = (elapsed >= 0 ? elapsed : elapsed - (kEraDays - 1)) / kEraDays;
		const int64 day_of_era = elapsed - era * kEraDays;
		const int64 year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
		const int64 day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
		const int64 from_march = (5 * day_of_year + 2) / 153;

		*day = static_cast<int>(day_of_year - (153 * from_march + 2) / 5 + 1);
		*month = static_cast<int>(from_march < 10 ? from_march + 3 : from_march - 9);
		*year = static_cast<int>(year_of_era + era * 400 + (*month <= 2));
	}

} // extern "C"
