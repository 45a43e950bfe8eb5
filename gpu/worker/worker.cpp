// See worker.hpp.
#include "worker/worker.hpp"

#include "engine/cpu/cpu_engine.hpp"
#include "worker/null_engine.hpp"

namespace vectorgpu::worker
{

std::unique_ptr<engine::Engine>
make_engine(const Options &options)
{
	if (options.engine == "null")
		return make_null_engine();

	engine::CpuEngineOptions cpu;

	cpu.n_threads = options.n_threads;
	return engine::make_cpu_engine(cpu);
}

} // namespace vectorgpu::worker
