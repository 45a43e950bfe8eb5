// Rows that share the entry of another row (am/alias): a scan finds the entry and returns what shares it. PG dialect.
#pragma once

#include "am/scan/scan_state.hpp"

namespace vectorgpu::am
{

/// Part of scan_read_version: reads the end of the aliases, and finds the entries of the rows that the scan may return
/// (scan_find_entries). If VACUUM has resolved some since the scan read them, their rows have entries of their own now,
/// so the scan goes back to the first entry at the score of the last row returned, and leaves out those of its rows
/// that were returned.
void scan_read_aliases(Relation index, ScanState *state, bool *foreign);

/// Sets state->filter->entries, if another index has found the rows that the scan may return: those of them, and those
/// that they share. False if a page was foreign.
bool scan_find_entries(Relation index, ScanState *state);

/// True if the scan's phase must look for rows that share entries.
bool scan_has_aliases(const ScanState *state);

/// For a pass in the order of row ids (ScanPhase::kAll): offers the rows that share entries. False if a page was
/// foreign.
bool offer_aliases(Relation index, const ScanState *state, engine::TopK *topk);

/// scan_next_batch, and state->out: all rows of the batch.
void scan_next_rows(Relation index, Snapshot snapshot, ScanState *state);

/// Notes that the rows of the batch are about to be returned.
void scan_note_tied(ScanState *state);

} // namespace vectorgpu::am
