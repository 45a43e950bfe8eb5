// Settings and options of pgvector: scans of our indexes obey its settings where these are defined, by pgvector or, for
// the extension vector, by a library of ours. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::am
{

/// Storage parameters as core passes them to amoptions: name=value.
Datum int_option(const char *name, int value);

/// hnsw.ef_search, the least width of a search of a graph: pgvector's default too, so that a search finds no fewer of
/// the nearest rows than pgvector's. 0 where it is unknown.
double pgvector_ef_search();

/// ivfflat.probes, the least number of lists that a scan looks at; 0 likewise.
double pgvector_probes();

/// Warn once a session if a setting is in force that bounds the effort of pgvector's scans: ours go on until the rows
/// are found.
void pgvector_warn_of_bounds();

} // namespace vectorgpu::am
