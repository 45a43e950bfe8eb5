// Storage parameters and settings of gpuivf, and the defaults that follow from the number of rows. PG dialect.
#include "am/gpuivf/ivf.hpp"

#include <climits>
#include <cmath>

extern "C"
{
#include "access/reloptions.h"
#include "utils/guc.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kRowsPerList = 40; // fewer make centroids that are rows: lists that say nothing
constexpr double kDefaultRecall = 0.95;
constexpr double kDefaultShare = 1.0 / 32; // of the lists, where no calibration was possible
constexpr uint64 kCalibratedRows = 10;     // nearest rows that a calibration is about
// For k rows as many probes more as (k / 10) to this power. SIFT, 100,000 rows, 316 lists: 18, 32 and 60 probes find 0.95 of 10,
// 100 and 1,000 rows.
constexpr double kMoreRows = 0.25;

/// What core keeps of the storage parameters.
struct IvfReloptions
{
	int32 vl_len_;
	int lists;
};

int probes_setting = 0;
double recall_target = kDefaultRecall;
relopt_kind options_kind;

} // namespace

void
ivf_define_options()
{
	options_kind = add_reloption_kind();
	add_int_reloption(options_kind, "lists", "Number of inverted lists; 0: as the number of rows wants.", 0, 0, kMaxLists,
		AccessExclusiveLock);
	DefineCustomIntVariable("gpuivf.probes", "Lists that a scan looks at first.",
		"0: as many as gpuivf.recall_target wants.", &probes_setting, 0, 0, kMaxLists, PGC_USERSET, 0, nullptr, nullptr,
		nullptr);
	DefineCustomRealVariable("gpuivf.recall_target", "Share of the nearest rows that a scan shall find, if gpuivf.probes is 0.",
		nullptr, &recall_target, kDefaultRecall, 0, 1, PGC_USERSET, 0, nullptr, nullptr, nullptr);
	MarkGUCPrefixReserved("gpuivf");
}

bytea *
ivf_parse_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt kParse[] = {
		{"lists", RELOPT_TYPE_INT, offsetof(IvfReloptions, lists)},
	};

	return static_cast<bytea *>(
		build_reloptions(reloptions, validate, options_kind, sizeof(IvfReloptions), kParse, lengthof(kParse)));
}

void
ivf_store_options(Relation index, const IndexShape *shape, uint8 *options)
{
	const IvfReloptions *given = reinterpret_cast<const IvfReloptions *>(index->rd_options);
	IvfOptions *stored = reinterpret_cast<IvfOptions *>(options);

	stored->lists = given != nullptr ? static_cast<uint32>(given->lists) : 0;
}

uint32
ivf_lists_for(const IvfOptions *options, uint64 n_rows)
{
	uint64 lists = options->lists;

	if (lists == 0)
		lists = Min(static_cast<uint64>(std::lround(std::sqrt(static_cast<double>(n_rows)))), n_rows / kRowsPerList);
	return static_cast<uint32>(Max(Min(lists, Min(n_rows, static_cast<uint64>(kMaxLists))), UINT64CONST(1)));
}

uint32
ivf_probes(const IvfModel *model, uint64 wanted)
{
	double probes = probes_setting;

	if (probes_setting == 0)
	{
		probes = model->calibration.n_queries > 0 ? engine::ivf::probes_for(model->calibration, recall_target)
												  : std::ceil(model->n_lists * kDefaultShare);
		if (wanted > kCalibratedRows)
			probes = std::ceil(probes * std::pow(static_cast<double>(wanted) / kCalibratedRows, kMoreRows));
	}
	return static_cast<uint32>(Max(Min(probes, static_cast<double>(model->n_lists)), 1.0));
}

void
ivf_plan_probes(Relation index, double n_rows, double *n_lists, double *n_probes)
{
	const IvfReloptions *given = reinterpret_cast<const IvfReloptions *>(index->rd_options);
	const IvfOptions options = {given != nullptr ? static_cast<uint32>(given->lists) : 0};

	*n_lists = ivf_lists_for(&options, static_cast<uint64>(Max(n_rows, 1.0)));
	*n_probes = Min(probes_setting > 0 ? static_cast<double>(probes_setting) : std::ceil(*n_lists * kDefaultShare), *n_lists);
}

} // namespace vectorgpu::am
