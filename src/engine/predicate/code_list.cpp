// See code_list.hpp.
#include "engine/predicate/code_list.hpp"

#include <bit>
#include <cstring>

namespace vectorgpu::engine::predicate
{

namespace
{

/// The bit of a code in the filter.
uint32_t
place_of(uint64_t code)
{
	return static_cast<uint32_t>(code * 0x9E3779B97F4A7C15 >> (64 - CodeFilter::kLogBits)); // 2^64 / golden ratio
}

bool
is_listed(const Step &step, uint64_t code)
{
	uint32_t at = 0;

	for (uint32_t n = step.n_codes; n > 1;)
	{
		const uint32_t half = n / 2;

		at += step.code(at + half) <= code ? half : 0;
		n -= half;
	}
	return step.code(at) == code;
}

template <class Code>
void
match_codes_of(const CodeFilter &filter, const uint8_t *codes, size_t n_rows, uint64_t *words)
{
	const auto code_of = [codes](size_t row)
	{
		Code code;

		memcpy(&code, codes + row * sizeof(code), sizeof(code));
		return uint64_t{code};
	};

	for (size_t first = 0; first < n_rows; first += 64, words++)
	{
		const size_t n = n_rows - first < 64 ? n_rows - first : 64;

		*words = 0;
		for (size_t i = 0; i < n; i++)
		{
			const uint32_t place = place_of(code_of(first + i));

			*words |= (filter.bits[place / 64] >> (place % 64) & 1) << i;
		}
		for (uint64_t rest = *words; rest != 0; rest &= rest - 1)
		{
			const int i = std::countr_zero(rest);

			if (!is_listed(*filter.step, code_of(first + static_cast<size_t>(i))))
				*words ^= uint64_t{1} << i;
		}
	}
}

} // namespace

void
set_filter(CodeFilter *filter, const Step &step)
{
	if (filter->step == &step)
		return;
	filter->step = &step;
	memset(filter->bits, 0, sizeof(filter->bits));
	for (uint32_t i = 0; i < step.n_codes; i++)
	{
		const uint32_t place = place_of(step.code(i));

		filter->bits[place / 64] |= uint64_t{1} << (place % 64);
	}
}

void
match_codes(const CodeFilter &filter, const void *codes, uint8_t width, size_t n_rows, uint64_t *words)
{
	const uint8_t *bytes = static_cast<const uint8_t *>(codes);

	switch (width)
	{
		case 1:
			return match_codes_of<uint8_t>(filter, bytes, n_rows, words);
		case 2:
			return match_codes_of<uint16_t>(filter, bytes, n_rows, words);
		case 4:
			return match_codes_of<uint32_t>(filter, bytes, n_rows, words);
		default:
			return match_codes_of<uint64_t>(filter, bytes, n_rows, words);
	}
}

} // namespace vectorgpu::engine::predicate
