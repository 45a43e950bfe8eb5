// The stored form of the types matchrow (a tuple of values) and matchquery (a condition for each attribute). PG
// dialect. Used by the files of this folder; an index uses elements and slices only.
//
// A value is stored as a byte string, its key: the kind, then an order-preserving form of the value. Nothing in it
// depends on type oids, time zones or date styles, so it survives dump, restore and pg_upgrade.
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
// After the varlena word:
//   matchrow    byte 1; uint16 n, big-endian; n times: length of the key (0 for NULL), key
//   matchquery  byte 1; uint16 n, big-endian; n items
//   item        byte 0 for NULL (matches nothing), or byte 1, number of slices, slices
//   slice       byte 0, length, key: equal to the key; or byte 1, length, low, length, high: low <= key < high
// Lengths and numbers of slices are variable-length integers, 7 bits per byte, low ones first. The slices of an item
// are ascending, not empty, and neither overlap nor touch; a single key is never written as a range. So equal queries
// have equal bytes. The bound "beyond k" is the key k followed by 0: no key lies between. An open bound is the byte of
// the kind (low) or of the next kind (high).
#pragma once

#include "types/match/element_list.hpp"

extern "C"
{
#include "lib/stringinfo.h"
}

namespace vectorgpu::types
{

/// Stored in values: never renumber.
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

/// Reads a stored value front to back. The bytes were written by this module, so only the format is checked.
struct ValueReader
{
	const uint8 *next;
	const uint8 *end;
	int32 n; // attributes or items
};

/// Begin to read a value. `type_name` is used in the error message for an unknown format.
extern ValueReader open_value(Datum value, const char *type_name);
extern uint32 read_varint(ValueReader *reader);

/// Read the next key; length 0 is NULL in a matchrow.
extern ElementKey read_key(ValueReader *reader);

/// Write the head of a value of `n` attributes; finish_value sets the varlena word.
extern void begin_value(StringInfo value, int32 n);

/// Set the number of attributes once it is known.
extern void set_attributes(StringInfo value, int32 n);
extern void append_varint(StringInfo value, uint32 number);
extern void append_key(StringInfo value, ElementKey key);
extern Datum finish_value(StringInfo value);

/// One item of a query under construction: any slices in any order. A NULL item has no slices and matches nothing.
struct SliceSet
{
	bool is_null;
	Slice *slices; // [capacity], attribute unused
	int32 n;
	int32 capacity;
};

extern void add_slice(SliceSet *set, ElementKey low, ElementKey high);

/// Add the slice of one key.
extern void add_point(SliceSet *set, ElementKey key);

/// Add the slice of a range of values of one kind; a bound with key length 0 is open. An empty range adds nothing.
extern void add_range(
	SliceSet *set, ValueKind kind, ElementKey low, bool low_inclusive, ElementKey high, bool high_inclusive);

/// Sort and unite the slices and write the item.
extern void append_item(StringInfo value, SliceSet *set);

/// A slice as values. `exact`: only the key `low`. Bounds with length 0 are open, the others are keys of values.
struct StoredSlice
{
	ValueKind kind;
	bool exact;
	ElementKey low;
	bool low_inclusive;
	ElementKey high;
	bool high_inclusive;
};

/// Read the next slice of an item as bounds for comparison (low <= key < high).
extern void read_slice(ValueReader *reader, ElementKey *low, ElementKey *high);

/// Read the next slice of an item as values.
extern StoredSlice read_stored_slice(ValueReader *reader);

/// Raise an error if a matchrow or matchquery cannot have n attributes.
extern void check_attributes(int64 n, const char *type_name);

/// Raise the error for a number with too many digits.
[[noreturn]] extern void number_too_long(void);

/// Return the elements of a matchrow, one per attribute that is not NULL. Long strings are shortened (element.hpp).
extern ElementList row_elements(Datum row);

/// Return the slices of a matchquery.
extern SliceList query_slices(Datum query);

} // namespace vectorgpu::types
