// Makes the engine of a GPU, whichever kind it is, for the worker. Declared here, defined by gpu/cuda if that is built
// (VECTORGPU_WITH_CUDA), else here as a refusal; no CUDA in this header.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "common/status.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

struct DeviceEngineOptions
{
	int device = 0;
	uint64_t memory_bytes = 0;                   // for copies; 0: all that the device has
	std::function<void(const char *line)> log;   // any thread
	std::function<bool(const char *name)> fault; // for tests: whether the fault of this name should happen; may be null
	bool again = false;                          // this process has lost the GPU: its broken context is given up first
	std::function<void()> on_lost; // the GPU cannot be used by this process any more: called once, may exit
};

/// kUnavailable: no usable GPU, or it computes wrongly; kUnsupported: it is too old; kOutOfMemory. The caller then goes
/// on without it: on_lost is not called before the engine is returned.
#ifdef VECTORGPU_WITH_CUDA
Status make_device_engine(const DeviceEngineOptions &options, std::unique_ptr<Engine> *engine);

/// The number of GPUs of this machine; 0 if none can be used.
int count_device_engines();
#else
inline Status
make_device_engine(const DeviceEngineOptions &, std::unique_ptr<Engine> *)
{
	return Status::error(StatusCode::kUnavailable, "this worker was built without the CUDA engine");
}

inline int
count_device_engines()
{
	return 0;
}
#endif

} // namespace vectorgpu::engine
