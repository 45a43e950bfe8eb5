// See made_rows.hpp.
#include "made_rows.hpp"

#include <algorithm>
#include <cmath>

#include "support/splitmix.hpp"

namespace vectorgpu::bench
{
namespace
{

using vectorgpu::test::splitmix64;

constexpr uint32_t kBits = 12; // of a normal number
constexpr uint32_t kEach = 5;  // normal numbers of a hash
constexpr uint32_t kTile = 16; // elements that are summed in registers
constexpr uint32_t kGroupBits = 16;

enum Stream : uint64_t
{
	kCentres = 1,
	kProjection = 2,
	kGroup = 3,
	kLatent = 4,
	kNoise = 5,
};

/// A hash of its own for each stream of a number.
uint64_t
key_of(uint64_t seed, Stream stream, uint64_t number)
{
	return splitmix64(splitmix64(seed * 64 + stream) ^ number);
}

/// The mean of each of 2^kBits parts of the normal distribution, nearly: its quantile in the middle.
std::vector<float>
normal_quantiles()
{
	std::vector<float> values(1u << kBits);

	for (size_t i = 0; i < values.size(); i++)
	{
		const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
		double low = -8;
		double high = 8;

		for (int step = 0; step < 50; step++)
		{
			const double middle = (low + high) / 2;

			(std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
		}
		values[i] = static_cast<float>(low);
	}
	return values;
}

/// Set to [n] to normal numbers; n a multiple of kEach.
void
put_normals(const float *normal, uint64_t key, size_t n, float *to)
{
	constexpr uint64_t kMask = (1u << kBits) - 1;

	for (size_t i = 0; i < n; i += kEach)
	{
		const uint64_t bits = splitmix64(key + i);

		for (uint32_t j = 0; j < kEach; j++)
			to[i + j] = normal[bits >> (j * kBits) & kMask];
	}
}

uint32_t
round_up(uint32_t n, uint32_t unit)
{
	return (n + unit - 1) / unit * unit;
}

// Products and sums apart (-ffp-contract=off), so that the rows are the same at every level.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
	!defined(__SANITIZE_THREAD__)
#define VECTORGPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTORGPU_CLONES
#endif

/// rows [4, dim_pad] = latent [4, latent_pad] times projection [latent, dim_pad].
VECTORGPU_CLONES void
project_four(
	const float *projection, const float *latent, size_t n_latent, size_t latent_pad, size_t dim_pad, float *rows)
{
	for (size_t first = 0; first < dim_pad; first += kTile)
	{
		float sums[4][kTile] = {};

		for (size_t i = 0; i < n_latent; i++)
		{
			const float *weights = projection + i * dim_pad + first;

			for (size_t r = 0; r < 4; r++)
				for (size_t e = 0; e < kTile; e++)
					sums[r][e] += latent[r * latent_pad + i] * weights[e];
		}
		for (size_t r = 0; r < 4; r++)
			std::copy_n(sums[r], kTile, rows + r * dim_pad + first);
	}
}

} // namespace

MadeRows::MadeRows(const RowLaw &law)
	: law_(law), latent_pad_(round_up(law.latent, kEach)), dim_pad_(round_up(law.dim, kTile)),
	  normal_(normal_quantiles())
{
	const uint32_t n_groups = std::clamp<uint32_t>(law.n_groups, 1, 1u << kGroupBits);
	const float between =
		n_groups == 1 ? 0.0f : static_cast<float>(std::sqrt(std::max(0.0, 1 - law.spread * law.spread)));
	double sum = 0;
	double squares = 0;
	std::vector<double> ends;
	std::vector<float> drawn(latent_pad_);

	for (uint32_t i = 0; i < law.latent; i++)
		squares += std::pow(i + 1, -2 * law.decay);
	for (uint32_t i = 0; i < law.latent; i++)
		deviations_.push_back(static_cast<float>(std::pow(i + 1, -law.decay) / std::sqrt(squares)));
	for (uint32_t g = 0; g < n_groups; g++)
	{
		put_normals(normal_.data(), key_of(law.seed, kCentres, g), latent_pad_, drawn.data());
		for (uint32_t i = 0; i < law.latent; i++)
			centres_.push_back(drawn[i] * deviations_[i] * between);
		ends.push_back(sum += 1 / std::sqrt(g + 1.0));
	}
	groups_.resize(size_t{1} << kGroupBits);
	for (size_t i = 0; i < groups_.size(); i++)
	{
		const double share = (static_cast<double>(i) + 0.5) / static_cast<double>(groups_.size()) * sum;

		groups_[i] = static_cast<uint16_t>(std::upper_bound(ends.begin(), ends.end() - 1, share) - ends.begin());
	}
	for (float &deviation : deviations_)
		deviation *= n_groups == 1 ? 1.0f : static_cast<float>(law.spread);
	projection_.resize(size_t{law.latent} * dim_pad_);

	std::vector<float> weights(round_up(law.dim, kEach));

	for (uint32_t i = 0; i < law.latent; i++)
	{
		put_normals(normal_.data(), key_of(law.seed, kProjection, i), weights.size(), weights.data());
		std::copy_n(weights.data(), law.dim, projection_.data() + size_t{i} * dim_pad_);
	}
}

void
MadeRows::make_latent(uint64_t number, float *latent) const
{
	const uint64_t group = groups_[key_of(law_.seed, kGroup, number) >> (64 - kGroupBits)];
	const float *centre = centres_.data() + group * law_.latent;

	put_normals(normal_.data(), key_of(law_.seed, kLatent, number), latent_pad_, latent);
	for (uint32_t i = 0; i < law_.latent; i++)
		latent[i] = centre[i] + latent[i] * deviations_[i];
}

/// Add noise to a row of about sqrt(dim), and divide it by its length.
void
MadeRows::finish(uint64_t number, float *row) const
{
	constexpr size_t kMost = 8 * kEach * kTile;
	const float noise = static_cast<float>(law_.noise);
	const uint64_t key = key_of(law_.seed, kNoise, number);
	float normals[kMost];
	float squares = 0;

	for (uint32_t first = 0; first < law_.dim; first += kMost)
	{
		const uint32_t n = std::min<uint32_t>(kMost, law_.dim - first);

		put_normals(normal_.data(), key + first, round_up(n, kEach), normals);
		for (uint32_t e = 0; e < n; e++)
			row[first + e] += normals[e] * noise;
	}
	for (uint32_t e = 0; e < law_.dim; e++)
		squares += row[e] * row[e];

	const float factor = squares > 0 ? 1 / std::sqrt(squares) : 0;

	for (uint32_t e = 0; e < law_.dim; e++)
		row[e] *= factor;
}

void
MadeRows::make(const uint64_t *numbers, size_t n, float *rows) const
{
	std::vector<float> latent(kAtOnce * latent_pad_);
	std::vector<float> made(kAtOnce * dim_pad_);

	for (size_t first = 0; first < n; first += kAtOnce)
	{
		const size_t here = std::min(kAtOnce, n - first);

		for (size_t i = 0; i < here; i++)
			make_latent(numbers[first + i], latent.data() + i * latent_pad_);
		project_four(projection_.data(), latent.data(), law_.latent, latent_pad_, dim_pad_, made.data());
		for (size_t i = 0; i < here; i++)
		{
			finish(numbers[first + i], made.data() + i * dim_pad_);
			std::copy_n(made.data() + i * dim_pad_, law_.dim, rows + (first + i) * law_.dim);
		}
	}
}

} // namespace vectorgpu::bench
