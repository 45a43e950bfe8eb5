// The settings of scans. PG dialect.
#pragma once

namespace vectorgpu::am
{

/// How conditions that bound a distance, without ORDER BY and LIMIT, are searched.
enum class RangeSearch : int
{
	kOff,         // as other conditions are
	kExact,       // by an index, all rows
	kApproximate, // by an index; an approximate one finds the share of its recall target
};

/// Defines vectorgpu.scan_order, vectorgpu.stable_pages, vectorgpu.read_ahead and vectorgpu.range_search; called by
/// _PG_init.
void scan_define_gucs();

/// vectorgpu.stable_pages.
bool scan_pages_are_stable();

/// vectorgpu.read_ahead.
bool scan_reads_ahead();

/// vectorgpu.range_search.
RangeSearch range_search();

/// True if scans leave out rows that they find too late (vectorgpu.scan_order = strict).
bool scan_drops_late_rows();

} // namespace vectorgpu::am
