// The rolling recall of each sampled index: a table in shared memory, lost when the server stops. The first process
// that samples makes it; see recall_sampler.hpp. PG dialect.
#pragma once

#include "am/recall/recall_count.hpp"
#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// Not 0 if this process may take a sample now: shared memory is there and no other sample is under way in the cluster.
/// The caller must give the claim back, or have a background worker do so; after a minute another process may get one.
uint64 recall_stats_claim();
void recall_stats_release(uint64 claim);

/// Adds a sample of an index of this database; the weight of earlier samples shrinks. `file_node` tells an index from
/// one rebuilt.
void recall_stats_add(Oid index, Oid file_node, const RecallCount *sample);

/// Counts a sample that was given up for lack of time.
void recall_stats_add_dropped(Oid index, Oid file_node);

} // namespace vectorgpu::am
