// Definitions of configuration parameters: PostgreSQL's DefineCustom…Variable, with the same arguments, for a module
// that may be loaded in parallel mode, as by a function in PL/pgSQL that a parallel query runs. PostgreSQL sets no
// parameter there, and would leave each at its default for the life of the process, whatever the configuration file,
// the client or SET have said of it before. So there a parameter is given its value alone, and defined by what the
// process does next outside of parallel mode. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "utils/guc.h"
}

namespace vectorgpu::pg
{

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

/// MarkGUCPrefixReserved, behind the definitions.
void reserve_prefix(const char *prefix);

/// Defines what had to wait, unless it still has to.
void define_postponed();

} // namespace vectorgpu::pg
