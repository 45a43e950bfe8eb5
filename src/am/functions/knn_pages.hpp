// Which rows of a k-NN graph need no fetch from the table. PG dialect.
#pragma once

#include "am/functions/knn_graph.hpp"

namespace vectorgpu::am
{

/// True if the snapshot sees the row version at this very place, so that the row is the one to which an index entry
/// with this TID leads. False: fetch the row to find out.
bool knn_sees(KnnWalk *walk, Relation heap, Snapshot snapshot, RowId row);

} // namespace vectorgpu::am
