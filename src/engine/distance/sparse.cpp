// The canonical distance of sparse vectors: one pass over the indices of both, in ascending order. Thread-safe;
// allocates nothing; never fails.
#include "engine/distance/sparse.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace vectorgpu::engine
{
namespace
{

/// value if it is stored, else 0.
float
if_stored(bool stored, float value)
{
	return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & (0u - static_cast<uint32_t>(stored)));
}

/// The sum of term(element of a, element of b) over the indices that either has, in binary32. Which of the two has the
/// next index is as good as random, so no branch asks.
template <class Term>
float
sum_of_either(const SparseVector &a, const SparseVector &b, Term term)
{
	float sum = 0;
	uint32_t i = 0;
	uint32_t j = 0;

	while (i < a.n && j < b.n)
	{
		const bool in_a = a.indices[i] <= b.indices[j];
		const bool in_b = b.indices[j] <= a.indices[i];

		sum += term(if_stored(in_a, a.values[i]), if_stored(in_b, b.values[j]));
		i += in_a;
		j += in_b;
	}
	for (; i < a.n; i++)
		sum += term(a.values[i], 0.0f);
	for (; j < b.n; j++)
		sum += term(0.0f, b.values[j]);
	return sum;
}

/// The sum over the indices that both have. The products of the others are 0 and change no sum: it is never -0.
float
sum_of_products(const SparseVector &a, const SparseVector &b)
{
	float sum = 0;
	uint32_t i = 0;
	uint32_t j = 0;

	while (i < a.n && j < b.n)
	{
		const bool in_a = a.indices[i] <= b.indices[j];
		const bool in_b = b.indices[j] <= a.indices[i];

		sum += if_stored(in_a, a.values[i]) * if_stored(in_b, b.values[j]);
		i += in_a;
		j += in_b;
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

const char *
sparse_fault(const SparseVector &vector, int64_t dim)
{
	for (uint32_t i = 0; i < vector.n; i++)
	{
		if (vector.indices[i] < 0 || vector.indices[i] >= dim)
			return "It has an index out of bounds.";
		if (i > 0 && vector.indices[i] <= vector.indices[i - 1])
			return "Its indices are not in order.";
		if (!std::isfinite(vector.values[i]))
			return "It has an element that is not finite.";
		if (vector.values[i] == 0)
			return "It stores an element that is 0.";
	}
	return nullptr;
}

double
sparse_score(Metric metric, const SparseVector &a, const SparseVector &b)
{
	const double score = score_of(metric, a, b);

	// one NaN and one zero, whatever the sign
	return std::isnan(score) ? std::numeric_limits<double>::quiet_NaN() : score + 0.0;
}

} // namespace vectorgpu::engine
