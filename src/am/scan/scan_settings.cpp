// See scan_settings.hpp.
#include "am/scan/scan_settings.hpp"

#include "pg/define_setting.hpp"

extern "C"
{
#include "utils/guc.h"
}

namespace vectorgpu::am
{

namespace
{

enum ScanOrder
{
	kStrict,
	kRelaxed,
};

const struct config_enum_entry kScanOrders[] = {
	{"strict", kStrict, false},
	{"relaxed", kRelaxed, false},
	{nullptr, 0, false},
};

const struct config_enum_entry kRangeSearches[] = {
	{"off", static_cast<int>(RangeSearch::kOff), false},
	{"exact", static_cast<int>(RangeSearch::kExact), false},
	{"approximate", static_cast<int>(RangeSearch::kApproximate), false},
	{nullptr, 0, false},
};

int scan_order = kStrict;
int ranges = static_cast<int>(RangeSearch::kApproximate);
bool stable_pages = true;
bool reads_ahead = true;

} // namespace

void
scan_define_gucs()
{
	pg::define_enum("vectorgpu.scan_order",
		"What a scan of an approximate index does with a row that is found after rows further away were returned.",
		"strict leaves it out, relaxed returns it late.", &scan_order, kStrict, kScanOrders, PGC_USERSET, 0, nullptr,
		nullptr, nullptr);
	pg::define_bool("vectorgpu.stable_pages",
		"Pages by LIMIT and OFFSET of an approximate index are parts of one sequence.",
		"If off, a scan under a LIMIT without a condition is one search for as many rows, which is faster for more "
		"than 32.",
		&stable_pages, true, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	pg::define_bool("vectorgpu.read_ahead", "Searches whose rows a plan will want are asked for before it wants them.",
		"They are then asked for together, which saves waiting for one after the other. The rows are the same.",
		&reads_ahead, true, PGC_USERSET, GUC_EXPLAIN, nullptr, nullptr, nullptr);
	pg::define_enum("vectorgpu.range_search",
		"Plans may have scans of an index for conditions that bound a distance, without ORDER BY and LIMIT.",
		"exact finds all rows, approximate those that an approximate index finds at its recall target.", &ranges,
		static_cast<int>(RangeSearch::kApproximate), kRangeSearches, PGC_USERSET, GUC_EXPLAIN, nullptr, nullptr,
		nullptr);
}

RangeSearch
range_search()
{
	return static_cast<RangeSearch>(ranges);
}

bool
scan_reads_ahead()
{
	return reads_ahead;
}

bool
scan_pages_are_stable()
{
	return stable_pages;
}

bool
scan_drops_late_rows()
{
	return scan_order == kStrict;
}

} // namespace vectorgpu::am
