// The handler of gpumatch: the shared callbacks, given this access method. PG dialect. Called by core.
#include "am/gpumatch/gpumatch.hpp"

#include "am/build/build.hpp"
#include "am/method/callbacks.hpp"

extern "C"
{
	PG_FUNCTION_INFO_V1(vectorgpu_gpumatch_handler);
}

namespace vectorgpu::am
{

namespace
{

bool
supports(ElementType element, Metric metric)
{
	return element == ElementType::kSet && metric != Metric::kInnerProduct && metric != Metric::kHamming;
}

const char *
phase_name(int64 phase)
{
	return phase == kPhaseOfAm ? "merging inverted lists" : nullptr;
}

bool
needs_reindex(const MetaData *meta)
{
	return !kMatchWorkerStructure.holds(meta); // texts are missing
}

/// Indexes where counts of matches are the answer, or a bound of it.
const AccessMethod kMatch = {
	.name = "gpumatch",
	.id = AmId::kMatch,
	.supports = supports,
	.search_segment = match_search_segment,
	.worker_structure = &kMatchWorkerStructure,
	.format = &kMatchFormat,
	.values = &kMatchValues,
	.phase_name = phase_name,
	.options_support = kOptionsSupport,
	.condition_support = kConditionSupport,
	.store_options = match_store_options,
	.check_options = match_check_options,
	.needs_reindex = needs_reindex,
};

const ApproximateMethod kApproximate = {
	.most_from_first = 8192, // every step counts all candidates anew, wherever it begins
};

/// Indexes where counts of matches only find candidates.
AccessMethod
approximate_method()
{
	AccessMethod method = kMatch;

	method.approximate = &kApproximate;
	return method;
}

const AccessMethod kMatchSignatures = approximate_method();

bool
has_signatures(Relation index)
{
	const int32 code = DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid));

	return match_source(code) == kSourceOfMinHash ||
		(match_source(code) != kSourceOfArray &&
			match_is_signature(static_cast<types::ElementSource>(match_source(code))));
}

IndexScanDesc
matchbeginscan(Relation index, int n_keys, int n_orderbys)
{
	return shared_begin_scan(has_signatures(index) ? &kMatchSignatures : &kMatch, index, n_keys, n_orderbys);
}

} // namespace

void
match_init()
{
	register_access_method(&kMatch);
}

} // namespace vectorgpu::am

Datum
vectorgpu_gpumatch_handler(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::am;
	IndexAmRoutine *routine = shared_routine<&kMatch>();

	routine->amoptsprocnum = kOptionsSupport;
	routine->amcostestimate = match_cost_estimate;
	routine->ambeginscan = matchbeginscan;
	PG_RETURN_POINTER(routine);
}
