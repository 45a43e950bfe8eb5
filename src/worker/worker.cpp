// See worker.hpp.
#include "worker/worker.hpp"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "common/cores.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/device_engine.hpp"
#include "worker/worker_fault.hpp"
#include "worker/log.hpp"
#include "worker/null_engine.hpp"
#include "worker/tiers/tiered_engine.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr int kExitGpuLost = 3;

// With a GPU the dispatchers wake no clients. Measured with 64 clients on 16 cores and one to three dispatchers: with a
// GPU one is fastest, with an engine that takes no time two are (README.md).
constexpr unsigned kCoresPerDispatcher = 8;
constexpr unsigned kCoresPerDispatcherWithGpu = 16;
constexpr unsigned kMostDispatchers = 8;

/// Create the engine of the GPU that the options name. Null if that fails; one log line says why.
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
		if (options.device == "auto")
			log_line("no GPU is used: %s; the CPU engine answers", status.message.c_str());
		else
			log_line("GPU %d is not used: %s; the CPU engine answers", device.device, status.message.c_str());
		return nullptr;
	}
	return made;
}

unsigned
count_dispatchers(const Options &options, const engine::Engine &engine)
{
	const unsigned cores_each = engine.computes_elsewhere() ? kCoresPerDispatcherWithGpu : kCoresPerDispatcher;

	if (options.n_dispatchers > 0)
		return options.n_dispatchers;
	return std::clamp(count_cores() / cores_each, 1U, kMostDispatchers);
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

Worker::Worker(const Options &options, std::unique_ptr<engine::Engine> engine, Clock clock)
	: options_(options), engine_(std::move(engine)), handler_(options_, *engine_, clock),
	  reception_(
		  options_, handler_, clock, [this](const std::shared_ptr<Session> &session) { least_busy().adopt(session); })
{
	for (unsigned i = count_dispatchers(options_, *engine_); i > 0; i--)
		dispatchers_.push_back(std::make_unique<Dispatcher>(options_, handler_, clock));
}

/// Return the dispatcher with the fewest sessions. Only the reception calls this, so the counts do not change
/// meanwhile.
Dispatcher &
Worker::least_busy()
{
	return **std::min_element(dispatchers_.begin(), dispatchers_.end(),
		[](const auto &a, const auto &b) { return a->n_sessions() < b->n_sessions(); });
}

Status
Worker::listen(int lock_timeout_ms)
{
	for (const auto &dispatcher : dispatchers_)
		if (const Status status = dispatcher->open(); !status.is_ok())
			return status;
	return reception_.listen(lock_timeout_ms);
}

void
Worker::run()
{
	handler_.start();
	for (const auto &dispatcher : dispatchers_)
		dispatcher->start();
	reception_.run();
	for (const auto &dispatcher : dispatchers_)
		dispatcher->stop();
	handler_.stop();
}

} // namespace vectorgpu::worker
