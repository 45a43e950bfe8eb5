// The rows of the table, as float16: kept in memory, or made again at each call. Any thread.
#pragma once

#include <cstring>
#include <memory>
#include <numeric>

#include "engine/ivf/codec.hpp"
#include "large.hpp"

namespace vectorgpu::bench
{

class RowStore
{
public:
	RowStore(const MadeRows &made, uint64_t n_rows, bool keep, size_t n_threads) : made_(made), n_rows_(n_rows)
	{
		if (!keep)
			return;
		kept_ = std::make_unique_for_overwrite<uint16_t[]>(n_rows * made.dim());
		in_parts(n_threads, n_rows, 4096, [&](uint64_t first, uint64_t last, size_t)
			{ make_run(first, last - first, kept_.get() + first * made_.dim()); });
	}

	uint64_t n() const { return n_rows_; }
	uint32_t dim() const { return made_.dim(); }

	/// halves [n, dim] of rows [first, first + n), or of queries.
	void fetch_run(uint64_t first, size_t n, uint16_t *halves) const
	{
		if (kept_ != nullptr && first < MadeRows::kFirstQuery)
			std::memcpy(halves, kept_.get() + first * dim(), n * dim() * sizeof(uint16_t));
		else
			make_run(first, n, halves);
	}

	/// halves [n, dim] of rows numbers [n].
	void fetch(const uint32_t *numbers, size_t n, uint16_t *halves) const
	{
		constexpr size_t kAhead = 16;

		if (kept_ == nullptr)
		{
			const std::vector<uint64_t> wide(numbers, numbers + n);

			make(wide.data(), n, halves);
			return;
		}
		for (size_t i = 0; i < n; i++)
		{
			if (i + kAhead < n)
			{
				const char *next = reinterpret_cast<const char *>(kept_.get() + size_t{numbers[i + kAhead]} * dim());

				for (size_t at = 0; at < dim() * sizeof(uint16_t); at += 64)
					__builtin_prefetch(next + at);
			}
			std::memcpy(halves + i * dim(), kept_.get() + size_t{numbers[i]} * dim(), dim() * sizeof(uint16_t));
		}
	}

private:
	void make_run(uint64_t first, size_t n, uint16_t *halves) const
	{
		std::vector<uint64_t> numbers(n);

		std::iota(numbers.begin(), numbers.end(), first);
		make(numbers.data(), n, halves);
	}

	void make(const uint64_t *numbers, size_t n, uint16_t *halves) const
	{
		constexpr size_t kAtOnce = 256;
		std::vector<float> floats(std::min(n, kAtOnce) * dim());

		for (size_t first = 0; first < n; first += kAtOnce)
		{
			const size_t here = std::min(kAtOnce, n - first);

			made_.make(numbers + first, here, floats.data());
			(void) engine::ivf::narrow_to_halves(floats.data(), here * dim(), halves + first * dim());
		}
	}

	const MadeRows &made_;
	const uint64_t n_rows_;
	std::unique_ptr<uint16_t[]> kept_; // [n_rows, dim]; null: not kept
};

} // namespace vectorgpu::bench
