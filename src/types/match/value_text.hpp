// Single values of matchrow and matchquery as text. PG dialect.
#pragma once

#include "types/match/row_value.hpp"

namespace vectorgpu::types
{

/// Return the name of a kind in the text form.
extern const char *kind_name(ValueKind kind);

/// Return the kind with this name; 0 if no kind has it.
extern int kind_of_name(const char *name, Size length);

/// Append the text of a key, without its kind.
extern void append_value_text(StringInfo text, ElementKey key);

/// Read the text of a value of any kind but string into key, which has room for kMaxNumberKey + 1 bytes. Returns the
/// key's length; 0 if the text is malformed.
extern int read_value_text(ValueKind kind, const char *text, Size length, uint8 *key);

/// True if a key that came from outside belongs to a value of its kind. The encoding of a string must have been
/// checked.
extern bool key_is_valid(ElementKey key);

} // namespace vectorgpu::types
