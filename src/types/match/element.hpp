// The match-count model (Zhou et al., "A generic inverted index framework for similarity search on the GPU", section
// II-A): how a stored value becomes a set of elements, and a query a set of slices of the ordered universe of elements.
// This is the interface between the SQL types and an index: the SQL functions and the index both use it, so both count
// the same. PG dialect.
//
// Universe. An element is (attribute, key). Keys are byte strings ordered by memcmp, a prefix first. The encodings
// preserve the order of the values within a kind. So a range of values is one slice of the sorted keys of its
// attribute, and an equality is a slice that holds one key.
//
//   source          attribute               key
//   int4 array      0                       4 bytes (put_int32)
//   int8 array      0                       8 bytes (put_int64)
//   text array      0                       the bytes of the string in the server's encoding, shortened if long
//   uuid array      0                       16 bytes
//   tsvector        0                       the bytes of the lexeme, shortened if long
//   matchrow        argument, from 0        kind byte, then the value (row_value.hpp); text is shortened if long
//   text, n-grams   0                       the n characters, 0x00, 4 bytes big-endian: equal n-grams before it
//   min-hash        hash function, from 0   4 bytes big-endian, from the smallest hash of the set (minhash.hpp)
//   LSH             hash function, from 0   4 bytes big-endian: the value of the function (lsh.hpp)
//
// A zero vector has no LSH elements by cosine.
// A string of more than kMaxKeyBytes is shortened to its first bytes and its SHA-256: equal strings stay equal,
// different ones stay different. There are no ranges of strings.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::types
{

/// The kind of value from which an operator class makes elements. Stored in index pages: never renumber.
enum class ElementSource : uint8_t
{
	kInt4Array = 0,
	kInt8Array = 1,
	kTextArray = 2,
	kUuidArray = 3,
	kTsvector = 4,
	kMatchrow = 5,  // queries have type matchquery; for all others, the type of the rows
	kTextGrams = 6, // ordered n-grams, section V-A
	kMinHashInt4Array = 7,
	kMinHashInt8Array = 8,
	kMinHashTextArray = 9,
	kMinHashUuidArray = 10,
	kLshL2 = 11,     // E2LSH of a vector
	kLshL1 = 12,     // random binning hashing of a vector, re-hashed
	kLshCosine = 13, // sign random projection of a vector
};

/// Options of sources; those without options ignore them. Stored in index pages.
struct ElementOptions
{
	int32 gram_length = 3; // n of the n-grams, characters, kMinGramLength .. kMaxGramLength
	int32 hashes = 64;     // hash functions of min-hash and LSH, 1 .. kMaxHashes
	int32 buckets = 67;    // LSH by L2 and L1: values of a hash function, 2 .. kMaxBuckets
	float8 width = 4; // L2: bucket width w of equation 10; L1: kernel width sigma of section IV-A3; in units of the
					  // data, kMinLshWidth .. kMaxLshWidth (lsh.hpp)
	uint64 seed = 0;  // of the hash functions; equal options give equal functions on every machine
};

constexpr int kMinGramLength = 1;
constexpr int kMaxGramLength = 16;
constexpr int kMaxHashes = 4096;
constexpr int kMaxBuckets = 1 << 20;
constexpr int kMaxKeyBytes = 1024;
constexpr int64 kMaxLshNumbers = 1 << 26; // dimensions * hashes of LSH

struct ElementKey
{
	const uint8 *bytes;
	uint32 length; // bytes, 0 .. kMaxKeyBytes (one more in the bounds of a slice)
};

struct Element
{
	uint32 attribute;
	ElementKey key;
};

/// A set of elements: ascending by (attribute, key), all different.
struct ElementList
{
	Element *elements; // [n]
	int32 n;
	int32 characters; // n-grams: length of the string in characters; otherwise 0
};

/// All elements of one attribute with low <= key < high. An equality with key k is [k, k 00).
struct Slice
{
	uint32 attribute;
	ElementKey low;
	ElementKey high;
};

/// A query: slices ascending by (attribute, low), not empty and not overlapping. So the match count (definition II.1)
/// of a row, the number of (element, slice) pairs where the slice holds the element, is the number of elements in
/// slices.
struct SliceList
{
	Slice *slices; // [n]
	int32 n;
	int32 characters; // n-grams: length of the query in characters; otherwise 0
	int32 max_count;  // no row can have a larger match count
};

/// Return -1, 0 or 1 if a sorts before, equal to or after b.
inline int
compare_keys(ElementKey a, ElementKey b)
{
	const int order = memcmp(a.bytes, b.bytes, Min(a.length, b.length));

	if (order != 0)
		return order < 0 ? -1 : 1;
	return a.length == b.length ? 0 : (a.length < b.length ? -1 : 1);
}

/// Return the elements of a stored value, palloc'd. `value` is detoasted if needed; otherwise keys may point into it.
/// NULL elements of an array are left out, and an empty set has no elements. Raises 54000 (program_limit_exceeded) if a
/// vector and the options need more than kMaxLshNumbers random numbers.
extern ElementList elements_of_value(ElementSource source, const ElementOptions &options, Datum value);

/// Return the slices of a query (a value of the row's type, or a matchquery for kMatchrow), palloc'd.
extern SliceList slices_of_query(ElementSource source, const ElementOptions &options, Datum query);

/// Return how many elements of `row` the query holds: the reference for every engine.
extern int32 count_matches(const ElementList &row, const SliceList &query);

} // namespace vectorgpu::types
