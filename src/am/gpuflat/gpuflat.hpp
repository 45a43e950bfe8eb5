// The access method gpuflat: exact search. See README.md.
#pragma once

#include "am/method/am_interface.hpp"

namespace vectorgpu::am
{

/// gpuflat.cpp. Registers the access method; called by _PG_init.
void flat_init();

/// flat_search.cpp. AccessMethod::search_segment: scores every row of the segment.
bool flat_search_segment(const SegmentSearch *search);

} // namespace vectorgpu::am
