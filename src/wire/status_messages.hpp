// Bodies of STATS and INVENTORY. See README.md.
#pragma once

#include "common/device_list.hpp"
#include "wire/messages.hpp"

namespace vectorgpu::wire
{

constexpr uint32_t kHistogramBuckets = 32; // bucket i: latency in [2^i, 2^(i+1)) units of 256 ns; the ends are open

/// One of several devices.
struct WorkerDevice
{
	char name[16]; // zero-terminated: as in vectorgpu.device
	uint64_t resident_bytes;
	uint64_t budget_bytes; // 0: no limit
	uint32_t usable;       // 0: it is lost, or could not be opened
	uint32_t zero;
};
static_assert(sizeof(WorkerDevice) == 40);

/// The reply to STATS.
struct WorkerStats
{
	uint64_t started_ns; // CLOCK_MONOTONIC
	uint64_t now_ns;
	uint64_t n_sessions;
	uint64_t n_copies;
	uint64_t resident_bytes;
	uint64_t budget_bytes;
	uint64_t n_queued;
	uint64_t n_searches;
	uint64_t n_batches;
	uint64_t n_cancelled;
	uint64_t n_evictions;
	uint64_t n_loads;
	uint64_t n_rescored;
	uint64_t n_invalid;
	uint64_t n_refused; // over the memory budget
	uint64_t n_out_of_memory;
	uint64_t n_internal;
	uint64_t loaded_bytes;                         // by LOAD_ROWS and APPEND
	uint64_t kept_bytes;                           // results waiting for NEXT
	uint64_t n_filters_made;                       // searches with conditions that found the rows that meet them
	uint64_t n_filters_found;                      // ... and that knew them from another search
	uint64_t host_bytes;                           // of copies, in host memory
	uint64_t latency_histogram[kHistogramBuckets]; // SEARCH, from taken to replied
	char device[64];                               // zero-terminated
	uint32_t n_devices;                            // 0: there is only one
	uint32_t zero;
	WorkerDevice devices[kMostDevices]; // [n_devices]
};
static_assert(sizeof(WorkerStats) == 22 * 8 + kHistogramBuckets * 8 + 64 + 8 + kMostDevices * sizeof(WorkerDevice));

struct InventoryRequest
{
	uint32_t first; // position of the first copy to return
	uint32_t zero;
};

/// The reply to INVENTORY has an array of these.
struct CopyInfo
{
	CopyKey key;
	CopyVersion version;
	uint64_t resident_bytes;
	uint64_t n_rows; // in segments
	uint64_t delta_rows;
	uint64_t n_dead; // in segments and delta
	uint64_t n_searches;
	uint64_t n_loads;
	uint64_t last_used_ns; // CLOCK_MONOTONIC
	uint32_t n_segments;
	uint16_t current;
	uint16_t leased;
	uint32_t n_devices; // 0: the worker has only one, or the copy is in host memory
	uint32_t zero;
	uint64_t host_bytes;                 // in host memory
	uint64_t device_bytes[kMostDevices]; // [n_devices]: on each of the worker's devices, in their order
};
static_assert(sizeof(CopyInfo) == 136 + kMostDevices * 8);

} // namespace vectorgpu::wire
