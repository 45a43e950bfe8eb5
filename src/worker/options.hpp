// The options of the command line. Parsed once by main, then constant.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.hpp"

namespace vectorgpu::worker
{

struct Options
{
	std::string data_directory;
	std::string engine = "auto"; // auto, cpu, null
	uint64_t epoch = 0;
	std::string device = "auto";                      // as common/device_list.hpp
	uint64_t memory_budget_bytes = uint64_t{4} << 30; // of resident copies in host memory
	uint64_t build_budget_bytes = uint64_t{4} << 30;  // of builds of graphs in host memory, all together
	uint64_t gpu_memory_bytes = 0;                    // of resident copies on the GPU; 0: its free memory
	uint64_t kept_budget_bytes = uint64_t{256} << 20; // of results waiting for NEXT, all sessions together
	uint32_t n_threads = 1;                           // of the engine
	uint32_t n_dispatchers = 1;                       // threads that serve sessions; 0: by the cores and the engine
	uint32_t max_sessions = 1024;
	uint32_t max_batch = 256; // queries of one batch
	uint32_t spin_us = 0;     // poll slots this long before sleeping
	int parent_fd = -1;       // end of file on it: the parent is gone
	int parent_pid = 0;       // 0: not given
};

/// Parse the arguments described in README.md. The message of kInvalidArgument names the first wrong one.
Status parse_options(int argc, char **argv, Options *options);

} // namespace vectorgpu::worker
