// See pgvector_settings.hpp. The settings are read by name: a second definition would be an error in pgvector.
#include "am/method/pgvector_settings.hpp"

#include <climits>
#include <cstdlib>

extern "C"
{
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
}

namespace vectorgpu::am
{

namespace
{

/// A setting that bounds effort, and its default.
struct EffortBound
{
	const char *name;
	int usual;
};

constexpr EffortBound kEffortBounds[] = {
	{"hnsw.max_scan_tuples", 20000},
	{"ivfflat.max_probes", 32768},
};

/// The value of a setting; 0 if it is unknown or, where pgvector has not checked it yet, no positive number.
int
value_of(const char *name)
{
	const char *text = GetConfigOption(name, true, false);
	char *end;
	long value;

	if (text == nullptr)
		return 0;
	value = strtol(text, &end, 10);
	return end == text || *end != '\0' || value < 1 || value > INT_MAX ? 0 : static_cast<int>(value);
}

} // namespace

void
pgvector_define_settings()
{
	static bool loaded = false;

	if (loaded)
		return;
	load_file("$libdir/vectorgpu_vector", false);
	loaded = true;
}

Datum
int_option(const char *name, int value)
{
	Datum option = CStringGetTextDatum(psprintf("%s=%d", name, value));

	return PointerGetDatum(construct_array(&option, 1, TEXTOID, -1, false, TYPALIGN_INT));
}

int
pgvector_ef_search()
{
	return value_of("hnsw.ef_search");
}

int
pgvector_probes()
{
	return value_of("ivfflat.probes");
}

void
pgvector_warn_of_bounds()
{
	static bool said = false;

	for (const EffortBound &bound : kEffortBounds)
	{
		if (said)
			return;
		if (const int value = value_of(bound.name); value == 0 || value == bound.usual)
			continue;
		said = true;
		ereport(WARNING,
			(errmsg("%s does not bound scans of vectorgpu's indexes", bound.name),
				errdetail("A scan goes on until it has the rows that the query asks for."),
				errhint("Use LIMIT, a condition on the distance, or statement_timeout.")));
	}
}

} // namespace vectorgpu::am
