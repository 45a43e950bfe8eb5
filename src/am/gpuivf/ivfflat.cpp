// The access method ivfflat: gpuivf under pgvector's name and with its option, for the extension vector
// (docs/pgvector.md). PG dialect. Called by core.
#include "am/gpuivf/ivf.hpp"
#include "am/method/callbacks.hpp"
#include "am/method/pgvector_settings.hpp"

extern "C"
{
#include "access/reloptions.h"

	PG_FUNCTION_INFO_V1(vectorgpu_ivfflat_handler);
}

namespace vectorgpu::am
{

namespace
{

constexpr int kLists = 100; // pgvector's default and range
constexpr int kMostLists = 32768;

struct IvfflatReloptions
{
	int32 vl_len_;
	int lists;
};

relopt_kind
ivfflat_kind()
{
	static relopt_kind kind = RELOPT_KIND_LOCAL;

	if (kind != RELOPT_KIND_LOCAL)
		return kind;
	kind = add_reloption_kind();
	add_int_reloption(kind, "lists", "Number of inverted lists; 100: as the number of rows wants.", kLists, 1,
		kMostLists, AccessExclusiveLock);
	return kind;
}

/// amoptions: checks pgvector's option as it does, and returns those of gpuivf.
bytea *
parse_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt kParse[] = {
		{"lists", RELOPT_TYPE_INT, offsetof(IvfflatReloptions, lists)},
	};
	const IvfflatReloptions *given = reinterpret_cast<const IvfflatReloptions *>(
		build_reloptions(reloptions, validate, ivfflat_kind(), sizeof(IvfflatReloptions), kParse, lengthof(kParse)));

	return given == nullptr || given->lists == kLists ? nullptr
													  : ivf_parse_options(int_option("lists", given->lists), false);
}

const AccessMethod kIvfflat = ivf_method("ivfflat", true);

} // namespace

} // namespace vectorgpu::am

Datum
vectorgpu_ivfflat_handler(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	IndexAmRoutine *routine = shared_routine<&kIvfflat>();

	routine->amcostestimate = ivf_cost_estimate;
	routine->amoptions = parse_options;
	PG_RETURN_POINTER(routine);
}
