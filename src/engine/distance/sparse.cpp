// The canonical distance of sparse vectors: one pass over the indices of both, in ascending order. Thread-safe;
// allocates nothing; never fails.
#include "engine/distance/sparse.hpp"

#include <cmath>
#include <limits>

namespace vectorgpu::engine
{
namespace
{

/// The sum of term(element of a, element of b) over the indices that either has, in binary32.
template <class Term>
float
sum_of_either(const SparseVector &a, const SparseVector &b, Term term)
{
	float sum = 0;
	uint32_t i = 0;
	uint32_t j = 0;

	while (i < a.n && j < b.n)
	{
		if (a.indices[i] < b.indices[j])
			sum += term(a.values[i++], 0.0f);
		else if (a.indices[i] > b.indices[j])
			sum += term(0.0f, b.values[j++]);
		else
			sum += term(a.values[i++], b.values[j++]);
	}
	while (i < a.n)
		sum += term(a.values[i++], 0.0f);
	while (j < b.n)
		sum += term(0.0f, b.values[j++]);
	return sum;
}

/// The inner product: the sum over the indices that both have.
float
sum_of_products(const SparseVector &a, const SparseVector &b)
{
	float sum = 0;
	uint32_t i = 0;
	uint32_t j = 0;

	while (i < a.n && j < b.n)
	{
		if (a.indices[i] < b.indices[j])
			i++;
		else if (a.indices[i] > b.indices[j])
			j++;
		else
			sum += a.values[i++] * b.values[j++];
	}
	return sum;
}

float
sum_of_squares(const SparseVector &vector)
{
	float sum = 0;

	for (uint32_t i = 0; i < vector.n; i++)
		sum += vector.values[i] * vector.values[i];
	return sum;
}

double
cosine_score(double ab, double aa, double bb)
{
	if (aa == 0 || bb == 0)
		return std::numeric_limits<double>::quiet_NaN();

	const double similarity = ab / std::sqrt(aa * bb);

	if (similarity > 1)
		return 0;
	if (similarity < -1)
		return 2;
	return 1 - similarity;
}

double
score_of(Metric metric, const SparseVector &a, const SparseVector &b)
{
	switch (metric)
	{
		case Metric::kL2:
			return sum_of_either(a, b, [](float x, float y) { return (x - y) * (x - y); });
		case Metric::kL1:
			return sum_of_either(a, b, [](float x, float y) { return std::fabs(x - y); });
		case Metric::kInnerProduct:
			return -sum_of_products(a, b);
		case Metric::kCosine:
			return cosine_score(sum_of_products(a, b), sum_of_squares(a), sum_of_squares(b));
		case Metric::kHamming:
		case Metric::kJaccard:
		case Metric::kMatchCount:
		case Metric::kEdit:
			break; // not of vectors with real elements
	}
	return std::numeric_limits<double>::quiet_NaN();
}

} // namespace

double
sparse_score(Metric metric, const SparseVector &a, const SparseVector &b)
{
	const double score = score_of(metric, a, b);

	// one NaN and one zero, whatever the sign
	return std::isnan(score) ? std::numeric_limits<double>::quiet_NaN() : score + 0.0;
}

} // namespace vectorgpu::engine
