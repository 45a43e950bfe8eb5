// Elements by hash functions: min-hash of a set and LSH of a vector (section IV). PG dialect.
#pragma once

#include "types/match/element.hpp"

namespace vectorgpu::types
{

/// Return the min-hash elements of a set, one per hash function.
extern ElementList minhash_elements(const ElementList &set, const ElementOptions &options);

/// Return the LSH elements of a Datum of type vector, one per hash function; none for a zero vector by cosine.
extern ElementList lsh_elements(ElementSource source, const ElementOptions &options, Datum vector);

} // namespace vectorgpu::types
