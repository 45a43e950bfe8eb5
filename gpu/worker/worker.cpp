// See worker.hpp.
#include "worker/worker.hpp"

#include <utility>

#include <unistd.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/device_engine.hpp"
#include "worker/fault.hpp"
#include "worker/log.hpp"
#include "worker/null_engine.hpp"
#include "worker/tiered_engine.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr int kExitGpuLost = 3;

/// The engine of the GPU that the options ask for, or null; one line says why.
std::unique_ptr<engine::Engine>
make_gpu_engine(const Options &options)
{
	engine::DeviceEngineOptions device;
	std::unique_ptr<engine::Engine> made;

	parse_device(options.device, &device.device); // auto: the first
	device.memory_bytes = options.gpu_memory_bytes;
	device.log = [](const char *line) { log_line("%s", line); };
#ifdef VECTORGPU_FAULTS
	device.fault = [](const char *name) { return fault_hit_no_throw(name) == Fault::kError; };
#endif
	// A broken context does not heal, and freeing through it may hang: the next worker starts with a new one.
	device.on_lost = [] { _exit(kExitGpuLost); };

	const Status status = engine::make_device_engine(device, &made);

	if (!status.is_ok())
	{
		log_line("GPU %d is not used: %s; the CPU engine answers", device.device, status.message.c_str());
		return nullptr;
	}
	return made;
}

} // namespace

std::unique_ptr<engine::Engine>
make_engine(const Options &options)
{
	if (options.engine == "null")
		return make_null_engine();

	engine::CpuEngineOptions cpu;

	cpu.n_threads = options.n_threads;

	std::unique_ptr<engine::Engine> host = engine::make_cpu_engine(cpu);

	if (host == nullptr || options.engine == "cpu" || options.device == "cpu")
		return host;

	std::unique_ptr<engine::Engine> device = make_gpu_engine(options);

	if (device == nullptr)
		return host;

	TieredEngineOptions tiered;

	tiered.host_bytes = options.memory_budget_bytes;
	tiered.log = [](const char *line) { log_line("%s", line); };
	return make_tiered_engine(std::move(device), std::move(host), tiered);
}

} // namespace vectorgpu::worker
