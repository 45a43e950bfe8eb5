// Settings of pgvector that scans of our indexes obey where pgvector is loaded. PG dialect.
#pragma once

namespace vectorgpu::am
{

/// hnsw.ef_search, the least width of a search of a graph; 0 where it is unknown or as pgvector has it by default.
int pgvector_ef_search();

/// ivfflat.probes, the least number of lists that a scan looks at; 0 likewise.
int pgvector_probes();

/// Warn once a session if a setting is in force that bounds the effort of pgvector's scans: ours go on until the rows
/// are found.
void pgvector_warn_of_bounds();

} // namespace vectorgpu::am
