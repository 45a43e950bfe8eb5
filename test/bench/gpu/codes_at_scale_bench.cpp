// Search of product quantiser's codes of as many rows as the device holds, made by the device.
//   gpu_codes_at_scale_bench [--rows N] [--lists N] [--dim D] [--m BYTES] [--candidates N] [--rows-on-host 1]
//   [--json FILE] [--only BATCH PROBES]
// A kernel makes rows, codes, terms and lists from a seed (made_lists.cu) in the layout of an engine's copy, and
// search_lists searches them as it searches copies: ranking, scan of codes, canonical scores of candidates. Recall
// means nothing for such rows. Some answers of each line are compared with those of engine/ivf on the CPU over the same
// codes, bit for bit. At the end scores of random candidates alone are timed, without ranking and scan. --rows-on-host:
// rows are in pinned host memory, and the device reads them over the bus.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "cuda/device/block.hpp"
#include "cuda/device/budget.hpp"
#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/ivf_search.hpp"
#include "engine/ivf/code_query.hpp"
#include "kernels/codes/codes.hpp"
#include "made_lists.hpp"
#include "random_scores.hpp"
#include "support/same_answers.hpp"
#include "u8bin.hpp"

using namespace vectorgpu;
using namespace vectorgpu::bench;

namespace
{

using vectorgpu::test::same;

constexpr size_t kNeighbors = 10;
constexpr size_t kQueries = 10000;
constexpr size_t kCompared = 3;              // queries of each line
constexpr double kBytesPerSecond = 4.25e12;  // as in gpu_search_bench
constexpr double kLookUpsPerSecond = 2.1e12; // gpu/kernels/codes/README.md: 32 banks, 132 processors

struct Options
{
	uint64_t n_rows = 100000000;
	uint32_t n_lists = 16384;
	uint32_t dim = 96;
	uint32_t m = 48;
	uint32_t n_candidates = 100;
	bool rows_on_host = false;
	std::array<uint32_t, 2> only = {};
	const char *json = nullptr;
};

void
check(const cuda::Device &device, cudaError_t error, const char *what)
{
	must(device.check(error, what));
}

/// Everything on the device, and on the host the data that the oracle needs.
class Held
{
public:
	Held(const Options &options, cuda::Device *device) : options_(options), device_(device), budget_(device, 0)
	{
		must(stream_.create(device));
		make_model();
		make_source();
	}

	const cuda::Snapshot &snapshot() const { return snapshot_; }
	const cuda::Source &source() const { return snapshot_.sources.front(); }
	const std::vector<uint64_t> &offsets() const { return offsets_; }
	const engine::DistanceSpec &spec() const { return spec_; }
	uint64_t bytes() const { return budget_.used(); }

	/// Centroid of some list, plus codewords, plus noise: like a row.
	std::vector<float> make_queries(size_t n) const
	{
		std::mt19937 rng(7);
		std::uniform_real_distribution<float> noise(-kNoise, kNoise);
		std::vector<float> queries(n * options_.dim);
		const uint32_t sub_dim = options_.dim / options_.m;

		for (size_t i = 0; i < n; i++)
		{
			const size_t list = rng() % options_.n_lists;

			for (uint32_t part = 0; part < options_.m; part++)
			{
				const size_t word = rng() % 256;

				for (uint32_t s = 0; s < sub_dim; s++)
				{
					const uint32_t d = part * sub_dim + s;

					queries[i * options_.dim + d] =
						centroids_[list * options_.dim + d] + floats_[(part * sub_dim + s) * 256 + word] + noise(rng);
				}
			}
		}
		return queries;
	}

	/// The lists in the order of a query.
	std::vector<engine::Neighbor> rank(const float *query) const
	{
		std::vector<double> scores(options_.n_lists);
		std::vector<engine::Neighbor> ranked;

		engine::compute_scores(
			spec_, query, centroids_.data(), options_.dim * sizeof(float), options_.n_lists, scores.data());
		for (uint32_t list = 0; list < options_.n_lists; list++)
			ranked.push_back({scores[list], list});
		std::sort(ranked.begin(), ranked.end(), engine::neighbor_less);
		return ranked;
	}

	/// The answer that a query must find: candidates by engine/ivf, over codes and terms read back, and canonical
	/// scores of rows read back.
	std::vector<engine::Neighbor> expect(const float *query, uint32_t n_probes, uint32_t n_candidates)
	{
		namespace ivf = engine::ivf;

		const std::vector<engine::Neighbor> ranked = rank(query);
		std::vector<uint8_t> memory(ivf::code_query_bytes(code_spec_));
		std::vector<engine::Neighbor> candidates; // by estimate and place
		std::vector<engine::Neighbor> found;
		ivf::CodeQuery prepared;

		if (!ivf::code_query_prepare(model_, query, memory.data(), memory.size(), &prepared).is_ok())
			std::abort();
		for (uint32_t i = 0; i < n_probes; i++)
		{
			const uint64_t end = offsets_[ranked[i].row + 1];
			const uint64_t begin = offsets_[ranked[i].row];
			const uint64_t first =
				begin / ivf::kCodeBlockRows * ivf::kCodeBlockRows; // codes are read from the beginning of a block
			const size_t n = end - first;
			const size_t n_bytes = ivf::interleaved_bytes(n, options_.m);
			std::vector<uint8_t> codes(n_bytes);
			std::vector<float> terms(n);
			std::vector<double> scores(n);

			if (begin == end)
				continue;
			read_codes(first * options_.m, n_bytes, codes.data());
			check(*device_,
				cudaMemcpy(terms.data(), codes_->terms.as<float>() + first, n * sizeof(float), cudaMemcpyDeviceToHost),
				"read terms");
			ivf::code_scores(prepared, ivf::code_list_constant(code_spec_, ranked[i].score), codes.data(), terms.data(),
				n, scores.data());
			for (uint64_t place = begin; place < end; place++)
				candidates.push_back({scores[place - first], place});
		}
		std::sort(candidates.begin(), candidates.end(), engine::neighbor_less);
		candidates.resize(std::min<size_t>(candidates.size(), n_candidates));
		for (const engine::Neighbor &candidate : candidates)
		{
			std::vector<float> row(options_.dim);
			double score = 0;

			const float *held = source().block->vectors.as<float>() + candidate.row * shape().dim_pad;

			if (options_.rows_on_host)
				std::copy_n(held, options_.dim, row.data());
			else
				check(*device_, cudaMemcpy(row.data(), held, options_.dim * sizeof(float), cudaMemcpyDeviceToHost),
					"read a row");
			engine::compute_scores(spec_, query, row.data(), options_.dim * sizeof(float), 1, &score);
			found.push_back({score, 3 * candidate.row + 7});
		}
		std::sort(found.begin(), found.end(), engine::neighbor_less);
		found.resize(std::min(found.size(), kNeighbors));
		return found;
	}

	cuda::Shape shape() const { return cuda::Shape(spec_); }

private:
	static constexpr float kNoise = 0.02f;

	/// Centroids, codebook and sizes of lists, which differ by up to a half of their mean.
	void make_model()
	{
		std::mt19937 rng(1);
		std::normal_distribution<float> normal;
		std::vector<double> weights(options_.n_lists);
		double sum = 0;

		spec_ = {Metric::kL2, ElementType::kFloat32, options_.dim};
		const engine::CodesHead head{static_cast<uint32_t>(engine::ivf::CodeKind::kPq), options_.m, 8, 0};
		if (const char *error = engine::code_spec_of(head, spec_, &code_spec_);
			error != nullptr || options_.dim % options_.m != 0)
		{
			std::fprintf(stderr, "%s\n", error != nullptr ? error : "the bytes of a code do not divide the dimensions");
			std::exit(2);
		}
		floats_.resize(engine::ivf::code_model_floats(code_spec_));
		for (float &value : floats_)
			value = 0.3f * normal(rng);
		model_ = engine::ivf::make_code_model(code_spec_, floats_.data());
		centroids_.resize(size_t{options_.n_lists} * options_.dim);
		for (float &value : centroids_)
			value = normal(rng);
		for (double &weight : weights)
			sum += weight = 0.5 + static_cast<double>(rng()) / 0x1p32;
		offsets_.assign(1, 0);
		for (double before = 0; const double weight : weights)
		{
			before += weight;
			offsets_.push_back(
				std::min(options_.n_rows, static_cast<uint64_t>(before / sum * static_cast<double>(options_.n_rows))));
		}
		offsets_.back() = options_.n_rows;
	}

	template <class T>
	void send(cuda::Held *held, const std::vector<T> &values, const char *purpose)
	{
		must(held->allocate(&budget_, values.size() * sizeof(T), purpose));
		check(*device_, cudaMemcpy(held->as<T>(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
			purpose);
	}

	void make_source()
	{
		const uint32_t dim_pad = shape().dim_pad;
		const uint32_t n_rows = static_cast<uint32_t>(options_.n_rows);
		const size_t padded_rows = (options_.n_rows + kernels::kCodeRows - 1) / kernels::kCodeRows * kernels::kCodeRows;
		auto lists = std::make_shared<cuda::DeviceLists>();
		auto codes = std::make_unique<cuda::DeviceCodes>();
		std::vector<float> padded(size_t{options_.n_lists} * dim_pad);
		std::vector<uint64_t> list_ids(options_.n_lists);
		cuda::Held codebook;
		cuda::Source source;
		MadeLists made;

		for (size_t list = 0; list < options_.n_lists; list++)
			std::copy_n(centroids_.data() + list * options_.dim, options_.dim, padded.data() + list * dim_pad);
		std::iota(list_ids.begin(), list_ids.end(), 0);
		if (options_.rows_on_host)
		{
			std::shared_ptr<cuda::Block> block;

			must(cuda::make_block_on_host(device_, kernels::Form::kFloat32, options_.dim, n_rows, &block));
			must(cuda::pin_block(device_, &block));
			source.block = std::move(block);
		}
		else
			must(cuda::make_block(&budget_, kernels::Form::kFloat32, options_.dim, n_rows, false, &source.block));
		lists->layout = {options_.n_lists, options_.dim, options_.n_rows};
		lists->dim_pad = dim_pad;
		send(&lists->offsets, offsets_, "offsets");
		send(&lists->centroids, padded, "centroids");
		send(&lists->list_ids, list_ids, "numbers of lists");
		must(lists->row_ids.allocate(&budget_, options_.n_rows * sizeof(uint64_t), "row ids"));
		codes->layout.spec = code_spec_;
		codes->layout.n_rows = options_.n_rows;
		codes->code_bytes = options_.m;
		codes->pitch_bytes = (options_.m + 15) / 16 * 16;
		send(&codes->model, floats_, "codebooks");
		must(codes->terms.allocate(&budget_, options_.n_rows * sizeof(float), "terms"));
		must(codes->codes.allocate(&budget_, padded_rows * codes->pitch_bytes, "codes"));
		check(*device_, cudaMemset(codes->codes.as<uint8_t>(), 0, codes->codes.bytes()), "clear codes");
		made.n_rows = options_.n_rows;
		made.n_lists = options_.n_lists;
		made.dim = options_.dim;
		made.dim_pad = dim_pad;
		made.m = options_.m;
		made.pitch_bytes = codes->pitch_bytes;
		made.noise = kNoise;
		made.offsets = lists->offsets.as<uint64_t>();
		made.centroids = lists->centroids.as<float>();
		made.codebook = codes->model.as<float>();
		made.codes = codes->codes.as<uint8_t>();
		made.terms = codes->terms.as<float>();
		made.vectors = source.block->vectors.as<float>();
		made.row_ids = lists->row_ids.as<uint64_t>();
		check(*device_, launch_make_lists(made, stream_.get()), "make rows");
		must(stream_.synchronize());
		codes_ = codes.get();
		lists->codes = std::move(codes);
		source.n_rows = n_rows;
		source.rows_ascending = true;
		source.segment = 1;
		source.lists = std::move(lists);
		snapshot_.n_rows = options_.n_rows;
		snapshot_.sources.push_back(std::move(source));
		must(staging_.allocate(device_, size_t{64} << 20, "codes on their way back"));
	}

	/// Read codes back in the index's layout.
	void read_codes(uint64_t first, size_t n, uint8_t *to)
	{
		if (n > staging_.bytes())
			std::abort(); // one list
		check(*device_,
			kernels::launch_pq_layout_back(codes_->codes.as<uint8_t>(), codes_->pitch_bytes, options_.m, first, n,
				staging_.as<uint8_t>(), stream_.get()),
			"read codes");
		must(stream_.synchronize());
		check(*device_, cudaMemcpy(to, staging_.get(), n, cudaMemcpyDeviceToHost), "read codes");
	}

	const Options options_;
	cuda::Device *device_;
	cuda::Budget budget_;
	cuda::Stream stream_;
	cuda::DeviceBuffer staging_;
	engine::DistanceSpec spec_{};
	engine::ivf::CodeSpec code_spec_;
	engine::ivf::CodeModel model_;
	std::vector<float> floats_; // [code_model_floats]
	std::vector<float> centroids_;
	std::vector<uint64_t> offsets_;
	cuda::Snapshot snapshot_;
	const cuda::DeviceCodes *codes_ = nullptr;
};

/// False: an unknown argument.
bool
parse(int argc, char **argv, Options *options)
{
	for (int i = 1; i + 1 < argc; i += 2)
	{
		const uint64_t value = static_cast<uint64_t>(std::atoll(argv[i + 1]));

		if (std::strcmp(argv[i], "--rows") == 0)
			options->n_rows = value;
		else if (std::strcmp(argv[i], "--lists") == 0)
			options->n_lists = static_cast<uint32_t>(value);
		else if (std::strcmp(argv[i], "--dim") == 0)
			options->dim = static_cast<uint32_t>(value);
		else if (std::strcmp(argv[i], "--m") == 0)
			options->m = static_cast<uint32_t>(value);
		else if (std::strcmp(argv[i], "--candidates") == 0)
			options->n_candidates = static_cast<uint32_t>(value);
		else if (std::strcmp(argv[i], "--rows-on-host") == 0)
			options->rows_on_host = value != 0;
		else if (std::strcmp(argv[i], "--json") == 0)
			options->json = argv[i + 1];
		else if (std::strcmp(argv[i], "--only") == 0 && i + 2 < argc)
		{
			options->only = {static_cast<uint32_t>(value), static_cast<uint32_t>(std::atoi(argv[i + 2]))};
			i++;
		}
		else
			return false;
	}
	return true;
}

class Bench
{
public:
	Bench(const Options &options, cuda::Device *device, cuda::SearchContext *context, Held *held)
		: options_(options), device_(device), context_(context), held_(held), queries_(held->make_queries(kQueries)),
		  json_(options.json == nullptr ? nullptr : std::fopen(options.json, "a"))
	{
	}

	~Bench()
	{
		if (json_ != nullptr)
			std::fclose(json_);
	}

	Bench(const Bench &) = delete;
	Bench &operator=(const Bench &) = delete;

	/// True if the answers that were compared are those of the CPU.
	bool measure(uint32_t batch, uint32_t n_probes)
	{
		const engine::SegmentProbes probes[] = {{1, n_probes, options_.n_candidates}};
		const int n_runs = batch >= 10000 ? 3 : 15;
		std::vector<std::vector<engine::Neighbor>> results;
		std::vector<engine::SearchQuery> requests;
		std::vector<double> times;
		size_t first = 0;
		bool equal = true;

		for (int run = -1; run < n_runs; run++)
		{
			cuda::SearchCounts counts;

			first = static_cast<size_t>(run + 1) * batch % (kQueries - batch + 1);
			requests.clear();
			for (size_t i = first; i < first + batch; i++)
			{
				requests.push_back({query(i), kNeighbors, false, {}});
				requests.back().probes = probes;
			}

			const double start = now_ms();

			must(cuda::search_lists({device_, context_, held_->spec(), held_->shape(), held_->snapshot(), requests, {},
				&results, &counts, nullptr}));
			if (run >= 0)
				times.push_back(now_ms() - start);
		}
		for (size_t i = 0; i < std::min<size_t>(batch, kCompared); i++)
			equal = equal && same(results[i], held_->expect(query(first + i), n_probes, options_.n_candidates));
		std::sort(times.begin(), times.end());
		report(batch, n_probes, times[times.size() / 2], scanned(first, batch, n_probes), equal);
		return equal;
	}

	/// Time the scores of random rows: their bytes in a second are those of the memory, or of the bus, where they are.
	void measure_scores(uint32_t batch)
	{
		const uint32_t dim_pad = held_->shape().dim_pad;
		std::vector<float> padded(size_t{batch} * dim_pad);
		double bytes = 0;

		for (size_t i = 0; i < batch; i++)
			std::copy_n(query(i), options_.dim, padded.data() + i * dim_pad);

		const double median =
			time_random_scores(*device_, *context_, held_->source(), padded, dim_pad, options_.n_candidates, &bytes);

		std::printf("scores of %u random rows each in %s memory, batch %u: %.4f ms, %.2f GB/s\n", options_.n_candidates,
			options_.rows_on_host ? "host" : "device", batch, median, bytes / median / 1e6);
		std::fflush(stdout);
		if (json_ != nullptr)
			std::fprintf(json_,
				"{\"rows\": %llu, \"dim\": %u, \"batch\": %u, \"candidates\": %u, \"rows_on_host\": %s, "
				"\"scores_ms\": %.4f, \"scored_bytes\": %.0f}\n",
				static_cast<unsigned long long>(options_.n_rows), options_.dim, batch, options_.n_candidates,
				options_.rows_on_host ? "true" : "false", median, bytes);
	}

private:
	/// Sizes of lists that queries look at.
	struct Scanned
	{
		double rows;  // of a query
		double share; // of all rows that lie in a list of some query
	};

	const float *query(size_t i) const { return queries_.data() + i * options_.dim; }

	/// Of queries from `first` on: of a large batch some queries stand for all.
	Scanned scanned(size_t first, uint32_t batch, uint32_t n_probes) const
	{
		const size_t n_looked = std::min<size_t>(batch, 64);
		std::set<uint64_t> lists;
		uint64_t n_scanned = 0;
		uint64_t n_distinct = 0;

		for (size_t i = 0; i < n_looked; i++)
		{
			const std::vector<engine::Neighbor> ranked = held_->rank(query(first + i));

			for (uint32_t p = 0; p < n_probes; p++)
			{
				const uint64_t n = held_->offsets()[ranked[p].row + 1] - held_->offsets()[ranked[p].row];

				n_scanned += n;
				if (lists.insert(ranked[p].row).second)
					n_distinct += n;
			}
		}
		return {static_cast<double>(n_scanned) / static_cast<double>(n_looked),
			batch == n_looked
				? static_cast<double>(n_distinct) / static_cast<double>(options_.n_rows)
				: 1 - std::pow(1 - static_cast<double>(n_probes) / options_.n_lists, batch)}; // if lists were alike
	}

	void report(uint32_t batch, uint32_t n_probes, double median, const Scanned &lists, bool equal) const
	{
		const double bytes = lists.share * static_cast<double>(options_.n_rows) * (options_.m + sizeof(float));
		const double floor_ms = bytes / kBytesPerSecond * 1000;
		const double look_ups_ms = lists.rows * batch * options_.m / kLookUpsPerSecond * 1000;

		std::printf("%8u %8u %12.4f %12.0f %14.0f %12.4f %12.4f %12.4f %9.2f %12s\n", batch, n_probes, median,
			1000.0 * batch / median, lists.rows, bytes / 1e9, floor_ms, look_ups_ms,
			median / std::max(floor_ms, look_ups_ms), equal ? "yes" : "NO");
		std::fflush(stdout);
		if (json_ != nullptr)
			std::fprintf(json_,
				"{\"rows\": %llu, \"dim\": %u, \"lists\": %u, \"m\": %u, \"batch\": %u, \"probes\": %u, "
				"\"candidates\": %u, \"rows_on_host\": %s, \"median_ms\": %.4f, "
				"\"list_bytes\": %.0f, \"same\": %s}\n",
				static_cast<unsigned long long>(options_.n_rows), options_.dim, options_.n_lists, options_.m, batch,
				n_probes, options_.n_candidates, options_.rows_on_host ? "true" : "false", median, bytes,
				equal ? "true" : "false");
	}

	const Options options_;
	cuda::Device *device_;
	cuda::SearchContext *context_;
	Held *held_;
	const std::vector<float> queries_; // [kQueries, dim]
	std::FILE *json_;
};

} // namespace

int
main(int argc, char **argv)
{
	Options options;

	if (!parse(argc, argv, &options))
	{
		std::fprintf(stderr,
			"usage: %s [--rows N] [--lists N] [--dim D] [--m BYTES] [--candidates N] [--rows-on-host 1] [--json FILE] "
			"[--only BATCH PROBES]\n",
			argv[0]);
		return 2;
	}

	cuda::Device device;
	cuda::SearchContext context;
	const double start = now_ms();

	must(cuda::Device::open(0, [](const char *line) { std::fprintf(stderr, "%s\n", line); }, &device));
	check(device, kernels::prepare_select_kernels(), "prepare the selection kernels");
	check(device, kernels::prepare_code_kernels(), "prepare the kernels of codes");
	must(context.create(&device, size_t{2} << 30, size_t{64} << 20));
	std::printf("# %s\n", device.description().c_str());
	std::fflush(stdout);

	Held held(options, &device);
	Bench bench(options, &device, &context, &held);
	std::vector<std::array<uint32_t, 2>> lines;
	bool all_same = true;

	std::printf("# %llu rows of %u dimensions, %u lists, %u bytes a code, %u candidates; made on the device in %.1f s, "
				"%.1f GB there%s\n",
		static_cast<unsigned long long>(options.n_rows), options.dim, options.n_lists, options.m, options.n_candidates,
		(now_ms() - start) / 1000, static_cast<double>(held.bytes()) / 1e9,
		options.rows_on_host ? ", rows in host memory" : "");
	std::printf("%8s %8s %12s %12s %14s %12s %12s %12s %9s %12s\n", "batch", "probes", "median ms", "queries/s",
		"rows a query", "GB of lists", "floor ms", "look-ups ms", "x floor", "as the CPU");
	for (const uint32_t batch : {1u, 64u, 10000u})
		for (const uint32_t n_probes : {8u, 32u, 128u})
			lines.push_back({batch, std::min(n_probes, options.n_lists - 1)});
	if (options.only[0] > 0)
		lines.assign(1, options.only);
	for (const auto &[batch, n_probes] : lines)
	{
		const bool equal = bench.measure(batch, n_probes);

		all_same = all_same && equal;
	}
	for (const uint32_t batch : {1u, 8u, 64u, 1000u})
		bench.measure_scores(batch);
	return all_same ? 0 : 1;
}
