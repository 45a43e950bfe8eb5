// Definitions of configuration parameters: PostgreSQL's DefineCustom…Variable, with the same arguments, for a module
// that may be loaded in parallel mode, for example by a PL/pgSQL function in a parallel query. PostgreSQL sets no
// parameter in parallel mode. A parameter defined there would keep its default for the life of the process, whatever
// the configuration file, the client or SET said before. In parallel mode these functions therefore only set the
// variable; the definition follows as soon as the process has left parallel mode. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "utils/guc.h"

	struct config_generic;
}

namespace vectorgpu::pg
{

/// Return the server's entry of a parameter, or null. One that was set may not be defined yet. On 15 this looks at all.
const config_generic *setting_entry(const char *name);

void define_bool(const char *name, const char *summary, const char *detail, bool *value, bool initial,
	GucContext context, int flags, GucBoolCheckHook check, GucBoolAssignHook assign, GucShowHook show);
void define_int(const char *name, const char *summary, const char *detail, int *value, int initial, int least, int most,
	GucContext context, int flags, GucIntCheckHook check, GucIntAssignHook assign, GucShowHook show);
void define_real(const char *name, const char *summary, const char *detail, double *value, double initial, double least,
	double most, GucContext context, int flags, GucRealCheckHook check, GucRealAssignHook assign, GucShowHook show);
void define_enum(const char *name, const char *summary, const char *detail, int *value, int initial,
	const config_enum_entry *options, GucContext context, int flags, GucEnumCheckHook check, GucEnumAssignHook assign,
	GucShowHook show);
void define_string(const char *name, const char *summary, const char *detail, char **value, const char *initial,
	GucContext context, int flags, GucStringCheckHook check, GucStringAssignHook assign, GucShowHook show);

/// MarkGUCPrefixReserved, after the definitions made so far.
void reserve_prefix(const char *prefix);

/// Make the postponed definitions, unless the process is still in parallel mode.
void define_postponed();

} // namespace vectorgpu::pg
