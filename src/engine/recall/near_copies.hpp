// Finds rows that are copies of a row but for noise. They have to be told from other neighbours if rows serve as
// queries.
#pragma once

#include <cstddef>

#include "common/types.hpp"

namespace vectorgpu::engine
{

/// Number of nearest rows that are examined for copies.
constexpr size_t kCopiesAmong = 63;

/// The gap behind the copies of a row: the next row is that many times as far away. Among n rows that are spread evenly
/// in D dimensions the (j + 1)-th nearest is that much farther than the j-th with a probability of 1.5^(-jD): for SIFT,
/// whose rows fill some 15 dimensions, hardly ever.
constexpr double kCopyGap = 1.5;

/// The number of a row's nearest rows that are copies of it but for noise: those before the last gap. own_score: of the
/// row compared with itself; scores [n]: of its nearest rows (distance.hpp), ascending, without the row itself and NaN.
/// At least n_wanted rows, 1 or more, are left behind the copies: copies that are more than n - n_wanted count as none.
/// For inner products 0 if a row has a better score than the row itself: such neighbours are not near.
size_t near_copies(Metric metric, double own_score, const double *scores, size_t n, size_t n_wanted);

} // namespace vectorgpu::engine
