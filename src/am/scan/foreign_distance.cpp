// See foreign_distance.hpp. A sum of n products in floats, in any order, is off by at most n roundings of the sum of
// their absolute values (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
#include "am/scan/foreign_distance.hpp"

#include "am/method/am_interface.hpp"
#include "storage/value_format.hpp"
#include "engine/distance/distance.hpp"

#include <cfloat>
#include <cmath>

namespace vectorgpu::am
{

namespace
{

constexpr double kMoreRoundings = 16; // of the last steps: square root, quotient, norms
// Norms of rows, as multiples of the query's, for which the margin of an inner product is proven. Beyond these it is
// still many times as large as roundings usually are, which grow as the square root of n.
constexpr double kUsualNorms = 16;

/// The largest difference of a distance at `value`; NaN if it is unknown.
double
margin(const ScanState *state, double value)
{
	const uint32 dim = state->am->values == nullptr ? state->shape.dim : state->am->values->most_terms;
	const double roundings = (dim + kMoreRoundings) * FLT_EPSILON;
	const engine::DistanceSpec spec = {Metric::kInnerProduct, state->shape.element, dim};

	switch (state->shape.metric)
	{
		case Metric::kL2:
		case Metric::kL1:
			return roundings * std::fabs(value); // of sums without cancellation
		case Metric::kCosine:
			return roundings;
		case Metric::kInnerProduct:
			return roundings *
				Max(std::fabs(value), kUsualNorms * std::fabs(engine::distance(spec, state->query, state->query)));
		default:
			return kMoreRoundings * DBL_EPSILON; // quotients of counts
	}
}

} // namespace

bool
foreign_distance(Relation index)
{
	return (DatumGetInt32(FunctionCall0Coll(index_getprocinfo(index, 1, kShapeSupport), InvalidOid)) &
			   kForeignDistance) != 0;
}

void
foreign_distance_widen_bound(ScanState *state)
{
	pg::DistanceBound *bound = &state->bounds.bound;

	if (!state->bounds.bounded || bound->none)
		return;
	bound->value += margin(state, bound->value);
	bound->open = false;
	state->bounds.bounded = !std::isnan(bound->value);
}

} // namespace vectorgpu::am
