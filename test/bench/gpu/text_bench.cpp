// Texts by edit distance on the GPU: milliseconds a batch from the queries' bytes to exact distances and rows, by the
// worker's engine. All answers are compared with the CPU engine's, whose time is printed too.
//   gpu_text_bench WORDS QUERIES [--queries N] [--k K] [--n N] [--runs N]
// WORDS: a text a line. QUERIES: the same, up to the first tab (misspellings.queries.tsv; its head line is left out).
// n: of the n-grams, which the CPU engine counts; the GPU compares every text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/match/match_layout.hpp"
#include "engine/match/text_distance.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;
namespace match = engine::match;

namespace
{

constexpr uint32_t kSlotBytes = 64;

struct Options
{
	size_t n_queries = 1024;
	size_t k = 1;
	uint32_t n = 3;
	int n_runs = 9;
};

std::vector<std::string>
read_lines(const char *name)
{
	std::ifstream file(name);
	std::vector<std::string> lines;
	std::string line;

	while (std::getline(file, line))
		if (line = line.substr(0, line.find('\t')); line != "misspelling")
			lines.push_back(line);
	if (lines.empty())
	{
		std::fprintf(stderr, "%s: no lines\n", name);
		std::exit(1);
	}
	return lines;
}

/// Call with the key of each ordered n-gram: its bytes, 0, and how many equal ones came before. Texts are taken as
/// bytes.
template <class Body>
void
for_each_gram(const std::string &text, uint32_t n, const Body &body)
{
	std::map<std::string, uint32_t> seen;

	for (size_t i = 0; i + n <= text.size(); i++)
	{
		std::string key = text.substr(i, n);
		const uint32_t same = seen[key]++;

		key.push_back('\0');
		for (int shift = 24; shift >= 0; shift -= 8)
			key.push_back(static_cast<char>(same >> shift));
		body(key);
	}
}

template <class T>
void
append(std::vector<uint8_t> *bytes, const T *items, size_t n)
{
	const uint8_t *first = reinterpret_cast<const uint8_t *>(items);

	bytes->insert(bytes->end(), first, first + n * sizeof(T));
}

std::vector<uint8_t>
describe(const std::vector<std::string> &texts, uint32_t n)
{
	std::map<std::string, std::vector<uint32_t>> lists;
	std::vector<match::MatchEntry> entries;
	std::vector<uint32_t> postings;
	std::vector<uint64_t> items;
	std::vector<uint8_t> description;
	std::string keys, all;

	for (uint32_t row = 0; row < texts.size(); row++)
	{
		for_each_gram(texts[row], n, [&](const std::string &key) { lists[key].push_back(row); });
		all += texts[row];
		items.push_back(match::text_item(all.size(), 1));
	}
	for (const auto &[key, rows] : lists)
	{
		keys += key;
		postings.insert(postings.end(), rows.begin(), rows.end());
		entries.push_back({match::key_prefix({reinterpret_cast<const uint8_t *>(key.data()), key.size()}), keys.size(),
			postings.size()});
	}

	const match::MatchHead head = {entries.size(), postings.size(), keys.size()};

	append(&description, &head, 1);
	append(&description, entries.data(), entries.size());
	append(&description, postings.data(), postings.size());
	append(&description, keys.data(), keys.size());
	append(&description, items.data(), items.size());
	append(&description, all.data(), all.size());
	return description;
}

std::vector<uint8_t>
query_of(const std::string &text, uint32_t n)
{
	std::map<std::string, bool> keys;
	std::vector<uint8_t> items;

	for_each_gram(text, n, [&](const std::string &key) { keys[key] = true; });
	for (const auto &[key, unused] : keys)
	{
		std::vector<uint8_t> item(2 * match::kMaxVarintBytes + key.size());

		item.resize(static_cast<size_t>(
			match::put_item(item.data(), {reinterpret_cast<const uint8_t *>(key.data()), key.size()}, {nullptr, 0}) -
			item.data()));
		append(&items, item.data(), item.size());
	}

	std::vector<uint8_t> query(match::head_bytes(text.size(), items.size()));

	match::put_head(query.data(), text.size(), items.size());
	append(&query, items.data(), items.size());
	append(&query, &n, 1);
	for (const char character : text)
	{
		const uint32_t code = static_cast<uint8_t>(character);

		append(&query, &code, 1);
	}
	return query;
}

engine::CopyId
load(engine::Engine *engine, const std::vector<uint8_t> &description, const std::vector<RowId> &ids)
{
	engine::CopyId copy = 0;
	const double start = now_ms();

	must(engine->create({{Metric::kEdit, ElementType::kSet, kSlotBytes}, engine::CopyKind::kMatch}, &copy));
	must(engine->load_segment(copy, 1, {ids, nullptr, ids.size()}));
	must(engine->load_structure(copy, 1, 1, description));
	must(engine->seal_segment(copy, 1));
	std::printf("# %s: loaded in %.0f ms\n", engine->name(), now_ms() - start);
	return copy;
}

using Results = std::vector<std::vector<engine::Neighbor>>;

void
measure(engine::Engine *engine, engine::CopyId copy, std::span<const engine::SearchQuery> queries,
	const Options &options, int n_runs, Results *results, const Results *truth)
{
	std::vector<double> times;
	size_t n_wrong = 0;

	for (int run = -1; run < n_runs; run++)
	{
		const double start = now_ms();

		must(engine->search(copy, queries, results, nullptr));
		if (run >= 0)
			times.push_back(now_ms() - start);
	}
	std::sort(times.begin(), times.end());
	for (size_t i = 0; truth != nullptr && i < queries.size(); i++)
	{
		bool same = (*results)[i].size() == (*truth)[i].size();

		for (size_t j = 0; same && j < (*truth)[i].size(); j++)
			same = (*results)[i][j].score == (*truth)[i][j].score && (*results)[i][j].row == (*truth)[i][j].row;
		n_wrong += !same;
	}
	std::printf("%-5s batch %5zu k %4zu: median %9.3f ms, min %9.3f, max %9.3f; %s\n", engine->name(), queries.size(),
		options.k, times[times.size() / 2], times.front(), times.back(),
		truth == nullptr   ? "the truth"
			: n_wrong == 0 ? "all right"
						   : "WRONG");
	std::fflush(stdout);
}

} // namespace

int
main(int argc, char **argv)
{
	Options options;
	std::unique_ptr<cuda::CudaEngine> gpu;
	const auto cpu = engine::make_cpu_engine({.n_threads = std::max(1u, std::thread::hardware_concurrency())});
	std::vector<RowId> ids;
	std::vector<std::vector<uint8_t>> stored;
	std::vector<engine::SearchQuery> queries;
	Results truth, results;

	if (argc < 3)
	{
		std::fprintf(stderr, "usage: gpu_text_bench WORDS QUERIES [--queries N] [--k K] [--n N] [--runs N]\n");
		return 2;
	}
	for (int i = 3; i + 1 < argc; i += 2)
	{
		const std::string name = argv[i];
		const int value = std::atoi(argv[i + 1]);

		if (name == "--queries")
			options.n_queries = static_cast<size_t>(value);
		else if (name == "--k")
			options.k = static_cast<size_t>(value);
		else if (name == "--n")
			options.n = static_cast<uint32_t>(value);
		else if (name == "--runs")
			options.n_runs = value;
	}

	const std::vector<std::string> words = read_lines(argv[1]);
	const std::vector<std::string> asked = read_lines(argv[2]);
	const std::vector<uint8_t> description = describe(words, options.n);

	for (size_t i = 0; i < words.size(); i++)
		ids.push_back(i + 1);
	for (size_t i = 0; i < options.n_queries; i++)
		stored.push_back(query_of(asked[i % asked.size()], options.n));
	for (const std::vector<uint8_t> &query : stored)
	{
		engine::SearchQuery search;

		search.query = query.data();
		search.query_bytes = query.size();
		search.k = options.k;
		queries.push_back(search);
	}
	must(cuda::make_cuda_engine({}, &gpu));
	std::printf("# %s; %zu texts, %zu queries of %zu different ones\n", gpu->description(), words.size(),
		queries.size(), std::min(asked.size(), queries.size()));

	const engine::CopyId on_gpu = load(gpu.get(), description, ids);
	const engine::CopyId on_cpu = load(cpu.get(), description, ids);

	for (const size_t batch : {size_t{1}, size_t{16}, queries.size()})
	{
		measure(cpu.get(), on_cpu, std::span(queries).first(batch), options, batch > 16 ? 1 : 3, &truth, nullptr);
		measure(gpu.get(), on_gpu, std::span(queries).first(batch), options, options.n_runs, &results, &truth);
	}
	return 0;
}
