// See define_setting.hpp.
#include "pg/define_setting.hpp"

#include <cstring>

extern "C"
{
#include "access/xact.h"
#include "utils/guc_tables.h"
}

namespace vectorgpu::pg
{

namespace
{

enum class Kind
{
	kBool,
	kInt,
	kReal,
	kEnum,
	kString,
	kPrefix,
};

/// The arguments of a definition. Those of its kind are set, the others are zero.
struct Definition
{
	Definition *next;
	Kind kind;
	const char *name;
	const char *summary;
	const char *detail;
	GucContext context;
	int flags;
	GucShowHook show;
	struct
	{
		bool *value;
		bool initial;
		GucBoolCheckHook check;
		GucBoolAssignHook assign;
	} of_bool;
	struct
	{
		int *value;
		int initial;
		int least;
		int most;
		GucIntCheckHook check;
		GucIntAssignHook assign;
	} of_int;
	struct
	{
		double *value;
		double initial;
		double least;
		double most;
		GucRealCheckHook check;
		GucRealAssignHook assign;
	} of_real;
	struct
	{
		int *value;
		int initial;
		const config_enum_entry *options;
		GucEnumCheckHook check;
		GucEnumAssignHook assign;
	} of_enum;
	struct
	{
		char **value;
		const char *initial;
		GucStringCheckHook check;
		GucStringAssignHook assign;
	} of_string;
};

Definition *postponed; // in their order
Definition *last_postponed;

void
define_now(const Definition *d)
{
	switch (d->kind)
	{
		case Kind::kBool:
			DefineCustomBoolVariable(d->name, d->summary, d->detail, d->of_bool.value, d->of_bool.initial, d->context,
				d->flags, d->of_bool.check, d->of_bool.assign, d->show);
			break;
		case Kind::kInt:
			DefineCustomIntVariable(d->name, d->summary, d->detail, d->of_int.value, d->of_int.initial, d->of_int.least,
				d->of_int.most, d->context, d->flags, d->of_int.check, d->of_int.assign, d->show);
			break;
		case Kind::kReal:
			DefineCustomRealVariable(d->name, d->summary, d->detail, d->of_real.value, d->of_real.initial,
				d->of_real.least, d->of_real.most, d->context, d->flags, d->of_real.check, d->of_real.assign, d->show);
			break;
		case Kind::kEnum:
			DefineCustomEnumVariable(d->name, d->summary, d->detail, d->of_enum.value, d->of_enum.initial,
				d->of_enum.options, d->context, d->flags, d->of_enum.check, d->of_enum.assign, d->show);
			break;
		case Kind::kString:
			DefineCustomStringVariable(d->name, d->summary, d->detail, d->of_string.value, d->of_string.initial,
				d->context, d->flags, d->of_string.check, d->of_string.assign, d->show);
			break;
		case Kind::kPrefix:
			MarkGUCPrefixReserved(d->name);
			break;
	}
}

/// Set *value to the number of an enum's name. Returns false if there is no such name.
bool
enum_value(const config_enum_entry *options, const char *text, int *value)
{
	for (; options->name != nullptr; options++)
		if (pg_strcasecmp(options->name, text) == 0)
		{
			*value = options->val;
			return true;
		}
	return false;
}

/// Return the value to which a parameter was set before its definition, if the user who set it has the right to; else
/// null. Before the definition PostgreSQL lets every user set it.
const char *
said_of(const Definition *d)
{
	const config_generic *entry = setting_entry(d->name);

	if (entry == nullptr)
		return nullptr;
	if (d->context == PGC_USERSET || entry->scontext <= PGC_SIGHUP ||
		(d->context == PGC_SUSET && entry->scontext == PGC_SUSET))
		return GetConfigOption(d->name, true, false);
	return nullptr;
}

/// Set a variable to `value`, or to its initial value if `value` was not given or is invalid. Data that the check hook
/// leaves for the assign hook is never freed.
template <class Value, class Check, class Assign>
void
give(Value *variable, bool said, Value value, Value initial, Check check, Assign assign)
{
	void *extra = nullptr;

	if (!said || (check != nullptr && !check(&value, &extra, PGC_S_SESSION)))
		value = initial;
	if (assign != nullptr)
		assign(value, extra);
	*variable = value;
}

/// Set the variable to the value to which the parameter was set, or to its initial value. PostgreSQL warns of an
/// invalid value later, when the parameter is defined.
void
take_value(const Definition *d)
{
	const char *text = said_of(d);
	const char *hint = nullptr;
	bool flag = false;
	int number = 0;
	double real = 0;
	bool said = text != nullptr;

	switch (d->kind)
	{
		case Kind::kBool:
			said = said && parse_bool(text, &flag);
			give(d->of_bool.value, said, flag, d->of_bool.initial, d->of_bool.check, d->of_bool.assign);
			break;
		case Kind::kInt:
			said = said && parse_int(text, &number, d->flags, &hint) && number >= d->of_int.least &&
				number <= d->of_int.most;
			give(d->of_int.value, said, number, d->of_int.initial, d->of_int.check, d->of_int.assign);
			break;
		case Kind::kReal:
			said =
				said && parse_real(text, &real, d->flags, &hint) && real >= d->of_real.least && real <= d->of_real.most;
			give(d->of_real.value, said, real, d->of_real.initial, d->of_real.check, d->of_real.assign);
			break;
		case Kind::kEnum:
			said = said && enum_value(d->of_enum.options, text, &number);
			give(d->of_enum.value, said, number, d->of_enum.initial, d->of_enum.check, d->of_enum.assign);
			break;
		case Kind::kString:
			give(d->of_string.value, said, said ? setting_strdup(text) : nullptr,
				d->of_string.initial != nullptr ? setting_strdup(d->of_string.initial) : nullptr, d->of_string.check,
				d->of_string.assign);
			break;
		case Kind::kPrefix:
			break;
	}
}

/// Set the variable back to its initial value: from 16 on a server with assertions demands that of a definition.
void
give_back(const Definition *d)
{
	switch (d->kind)
	{
		case Kind::kBool:
			*d->of_bool.value = d->of_bool.initial;
			break;
		case Kind::kInt:
			*d->of_int.value = d->of_int.initial;
			break;
		case Kind::kReal:
			*d->of_real.value = d->of_real.initial;
			break;
		case Kind::kEnum:
			*d->of_enum.value = d->of_enum.initial;
			break;
		case Kind::kString:
			setting_free(*d->of_string.value);
			*d->of_string.value = nullptr;
			break;
		case Kind::kPrefix:
			break;
	}
}

void
transaction_ends(XactEvent event, [[maybe_unused]] void *state)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		define_postponed();
}

void
define(const Definition &definition)
{
	Definition *copy;

	if (!IsInParallelMode())
	{
		define_now(&definition);
		return;
	}
	copy = static_cast<Definition *>(MemoryContextAlloc(TopMemoryContext, sizeof(Definition)));
	*copy = definition;
	if (postponed == nullptr)
	{
		postponed = copy;
		RegisterXactCallback(transaction_ends, nullptr);
	}
	else
		last_postponed->next = copy;
	last_postponed = copy;
	take_value(copy);
}

} // namespace

const config_generic *
setting_entry(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, true, 0);
#else
	config_generic **entries = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions(); i++)
		if (pg_strcasecmp(entries[i]->name, name) == 0)
			return entries[i];
	return nullptr;
#endif
}

void
define_bool(const char *name, const char *summary, const char *detail, bool *value, bool initial, GucContext context,
	int flags, GucBoolCheckHook check, GucBoolAssignHook assign, GucShowHook show)
{
	Definition d = {nullptr, Kind::kBool, name, summary, detail, context, flags, show};

	d.of_bool = {value, initial, check, assign};
	define(d);
}

void
define_int(const char *name, const char *summary, const char *detail, int *value, int initial, int least, int most,
	GucContext context, int flags, GucIntCheckHook check, GucIntAssignHook assign, GucShowHook show)
{
	Definition d = {nullptr, Kind::kInt, name, summary, detail, context, flags, show};

	d.of_int = {value, initial, least, most, check, assign};
	define(d);
}

void
define_real(const char *name, const char *summary, const char *detail, double *value, double initial, double least,
	double most, GucContext context, int flags, GucRealCheckHook check, GucRealAssignHook assign, GucShowHook show)
{
	Definition d = {nullptr, Kind::kReal, name, summary, detail, context, flags, show};

	d.of_real = {value, initial, least, most, check, assign};
	define(d);
}

void
define_enum(const char *name, const char *summary, const char *detail, int *value, int initial,
	const config_enum_entry *options, GucContext context, int flags, GucEnumCheckHook check, GucEnumAssignHook assign,
	GucShowHook show)
{
	Definition d = {nullptr, Kind::kEnum, name, summary, detail, context, flags, show};

	d.of_enum = {value, initial, options, check, assign};
	define(d);
}

void
define_string(const char *name, const char *summary, const char *detail, char **value, const char *initial,
	GucContext context, int flags, GucStringCheckHook check, GucStringAssignHook assign, GucShowHook show)
{
	Definition d = {nullptr, Kind::kString, name, summary, detail, context, flags, show};

	d.of_string = {value, initial, check, assign};
	define(d);
}

void
reserve_prefix(const char *prefix)
{
	define({nullptr, Kind::kPrefix, prefix});
}

void
define_postponed()
{
	if (postponed == nullptr || IsInParallelMode())
		return;
	while (postponed != nullptr)
	{
		Definition *d = postponed;

		postponed = d->next;
		give_back(d);
		define_now(d);
		pfree(d);
	}
}

} // namespace vectorgpu::pg
