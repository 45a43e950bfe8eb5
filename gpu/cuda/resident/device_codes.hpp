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
