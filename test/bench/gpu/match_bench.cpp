// Match counts on the GPU: milliseconds a batch, host to host, over the time of one reading of the postings touched.
// Some answers of each are compared with counts on the host.
//   gpu_match_bench [--adult adult.csv] [--lsh ROWS] [--documents ROWS] [--queries N] [--k K] [--runs N] [--budget MB]
//   [--workspace MB] [--count-pq MB]
// --adult: the census rows, each 20 times, 14 attributes; numbers in 1,024 intervals of equal width. A query asks for
// its row's +-50 of them, and for the same text (GENIE, section VI-A1).
// --lsh: ROWS objects with 237 hash values in 67 buckets each, uniform, from a fixed seed; a query is 237 buckets.
// --count-pq: also by c-PQ (count_pq/), with this many MB for the state of queries; all its answers are compared with
// the others.
// --documents: ROWS documents of 12 different words by Zipf's law of 200,000; a query is 8 words of such a document.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "count_pq/count_pq_search.hpp"
#include "cuda/resident/match_index.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;
using engine::match::CodeRange;
using engine::match::kTileRows;
using Tile = engine::match::MatchIndex::Tile;

namespace
{

constexpr double kCopyBytesPerMs = 4.25e9; // measured on an H200: device copy, read and write together

struct Workload
{
	std::string name;
	size_t n_rows = 0;
	size_t n_codes = 0;
	uint64_t most_count = 0;
	std::vector<Tile> tiles;
	std::vector<std::vector<CodeRange>> queries;
};

struct Options
{
	size_t n_queries = 1024;
	size_t k = 100;
	int n_runs = 7;
	uint64_t budget_bytes = 0;
	uint64_t workspace_mb = 2048;
	uint64_t count_pq_mb = 0;
};

template <class Body>
void
in_parallel(size_t n, const Body &body)
{
	const size_t n_threads = std::max(1u, std::thread::hardware_concurrency());
	std::vector<std::thread> threads;

	for (size_t t = 0; t < n_threads; t++)
		threads.emplace_back(
			[&, t]
			{
				for (size_t i = t; i < n; i += n_threads)
					body(i);
			});
	for (std::thread &thread : threads)
		thread.join();
}

/// Tiles of rows whose codes are given by codes_of(row, out).
template <class CodesOf>
void
invert(Workload *work, const CodesOf &codes_of)
{
	work->tiles.resize((work->n_rows + kTileRows - 1) / kTileRows);
	in_parallel(work->tiles.size(),
		[&](size_t number)
		{
			const size_t first = number * kTileRows;
			const size_t n = std::min(kTileRows, work->n_rows - first);
			std::vector<uint32_t> starts(work->n_codes + 1);
			std::vector<uint32_t> codes;
			std::vector<uint32_t> ends; // of each row's codes
			Tile &tile = work->tiles[number];

			for (size_t i = 0; i < n; i++)
			{
				codes_of(first + i, &codes);
				ends.push_back(static_cast<uint32_t>(codes.size()));
			}
			for (const uint32_t code : codes)
				starts[code + 1]++;
			for (size_t code = 0; code < work->n_codes; code++)
			{
				starts[code + 1] += starts[code];
				if (starts[code + 1] > starts[code])
				{
					tile.codes.push_back(static_cast<uint32_t>(code));
					tile.ends.push_back(starts[code + 1]);
				}
			}
			tile.rows.resize(codes.size());
			for (size_t i = 0, at = 0; i < n; i++)
				for (; at < ends[i]; at++)
					tile.rows[starts[codes[at]]++] = static_cast<uint16_t>(i);
		});
}

uint32_t
mixed(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xD1B54A32D192ED03u + 0x632BE59BD9B4E019u;

	x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 32)) * 0x94D049BB133111EBu;
	return static_cast<uint32_t>(x >> 33);
}

Workload
make_lsh(size_t n_rows, size_t n_queries)
{
	constexpr uint32_t kHashes = 237;
	constexpr uint32_t kBuckets = 67;
	Workload work;

	work.name = "lsh";
	work.n_rows = n_rows;
	work.n_codes = size_t{kHashes} * kBuckets;
	work.most_count = kHashes;
	invert(&work,
		[](size_t row, std::vector<uint32_t> *out)
		{
			for (uint32_t h = 0; h < kHashes; h++)
				out->push_back(h * kBuckets + mixed(row, h) % kBuckets);
		});
	for (size_t i = 0; i < n_queries; i++)
	{
		std::vector<CodeRange> ranges;

		for (uint32_t h = 0; h < kHashes; h++)
		{
			const uint32_t code = h * kBuckets + mixed(~uint64_t{i}, h) % kBuckets;

			ranges.push_back({code, code + 1});
		}
		work.queries.push_back(std::move(ranges));
	}
	return work;
}

Workload
make_adult(const char *path, size_t n_queries)
{
	constexpr uint32_t kAttributes = 14;
	constexpr uint32_t kIntervals = 1024;
	constexpr uint32_t kCopies = 20;
	constexpr uint32_t kReach = 50;
	const bool is_number[kAttributes] = {
		true, false, true, false, true, false, false, false, false, false, true, true, true, false};
	std::ifstream file(path);
	std::string line;
	std::vector<std::vector<std::string>> rows;
	std::vector<std::vector<uint32_t>> values(kAttributes); // by attribute, then row
	uint32_t firsts[kAttributes + 1] = {};
	Workload work;

	std::getline(file, line);
	while (std::getline(file, line))
	{
		std::stringstream fields(line);
		std::vector<std::string> row(kAttributes);

		for (std::string &field : row)
			std::getline(fields, field, ',');
		rows.push_back(std::move(row));
	}
	if (rows.empty())
	{
		std::fprintf(stderr, "%s: no rows\n", path);
		std::exit(1);
	}
	for (uint32_t a = 0; a < kAttributes; a++)
	{
		std::map<std::string, uint32_t> words;
		double low = HUGE_VAL;
		double high = -HUGE_VAL;

		for (const auto &row : rows)
		{
			words.emplace(row[a], 0);
			low = std::min(low, std::atof(row[a].c_str()));
			high = std::max(high, std::atof(row[a].c_str()));
		}
		for (uint32_t n = 0; auto &[word, code] : words)
			code = n++;
		for (const auto &row : rows)
			values[a].push_back(is_number[a]
					? std::min(kIntervals - 1,
						  static_cast<uint32_t>((std::atof(row[a].c_str()) - low) / (high - low) * kIntervals))
					: words[row[a]]);
		firsts[a + 1] = firsts[a] + (is_number[a] ? kIntervals : static_cast<uint32_t>(words.size()));
	}
	work.name = "adult";
	work.n_rows = rows.size() * kCopies;
	work.n_codes = firsts[kAttributes];
	work.most_count = kAttributes;
	invert(&work,
		[&](size_t row, std::vector<uint32_t> *out)
		{
			for (uint32_t a = 0; a < kAttributes; a++)
				out->push_back(firsts[a] + values[a][row % rows.size()]);
		});
	for (size_t i = 0; i < n_queries; i++)
	{
		const size_t row = i * 47 % rows.size();
		std::vector<CodeRange> ranges;

		for (uint32_t a = 0; a < kAttributes; a++)
		{
			const uint32_t value = values[a][row];
			const uint32_t reach = is_number[a] ? kReach : 0;
			const uint32_t low = firsts[a] + (value > reach ? value - reach : 0);
			const uint32_t high = std::min(firsts[a + 1], firsts[a] + value + reach + 1);

			if (!ranges.empty() && ranges.back().last == low)
				ranges.back().last = high;
			else
				ranges.push_back({low, high});
		}
		work.queries.push_back(std::move(ranges));
	}
	return work;
}

Workload
make_documents(size_t n_rows, size_t n_queries)
{
	constexpr uint32_t kWords = 200000;
	constexpr uint32_t kPerRow = 12;
	constexpr uint32_t kPerQuery = 8;
	const double log_words = std::log(static_cast<double>(kWords));
	// P(word < w) = log(w) / log(words): Zipf's law with exponent 1, nearly.
	auto word_of = [&](uint64_t row, uint32_t i)
	{ return std::min(kWords - 1, static_cast<uint32_t>(std::exp(mixed(row, i) * 0x1p-31 * log_words)) - 1); };
	auto document = [&](uint64_t row, uint32_t n, std::vector<uint32_t> *out)
	{
		const size_t first = out->size();

		for (uint32_t i = 0; out->size() - first < n; i++)
		{
			const uint32_t word = word_of(row, i);

			if (std::find(out->begin() + static_cast<ptrdiff_t>(first), out->end(), word) == out->end())
				out->push_back(word);
		}
	};
	Workload work;

	work.name = "documents";
	work.n_rows = n_rows;
	work.n_codes = kWords;
	work.most_count = kPerQuery;
	invert(&work, [&](size_t row, std::vector<uint32_t> *out) { document(row, kPerRow, out); });
	for (size_t i = 0; i < n_queries; i++)
	{
		std::vector<uint32_t> words;
		std::vector<CodeRange> ranges;

		document(n_rows + i, kPerQuery, &words);
		std::sort(words.begin(), words.end());
		for (const uint32_t word : words)
			ranges.push_back({word, word + 1});
		work.queries.push_back(std::move(ranges));
	}
	return work;
}

/// Call with each contiguous piece of postings that a query touches.
template <class Body>
void
for_each_slice(const Tile &tile, const std::vector<CodeRange> &ranges, const Body &body)
{
	for (const CodeRange &range : ranges)
	{
		const size_t first = static_cast<size_t>(
			std::lower_bound(tile.codes.begin(), tile.codes.end(), range.first) - tile.codes.begin());
		const size_t last = static_cast<size_t>(
			std::lower_bound(tile.codes.begin(), tile.codes.end(), range.last) - tile.codes.begin());

		if (first < last)
			body(first == 0 ? 0 : tile.ends[first - 1], tile.ends[last - 1]);
	}
}

/// True if `found` equals the counts on the host.
bool
is_right(
	const Workload &work, const std::vector<CodeRange> &ranges, size_t k, const std::vector<cuda::MatchFound> &found)
{
	std::vector<uint16_t> counts(work.n_rows);
	std::vector<uint32_t> rows(work.n_rows);
	const auto before = [&](uint32_t a, uint32_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a < b; };

	for (size_t t = 0; t < work.tiles.size(); t++)
		for_each_slice(work.tiles[t], ranges,
			[&](uint32_t from, uint32_t to)
			{
				for (uint32_t i = from; i < to; i++)
					counts[t * kTileRows + work.tiles[t].rows[i]]++;
			});
	for (size_t i = 0; i < rows.size(); i++)
		rows[i] = static_cast<uint32_t>(i);
	k = std::min(k, rows.size());
	std::partial_sort(rows.begin(), rows.begin() + static_cast<ptrdiff_t>(k), rows.end(), before);
	if (found.size() != k)
		return false;
	for (size_t i = 0; i < k; i++)
		if (found[i].row != rows[i] || found[i].count != counts[rows[i]])
			return false;
	return true;
}

/// The same batch by c-PQ. expected: the answers of counting by tiles.
void
measure_count_pq(const cuda::Device &device, const cuda::DeviceMatchIndex &index, const std::string &name,
	std::span<const cuda::MatchRequest> requests, const Options &options,
	const std::vector<std::vector<cuda::MatchFound>> &expected)
{
	bench::CountPqSearch search(&device, options.count_pq_mb << 20);
	std::vector<std::vector<cuda::MatchFound>> results;
	std::vector<double> times;
	size_t n_wrong = 0;

	for (int run = -1; run < std::min(options.n_runs, 3); run++)
	{
		const double start = now_ms();

		must(search.search(index, requests, &results));
		if (run >= 0)
			times.push_back(now_ms() - start);
	}
	std::sort(times.begin(), times.end());
	for (size_t i = 0; i < requests.size(); i++)
		n_wrong += !std::equal(results[i].begin(), results[i].end(), expected[i].begin(), expected[i].end(),
			[](const cuda::MatchFound &a, const cuda::MatchFound &b) { return a.row == b.row && a.count == b.count; });
	std::printf("%-10s batch %5zu k %4zu: c-PQ median %9.3f ms, min %9.3f; tables of %zu queries ran over; %s\n",
		name.c_str(), requests.size(), options.k, times[times.size() / 2], times.front(), search.n_overflown(),
		n_wrong == 0 ? "right" : "WRONG");
	std::fflush(stdout);
}

void
measure(const cuda::Device &device, const Workload &work, const Options &options)
{
	cuda::DeviceMatchIndex index;
	cuda::Stream stream;
	cuda::DeviceBuffer memory;
	cuda::MatchWorkspace workspace(&stream, &memory);
	std::vector<cuda::MatchRequest> requests;
	double start = now_ms();
	std::vector<double> n_touched(work.queries.size());
	double touched = 0;

	must(index.load(&device, work.tiles, work.n_rows, work.n_codes, options.budget_bytes));
	must(stream.create(&device));
	must(memory.allocate(&device, uint64_t{options.workspace_mb} << 20, "workspace"));
	std::printf("# %s: %zu rows, %zu codes, %.0f MB on the device, %zu parts, loaded in %.0f ms\n", work.name.c_str(),
		work.n_rows, work.n_codes, static_cast<double>(index.device_bytes()) / 1e6, index.n_parts(), now_ms() - start);
	for (const auto &ranges : work.queries)
		requests.push_back({ranges, work.most_count, options.k, false, 0, 0});
	in_parallel(work.queries.size(),
		[&](size_t i)
		{
			for (const Tile &tile : work.tiles)
				for_each_slice(tile, work.queries[i], [&](uint32_t from, uint32_t to) { n_touched[i] += to - from; });
		});
	for (const double n : n_touched)
		touched += n;
	for (const size_t batch : {size_t{1}, size_t{16}, work.queries.size()})
	{
		std::vector<double> times;
		std::vector<std::vector<cuda::MatchFound>> results;
		const double share = touched * static_cast<double>(batch) / static_cast<double>(work.queries.size());
		const double floor_ms = share * 2 / kCopyBytesPerMs;
		size_t n_wrong = 0;

		for (int run = -1; run < options.n_runs; run++)
		{
			start = now_ms();
			must(index.search(std::span(requests).first(batch), &workspace, &results));
			if (run >= 0)
				times.push_back(now_ms() - start);
		}
		std::sort(times.begin(), times.end());
		for (size_t i = 0; i < 4; i++)
		{
			const size_t query = i * (batch - 1) / 3;

			n_wrong += !is_right(work, work.queries[query], options.k, results[query]);
		}
		std::printf("%-10s batch %5zu k %4zu: median %9.3f ms, min %9.3f; postings %.3g, floor %7.3f ms, x floor "
					"%6.1f; %.3g postings/s; %s\n",
			work.name.c_str(), batch, options.k, times[times.size() / 2], times.front(), share, floor_ms,
			times[times.size() / 2] / floor_ms, share / times[times.size() / 2] * 1e3,
			n_wrong == 0 ? "right" : "WRONG");
		std::fflush(stdout);
		if (options.count_pq_mb > 0)
			measure_count_pq(device, index, work.name, std::span(requests).first(batch), options, results);
	}
}

} // namespace

int
main(int argc, char **argv)
{
	Options options;
	const char *adult = nullptr;
	size_t lsh_rows = 0;
	size_t documents = 0;
	cuda::Device device;

	for (int i = 1; i + 1 < argc; i += 2)
	{
		const std::string name = argv[i];
		const char *value = argv[i + 1];

		if (name == "--adult")
			adult = value;
		else if (name == "--lsh")
			lsh_rows = static_cast<size_t>(std::atoll(value));
		else if (name == "--documents")
			documents = static_cast<size_t>(std::atoll(value));
		else if (name == "--queries")
			options.n_queries = static_cast<size_t>(std::atoll(value));
		else if (name == "--k")
			options.k = static_cast<size_t>(std::atoll(value));
		else if (name == "--runs")
			options.n_runs = std::atoi(value);
		else if (name == "--workspace")
			options.workspace_mb = static_cast<uint64_t>(std::atoll(value));
		else if (name == "--count-pq")
			options.count_pq_mb = static_cast<uint64_t>(std::atoll(value));
		else if (name == "--budget")
			options.budget_bytes = static_cast<uint64_t>(std::atoll(value)) << 20;
	}
	must(cuda::Device::open(0, nullptr, &device));
	std::printf("# %s\n", device.description().c_str());
	if (adult != nullptr)
		measure(device, make_adult(adult, options.n_queries), options);
	if (documents > 0)
		measure(device, make_documents(documents, options.n_queries), options);
	if (lsh_rows > 0)
		measure(device, make_lsh(lsh_rows, options.n_queries), options);
	return 0;
}
