// What uploads to copies, and reads from them, share: a stream and buffers, for one user at a time.
#pragma once

#include <mutex>

#include "cuda/device/device.hpp"

namespace vectorgpu::cuda
{

struct Uploader
{
	std::mutex mutex; // held while any of the others is used
	Stream stream;
	PinnedBuffer pinned;
	DeviceBuffer staging; // as large as pinned
	DeviceBuffer scratch; // flags and stats
};

} // namespace vectorgpu::cuda
