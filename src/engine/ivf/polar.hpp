// The orthogonal factor of a square matrix, for OPQ's rotation (the orthogonal Procrustes problem). Internal to the
// folder.
#pragma once

#include <cstddef>

#include "engine/ivf/call.hpp"
#include "engine/ivf/work.hpp"

namespace vectorgpu::engine::ivf
{

/// Replace matrix [n, n] by U V' of its singular value decomposition U S V': the orthogonal matrix with the largest Σ
/// matrix[i][j] result[i][j]. scratch [2, n, n]. kInternal if the matrix is singular to working precision.
Outcome polar_factor(double *matrix, size_t n, double *scratch, const Call &call, Progress progress);

} // namespace vectorgpu::engine::ivf
