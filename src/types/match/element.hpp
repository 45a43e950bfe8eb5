// The match-count model (Zhou et al., "A generic inverted index framework for similarity search on the GPU", section
// II-A): how a stored value becomes a set of elements, and how a query becomes slices of the ordered universe of
// elements. This is the border between the SQL types and an index: the functions behind the operators and the index go
// through it, so that both count the same. PG dialect.
//
// Universe. An element is (attribute, key). Keys are byte strings, ordered by memcmp, a prefix before what it begins.
// The encodings (key.hpp) preserve the order of the values within a kind, so that a range of values is one slice of the
// sorted keys of its attribute, and an equality is a slice that holds one key.
//
//   source          attribute               key
//   int4 array      0                       4 bytes, key.hpp
//   int8 array      0                       8 bytes, key.hpp
//   text array      0                       the bytes of the string in the server's encoding, shortened if long
//   uuid array      0                       16 bytes
//   tsvector        0                       the bytes of the lexeme, shortened if long
//   matchrow        argument, from 0        kind byte, then the value, key.hpp; text is shortened if long
//   text, n-grams   0                       the n characters, 0x00, then 4 bytes big-endian: the how-manieth same gram,
//   from 0 min-hash        hash function, from 0   4 bytes big-endian, made from the smallest hash of the set's keys
//   (minhash.hpp) LSH             hash function, from 0   4 bytes big-endian: the value of the function (lsh.hpp); none
//   for a zero vector by cosine
//
// A string of more than kMaxKeyBytes is shortened to its first bytes and its SHA-256: equal strings stay equal,
// different ones stay different. No range is ever asked over strings.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::types
{

/// What an operator class makes elements from. Stored in index pages: never renumber.
enum class ElementSource : uint8_t
{
	kInt4Array = 0,
	kInt8Array = 1,
	kTextArray = 2,
	kUuidArray = 3,
	kTsvector = 4,
	kMatchrow = 5,  // queries are of type matchquery, all others of the type of the rows
	kTextGrams = 6, // ordered n-grams, section V-A
	kMinHashInt4Array = 7,
	kMinHashInt8Array = 8,
	kMinHashTextArray = 9,
	kMinHashUuidArray = 10,
	kLshL2 = 11,     // E2LSH of a vector
	kLshL1 = 12,     // random binning hashing of a vector, re-hashed
	kLshCosine = 13, // sign random projection of a vector
};

/// Options of the sources that have some; the others ignore them. Stored in index pages.
struct ElementOptions
{
	int32 gram_length = 3; // n of the n-grams, characters, kMinGramLength .. kMaxGramLength
	int32 hashes = 64;     // hash functions of min-hash and LSH, 1 .. kMaxHashes
	int32 buckets = 67;    // LSH by L2 and L1: values of a hash function, 2 .. kMaxBuckets
	float8 width = 4; // L2: bucket width w of equation 10; L1: kernel width sigma of section IV-A3; in units of the
					  // data, kMinLshWidth .. kMaxLshWidth (lsh.hpp)
	uint64 seed = 0;  // of the hash functions: equal options give equal functions on every machine
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

/// A query: ascending by (attribute, low), none empty, none overlapping, so that the match count (definition II.1) of a
/// row is the number of (element, slice) pairs where the slice holds the element, and equal to the number of elements
/// that some slice holds.
struct SliceList
{
	Slice *slices; // [n]
	int32 n;
	int32 characters; // n-grams: length of the query in characters; otherwise 0
	int32 max_count;  // no row can have a larger match count
};

/// -1, 0, 1 as a sorts before, with, after b.
inline int
compare_keys(ElementKey a, ElementKey b)
{
	const int order = memcmp(a.bytes, b.bytes, Min(a.length, b.length));

	if (order != 0)
		return order < 0 ? -1 : 1;
	return a.length == b.length ? 0 : (a.length < b.length ? -1 : 1);
}

/// The elements of a stored value, palloc'd; `value` is detoasted as needed, and keys may point into it where it was
/// not. NULL elements of an array are left out, an empty set gives none. Raises 54000 (program_limit_exceeded) where a
/// vector and the options ask for more than kMaxLshNumbers random numbers.
extern ElementList elements_of_value(ElementSource source, const ElementOptions &options, Datum value);

/// The slices of a query (a value of the row's type, or a matchquery for kMatchrow), palloc'd.
extern SliceList slices_of_query(ElementSource source, const ElementOptions &options, Datum query);

/// How many elements of `row` the query holds: the reference for every engine.
extern int32 count_matches(const ElementList &row, const SliceList &query);

} // namespace vectorgpu::types
