// See pgvector_settings.hpp. The settings are read by name: a second definition would be an error in pgvector.
#include "am/method/pgvector_settings.hpp"

#include "pg/define_setting.hpp"
#include "pg/pgvector_numbers.hpp"

#include <cstdlib>

extern "C"
{
#include "access/parallel.h"
#include "catalog/pg_type_d.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc_tables.h"
}

namespace vectorgpu::am
{

namespace
{

/// A setting, and where its value is once a library has defined it; until then what was set is a text.
struct Known
{
	const pg::PgvectorNumber *setting;
	const config_generic *definition;
};

Known ef_search = {&pg::kEfSearch, nullptr};
Known probes = {&pg::kProbes, nullptr};
Known bounds[] = {
	{&pg::kMaxScanTuples, nullptr},
	{&pg::kScanMemMultiplier, nullptr},
	{&pg::kMaxProbes, nullptr},
};

/// The definition, or null where there is none of the type that pgvector gives it. It lives as long as the process.
const config_generic *
definition_of(const pg::PgvectorNumber *setting)
{
	const config_generic *entry = pg::setting_entry(setting->name);

	return entry != nullptr && (entry->flags & GUC_CUSTOM_PLACEHOLDER) == 0 &&
			entry->vartype == (setting->real ? PGC_REAL : PGC_INT)
		? entry
		: nullptr;
}

/// The value of a setting; 0 if it is unknown or, where no library has checked it yet, outside of its range. Plans ask
/// several times: a look-up by name is made only until the setting is defined.
double
value_of(Known *known)
{
	const pg::PgvectorNumber *setting = known->setting;
	double value;

	if (known->definition == nullptr)
	{
		const char *text = GetConfigOption(setting->name, true, false);
		char *end;

		if (text == nullptr)
			return 0;
		known->definition = definition_of(setting);
		value = strtod(text, &end);
		if (known->definition == nullptr && (end == text || *end != '\0'))
			return 0;
	}
	if (known->definition != nullptr)
		value = setting->real ? *reinterpret_cast<const config_real *>(known->definition)->variable
							  : *reinterpret_cast<const config_int *>(known->definition)->variable;
	return value >= setting->least && value <= setting->most ? value : 0;
}

} // namespace

Datum
int_option(const char *name, int value)
{
	Datum option = CStringGetTextDatum(psprintf("%s=%d", name, value));

	return PointerGetDatum(construct_array(&option, 1, TEXTOID, -1, false, TYPALIGN_INT));
}

double
pgvector_ef_search()
{
	return value_of(&ef_search);
}

double
pgvector_probes()
{
	return value_of(&probes);
}

void
pgvector_warn_of_bounds()
{
	static bool said = false;

	if (said || IsParallelWorker()) // each worker would say it again
		return;
	for (Known &bound : bounds)
	{
		if (const double value = value_of(&bound); value == 0 || value == bound.setting->usual)
			continue;
		said = true;
		ereport(WARNING,
			(errmsg("%s does not bound scans of vectorgpu's indexes", bound.setting->name),
				errdetail("A scan goes on until it has the rows that the query asks for."),
				errhint("Use LIMIT, a condition on the distance, or statement_timeout.")));
		return;
	}
}

} // namespace vectorgpu::am
