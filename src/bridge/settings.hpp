// Configuration parameters of the worker, in the units of their names. PostgreSQL's GUC machinery alone writes them. PG
// dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::bridge
{

struct Settings
{
	bool worker;                  // vectorgpu.worker
	int worker_timeout_ms;        // vectorgpu.worker_timeout
	int spin_time_us;             // vectorgpu.spin_time_us; -1: by the number of cores
	int worker_min_size_kb;       // vectorgpu.worker_min_size
	int inline_load_size_kb;      // vectorgpu.inline_load_size
	int ship_limit_kb;            // vectorgpu.ship_limit
	int worker_threads;           // vectorgpu.worker_threads; 0: one a core
	int worker_memory_mb;         // vectorgpu.worker_memory
	int worker_restart_delay_max; // vectorgpu.worker_restart_delay_max, s
	int worker_max_sessions;      // vectorgpu.worker_max_sessions
	int worker_sweep_interval;    // vectorgpu.worker_sweep_interval, s
	char *worker_program;         // vectorgpu.worker_program; empty: beside the module
	char *device;                 // vectorgpu.device; auto, cpu, cuda:N
	int gpu_memory_mb;            // vectorgpu.gpu_memory; 0: the GPU's free memory
};

extern Settings settings;

/// Define the parameters. Called once, from _PG_init, before the prefix is reserved.
void settings_define();

/// Return the microseconds to poll the slot before sleeping.
uint32 spin_us();

/// Return how many processes at a time may poll for kLongSpinUs instead, if there are many cores: a GPU takes about 50
/// us, and waking up is a large part of that. has_gpu: the worker does not need the cores meanwhile. last_batch:
/// searches in the batch of this process's last one; if they are more than cores, others need these. 0: none may.
uint32 most_long_spins(bool has_gpu, uint32 last_batch);
constexpr uint32 kLongSpinUs = 200;

/// Return the microseconds of such a poll: longer than kLongSpinUs if the last batch took longer, since a process that
/// has slept so long is woken late, but at most kLongestSpinUs. last_engine_us: the time of that batch.
uint32 long_spin_us(uint32 last_engine_us);
constexpr uint32 kLongestSpinUs = 1000;

} // namespace vectorgpu::bridge
