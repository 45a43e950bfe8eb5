// Exact searches with conditions on the GPU, over made rows in groups: milliseconds a batch, end to end through
// Engine::search, by the share of rows that pass, beside the same batch without conditions. Usage: README.md. Medians
// of 200 runs after three that do not count; `first`: the first batch with conditions that no search has had yet. Every
// row found must pass.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/cuda_engine.hpp"
#include "engine/interface/key_codes.hpp"
#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/row_bits.hpp"
#include "engine/predicate/tree.hpp"
#include "passing_ways.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

constexpr int kRuns = 200;
constexpr uint32_t kGroups = 1000;
constexpr size_t kMostBatch = 64;
constexpr size_t kParts = 16; // of rows, each made by a thread of its own
constexpr uint32_t kProbes = 30;

struct Shape
{
	const char *name;
	uint32_t n_rows;
	uint32_t dim;
	Metric metric;
	bool bytes;
	bool lists; // the copy has lists; then searches without conditions, or where more than a tenth pass, look at some
};

/// Rows [n, dim] around centres: reals, or whole numbers 0 ... 255.
std::vector<float>
make_rows(const Shape &shape, size_t n, uint32_t seed)
{
	std::vector<float> centres(size_t{kGroups} * shape.dim);
	std::vector<float> rows(n * shape.dim);
	std::mt19937 rng(1);
	std::normal_distribution<float> normal;

	for (float &value : centres)
		value = shape.bytes ? 30 + 30 * normal(rng) : normal(rng);

	const auto fill = [&](size_t thread)
	{
		std::mt19937 own(seed * 1000 + static_cast<uint32_t>(thread));
		std::normal_distribution<float> noise;

		for (size_t i = n * thread / kParts; i < n * (thread + 1) / kParts; i++)
		{
			const float *centre = &centres[own() % kGroups * shape.dim];

			for (uint32_t d = 0; d < shape.dim; d++)
			{
				const float value = centre[d] + noise(own) * (shape.bytes ? 20.0f : 0.6f);

				rows[i * shape.dim + d] = shape.bytes ? std::clamp(std::round(value), 0.0f, 255.0f) : value;
			}
		}
	};
	std::vector<std::thread> threads;

	for (size_t i = 0; i < kParts; i++)
		threads.emplace_back(fill, i);
	for (std::thread &thread : threads)
		thread.join();
	return rows;
}

/// About this share of a segment's rows, in no order.
std::unique_ptr<engine::Passing>
make_passing(uint32_t n_rows, double share, uint32_t seed)
{
	auto made = std::make_unique<engine::Passing>();
	auto segment = std::make_shared<engine::PassingSegment>();
	std::mt19937 rng(seed);
	std::vector<uint32_t> rows;

	for (uint32_t i = 0; i < n_rows; i++)
		if (static_cast<double>(rng()) < share * 4294967296.0)
			rows.push_back(i);
	segment->segment = 1;
	segment->n_rows = n_rows;
	segment->n_pass = rows.size();
	segment->listed = rows.size() <= n_rows / engine::kFewOfRows;
	if (segment->listed)
		segment->rows = std::move(rows);
	else
	{
		segment->bits.resize((size_t{n_rows} + 7) / 8);
		for (const uint32_t row : rows)
			segment->bits[row / 8] = static_cast<uint8_t>(segment->bits[row / 8] | 1u << row % 8);
	}
	made->n_rows = n_rows;
	made->n_pass = segment->n_pass;
	made->segments.push_back(std::move(segment));
	return made;
}

bool
passes(const engine::Passing &passing, RowId row)
{
	const engine::PassingSegment &segment = *passing.segments[0];

	return segment.listed ? std::binary_search(segment.rows.begin(), segment.rows.end(), row)
						  : (segment.bits[row / 8] >> row % 8 & 1) != 0;
}

class Bench
{
public:
	explicit Bench(const Shape &shape) : shape_(shape), queries_(make_rows(shape, kQueries, 2))
	{
		const std::vector<float> rows = make_rows(shape, shape.n_rows, 3);
		std::vector<RowId> ids(shape.n_rows);
		cuda::CudaEngineOptions options;

		for (uint32_t i = 0; i < shape.n_rows; i++)
			ids[i] = i;
		options.n_streams = 1;
		options.self_test = false;
		must(cuda::make_cuda_engine(options, &engine_));
		must(engine_->create(engine::CopySpec({shape.metric, ElementType::kFloat32, shape.dim},
								 shape.lists ? engine::CopyKind::kLists : engine::CopyKind::kRows),
			&copy_));
		must(engine_->load_segment(copy_, 1, {ids, rows.data(), shape.n_rows}));
		if (shape.lists)
			load_lists();
		must(engine_->seal_segment(copy_, 1));
		std::printf("\n%s: %u x %u, %s\n%9s %6s %6s %6s %6s %10s %10s %10s\n", shape.name, shape.n_rows, shape.dim,
			engine_->description(), "pass", "batch", "k", "differ", "way", "first ms", "median ms", "min ms");
	}

	/// passing: of query i, [i mod size]; empty: no conditions.
	void measure(double share, size_t batch, size_t k, const std::vector<std::unique_ptr<engine::Passing>> &passing)
	{
		const engine::SegmentProbes probes[] = {{1, kProbes}};
		std::vector<double> times;
		std::vector<std::vector<engine::Neighbor>> results;
		std::vector<engine::FilterWay> ways(batch);
		double first_ms = 0;
		bool right = true;

		for (int run = -3; run < kRuns; run++)
		{
			std::vector<engine::SearchQuery> requests;

			for (size_t i = 0; i < batch; i++)
			{
				const size_t query = (static_cast<size_t>(run + 3) * batch + i) % kQueries;
				engine::SearchQuery request = {&queries_[query * shape_.dim], k, false, {}};

				if (shape_.lists)
					request.probes = probes;
				request.passing = passing.empty() ? nullptr : passing[i % passing.size()].get();
				request.filter_way = &ways[i];
				requests.push_back(request);
			}

			const double start = now_ms();

			must(engine_->search(copy_, requests, &results));

			const double ms = now_ms() - start;

			if (run == -3)
				first_ms = ms;
			if (run >= 0)
				times.push_back(ms);
			for (size_t i = 0; i < batch && !passing.empty(); i++)
			{
				right = right && results[i].size() == std::min<uint64_t>(k, requests[i].passing->n_pass);
				for (const engine::Neighbor &found : results[i])
					right = right && passes(*requests[i].passing, found.row);
			}
		}
		std::sort(times.begin(), times.end());
		std::printf("%8.2f%% %6zu %6zu %6zu %6d %10.3f %10.4f %10.4f%s\n", share * 100, batch, k, passing.size(),
			static_cast<int>(ways[0]), first_ms, times[times.size() / 2], times.front(), right ? "" : "  WRONG ROWS");
		std::fflush(stdout);
		n_wrong_ += right ? 0 : 1;
	}

	/// plain: searches without conditions alone.
	void run(bool plain)
	{
		for (const size_t k : {10, 100})
			for (const size_t batch : {size_t{1}, size_t{8}, size_t{16}, kMostBatch})
			{
				measure(1, batch, k, {});
				if (plain)
					continue;
				for (const double share : {.001, .01, .1, .11, .2, .3, .5})
				{
					std::vector<std::unique_ptr<engine::Passing>> one;

					// A little less than a tenth, so that the row count's scatter leaves it a list.
					one.push_back(make_passing(shape_.n_rows, share == .1 ? .098 : share, 5));
					measure(share, batch, k, one);
				}
			}
		for (const double share : {.001, .005, .05})
		{
			if (plain)
				break;

			std::vector<std::unique_ptr<engine::Passing>> each;

			for (uint32_t i = 0; i < kMostBatch; i++)
				each.push_back(make_passing(shape_.n_rows, share, 100 + i));
			measure(share, kMostBatch, 10, each);
		}
		for (const size_t batch : {size_t{1}, kMostBatch}) // again, for the spread
			measure(1, batch, 10, {});
	}

	int n_wrong() const { return n_wrong_; }

private:
	static constexpr size_t kQueries = 4096;

	/// Rows in 1,000 lists of numbers in no order.
	void load_lists()
	{
		std::vector<uint64_t> offsets(kGroups + 1);
		std::vector<float> centroids = make_rows(shape_, kGroups, 4);
		std::vector<uint32_t> numbers(shape_.n_rows);
		std::mt19937 rng(6);

		for (uint32_t l = 0; l <= kGroups; l++)
			offsets[l] = uint64_t{shape_.n_rows} * l / kGroups;
		for (uint32_t i = 0; i < shape_.n_rows; i++)
			numbers[i] = i;
		std::shuffle(numbers.begin(), numbers.end(), rng);

		const auto put = [&](const auto &values)
		{
			must(engine_->load_structure(copy_, 1, kGroups,
				{reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(values[0])}));
		};

		put(offsets);
		put(centroids);
		put(numbers);
	}

	const Shape shape_;
	const std::vector<float> queries_;
	std::unique_ptr<cuda::CudaEngine> engine_;
	engine::CopyId copy_ = 0;
	int n_wrong_ = 0;
};

/// The time to find the rows that pass, a range of one column of 4 bytes in no order: the host's by one core, with the
/// list, against the device's. Medians of kRuns.
int
measure_programs()
{
	int n_wrong = 0;

	std::printf("\nrows that pass: 1 column, 4 bytes\n%9s %8s %10s %10s\n", "rows", "pass", "host ms", "device ms");
	for (const uint32_t n_rows : {150000u, 900000u, 10000000u})
	{
		std::unique_ptr<cuda::CudaEngine> engine;
		cuda::CudaEngineOptions options;
		std::vector<uint32_t> codes(n_rows);
		std::vector<engine::predicate::Zone> zones((n_rows + 1023) / 1024);
		std::mt19937 rng(9);
		engine::CopyId copy = 0;
		std::shared_ptr<engine::KeyCodes> held;

		for (uint32_t &code : codes)
			code = static_cast<uint32_t>(rng() % 1000);
		options.n_streams = 1;
		options.self_test = false;
		options.least_key_rows = 1;
		must(cuda::make_cuda_engine(options, &engine));
		must(engine->create(engine::CopySpec(Metric::kL2, ElementType::kFloat32, 8), &copy));
		engine::predicate::make_zones({codes.data(), nullptr, nullptr, 4}, n_rows, zones.data());

		const engine::predicate::ColumnCodes column = {codes.data(), nullptr, zones.data(), 4};

		must(engine->hold_key_codes(
			copy, {{reinterpret_cast<const uint8_t *>(codes.data()), codes.size() * 4}, {&column, 1}, n_rows}, &held));
		for (const uint64_t most : {0u, 9u, 89u, 499u})
		{
			engine::predicate::Node node = engine::predicate::exact_range(0, 0, most);
			std::vector<uint8_t> bytes(engine::predicate::program_bytes(&node));
			engine::predicate::Step step;
			engine::predicate::Program program;
			std::vector<double> times[2];
			uint64_t n_pass[2] = {};

			engine::predicate::write_program(&node, bytes.data());
			if (engine::predicate::program_open(bytes.data(), bytes.size(), &step, 1, &program) != nullptr)
				return 1;
			for (int run = 0; run < 2 * kRuns; run++)
			{
				engine::PassingSegment found;
				const double start = now_ms();

				if (run % 2 == 1)
					must(held->find_rows(program, &found));
				else
				{
					found.bits.resize((size_t{n_rows} + 7) / 8);
					found.n_pass =
						engine::predicate::evaluate_rows(program, &column, 0, n_rows, found.bits.data(), nullptr)
							.n_pass;
					if (found.n_pass <= n_rows / engine::kFewOfRows)
					{
						found.rows.resize(found.n_pass);
						(void) engine::predicate::list_rows(
							found.bits.data(), n_rows, found.rows.data(), found.rows.size());
					}
				}
				times[run % 2].push_back(now_ms() - start);
				n_pass[run % 2] = found.n_pass;
			}
			for (std::vector<double> &one : times)
				std::sort(one.begin(), one.end());
			n_wrong += n_pass[0] == n_pass[1] ? 0 : 1;
			std::printf("%9u %7.2f%% %10.4f %10.4f%s\n", n_rows, static_cast<double>(most + 1) / 10,
				times[0][kRuns / 2], times[1][kRuns / 2], n_pass[0] == n_pass[1] ? "" : "  WRONG ROWS");
		}
	}
	return n_wrong;
}

} // namespace

int
main(int argc, char **argv)
{
	if (argc > 2 && std::string_view(argv[1]) == "--data")
		return compare_packed(argv[2]) == 0 ? 0 : 1;

	const bool plain = argc > 1 && std::string_view(argv[1]) == "--plain";
	const Shape shapes[] = {
		{"reals, cosine", 150000, 256, Metric::kCosine, false, false},
		{"bytes, L2", 900000, 128, Metric::kL2, true, false},
		{"reals in lists, cosine", 150000, 256, Metric::kCosine, false, true},
	};
	int n_wrong = plain ? 0 : measure_programs();

	for (const Shape &shape : shapes)
	{
		Bench bench(shape);

		bench.run(plain);
		n_wrong += bench.n_wrong();
	}
	return n_wrong == 0 ? 0 : 1;
}
