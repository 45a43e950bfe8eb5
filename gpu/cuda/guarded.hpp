// The border of the engine, which no exception passes.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>

#include "cuda/device/device.hpp"

namespace vectorgpu::cuda
{

/// Run work() on the device; exceptions become a status.
template <class Work>
Status
guarded(const Device &device, Work work)
{
	try
	{
		VECTORGPU_TRY(device.use());
		return work();
	}
	catch (const std::bad_alloc &)
	{
		return Status::error(StatusCode::kOutOfMemory, "out of memory in the CUDA engine");
	}
	catch (const std::length_error &) // a size that no allocation has
	{
		return Status::error(StatusCode::kOutOfMemory, "out of memory in the CUDA engine");
	}
	catch (const std::exception &failure)
	{
		return Status::error(StatusCode::kInternal, failure.what());
	}
}

} // namespace vectorgpu::cuda
