// The types matchrow (a tuple of values) and matchquery (what is asked of each of its attributes) as they are stored.
// PG dialect. Used by the files of this folder; an index sees elements and slices only.
//
// A value is a byte string, its key: the kind, then an order-preserving form of what it is. Nothing in it depends on
// type oids, time zones or date styles, so that it survives dump, restore and pg_upgrade.
//
//   kind             byte  then
//   number           1     number_key.hpp: integers, numeric, real, double precision by value
//   string           2     its bytes: text, varchar, char(n) without trailing blanks, "char", name, label of an enum
//   boolean          3     0 or 1
//   date             4     days since 2000-01-01, 4 bytes
//   timestamp        5     microseconds since 2000-01-01, 8 bytes
//   timestamptz      6     the same in UTC
//   time             7     microseconds since midnight, 8 bytes
//   uuid             8     16 bytes
// Signed integers are big-endian with the sign bit inverted. The infinities of the date types are their extreme values.
//
// matchrow, after the varlena word:     byte 1; uint16 n, big-endian; n times: length of the key (0 for NULL), key
// matchquery, after the varlena word:   byte 1; uint16 n, big-endian; n items: byte 0 for NULL (asks nothing), or byte
// 1, number
//                                       of slices, slices: byte 0, length, key: equal to it; or byte 1, length, low,
//                                       length, high: low <= key < high
// Lengths and numbers of slices are variable-length integers, 7 bits a byte, low ones first. The slices of an item are
// ascending, neither empty nor overlapping nor touching, and a single key is never written as a range: equal queries
// are equal bytes. "Beyond k" is the key k followed by 0: no key lies between. An open bound is the byte of the kind
// (low) or of the next (high).
#pragma once

#include "types/match/element_list.hpp"

extern "C"
{
#include "lib/stringinfo.h"
}

namespace vectorgpu::types
{

/// Part of stored values: never renumber.
enum class ValueKind : uint8_t
{
	kNumber = 1,
	kString = 2,
	kBoolean = 3,
	kDate = 4,
	kTimestamp = 5,
	kTimestamptz = 6,
	kTime = 7,
	kUuid = 8,
};

constexpr int kFirstKind = 1;
constexpr int kLastKind = 8;
constexpr uint8 kRowFormat = 1;      // first byte of both types
constexpr int kMaxAttributes = 4096; // arguments of matchrow and matchquery
constexpr int kRowHead = 3;          // bytes before the first attribute

/// Reads a stored value front to back. The bytes are our own, so that nothing but the format is checked.
struct ValueReader
{
	const uint8 *next;
	const uint8 *end;
	int32 n; // attributes or items
};

/// `type_name` is for the message of an unknown format.
extern ValueReader open_value(Datum value, const char *type_name);
extern uint32 read_varint(ValueReader *reader);

/// The next key; length 0 is NULL in a matchrow.
extern ElementKey read_key(ValueReader *reader);

/// Writes the head of a value of `n` attributes; the varlena word is left for finish_value.
extern void begin_value(StringInfo value, int32 n);

/// Corrects n once it is known.
extern void set_attributes(StringInfo value, int32 n);
extern void append_varint(StringInfo value, uint32 number);
extern void append_key(StringInfo value, ElementKey key);
extern Datum finish_value(StringInfo value);

/// One item of a query while it is put together: any slices in any order. A NULL item has none and asks nothing.
struct SliceSet
{
	bool is_null;
	Slice *slices; // [capacity], attribute unused
	int32 n;
	int32 capacity;
};

extern void add_slice(SliceSet *set, ElementKey low, ElementKey high);

/// The slice of one key.
extern void add_point(SliceSet *set, ElementKey key);

/// The slice of a range of values of one kind; a bound with key length 0 is open. One that holds nothing adds nothing.
extern void add_range(
	SliceSet *set, ValueKind kind, ElementKey low, bool low_inclusive, ElementKey high, bool high_inclusive);

/// Sorts and unites the slices and writes the item.
extern void append_item(StringInfo value, SliceSet *set);

/// A slice read back. `exact`: the one key `low`. Bounds with length 0 are open, the others are keys of values.
struct StoredSlice
{
	ValueKind kind;
	bool exact;
	ElementKey low;
	bool low_inclusive;
	ElementKey high;
	bool high_inclusive;
};

/// The next slice of an item, its bounds as they are compared (low <= key < high).
extern void read_slice(ValueReader *reader, ElementKey *low, ElementKey *high);

/// The same as values.
extern StoredSlice read_stored_slice(ValueReader *reader);

/// Raises an error if a matchrow or matchquery cannot have n attributes.
extern void check_attributes(int64 n, const char *type_name);

/// Raises the error for a number of too many digits.
extern void number_too_long(void) pg_attribute_noreturn();

/// Return the elements of a matchrow, one per attribute that is not NULL. Long strings are shortened (element.hpp).
extern ElementList row_elements(Datum row);

/// Return the slices of a matchquery.
extern SliceList query_slices(Datum query);

} // namespace vectorgpu::types
