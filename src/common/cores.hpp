// How many processors this process may run on.
#pragma once

#include <sched.h>
#include <unistd.h>

namespace vectorgpu
{

/// At least 1. Counts what the process is bound to (taskset, cgroup cpusets), not what the machine has: threads beyond
/// that wait for each other. Of a machine with more processors than a cpu_set_t has bits, all that are online.
inline unsigned
count_cores()
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		return static_cast<unsigned>(CPU_COUNT(&set));

	const long online = sysconf(_SC_NPROCESSORS_ONLN);

	return online > 0 ? static_cast<unsigned>(online) : 1;
}

} // namespace vectorgpu
