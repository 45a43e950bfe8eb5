// Limits of the types and of the indexes.
#pragma once

namespace vectorgpu
{

constexpr int kMaxDimensions = 16000;     // vector, halfvec: type and index
constexpr int kMaxBitDimensions = 64000;  // bit columns under an index

} // namespace vectorgpu
