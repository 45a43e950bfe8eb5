// The rows that another index has found, for a request to the worker: by their numbers in the segments and in the delta,
// so that its copy needs no row ids (wire::GivenRows). PG dialect. Used by worker_scan.cpp and worker_ask.cpp.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// True if a request has room for the rows that pass, and they are few: else the pages answer. Finds them.
bool given_rows_fit(Relation index, const ScanState *state);

/// The bytes of wire::GivenRows, kept in the scan's filter. Null if a page was foreign.
const uint8 *given_rows_bytes(Relation index, const ScanState *state, Size *n_bytes);

} // namespace vectorgpu::am
