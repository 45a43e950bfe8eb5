// A defect for each sanitizer, by its name: `heap` writes behind a block, `overflow` adds one to the largest int,
// `race` writes from two threads. As a program, and with CANARY_MODULE as the SQL function canary(text): scripts/test
// --only sanitizers has to hear of each before it believes that there is none.
#include <climits>
#include <cstring>

#ifdef CANARY_MODULE
extern "C"
{
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
}
#else
#include <thread>
#endif

namespace
{

void
write_behind(size_t bytes)
{
	volatile char *block = new char[bytes];

	block[bytes] = 1;
	delete[] block;
}

int
add(int a, int b)
{
	return a + b;
}

#ifndef CANARY_MODULE
void
write_from_two_threads()
{
	int value = 0;
	std::thread other([&value] { value = 1; });

	value = 2;
	other.join();
}
#endif

/// What it returns depends on the defect, so that no compiler leaves it out.
int
commit(const char *name, int largest)
{
	if (strcmp(name, "heap") == 0)
		write_behind(strlen(name));
	if (strcmp(name, "overflow") == 0)
		return add(largest, static_cast<int>(strlen(name)));
#ifndef CANARY_MODULE
	if (strcmp(name, "race") == 0)
		write_from_two_threads();
#endif
	return 0;
}

} // namespace

#ifdef CANARY_MODULE
extern "C"
{
	PG_MODULE_MAGIC;
	PG_FUNCTION_INFO_V1(canary);

	Datum canary(PG_FUNCTION_ARGS)
	{
		if (commit(text_to_cstring(PG_GETARG_TEXT_PP(0)), INT_MAX) != 0)
			PG_RETURN_NULL();
		PG_RETURN_VOID();
	}
}
#else
int
main(int argc, char **argv)
{
	return argc == 2 && commit(argv[1], INT_MAX) != 0 ? 1 : 0;
}
#endif
