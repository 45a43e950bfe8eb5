// Rows that come as copies of each other but for noise: to be told from other neighbours where rows stand in for
// queries.
#pragma once

#include <cstddef>

#include "common/types.hpp"

namespace vectorgpu::engine
{

/// Nearest rows that copies are looked for among.
constexpr size_t kCopiesAmong = 63;

/// The gap behind the copies of a row: what follows is so many times as far away. Among n rows that are spread evenly
/// in D dimensions the (j + 1)-th nearest is that much further than the j-th with a probability of 1.5^(-jD): of SIFT,
/// whose rows fill some 15, hardly ever.
constexpr double kCopyGap = 1.5;

/// How many of a row's nearest rows are copies of it but for noise: those before the last gap. own_score: of the row
/// compared with itself; scores [n]: of its nearest rows (distance.hpp), ascending, the row's own not among them and no
/// NaN. At least n_wanted rows, 1 or more, are left behind the copies, so copies that are more than n - n_wanted count
/// as none. For inner products none if a row has a better score than the row itself: such neighbours are not near.
size_t near_copies(Metric metric, double own_score, const double *scores, size_t n, size_t n_wanted);

} // namespace vectorgpu::engine
