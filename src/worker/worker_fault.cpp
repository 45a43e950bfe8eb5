// See worker_fault.hpp. The list is made before threads start; later only its counters change.
#include "worker/worker_fault.hpp"

#ifdef VECTORGPU_FAULTS

#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <new>
#include <string>
#include <string_view>

#include <time.h>
#include <unistd.h>

namespace vectorgpu::worker
{
namespace
{

struct Armed
{
	std::string name;
	uint64_t nth = 0;
	std::string action;
	std::atomic<uint64_t> n_calls{0};
};

std::deque<Armed> armed_faults;

bool
add(std::string_view one)
{
	const size_t first = one.find(':');
	const size_t second = one.find(':', first == std::string_view::npos ? first : first + 1);
	uint64_t nth = 0;

	if (second == std::string_view::npos)
		return false;

	const std::string_view number = one.substr(first + 1, second - first - 1);
	const std::string_view action = one.substr(second + 1);

	if (std::from_chars(number.data(), number.data() + number.size(), nth).ec != std::errc())
		return false;
	for (const char *known : {"error", "enomem", "sleep", "exit", "abort", "corrupt"})
		if (action == known)
		{
			Armed &armed = armed_faults.emplace_back();

			armed.name = one.substr(0, first);
			armed.nth = nth;
			armed.action = action;
			return true;
		}
	return false;
}

Fault
act(const std::string &action)
{
	if (action == "enomem")
		throw std::bad_alloc();
	if (action == "exit")
		_exit(3);
	if (action == "abort")
		std::abort();
	if (action == "sleep")
	{
		const timespec five_seconds = {5, 0};

		nanosleep(&five_seconds, nullptr);
		return Fault::kNone;
	}
	return action == "corrupt" ? Fault::kCorrupt : Fault::kError;
}

} // namespace

bool
fault_setup(const char *setting)
{
	std::string_view rest = setting == nullptr ? "" : setting;

	armed_faults.clear();
	while (!rest.empty())
	{
		const size_t comma = rest.find(',');

		if (!add(rest.substr(0, comma)))
			return false;
		rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
	}
	return true;
}

Fault
fault_hit(const char *name)
{
	for (Armed &armed : armed_faults)
		if (armed.name == name)
		{
			const uint64_t call = armed.n_calls.fetch_add(1, std::memory_order_relaxed) + 1;

			if (armed.nth == 0 || armed.nth == call)
				return act(armed.action);
		}
	return Fault::kNone;
}

Fault
fault_hit_no_throw(const char *name)
{
	try
	{
		return fault_hit(name);
	}
	catch (const std::bad_alloc &)
	{
		return Fault::kError;
	}
}

} // namespace vectorgpu::worker

#endif
