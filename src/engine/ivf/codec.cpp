// See codec.hpp.
#include "engine/ivf/codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/half.hpp"

namespace vectorgpu::engine::ivf
{

void
interleave_codes(const uint8_t *codes, size_t n_rows, size_t code_bytes, uint8_t *interleaved)
{
	for (size_t first = 0; first < n_rows; first += kCodeBlockRows)
	{
		const size_t n = std::min(kCodeBlockRows, n_rows - first);
		uint8_t *block = interleaved + first * code_bytes;

		if (n < kCodeBlockRows)
			std::memset(block, 0, kCodeBlockRows * code_bytes);
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j < code_bytes; j++)
				block[j * kCodeBlockRows + i] = codes[(first + i) * code_bytes + j];
	}
}

void
deinterleave_codes(const uint8_t *interleaved, size_t n_rows, size_t code_bytes, uint8_t *codes)
{
	for (size_t i = 0; i < n_rows; i++)
	{
		const uint8_t *block = interleaved + i / kCodeBlockRows * kCodeBlockRows * code_bytes;

		for (size_t j = 0; j < code_bytes; j++)
			codes[i * code_bytes + j] = block[j * kCodeBlockRows + i % kCodeBlockRows];
	}
}

size_t
narrow_to_halves(const float *values, size_t n, uint16_t *halves)
{
	constexpr float kLargestHalf = 65504;
	size_t n_out = 0;

	for (size_t i = 0; i < n; i++)
	{
		const bool out = std::fabs(values[i]) > kLargestHalf; // false for NaN, which stays NaN

		n_out += out;
		halves[i] = float_to_half(out ? std::copysign(kLargestHalf, values[i]) : values[i]);
	}
	return n_out;
}

} // namespace vectorgpu::engine::ivf
