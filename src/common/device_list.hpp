// The value of vectorgpu.device: the devices that the worker computes on. Parsed by the server, which refuses bad
// values, and by the worker.
#pragma once

#include <cstddef>
#include <string_view>

namespace vectorgpu
{

constexpr size_t kMostDevices = 16; // of a worker
constexpr int kMostDeviceNumber = 999;

enum class DeviceChoice : unsigned char
{
	kAuto,    // auto: the first GPU if it can be used, else the CPU
	kCpu,     // cpu
	kAllGpus, // cuda
	kGpus,    // cuda:N, or several of them separated by commas
	kCpus,    // cpu,cpu…: several CPU engines, for tests and comparisons
};

struct DeviceList
{
	DeviceChoice choice = DeviceChoice::kAuto;
	size_t n = 1;                // of kGpus and kCpus
	int numbers[kMostDevices]{}; // kGpus: [n], in the order given
};

/// Parse the number behind "cuda:", without sign, of at most three digits. -1: it is none.
constexpr int
parse_device_number(std::string_view text)
{
	int number = 0;

	if (text.empty() || text.size() > 3)
		return -1;
	for (const char c : text)
	{
		if (c < '0' || c > '9')
			return -1;
		number = number * 10 + (c - '0');
	}
	return number;
}

/// Add one entry of a list of several, or the only one; false if it does not fit to those before.
constexpr bool
add_device(std::string_view entry, DeviceList *list)
{
	constexpr std::string_view kGpu = "cuda:";
	const bool is_cpu = entry == "cpu";
	const int number = entry.substr(0, kGpu.size()) == kGpu ? parse_device_number(entry.substr(kGpu.size())) : -1;
	const DeviceChoice choice = is_cpu ? DeviceChoice::kCpus : DeviceChoice::kGpus;

	if ((!is_cpu && number < 0) || list->n == kMostDevices || (list->n > 0 && list->choice != choice))
		return false;
	for (size_t i = 0; !is_cpu && i < list->n; i++)
		if (list->numbers[i] == number)
			return false;
	list->choice = choice;
	list->numbers[list->n++] = number;
	return true;
}

/// Parse auto, cpu, cuda, or a list without spaces of at most kMostDevices GPUs (each once) or CPUs. False: it is none
/// of these.
constexpr bool
parse_device_list(std::string_view text, DeviceList *list)
{
	*list = {};
	if (text == "auto")
		return true;
	if (text == "cpu" || text == "cuda")
	{
		list->choice = text == "cpu" ? DeviceChoice::kCpu : DeviceChoice::kAllGpus;
		return true;
	}
	list->n = 0;
	for (;;)
	{
		const size_t comma = text.find(',');

		if (!add_device(text.substr(0, comma), list))
			return false;
		if (comma == std::string_view::npos)
			return true;
		text.remove_prefix(comma + 1);
	}
}

} // namespace vectorgpu
