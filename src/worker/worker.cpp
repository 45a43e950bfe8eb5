// See worker.hpp.
#include "worker/worker.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include <unistd.h>

#include "common/cores.hpp"
#include "common/device_list.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/interface/device_engine.hpp"
#include "worker/devices/spread_engine.hpp"
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

/// Open a GPU. on_lost: see DeviceEngineOptions.
Status
open_gpu(const Options &options, int device, bool again, std::function<void()> on_lost,
	std::unique_ptr<engine::Engine> *engine)
{
	engine::DeviceEngineOptions gpu;

	gpu.device = device;
	gpu.again = again;
	gpu.memory_bytes = options.gpu_memory_bytes;
	gpu.log = [](const char *line) { log_line("%s", line); };
#ifdef VECTORGPU_FAULTS
	gpu.fault = [](const char *name) { return fault_hit_no_throw(name) == Fault::kError; };
#endif
	gpu.on_lost = std::move(on_lost);
	return engine::make_device_engine(gpu, engine);
}

/// Create the engine of the only GPU. Null if that fails; one log line says why.
std::unique_ptr<engine::Engine>
make_gpu_engine(const Options &options, int device)
{
	std::unique_ptr<engine::Engine> made;

	// A broken context does not heal, and freeing through it may hang: the next worker starts with a new one.
	const Status status = open_gpu(options, device, false, [] { _exit(kExitGpuLost); }, &made);

	if (status.is_ok())
		return made;
	if (options.device == "auto")
		log_line("no GPU is used: %s; the CPU engine answers", status.message.c_str());
	else
		log_line("GPU %d is not used: %s; the CPU engine answers", device, status.message.c_str());
	return nullptr;
}

/// Create the engine of several devices. Null if none can be used.
std::unique_ptr<engine::Engine>
make_several(const Options &options, const DeviceList &list, const engine::CpuEngineOptions &cpu)
{
	const bool on_cpu = list.choice == DeviceChoice::kCpus;
	SpreadOptions spread;
	std::unique_ptr<SpreadEngine> made;

	for (size_t i = 0; i < list.n; i++)
		spread.devices.names.push_back(on_cpu ? "cpu" : "cuda:" + std::to_string(list.numbers[i]));
	spread.devices.open = [options, list, on_cpu, cpu](size_t device, bool again, std::function<void()> on_lost,
							  std::unique_ptr<engine::Engine> *engine)
	{
		if (!on_cpu)
			return open_gpu(options, list.numbers[device], again, std::move(on_lost), engine);
		*engine = engine::make_cpu_engine(cpu);
		return *engine != nullptr ? Status::ok() : Status::error(StatusCode::kOutOfMemory, "out of memory");
	};
	spread.devices.device_bytes = on_cpu ? options.gpu_memory_bytes : 0; // a GPU's engine has its own limit
	spread.devices.log = [](const char *line) { log_line("%s", line); };
#ifdef VECTORGPU_FAULTS
	spread.devices.fault = [](const char *name) { return fault_hit_no_throw(name) == Fault::kError; };
#endif
	spread.devices.on_all_lost = [] { _exit(kExitGpuLost); };
	spread.devices.on_stuck = []
	{
		log_line("a lost device does not return: the worker ends");
		_exit(kExitGpuLost);
	};
	spread.devices.on_closed = []
	{
		log_line("a lost device cannot be opened again: the worker ends");
		_exit(kExitGpuLost);
	};
	if (const Status status = make_spread_engine(spread, &made); !status.is_ok())
		log_line("%s; the CPU engine answers", status.message.c_str());
	return made;
}

/// Create the engine of the devices that the options name, but for the host's. Null: there is none.
std::unique_ptr<engine::Engine>
make_devices(const Options &options, const engine::CpuEngineOptions &cpu)
{
	DeviceList list;

	parse_device_list(options.device, &list);
	if (list.choice == DeviceChoice::kAllGpus)
	{
		const int n = std::min<int>(engine::count_device_engines(), kMostDevices);

		list.choice = DeviceChoice::kGpus;
		list.n = n > 0 ? static_cast<size_t>(n) : 1; // none: the first one's failure says why
		for (int i = 0; i < n; i++)
			list.numbers[i] = i;
	}
	return list.n > 1 ? make_several(options, list, cpu) : make_gpu_engine(options, list.numbers[0]);
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

	std::unique_ptr<engine::Engine> device = make_devices(options, cpu);

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
