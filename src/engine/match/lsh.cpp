// See lsh.hpp.
#include "engine/match/lsh.hpp"

#include <algorithm>
#include <cmath>

#include "engine/match/hash_family.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr double kPi = 3.14159265358979323846;
constexpr double kCellLimit = 0x1p62;    // cells farther out are one cell
constexpr float kLeastPitch = 0x1p-126f; // not 0, whatever the random numbers are

/// Streams of one seed, told apart by their upper bits.
constexpr uint64_t kProjections = UINT64_C(1) << 60;
constexpr uint64_t kOffsets = UINT64_C(2) << 60;
constexpr uint64_t kPitches = UINT64_C(3) << 60;
constexpr uint64_t kShifts = UINT64_C(4) << 60;
constexpr uint64_t kRehash = UINT64_C(5) << 60;
constexpr uint64_t kCellFactors = UINT64_C(6) << 60;

/// A Gaussian number by the transform of Box and Muller.
double
gaussian(uint64_t seed, uint64_t i)
{
	const double radius = std::sqrt(-2 * std::log(uniform(stream64(seed, kProjections | 2 * i))));

	return radius * std::cos(2 * kPi * uniform(stream64(seed, kProjections | (2 * i + 1))));
}

/// The table has rows of `hashes` numbers, so that the inner loops run over functions.
size_t
table_floats(const LshOptions &options)
{
	const size_t matrix = static_cast<size_t>(options.dim) * options.hashes;

	switch (options.family)
	{
		case LshFamily::kL2:
			return matrix + options.hashes; // a [dim][hashes], b [hashes]
		case LshFamily::kL1:
			return 2 * matrix; // shifts [dim][hashes], pitches [dim][hashes]
		case LshFamily::kCosine:
			return matrix;
	}
	return 0;
}

/// sums [hashes] = a . vector
void
project(const LshOptions &options, const float *a, const float *vector, double *sums)
{
	std::fill(sums, sums + options.hashes, 0.0);
	for (uint32_t j = 0; j < options.dim; j++)
	{
		const float *row = a + static_cast<size_t>(j) * options.hashes;
		const double x = vector[j];

		for (uint32_t i = 0; i < options.hashes; i++)
			sums[i] += x * static_cast<double>(row[i]);
	}
}

int64_t
cell(double position)
{
	const double whole = std::floor(position);

	return static_cast<int64_t>(std::clamp(whole, -kCellLimit, kCellLimit));
}

uint32_t
rehash(const LshOptions &options, uint32_t function, uint64_t value)
{
	return reduce(mix64(value ^ stream64(options.seed, kRehash | function)), options.buckets);
}

} // namespace

size_t
lsh_table_bytes(const LshOptions &options)
{
	return table_floats(options) * sizeof(float);
}

void
lsh_make_table(const LshOptions &options, void *table)
{
	float *numbers = static_cast<float *>(table);
	const size_t matrix = static_cast<size_t>(options.dim) * options.hashes;

	if (options.family == LshFamily::kL1)
	{
		for (size_t i = 0; i < matrix; i++)
		{
			const double product = uniform(stream64(options.seed, kPitches | 2 * i)) *
				uniform(stream64(options.seed, kPitches | (2 * i + 1)));
			const float pitch =
				std::max(static_cast<float>(-options.width * std::log(product)), kLeastPitch); // Gamma(2, width)

			numbers[i] = static_cast<float>(static_cast<double>(pitch) * uniform(stream64(options.seed, kShifts | i)));
			numbers[matrix + i] = pitch;
		}
		return;
	}
	for (size_t i = 0; i < matrix; i++)
		numbers[i] = static_cast<float>(gaussian(options.seed, i));
	if (options.family == LshFamily::kL2)
		for (uint32_t i = 0; i < options.hashes; i++)
			numbers[matrix + i] = static_cast<float>(options.width * uniform(stream64(options.seed, kOffsets | i)));
}

void
lsh_signature(const LshOptions &options, const void *table, const float *vector, double *scratch, uint32_t *buckets)
{
	const float *numbers = static_cast<const float *>(table);
	const size_t matrix = static_cast<size_t>(options.dim) * options.hashes;

	switch (options.family)
	{
		case LshFamily::kL2:
			project(options, numbers, vector, scratch);
			for (uint32_t i = 0; i < options.hashes; i++)
				buckets[i] = rehash(options, i,
					static_cast<uint64_t>(
						cell((scratch[i] + static_cast<double>(numbers[matrix + i])) / options.width)));
			break;
		case LshFamily::kCosine:
			project(options, numbers, vector, scratch);
			for (uint32_t i = 0; i < options.hashes; i++)
				buckets[i] = scratch[i] >= 0;
			break;
		case LshFamily::kL1:
		{
			uint64_t *sums = reinterpret_cast<uint64_t *>(scratch);

			// A cell is a vector of numbers: its hash is their sum with random odd factors, modulo 2^64.
			std::fill(sums, sums + options.hashes, 0);
			for (uint32_t j = 0; j < options.dim; j++)
			{
				const float *shifts = numbers + static_cast<size_t>(j) * options.hashes;
				const float *pitches = numbers + matrix + static_cast<size_t>(j) * options.hashes;
				const uint64_t factor = stream64(options.seed, kCellFactors | j) | 1;
				const double x = vector[j];

				for (uint32_t i = 0; i < options.hashes; i++)
					sums[i] += static_cast<uint64_t>(
								   cell((x - static_cast<double>(shifts[i])) / static_cast<double>(pitches[i]))) *
						factor;
			}
			for (uint32_t i = 0; i < options.hashes; i++)
				buckets[i] = rehash(options, i, sums[i]);
			break;
		}
	}
}

double
lsh_similarity(LshFamily family, double width, double distance)
{
	if (distance <= 0)
		return 1;
	switch (family)
	{
		case LshFamily::kL2:
		{
			const double t = width / distance;

			return 1 - std::erfc(t / std::sqrt(2.0)) - 2 * -std::expm1(-t * t / 2) / (t * std::sqrt(2 * kPi));
		}
		case LshFamily::kL1:
			return std::exp(-distance / width);
		case LshFamily::kCosine:
			return 1 - distance / kPi;
	}
	return 0;
}

// --- number of functions -------------------------------------------------------

namespace
{

constexpr int kPhases =
	64; // similarities next to 1/2 tried for each number: every position of the window between two numbers
constexpr double kSmooth = 8192; // from here on the zone is narrower than a hundredth of the number

/// Pr[low <= c <= high] of a binomial distribution of m trials with probability s.
double
binomial_window(int64_t m, double s, int64_t low, int64_t high)
{
	const double trials = static_cast<double>(m);
	const double start = static_cast<double>(low);
	double term = std::exp(std::lgamma(trials + 1) - std::lgamma(start + 1) - std::lgamma(trials - start + 1) +
		start * std::log(s) + (trials - start) * std::log1p(-s));
	double sum = term;

	for (int64_t c = low; c < high; c++)
	{
		term *= static_cast<double>(m - c) / static_cast<double>(c + 1) * (s / (1 - s));
		sum += term;
	}
	return sum;
}

/// Whether m functions suffice for every similarity.
bool
suffices(int64_t m, double epsilon, double delta)
{
	for (int phase = 0; phase <= kPhases; phase++)
	{
		const double s = 0.5 + static_cast<double>(phase) / (2.0 * kPhases * static_cast<double>(m));
		const auto low = static_cast<int64_t>(std::floor((s - epsilon) * static_cast<double>(m) + 0.5));
		const auto high = static_cast<int64_t>(std::floor((s + epsilon) * static_cast<double>(m) + 0.5));

		if (s >= 1)
			break;
		if (binomial_window(m, s, std::max<int64_t>(low, 0), std::min(high, m)) < 1 - delta)
			return false;
	}
	return true;
}

/// z with Pr[|Gaussian| > z] = delta, by bisection.
double
two_sided_quantile(double delta)
{
	double low = 0;
	double high = 40;

	for (int i = 0; i < 100; i++)
	{
		const double middle = (low + high) / 2;

		(std::erfc(middle / std::sqrt(2.0)) > delta ? low : high) = middle;
	}
	return high;
}

} // namespace

int64_t
lsh_hashes(double epsilon, double delta)
{
	if (!(epsilon > 0 && epsilon < 1 && delta > 0 && delta < 1))
		return 0;

	const double z = two_sided_quantile(delta);
	const double smooth = z * z / (4 * epsilon * epsilon); // the number by the normal distribution

	if (smooth > 1e15)
		return static_cast<int64_t>(1e15);
	if (smooth > kSmooth)
		return static_cast<int64_t>(std::ceil(smooth));

	const auto from = std::max<int64_t>(static_cast<int64_t>(0.7 * smooth), 1);
	const auto to = static_cast<int64_t>(1.2 * smooth + 4 / epsilon);
	int64_t first = to;
	int64_t last = from - 1;

	for (int64_t m = from; m <= to; m++)
	{
		if (!suffices(m, epsilon, delta))
			last = m;
		else
			first = std::min(first, m);
	}
	for (int64_t m = std::max((first + last) / 2, first); m > first; m--)
		if (suffices(m, epsilon, delta))
			return m;
	return first;
}

} // namespace vectorgpu::engine
