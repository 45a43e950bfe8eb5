// A selection of the k first and its buffer, for searches of the CPU engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/interface/engine.hpp"
#include "engine/distance/topk.hpp"

namespace vectorgpu::engine
{

class Selection
{
public:
	/// n_rows: an upper bound on the number of candidates. Throws bad_alloc.
	void start(const SearchQuery &query, uint64_t n_rows)
	{
		const size_t k = std::min<uint64_t>(query.k, n_rows);
		const size_t capacity =
			std::clamp<uint64_t>(topk_buffer_bytes(k) / sizeof(Neighbor), 1, std::max<uint64_t>(n_rows, 1));

		buffer_ = std::make_unique_for_overwrite<Neighbor[]>(capacity);
		topk_init(&topk_, k, buffer_.get(), capacity, query.has_after ? &query.after : nullptr);
	}

	TopK *topk() { return &topk_; }

	void merge(Selection *other)
	{
		const size_t n = topk_finish(&other->topk_);

		for (size_t i = 0; i < n; i++)
			topk_push(&topk_, &other->buffer_[i].score, &other->buffer_[i].row, 1, nullptr, 0);
	}

	std::vector<Neighbor> finish()
	{
		const size_t n = topk_finish(&topk_);

		return {buffer_.get(), buffer_.get() + n};
	}

	/// Keep the threshold near its true value, for a filter.
	void tighten()
	{
		if (topk_.size >= topk_.k && (!topk_.full || topk_.size - topk_.k >= std::max(kTightenAfter, topk_.k / 4)))
			topk_tighten(&topk_);
	}

private:
	static constexpr size_t kTightenAfter = 64; // candidates taken between two cuts of a selection that steers a filter

	TopK topk_;
	std::unique_ptr<Neighbor[]> buffer_;
};

} // namespace vectorgpu::engine
