// Balancing of trained clusters by size. See README.md, "k-means". Internal to the folder.
#pragma once

#include "engine/ivf/kmeans_lloyd.hpp"

namespace vectorgpu::engine::ivf
{

/// Balance after run_lloyd: every cluster gets at least n_rows / (n_clusters * spec.balance) rows, spec.balance >= 1.
/// Changes nothing if they have. Takes at most max_iterations + 1; lowers run->n_clusters if fewer such clusters are
/// found. In the end labels, errors, groups and the report are those of the centroids.
Outcome balance_clusters(Lloyd *run);

} // namespace vectorgpu::engine::ivf
