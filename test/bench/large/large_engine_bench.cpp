// An engine alone with a table that is large for a GPU: rows are made, lists trained, filled and coded, copies loaded
// and searched, each step timed. See README.md.
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "engine/cpu/cpu_engine.hpp"
#include "large_search.hpp"
#ifdef VECTORGPU_WITH_CUDA
#include "cuda/cuda_engine.hpp"
#endif

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

std::vector<std::string>
split(const std::string &text)
{
	std::vector<std::string> parts;
	std::stringstream stream(text);

	for (std::string part; std::getline(stream, part, ',');)
		parts.push_back(part);
	return parts;
}

std::vector<uint32_t>
numbers_of(const std::string &text)
{
	std::vector<uint32_t> numbers;

	for (const std::string &part : split(text))
		numbers.push_back(static_cast<uint32_t>(std::strtoul(part.c_str(), nullptr, 10)));
	return numbers;
}

std::vector<Storage>
storages_of(const std::string &text)
{
	std::vector<Storage> storages;

	for (const std::string &part : split(text))
	{
		const size_t colon = part.find(':');
		const std::string number = colon == std::string::npos ? "0" : part.substr(colon + 1);

		storages.push_back(
			{part.substr(0, colon), static_cast<uint32_t>(std::strtoul(number.c_str(), nullptr, 10)), part});
	}
	return storages;
}

[[noreturn]] void
usage()
{
	std::fprintf(stderr,
		"usage: large_engine_bench [--rows N] [--dim D] [--lists N] [--storage rabitq:BITS,pq:BYTES,sq8]\n"
		"  [--probes N,...] [--candidates N,...] [--batch N,...] [--queries N] [--judged N] [--seconds S]\n"
		"  [--enough RECALL] [--wanted RECALL] [--least-recall RECALL] [--deadline S] [--training ROWS_A_LIST]\n"
		"  [--iterations N] [--threads N] [--builders N] [--workspace MB] [--rows-in device|host|caller] [--forget]\n"
		"  [--latent N] [--decay X] [--groups N] [--spread X] [--noise X] [--seed N] [--figures FILE] [--cpu]\n");
	std::exit(2);
}

RowsPlace
place_of(const std::string &text)
{
	if (text != "device" && text != "host" && text != "caller")
		usage();
	return text == "device" ? RowsPlace::kDevice : text == "host" ? RowsPlace::kHost : RowsPlace::kCaller;
}

Options
parse(int argc, char **argv)
{
	Options options;
	using Set = std::function<void(const char *)>;
	const auto number = [](auto *to)
	{
		return Set([to](const char *text)
			{ *to = static_cast<std::remove_reference_t<decltype(*to)>>(std::strtod(text, nullptr)); });
	};
	const std::map<std::string, Set> known = {
		{"--rows", number(&options.n_rows)},
		{"--dim", number(&options.law.dim)},
		{"--lists", number(&options.n_lists)},
		{"--storage", [&](const char *text) { options.storages = storages_of(text); }},
		{"--probes", [&](const char *text) { options.probes = numbers_of(text); }},
		{"--candidates", [&](const char *text) { options.candidates = numbers_of(text); }},
		{"--batch", [&](const char *text) { options.batches = numbers_of(text); }},
		{"--queries", number(&options.n_queries)},
		{"--judged", number(&options.n_judged)},
		{"--seconds", number(&options.seconds)},
		{"--enough", number(&options.enough)},
		{"--wanted", number(&options.wanted)},
		{"--least-recall", number(&options.least_recall)},
		{"--deadline", number(&options.deadline)},
		{"--training", number(&options.training)},
		{"--iterations", number(&options.iterations)},
		{"--threads", number(&options.n_threads)},
		{"--builders", number(&options.n_builders)},
		{"--workspace", number(&options.workspace_mb)},
		{"--rows-in", [&](const char *text) { options.place = place_of(text); }},
		{"--latent", number(&options.law.latent)},
		{"--decay", number(&options.law.decay)},
		{"--groups", number(&options.law.n_groups)},
		{"--spread", number(&options.law.spread)},
		{"--noise", number(&options.law.noise)},
		{"--seed", number(&options.law.seed)},
		{"--figures", [&](const char *text) { options.figures = text; }},
	};

	for (int i = 1; i < argc; i++)
	{
		const auto found = known.find(argv[i]);

		if (std::strcmp(argv[i], "--cpu") == 0)
			options.cpu = true;
		else if (std::strcmp(argv[i], "--forget") == 0)
			options.keep = false;
		else if (found == known.end() || i + 1 == argc)
			usage();
		else
			found->second(argv[++i]);
	}
	options.n_threads = std::max<size_t>(options.n_threads, 1);
	options.n_builders = std::max<size_t>(options.n_builders, 1);
	if (options.n_rows == 0 || options.n_rows > UINT32_MAX || options.n_lists == 0 ||
		options.n_lists > engine::kMostLists || options.n_queries == 0 || options.law.dim == 0 ||
		options.law.latent == 0)
		usage();
	options.n_judged = std::min(options.n_judged, options.n_queries);
	return options;
}

std::unique_ptr<engine::Engine>
make_engine(const Options &options)
{
	if (options.place == RowsPlace::kHost)
	{
		// The place for an option of the engine that keeps a copy's rows in pinned memory of the host.
		std::fprintf(stderr, "the engine cannot keep rows in the host's memory\n");
		std::exit(2);
	}
	if (options.cpu)
		return engine::make_cpu_engine({options.n_threads});
#ifdef VECTORGPU_WITH_CUDA
	cuda::CudaEngineOptions engine_options;
	std::unique_ptr<cuda::CudaEngine> gpu;

	engine_options.n_streams = 1;
	engine_options.workspace_bytes = size_t{options.workspace_mb} << 20;
	engine_options.log = [](const char *line) { std::printf("# %s\n", line); };
	must(cuda::make_cuda_engine(engine_options, &gpu), "GPU");
	return gpu;
#else
	std::fprintf(stderr, "built without the CUDA engine: only --cpu\n");
	std::exit(2);
#endif
}

/// Whether the engine takes such codes, by a copy of 64 rows.
Status
try_codes(
	engine::Engine *engine, engine::CopyKind kind, const MadeRows &made, const Storage &storage, const Options &options)
{
	Options small = options;
	BuiltLists lists;
	engine::CopyId copy = 0;

	small.n_rows = 64;
	small.n_threads = 1;

	const RowStore store(made, small.n_rows, true, 1);

	lists.dim = made.dim();
	lists.centroids.resize(made.dim());
	lists.offsets = {0, small.n_rows};
	for (uint32_t i = 0; i < small.n_rows; i++)
		lists.numbers.push_back(i);

	const EncodedRows encoded = encode_rows(store, lists, storage, small, nullptr);
	const Status status = load_copy(engine, kind, store, lists, encoded, small, &copy);

	return status.is_ok() ? engine->drop(copy) : status;
}

/// The most memory that the process has had, in GB; 0 if unknown.
double
peak_memory()
{
	std::ifstream file("/proc/self/status");

	for (std::string line; std::getline(file, line);)
		if (line.rfind("VmHWM:", 0) == 0)
			return std::strtod(line.c_str() + 6, nullptr) * 1024 / 1e9;
	return 0;
}

/// False if the recall is lower than the options ask for.
bool
measure_storage(engine::Engine *engine, const MadeRows &made, const RowStore &store, const BuiltLists &lists,
	const Storage &storage, const Queries &queries, const Answers &truth, const Options &options, Report *report)
{
	const engine::CopyKind kind =
		options.place == RowsPlace::kCaller ? engine::CopyKind::kCodes : engine::CopyKind::kCodedLists;
	Status status = try_codes(engine, kind, made, storage, options);
	engine::CopyId copy = 0;
	double row_bytes = 0;

	if (!status.is_ok())
	{
		std::printf("# %s: the engine refuses such codes: %s\n", storage.text.c_str(), status.message.c_str());
		return true;
	}
	report->skip();
	{
		const EncodedRows encoded = encode_rows(store, lists, storage, options, report);

		row_bytes = encoded.row_bytes();
		status = load_copy(engine, kind, store, lists, encoded, options, &copy);
	}
	if (!status.is_ok())
	{
		std::printf("# %s: not loaded: %s\n", storage.text.c_str(), status.message.c_str());
		return false;
	}
	report->step("load", options.n_rows, storage.text);
	std::printf("# %s: %.0f bytes a code; %.2f GB of copies in the engine, %.1f GB of host memory at most so far\n",
		storage.text.c_str(), row_bytes, static_cast<double>(engine->stats().resident_bytes) / 1e9, peak_memory());
	report->figure(storage.text + ", memory", static_cast<double>(engine->stats().resident_bytes) / 1e9, "GB", 0);

	const bool good = measure_curve({engine, copy, kind, store, storage, row_bytes}, queries, truth, options, report);

	must(engine->drop(copy), "drop");
	report->step("search", 0, storage.text);
	return good;
}

} // namespace

int
main(int argc, char **argv)
{
	const Options options = parse(argc, argv);
	Report report(options);
	const std::unique_ptr<engine::Engine> engine = make_engine(options);
	const MadeRows made(options.law);
	Queries queries;
	bool good = true;

	std::printf("# %s; %llu rows of %u dimensions as float16, L2, %u lists, %zu threads\n", engine->description(),
		static_cast<unsigned long long>(options.n_rows), options.law.dim, options.n_lists, options.n_threads);
	std::printf("# latent %u, decay %g, %u groups, spread %g, noise %g, seed %llu\n", options.law.latent,
		options.law.decay, options.law.n_groups, options.law.spread, options.law.noise,
		static_cast<unsigned long long>(options.law.seed));
	report.step("start", 0);

	const RowStore store(made, options.n_rows, options.keep, options.n_threads);

	queries.dim = made.dim();
	queries.halves.resize(size_t{options.n_queries} * made.dim());
	store.fetch_run(MadeRows::kFirstQuery, options.n_queries, queries.halves.data());
	report.step("generate", options.keep ? options.n_rows : 0);

	const Answers truth = find_truth(engine.get(), store, queries, options);

	report.step("truth", options.n_rows);

	const BuiltLists lists = build_lists(engine.get(), store, options, &report);

	for (const Storage &storage : options.storages)
	{
		if (report.is_late())
		{
			std::printf("# %s: no time is left\n", storage.text.c_str());
			continue;
		}
		good = measure_storage(engine.get(), made, store, lists, storage, queries, truth, options, &report) && good;
	}
	std::printf("# %.0f s in all, %.1f GB of host memory at most\n", report.elapsed(), peak_memory());
	return good ? 0 : 1;
}
