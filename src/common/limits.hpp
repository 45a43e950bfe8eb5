// Limits of the types and of the indexes.
#pragma once

#include <cstdint>

namespace vectorgpu
{

constexpr int kMaxDimensions = 16000;    // vector, halfvec: type and index
constexpr int kMaxBitDimensions = 64000; // bit columns under an index

constexpr int kMaxSparseDimensions = 1000000000; // sparsevec: type and index
constexpr int kMaxNonZeros = 16000;              // elements of a sparsevec that are stored

/// Characters of a query by edit distance that is compared in one word of bit vectors: by backends, worker and GPU
/// alike. A longer one is compared by tables of words, in the backend.
constexpr int64_t kTextWord = 64;

} // namespace vectorgpu
