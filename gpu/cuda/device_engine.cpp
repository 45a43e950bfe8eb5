// The CUDA engine as the worker asks for it.
#include "engine/interface/device_engine.hpp"

#include <utility>

#include "cuda/cuda_engine.hpp"
#include "cuda/device/host_buffer.hpp"

namespace vectorgpu::engine
{

Status
make_device_engine(const DeviceEngineOptions &options, std::unique_ptr<Engine> *engine)
{
	cuda::CudaEngineOptions cuda;
	std::unique_ptr<cuda::CudaEngine> made;

	if (options.again)
	{
		cuda::Device::give_up_context(options.device);
		cuda::HostBuffer::lose(options.device);
	}
	cuda.device = options.device;
	cuda.memory_bytes = options.memory_bytes;
	cuda.log = options.log;
	cuda.fault = options.fault;
	cuda.on_fatal = options.on_lost;

	Status status = make_cuda_engine(cuda, &made);

	if (!status.is_ok())
		return status;
	if (const size_t n_left = cuda::HostBuffer::give_back_lost(); n_left > 0 && options.log)
		options.log("rows in host memory that a lost GPU read stay pinned");
	*engine = std::move(made);
	return Status::ok();
}

int
count_device_engines()
{
	return cuda::Device::count();
}

} // namespace vectorgpu::engine
