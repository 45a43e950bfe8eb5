// Inverted lists of a sealed segment on the device. Made once, never changed; freed with the last holder.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/device/block.hpp"
#include "cuda/device/uploader.hpp"
#include "cuda/resident/device_codes.hpp"
#include "engine/copies/lists.hpp"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::cuda
{

struct DeviceLists
{
	engine::ListsLayout layout;
	uint32_t dim_pad = 0;
	Held offsets;                             // [n_lists + 1] uint64
	Held centroids;                           // [n_lists, dim_pad] float
	Held list_ids;                            // [n_lists] uint64: 0, 1, 2, ...
	Filled ranked;                            // many centroids once more, for the filter; block null: it does not serve
	Held numbers;                             // [n_rows] uint32, by place
	Held row_ids;                             // [n_rows] by place
	std::unique_ptr<const DeviceCodes> codes; // of a copy of lists with codes
	bool with_vectors = true;                 // false: rows have codes only

	mutable std::mutex places_mutex;
	mutable std::shared_ptr<const Held> places; // [n_rows] uint32, by number; null until places_of() was called

	uint32_t n_lists() const { return layout.n_lists; }

	/// Bytes of the description.
	uint64_t bytes() const { return layout.bytes() + (codes != nullptr ? codes->layout.bytes() : 0); }

	/// The centroids as rows; their ids are the numbers of the lists.
	kernels::Rows rows_of_centroids() const;
};

/// Make lists from a checked description of such rows. coded: with codes; with_vectors: see DeviceLists. row_ids
/// [n_rows] by number, on the device. Waits for the upload.
Status make_lists(Budget *budget, Uploader *uploader, const engine::DistanceSpec &spec, const engine::Lists &lists,
	const uint64_t *row_ids, uint32_t dim_pad, bool coded, bool with_vectors, std::shared_ptr<const DeviceLists> *made);

/// Read bytes [first, first + n_bytes) of the description.
Status read_lists(
	const Device *device, Uploader *uploader, const DeviceLists &lists, uint64_t first, size_t n_bytes, uint8_t *bytes);

/// Make a bitmap by place from one by number.
Status permute_bits(Budget *budget, Uploader *uploader, const DeviceLists &lists, const Held &by_number,
	std::shared_ptr<const Held> *by_place);

/// Return the places of rows by their numbers. The first call makes them, and waits for the stream.
Status places_of(Budget *budget, const Stream &stream, const DeviceLists &lists, std::shared_ptr<const Held> *places);

/// The same, or null before the first call of places_of().
std::shared_ptr<const Held> made_places(const DeviceLists &lists);

} // namespace vectorgpu::cuda
