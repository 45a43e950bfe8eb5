// Text form of matchrow and matchquery. PG dialect.
//
//   row    = "(" [ value { "," value } ] ")"
//   query  = "(" [ item { "," item } ] ")"
//   item   = "null" | part | "{" [ part { "," part } ] "}"       any of the parts; {} matches nothing
//   part   = value | range
//   value  = "null" (rows only) | number | string | "true" | "false" | kind literal
//   range  = [ kind ] ("[" | "(") [ literal ] "," [ literal ] ("]" | ")")
//            without a kind: numbers; without a literal: open
//   kind   = "number" | "boolean" | "date" | "timestamp" | "timestamptz" | "time" | "uuid"
//   string = '"', characters, '"'; \ makes the next character an ordinary one
//   number = digits as usual, "NaN", "Infinity", "-Infinity"; with "f" at the end: the nearest double precision number
// White space may stand between all of these. Dates are ISO dates; timestamptz is in UTC and ends in Z. Output uses the
// shortest form, and equal values have equal texts.
#include "types/match/row_value.hpp"
#include "types/match/value_text.hpp"
#include "types/sql_function.hpp"

#include "types/match/number_key.hpp"

namespace vectorgpu::types
{
namespace
{

/// The position in a text that is being read.
struct Parser
{
	const char *text; // all of it, for messages
	const char *next;
	const char *type_name;
};

[[noreturn]] void malformed(const Parser *parser, const char *expected);

void
malformed(const Parser *parser, const char *expected)
{
	if (*parser->next == '\0')
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				errmsg("malformed %s literal: \"%s\"", parser->type_name, parser->text),
				errdetail("Unexpected end of input, %s.", expected)));
	ereport(ERROR,
		(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			errmsg("malformed %s literal: \"%s\"", parser->type_name, parser->text),
			errdetail("At \"%s\", %s.", parser->next, expected)));
}

bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

void
skip_space(Parser *parser)
{
	while (is_space(*parser->next))
		parser->next++;
}

bool
take(Parser *parser, char wanted)
{
	skip_space(parser);
	if (*parser->next != wanted)
		return false;
	parser->next++;
	return true;
}

/// Read a run of characters up to punctuation, without surrounding white space.
struct Token
{
	const char *text;
	Size length;
};

Token
take_token(Parser *parser)
{
	Token token;

	skip_space(parser);
	token = {parser->next, 0};
	while (*parser->next != '\0' && strchr(",()[]{}\"", *parser->next) == nullptr)
		parser->next++;
	token.length = static_cast<Size>(parser->next - token.text);
	while (token.length > 0 && is_space(token.text[token.length - 1]))
		token.length--;
	return token;
}

bool
is_word(Token token, const char *word)
{
	return token.length == strlen(word) && pg_strncasecmp(token.text, word, token.length) == 0;
}

/// Return the key of a literal of a kind; raise an error if it is malformed.
ElementKey
literal_key(Parser *parser, ValueKind kind, Token token)
{
	uint8 *key = new_bytes(kMaxNumberKey + 1);
	const int length = read_value_text(kind, token.text, token.length, key);

	if (length == 0)
	{
		parser->next = token.text;
		malformed(parser, psprintf("expected a value of kind %s", kind_name(kind)));
	}
	return {key, static_cast<uint32>(length)};
}

/// Read a string after its opening quote.
ElementKey
take_string(Parser *parser)
{
	StringInfoData key;

	initStringInfo(&key);
	appendStringInfoCharMacro(&key, static_cast<char>(ValueKind::kString));
	while (*parser->next != '"')
	{
		if (*parser->next == '\\')
			parser->next++;
		if (*parser->next == '\0')
			malformed(parser, "expected the closing quote of a string");
		appendStringInfoCharMacro(&key, *parser->next++);
	}
	parser->next++;
	return {reinterpret_cast<uint8 *>(key.data), static_cast<uint32>(key.len)};
}

/// Return the value of a token that is neither a range nor NULL.
ElementKey
token_key(Parser *parser, Token token)
{
	Size word = 0;

	while (word < token.length && !is_space(token.text[word]))
		word++;
	if (word < token.length)
	{
		const int kind = kind_of_name(token.text, word);

		if (kind != 0 && kind != static_cast<int>(ValueKind::kString))
		{
			while (is_space(token.text[word]))
				word++;
			return literal_key(parser, static_cast<ValueKind>(kind), {token.text + word, token.length - word});
		}
	}
	if (is_word(token, "true") || is_word(token, "false"))
		return literal_key(parser, ValueKind::kBoolean, {is_word(token, "true") ? "true" : "false", token.length});

	uint8 *key = new_bytes(kMaxNumberKey + 1);
	const int length = read_value_text(ValueKind::kNumber, token.text, token.length, key);

	if (length == 0)
	{
		parser->next = token.text;
		malformed(parser, "expected a number, a quoted string, true, false, null, or a kind and a value");
	}
	return {key, static_cast<uint32>(length)};
}

[[noreturn]] void refuse_string_range(void);

void
refuse_string_range(void)
{
	ereport(ERROR,
		(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("ranges of strings are not supported"),
			errhint("Give the wanted values: {\"a\",\"b\"}.")));
}

/// Read a range from its bracket on.
void
take_range(Parser *parser, ValueKind kind, SliceSet *set)
{
	const bool low_inclusive = *parser->next++ == '[';
	const Token low = take_token(parser);
	ElementKey low_key = {nullptr, 0};
	ElementKey high_key = {nullptr, 0};

	if (*parser->next == '"')
		refuse_string_range();
	if (!take(parser, ','))
		malformed(parser, "expected \",\" between the bounds of a range");

	const Token high = take_token(parser);
	const bool high_inclusive = *parser->next == ']';

	if (!take(parser, ']') && !take(parser, ')'))
		malformed(parser, "expected \"]\" or \")\" at the end of a range");
	if (low.length > 0)
		low_key = literal_key(parser, kind, low);
	if (high.length > 0)
		high_key = literal_key(parser, kind, high);
	if (low.length > 0 && high.length > 0 && compare_keys(low_key, high_key) > 0)
		ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
				errmsg("range lower bound must be less than or equal to range upper bound"),
				errdetail("The range is \"%.*s,%.*s\".", static_cast<int>(Min(low.length, 100)), low.text,
					static_cast<int>(Min(high.length, 100)), high.text)));
	add_range(set, kind, low_key, low_inclusive, high_key, high_inclusive);
}

bool
at_bracket(const Parser *parser)
{
	return *parser->next == '[' || *parser->next == '(';
}

void
take_part(Parser *parser, SliceSet *set)
{
	Token token;

	if (take(parser, '"'))
	{
		add_point(set, take_string(parser));
		return;
	}
	token = take_token(parser);
	if (!at_bracket(parser))
	{
		add_point(set, token_key(parser, token));
		return;
	}

	const int kind = token.length == 0 ? static_cast<int>(ValueKind::kNumber) : kind_of_name(token.text, token.length);

	if (kind == static_cast<int>(ValueKind::kString))
		refuse_string_range();
	if (kind == 0)
	{
		parser->next = token.text;
		malformed(parser, "expected the kind of a range");
	}
	take_range(parser, static_cast<ValueKind>(kind), set);
}

bool
take_null(Parser *parser)
{
	const char *start = parser->next;

	if (is_word(take_token(parser), "null"))
		return true;
	parser->next = start;
	return false;
}

void
take_row_attribute(Parser *parser, StringInfo value)
{
	if (take(parser, '"'))
		append_key(value, take_string(parser));
	else
	{
		const Token token = take_token(parser);

		if (is_word(token, "null"))
			append_varint(value, 0);
		else
			append_key(value, token_key(parser, token));
	}
}

void
take_query_item(Parser *parser, StringInfo value)
{
	SliceSet set = {take_null(parser), nullptr, 0, 0};

	if (!set.is_null && take(parser, '{'))
	{
		if (!take(parser, '}'))
		{
			do
				take_part(parser, &set);
			while (take(parser, ','));
			if (!take(parser, '}'))
				malformed(parser, "expected \",\" or \"}\"");
		}
	}
	else if (!set.is_null)
		take_part(parser, &set);
	append_item(value, &set);
}

Datum
parse(const char *text, const char *type_name, void (*take_one)(Parser *, StringInfo))
{
	Parser parser = {text, text, type_name};
	StringInfoData value;
	int64 n = 0;

	begin_value(&value, 0);
	if (!take(&parser, '('))
		malformed(&parser, "expected \"(\"");
	if (!take(&parser, ')'))
	{
		do
		{
			take_one(&parser, &value);
			check_attributes(++n, type_name);
		} while (take(&parser, ','));
		if (!take(&parser, ')'))
			malformed(&parser, "expected \",\" or \")\"");
	}
	skip_space(&parser);
	if (*parser.next != '\0')
		malformed(&parser, "expected the end");
	set_attributes(&value, static_cast<int32>(n));
	return finish_value(&value);
}

// --- output ------------------------------------------------------------------

/// True if the form of a value shows its kind, so that the kind's name is not needed.
bool
is_plain(ValueKind kind)
{
	return kind == ValueKind::kNumber || kind == ValueKind::kString || kind == ValueKind::kBoolean;
}

void
append_value(StringInfo text, ElementKey key)
{
	const ValueKind kind = static_cast<ValueKind>(key.bytes[0]);

	if (!is_plain(kind))
		appendStringInfo(text, "%s ", kind_name(kind));
	append_value_text(text, key);
}

void
append_slice(StringInfo text, const StoredSlice &slice)
{
	if (slice.exact)
	{
		append_value(text, slice.low);
		return;
	}
	if (slice.kind != ValueKind::kNumber)
		appendStringInfo(text, "%s ", kind_name(slice.kind));
	appendStringInfoChar(text, slice.low.length > 0 && slice.low_inclusive ? '[' : '(');
	if (slice.low.length > 0)
		append_value_text(text, slice.low);
	appendStringInfoChar(text, ',');
	if (slice.high.length > 0)
		append_value_text(text, slice.high);
	appendStringInfoChar(text, slice.high.length > 0 && slice.high_inclusive ? ']' : ')');
}

Datum
row_out(FunctionCallInfo fcinfo)
{
	ValueReader reader = open_value(PG_GETARG_DATUM(0), "matchrow");
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoChar(&text, '(');
	for (int32 i = 0; i < reader.n; i++)
	{
		const ElementKey key = read_key(&reader);

		if (i > 0)
			appendStringInfoChar(&text, ',');
		if (key.length == 0)
			appendStringInfoString(&text, "null");
		else
			append_value(&text, key);
	}
	appendStringInfoChar(&text, ')');
	PG_RETURN_CSTRING(text.data);
}

Datum
query_out(FunctionCallInfo fcinfo)
{
	ValueReader reader = open_value(PG_GETARG_DATUM(0), "matchquery");
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoChar(&text, '(');
	for (int32 i = 0; i < reader.n; i++)
	{
		const bool asked = reader.next < reader.end && *reader.next++ != 0;

		if (i > 0)
			appendStringInfoChar(&text, ',');
		if (!asked)
		{
			appendStringInfoString(&text, "null");
			continue;
		}

		const uint32 n = read_varint(&reader);

		if (n != 1)
			appendStringInfoChar(&text, '{');
		for (uint32 j = 0; j < n; j++)
		{
			if (j > 0)
				appendStringInfoChar(&text, ',');
			append_slice(&text, read_stored_slice(&reader));
		}
		if (n != 1)
			appendStringInfoChar(&text, '}');
	}
	appendStringInfoChar(&text, ')');
	PG_RETURN_CSTRING(text.data);
}

Datum
parse_row(const char *text)
{
	return parse(text, "matchrow", take_row_attribute);
}

Datum
parse_query(const char *text)
{
	return parse(text, "matchquery", take_query_item);
}

} // namespace
} // namespace vectorgpu::types

VG_SQL_FUNCTION(matchrow_in, vectorgpu::types::parse_row(PG_GETARG_CSTRING(0)))
VG_SQL_FUNCTION(matchquery_in, vectorgpu::types::parse_query(PG_GETARG_CSTRING(0)))
VG_SQL_FUNCTION(matchrow_from_text, vectorgpu::types::parse_row(text_to_cstring(PG_GETARG_TEXT_PP(0))))
VG_SQL_FUNCTION(matchquery_from_text, vectorgpu::types::parse_query(text_to_cstring(PG_GETARG_TEXT_PP(0))))
VG_SQL_FUNCTION(matchrow_from_name, vectorgpu::types::parse_row(NameStr(*PG_GETARG_NAME(0))))
VG_SQL_FUNCTION(matchquery_from_name, vectorgpu::types::parse_query(NameStr(*PG_GETARG_NAME(0))))
VG_SQL_FUNCTION(matchrow_out, vectorgpu::types::row_out(fcinfo))
VG_SQL_FUNCTION(matchquery_out, vectorgpu::types::query_out(fcinfo))
