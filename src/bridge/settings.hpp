// Configuration parameters of the worker, in the units of their names. Read everywhere in bridge/ and am/; written by
// PostgreSQL's GUC machinery only. PG dialect.
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
	int gpu_memory_mb;            // vectorgpu.gpu_memory; 0: what the GPU has left
};

extern Settings settings;

/// Defines the parameters. Called once, from _PG_init, before the prefix is reserved.
void settings_define();

/// Microseconds to look at the slot before sleeping.
uint32 spin_us();

/// Where cores are many, this many processes at a time may look for kLongSpinUs instead: a GPU takes about 50 us, and
/// waking up from sleep is a good part of that. has_gpu: so that the worker leaves the cores alone meanwhile;
/// last_batch: searches that were answered together with this process's last one: more of them than cores say that
/// others need these. 0: none may.
uint32 most_long_spins(bool has_gpu, uint32 last_batch);
constexpr uint32 kLongSpinUs = 200;

} // namespace vectorgpu::bridge
