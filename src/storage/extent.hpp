// Extents, that is, runs of blocks: taking them for use and parking freed ones. Works on a MetaData image under the
// metapage's exclusive lock; the caller logs the change. PG dialect.
#pragma once

#include "storage/metapage.hpp"

namespace vectorgpu::am
{

/// Take n_blocks contiguous blocks inside an open MetaUpdate: from the first free extent that is large enough and was
/// parked long enough ago, else from high_water. Raises 54000 if the index would be too large.
BlockNumber extent_take(MetaUpdate *update, Relation heap, uint32 n_blocks);

/// The same from high_water.
BlockNumber extent_take_end(MetaUpdate *update, uint32 n_blocks);

/// Return where an extent of n_blocks would end if it had to be made of new blocks; 0 if a free one is available. This
/// is an estimate, since other processes take and give extents meanwhile.
BlockNumber extent_new_end(const MetaData *meta, Relation heap, uint32 n_blocks);

/// Park blocks, and join them with free neighbours.
void extent_give(MetaData *meta, BlockNumber start, uint32 n_blocks, uint64 parked_xid);

/// Park all streams of a segment.
void extent_give_segment(MetaData *meta, const SegmentEntry *segment, uint64 parked_xid);

/// True if extent_take would take n_blocks that end before `start`.
bool extent_fits_before(const MetaData *meta, Relation heap, BlockNumber start, uint32 n_blocks);

/// Make all parked blocks free, and return those behind the last block in use by lowering high_water. The caller knows
/// that nothing reads them: it holds AccessExclusiveLock on the index.
void extent_release_all(MetaData *meta);

/// Return the FullTransactionId to park with: the next one to be assigned.
uint64 current_parking_xid();

} // namespace vectorgpu::am
