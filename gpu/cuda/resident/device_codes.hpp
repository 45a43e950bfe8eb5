// Codes of the rows of a sealed segment with lists, on the device (engine/interface/codes_layout.hpp). Made once, never
// changed.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda/device/block.hpp"
#include "cuda/device/uploader.hpp"
#include "cuda/resident/snapshot.hpp"
#include "engine/copies/lists.hpp"
#include "kernels/codes/codes.hpp"

namespace vectorgpu::cuda
{

struct DeviceCodes
{
	engine::CodesLayout layout;
	uint32_t pitch_bytes = 0;
	uint32_t code_bytes = 0; // of a row, in the index
	Held model;              // floats
	Held terms;              // [n_rows] float; empty if rows have none
	Held codes;              // in the layout of kernels::Codes

	kernels::Codes view() const;
};

/// Convert n_units units (engine/ivf's code_unit_rows) from the index's layout to the device's, from unit `first_unit`
/// of `to` on; and bytes of all codes back. Both on the device. All kinds but halves, which are only padded.
cudaError_t lay_out_codes(const DeviceCodes &codes, const uint8_t *from, uint64_t first_unit, uint64_t n_units,
	uint8_t *to, cudaStream_t stream);
cudaError_t lay_out_codes_back(
	const DeviceCodes &codes, uint64_t first_byte, uint64_t n_bytes, uint8_t *to, cudaStream_t stream);

/// Make codes from a checked description. Caller holds the uploader's mutex. Waits for the upload.
Status make_codes(
	Budget *budget, Uploader *uploader, const engine::Lists &lists, std::unique_ptr<const DeviceCodes> *made);

/// Read bytes [first, first + n_bytes) of the codes' description. Caller holds the uploader's mutex.
Status read_codes(
	const Device *device, Uploader *uploader, const DeviceCodes &codes, uint64_t first, size_t n_bytes, uint8_t *bytes);

/// Copy n_bytes of host memory to the device through the pinned buffer, or back. Caller holds the uploader's mutex.
Status send_bytes(const Device *device, Uploader *uploader, void *to, const void *from, size_t n_bytes);
Status receive_bytes(const Device *device, Uploader *uploader, uint8_t *to, const uint8_t *from, size_t n_bytes);

/// Add to *n_different the number of bytes that differ between device and host. Caller holds the uploader's mutex.
Status count_different(const Device *device, Uploader *uploader, const uint8_t *on_device, const uint8_t *on_host,
	size_t n_bytes, uint64_t *n_different);

} // namespace vectorgpu::cuda
