// Sending tombstones to a copy. PG dialect.
#pragma once

#include "am/feed/feed_session.hpp"

namespace vectorgpu::am
{

/// Send the tombstones that the copy lacks: of segments for which it has an older tombstone generation, and of the
/// delta rows before held_end, which it held when the feed began. Rows sent since then carry their flags. Returns false
/// to stop the feed.
bool send_tombstones(Feed *feed, uint64 held_end);

} // namespace vectorgpu::am
