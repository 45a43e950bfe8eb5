// Locality-sensitive hash functions of vectors (Zhou et al., section IV): the number of functions that agree on two
// vectors estimates their similarity. No PostgreSQL; no allocation.
//
//   family   function i of vector x                                       similarity = Pr[agreement]
//   L2       floor((a_i . x + b_i) / width), a_i Gaussian, b_i in           1 - 2 N(-t)
//            [0, width) (E2LSH, equation 10); t = width / L2 distance         - 2 (1 - exp(-t^2 / 2)) / (t sqrt(2 pi))
//            (equation 11)
//   L1       cells floor((x_j - u_ij) / g_ij) of a grid of pitch g_ij       exp(-L1 distance / width):
//            from Gamma(2, width), shifted by u_ij in [0, g_ij)             the Laplacian kernel
//            (section IV-A3)
//   cosine   1 if a_i . x >= 0, else 0 (sign random projection)             1 - angle / pi
// L2 and L1 values are re-hashed into `buckets` values (section IV-A2), which adds at most 1 / buckets to the
// probability.
//
// The paper draws one pitch for all dimensions of a grid; the collision probability is the kernel only if each
// dimension has its own (Rahimi and Recht, "Random features for large-scale kernel machines"), so each has.
//
// Equal options give the same functions everywhere: random numbers come from stream64 and are kept in binary32, sums
// are made in binary64 in the order of the dimensions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::engine
{

enum class LshFamily : uint8_t
{
	kL2 = 0,
	kL1 = 1,
	kCosine = 2,
};

struct LshOptions
{
	LshFamily family = LshFamily::kL2;
	uint32_t dim = 0;     // elements of a vector
	uint32_t hashes = 0;  // functions
	uint32_t buckets = 0; // L2, L1
	double width = 0;     // L2, L1: kMinLshWidth .. kMaxLshWidth, in units of the data
	uint64_t seed = 0;
};

constexpr double kMinLshWidth = 1e-30;
constexpr double kMaxLshWidth = 1e30;

/// Bytes of the table of random numbers.
size_t lsh_table_bytes(const LshOptions &options);

/// Fill `table` [lsh_table_bytes], aligned for double. Takes a hundred nanoseconds for each of dim * hashes numbers.
void lsh_make_table(const LshOptions &options, void *table);

/// Set buckets [hashes] to the values of all functions. vector [dim]; scratch [hashes], aligned for double and
/// uint64_t.
void lsh_signature(
	const LshOptions &options, const void *table, const float *vector, double *scratch, uint32_t *buckets);

/// The similarity, without re-hashing, of two vectors at a distance: L2 distance, L1 distance, or angle in radians.
double lsh_similarity(LshFamily family, double width, double distance);

/// The number of hash functions with which the share of agreements is within epsilon of the similarity with probability
/// 1 - delta, whatever the similarity (section IV-B2: 237 for 0.06, 0.06). 0 unless 0 < epsilon < 1 and 0 < delta < 1.
/// The probability (equation 9) goes up and down with the number of functions, as whole numbers of agreements enter and
/// leave the tolerated window. So there is a zone of numbers, the first of which suffices and the last of which does
/// not. This is the largest number not above the middle of the zone that suffices for every similarity. The window's
/// ends are rounded to the nearest numbers of agreements; the worst similarities are those next to 1/2.
int64_t lsh_hashes(double epsilon, double delta);

} // namespace vectorgpu::engine
