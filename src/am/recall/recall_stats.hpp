// The rolling recall of each index that scans were sampled of: a table in shared memory, lost with the server's life.
// Made by the first process that samples; see recall_sampler.hpp. PG dialect.
#pragma once

#include "am/recall/recall_count.hpp"
#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// Not 0 if this process may take a sample now: shared memory is there and no other sample is under way in the cluster.
/// Who is given the claim must give it back, or have a background worker do so; after a minute another may have one,
/// and this one's end says nothing.
uint64 recall_stats_claim();
void recall_stats_release(uint64 claim);

/// Adds a sample of an index of this database; the weight of those before shrinks. `file_node` tells an index from one
/// rebuilt.
void recall_stats_add(Oid index, Oid file_node, const RecallCount *sample);

/// Counts a sample that was given up for lack of time.
void recall_stats_add_dropped(Oid index, Oid file_node);

} // namespace vectorgpu::am
