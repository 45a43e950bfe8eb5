// The settings of pgvector that are numbers: names, defaults and ranges. The library vectorgpu_vector defines them, and
// scans read them by name, pgvector's own too. PG dialect.
#pragma once

#include <climits>

namespace vectorgpu::pg
{

/// A setting: an integer, or where `real` a floating-point number.
struct PgvectorNumber
{
	const char *name;
	int usual; // by default
	int least;
	int most;
	bool real = false;
};

constexpr PgvectorNumber kEfSearch = {"hnsw.ef_search", 40, 1, 1000};
constexpr PgvectorNumber kMaxScanTuples = {"hnsw.max_scan_tuples", 20000, 1, INT_MAX};
constexpr PgvectorNumber kScanMemMultiplier = {"hnsw.scan_mem_multiplier", 1, 1, 1000, true};
constexpr PgvectorNumber kProbes = {"ivfflat.probes", 1, 1, 32768};
constexpr PgvectorNumber kMaxProbes = {"ivfflat.max_probes", 32768, 1, 32768};

} // namespace vectorgpu::pg
