// See fake_options.hpp.
#include "fake_options.hpp"

#include <cstring>

namespace vectorgpu::fuzz
{

Draw options_draw = {nullptr, 0};
FmgrInfo shape_function;

namespace
{

struct Option
{
	relopt_kind kind;
	std::string name;
	relopt_type type;
	int initial, min, max;
	double real_initial, real_min, real_max;
	std::vector<int> members;
	int offset; // of local ones; those of relations have it in their parse table
};

std::vector<Option> of_relations, of_class;
std::vector<relopts_validator> validators;

/// One option in two is given.
bool
is_given()
{
	return (options_draw.take<uint8_t>() & 1) != 0;
}

int
draw_int(const Option &option)
{
	return is_given()
		? static_cast<int>(option.min + options_draw.take<uint32_t>() % (int64_t{option.max} - option.min + 1))
		: option.initial;
}

int
draw_member(const Option &option)
{
	return is_given() ? option.members[options_draw.take<uint8_t>() % option.members.size()] : option.initial;
}

/// NaN passes core's comparisons with the bounds.
double
draw_real(const Option &option)
{
	const double value = is_given() ? options_draw.take<double>() : option.real_initial;

	return value < option.real_min || value > option.real_max ? option.real_initial : value;
}

} // namespace

bytea *
operator_class_options(PGFunction define)
{
	local_relopts options = {};

	of_class.clear();
	validators.clear();
	DirectFunctionCall1(define, PointerGetDatum(&options));

	char *parsed = static_cast<char *>(palloc0(options.relopt_struct_size));

	SET_VARSIZE(parsed, options.relopt_struct_size);
	for (const Option &option : of_class)
	{
		if (option.type == RELOPT_TYPE_REAL)
		{
			const double value = draw_real(option);

			memcpy(parsed + option.offset, &value, sizeof(value));
		}
		else
		{
			const int value = draw_int(option);

			memcpy(parsed + option.offset, &value, sizeof(value));
		}
	}
	for (const relopts_validator validator : validators)
		validator(parsed, nullptr, 0);
	return reinterpret_cast<bytea *>(parsed);
}

} // namespace vectorgpu::fuzz

using namespace vectorgpu::fuzz;

extern "C"
{

	relopt_kind add_reloption_kind()
	{
		static uint32_t last = RELOPT_KIND_LAST_DEFAULT;

		last *= 2;
		return static_cast<relopt_kind>(last);
	}

	void add_int_reloption(bits32 kinds, const char *name, const char *, int initial, int min, int max, LOCKMODE)
	{
		REQUIRE(min <= initial && initial <= max);
		of_relations.push_back(
			{static_cast<relopt_kind>(kinds), name, RELOPT_TYPE_INT, initial, min, max, 0, 0, 0, {}, 0});
	}

	void add_enum_reloption(
		bits32 kinds, const char *name, const char *, relopt_enum_elt_def *members, int initial, const char *, LOCKMODE)
	{
		std::vector<int> values;

		for (; members->string_val != nullptr; members++)
			values.push_back(members->symbol_val);
		of_relations.push_back(
			{static_cast<relopt_kind>(kinds), name, RELOPT_TYPE_ENUM, initial, 0, 0, 0, 0, 0, values, 0});
	}

	void *build_reloptions(
		Datum, bool, relopt_kind kind, Size struct_size, const relopt_parse_elt *table, int n_elements)
	{
		char *parsed = static_cast<char *>(palloc0(struct_size));

		SET_VARSIZE(parsed, struct_size);
		for (int i = 0; i < n_elements; i++)
		{
			const Option *found = nullptr;

			for (const Option &option : of_relations)
				if (option.kind == kind && option.name == table[i].optname)
					found = &option;
			REQUIRE(
				found != nullptr && found->type == table[i].opttype && table[i].offset + sizeof(int) <= struct_size);

			const int value = found->type == RELOPT_TYPE_ENUM ? draw_member(*found) : draw_int(*found);

			memcpy(parsed + table[i].offset, &value, sizeof(value));
		}
		return parsed;
	}

	void init_local_reloptions(local_relopts *options, Size struct_size)
	{
		options->relopt_struct_size = struct_size;
	}

	void add_local_int_reloption(
		local_relopts *options, const char *name, const char *, int initial, int min, int max, int offset)
	{
		REQUIRE(min <= initial && initial <= max && offset + sizeof(int) <= options->relopt_struct_size);
		of_class.push_back({RELOPT_KIND_LOCAL, name, RELOPT_TYPE_INT, initial, min, max, 0, 0, 0, {}, offset});
	}

	void add_local_real_reloption(
		local_relopts *options, const char *name, const char *, double initial, double min, double max, int offset)
	{
		REQUIRE(min <= initial && initial <= max && offset + sizeof(double) <= options->relopt_struct_size);
		of_class.push_back({RELOPT_KIND_LOCAL, name, RELOPT_TYPE_REAL, 0, 0, 0, initial, min, max, {}, offset});
	}

	void register_reloptions_validator(local_relopts *, relopts_validator validator)
	{
		validators.push_back(validator);
	}

	Datum DirectFunctionCall1Coll(PGFunction function, Oid collation, Datum argument)
	{
		LOCAL_FCINFO(info, 1);

		InitFunctionCallInfoData(*info, nullptr, 1, collation, nullptr, nullptr);
		info->args[0].value = argument;
		info->args[0].isnull = false;
		return function(info);
	}

	FmgrInfo *index_getprocinfo(Relation, AttrNumber, uint16)
	{
		return &shape_function;
	}

	Datum FunctionCall0Coll(FmgrInfo *function, Oid collation)
	{
		LOCAL_FCINFO(info, 0);

		InitFunctionCallInfoData(*info, function, 0, collation, nullptr, nullptr);
		return function->fn_addr(info);
	}

} // extern "C"
