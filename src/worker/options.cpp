// See options.hpp.
#include "worker/options.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "common/cores.hpp"
#include "common/device_list.hpp"

namespace vectorgpu::worker
{
namespace
{

constexpr unsigned kCoresToSpin = 4; // with fewer cores, a spinning thread takes the time of the one it waits for
constexpr uint32_t kSpinUs = 50;
constexpr unsigned kCoresToSpinLong = 8;
constexpr uint32_t kLongSpinUs = 200;     // covers a client's round trip
constexpr uint32_t kDispatcherLimit = 64; // maximum of --dispatchers

template <typename T>
bool
parse_number(std::string_view text, int base, T *value)
{
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);

	return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool
parse_one(std::string_view name, std::string_view value, Options *options)
{
	if (name == "--data-directory")
		options->data_directory = value;
	else if (name == "--engine")
		options->engine = value;
	else if (name == "--epoch")
		return parse_number(value, 16, &options->epoch);
	else if (name == "--threads")
		return parse_number(value, 10, &options->n_threads) && options->n_threads >= 1 && options->n_threads <= 1024;
	else if (name == "--memory-budget")
	{
		const bool parsed = parse_number(value, 10, &options->memory_budget_bytes);

		options->build_budget_bytes = options->memory_budget_bytes;
		return parsed;
	}
	else if (name == "--device")
		options->device = value;
	else if (name == "--gpu-memory")
		return parse_number(value, 10, &options->gpu_memory_bytes);
	else if (name == "--dispatchers")
		return parse_number(value, 10, &options->n_dispatchers) && options->n_dispatchers >= 1 &&
			options->n_dispatchers <= kDispatcherLimit;
	else if (name == "--max-sessions")
		return parse_number(value, 10, &options->max_sessions) && options->max_sessions >= 1;
	else if (name == "--max-batch")
		return parse_number(value, 10, &options->max_batch) && options->max_batch >= 1 && options->max_batch <= 65536;
	else if (name == "--spin-us")
		return parse_number(value, 10, &options->spin_us) && options->spin_us <= 100000;
	else if (name == "--parent-fd")
		return parse_number(value, 10, &options->parent_fd) && options->parent_fd > 2;
	else if (name == "--parent-pid")
		return parse_number(value, 10, &options->parent_pid) && options->parent_pid > 0;
	else
		return false;
	return !value.empty();
}

} // namespace

Status
parse_options(int argc, char **argv, Options *options)
{
	bool have_epoch = false;

	const unsigned n_cores = count_cores();

	options->spin_us = n_cores >= kCoresToSpinLong ? kLongSpinUs : n_cores >= kCoresToSpin ? kSpinUs : 0;
	options->n_dispatchers = 0;
	for (int i = 1; i < argc; i += 2)
	{
		if (i + 1 >= argc || !parse_one(argv[i], argv[i + 1], options))
			return Status::error(StatusCode::kInvalidArgument, std::string("wrong argument \"") + argv[i] + "\"");
		have_epoch = have_epoch || strcmp(argv[i], "--epoch") == 0;
	}
	if (options->data_directory.empty() || !have_epoch)
		return Status::error(StatusCode::kInvalidArgument, "--data-directory and --epoch are needed");
	if (options->engine != "auto" && options->engine != "cpu" && options->engine != "null")
		return Status::error(StatusCode::kInvalidArgument, "--engine is auto, cpu or null");
	if (DeviceList list; !parse_device_list(options->device, &list))
		return Status::error(
			StatusCode::kInvalidArgument, "--device is auto, cpu, cuda, or a list such as cuda:0,cuda:1");
	return Status::ok();
}

} // namespace vectorgpu::worker
