// Inverted lists of a segment in host memory. See lists_layout.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "engine/interface/codes_layout.hpp"
#include "engine/interface/lists_layout.hpp"

namespace vectorgpu::engine
{

/// A segment's lists in host memory. Immutable once checked.
class Lists
{
public:
	/// Append. kInvalidArgument if n_lists differs from the first call's. Throws bad_alloc and changes nothing then.
	Status append(uint32_t n_lists, std::span<const uint8_t> bytes);

	/// Check the description after the last append. kInvalidArgument if it is not one of n_rows rows.
	Status check(uint32_t dim, uint64_t n_rows);

	/// The same of lists with codes behind them, of such rows.
	Status check_coded(const DistanceSpec &rows, uint64_t n_rows);

	const ListsLayout &layout() const { return layout_; }
	uint32_t n_lists() const { return layout_.n_lists; }
	std::span<const uint8_t> bytes() const { return bytes_; }

	// After check().
	const uint64_t *offsets() const { return reinterpret_cast<const uint64_t *>(bytes_.data()); }
	const float *centroids() const { return reinterpret_cast<const float *>(bytes_.data() + layout_.centroids_at()); }
	const uint32_t *numbers() const { return reinterpret_cast<const uint32_t *>(bytes_.data() + layout_.numbers_at()); }

	/// The inverse of numbers(): [n_rows], places by number. Made at the first call, by any thread; throws bad_alloc.
	const uint32_t *places() const;
	uint64_t places_bytes() const { return places_bytes_.load(std::memory_order_relaxed); }

	// After check_coded().
	const CodesLayout &codes_layout() const { return codes_layout_; }
	/// The model of the codes. Alive as long as this object, which must not move.
	const ivf::CodeModel &code_model() const { return model_; }
	/// By place; null if rows have none.
	const float *terms() const
	{
		return ivf::code_has_terms(codes_layout_.spec)
			? reinterpret_cast<const float *>(codes_bytes() + codes_layout_.terms_at())
			: nullptr;
	}
	/// By place. The code of place p, a multiple of code_unit_rows, is at p * code_bytes.
	const uint8_t *codes() const { return codes_bytes() + codes_layout_.codes_at(); }
	/// The whole description of the codes: codes_layout().bytes().
	const uint8_t *codes_bytes() const { return bytes_.data() + layout_.bytes(); }

private:
	Status check_lists(const ListsLayout &layout);

	ListsLayout layout_; // dim and n_rows from check() on
	CodesLayout codes_layout_;
	ivf::CodeModel model_;
	std::vector<uint8_t> bytes_;
	mutable std::mutex places_mutex_;
	mutable std::vector<uint32_t> places_;
	mutable std::atomic<uint64_t> places_bytes_{0};
};

struct SegmentProbes;

/// Return how many of the n_lists lists of a segment a query with these probes searches.
uint32_t probes_of(std::span<const SegmentProbes> probes, uint32_t segment, uint32_t n_lists);

/// Return how many candidates of a segment such a query scores, at least 1.
uint32_t candidates_of(std::span<const SegmentProbes> probes, uint32_t segment);

} // namespace vectorgpu::engine
