// Codes that a graph is searched by, compared: 1-bit random projections (hash_bits) beside RaBitQ of 1, 2 and 4 bits
// around the mean of all rows. The same graph is searched by each, and the nodes found are scored by their vectors.
// Arguments: rows and queries as .u8bin or .f16bin (test/bench/gpu/u8bin.hpp), l2 or cosine, and how many rows at
// most. Of each code: bytes of a row; of recall .95 and .99 at 10 the width, rows scored by codes, and processor time
// of a query, one thread, the least of five turns.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "../gpu/u8bin.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/graph/codes/codes.hpp"
#include "engine/graph/search.hpp"
#include "engine/interface/graph_builder.hpp"

namespace vectorgpu::engine::graph
{
namespace
{

constexpr size_t kQueries = 500;
constexpr size_t kNearest = 10;
constexpr uint32_t kMostWidth = 4096;
constexpr int kTurns = 5;

double
processor_us()
{
	timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct Data
{
	DistanceSpec spec;
	bench::Matrix rows;
	bench::Matrix queries;
	std::vector<double> last; // [kQueries]: score of the row that is kNearest-th
	std::vector<uint32_t> edges;
	std::vector<uint32_t> entries;
	uint32_t degree = 32;

	GraphRows all() const { return {spec, rows.values.data(), spec.dim * sizeof(float), rows.n}; }
	const float *query(size_t q) const { return queries.values.data() + q * spec.dim; }

	void build()
	{
		const std::unique_ptr<Engine> engine = make_cpu_engine({.n_threads = 2});
		std::unique_ptr<GraphBuilder> builder;
		SearchControl control;
		GraphBuildSpec build;
		std::vector<double> scores(rows.n);

		build.rows = spec;
		build.n_rows = rows.n;
		build.degree = degree;
		test::must(engine->make_graph_builder(build, &control, nullptr, &builder));
		test::must(builder->add_rows(rows.values.data(), rows.n));
		test::must(builder->build());
		edges.assign(builder->edges().begin(), builder->edges().end());
		entries.assign(builder->entries().begin(), builder->entries().end());
		for (size_t q = 0; q < queries.n; q++)
		{
			compute_scores(spec, query(q), rows.values.data(), spec.dim * sizeof(float), rows.n, scores.data());
			std::nth_element(scores.begin(), scores.begin() + kNearest - 1, scores.end());
			last.push_back(scores[kNearest - 1]);
		}
	}
};

/// What searches compare: vectors, or codes of one kind, of all rows and of one query.
struct Compared
{
	const Data &data;
	CodeModel model;
	std::vector<float> floats;
	std::vector<float> work;
	std::vector<uint8_t> codes;
	std::vector<uint8_t> code;
	GraphRows rows;
	const void *query = nullptr;

	/// bits: code_scores.hpp, and more of projections than an index has; 0: vectors.
	Compared(const Data &of, uint32_t bits) : data(of), rows(of.all())
	{
		model.spec = {data.spec, bits};
		if (bits == 0)
			return;
		floats.resize(code_model_floats(bits, data.spec.dim));
		work.resize(code_work_floats(model.spec));
		codes.resize(data.rows.n * code_bytes(bits, data.spec.dim));
		code.resize(code_query_bytes(bits, data.spec.dim));
		(void) train_codes(model.spec, data.all(), &model.bound, floats.data(), work.data());
		model.floats = floats.data();
		make_codes(model, data.all(), codes.data(), work.data());
		rows = rows_of_codes(bits, data.spec.dim, codes.data(), data.rows.n);
		query = code.data();
	}
	Compared(const Compared &) = delete;
	Compared &operator=(const Compared &) = delete;

	std::string name() const
	{
		const uint32_t bits = model.spec.bits;

		return bits == 0 ? "vectors" : (codes_are_rabitq(bits) ? "rabitq " : "hash ") + std::to_string(bits);
	}

	void prepare(size_t q)
	{
		if (model.spec.bits == 0)
			query = data.query(q);
		else
			make_query_code(model, data.query(q), code.data(), work.data());
	}
};

struct Searcher
{
	const Data &data;
	Compared &compared;
	SearchStats stats;
	std::vector<uint8_t> work;

	Searcher(const Data &of, Compared &by) : data(of), compared(by) {}

	static bool neighbors(void *context, uint32_t node, uint32_t *to)
	{
		const Data &data = static_cast<Searcher *>(context)->data;

		std::copy_n(data.edges.data() + size_t{node} * data.degree, data.degree, to);
		return true;
	}
	static bool scores(void *context, const uint32_t *nodes, size_t n, double *to)
	{
		const Compared &compared = static_cast<Searcher *>(context)->compared;

		score_rows(compared.rows, compared.query, nodes, n, to);
		return true;
	}

	/// The number of nearest rows found.
	size_t search(size_t q, uint32_t width)
	{
		const GraphView view = {data.rows.n, data.degree, neighbors, scores, this};
		const size_t n_entries = data.entries.size();
		std::vector<double> entry_scores(std::max<size_t>(n_entries, width));
		std::vector<Candidate> entries(n_entries);
		std::vector<Candidate> found(width);
		std::vector<uint32_t> nodes(width);
		SearchSpec spec;
		uint32_t n_found;

		spec.width = width;
		spec.probe_steps = kSearchSteps;
		compared.prepare(q);
		score_rows(compared.rows, compared.query, data.entries.data(), n_entries, entry_scores.data());
		for (size_t i = 0; i < n_entries; i++)
			entries[i] = {entry_scores[i], data.entries[i]};
		first_candidates(entries.data(), n_entries, kSearchEntries);
		work.resize(std::max(work.size(), graph_search_bytes(view, spec)));
		if (!graph_search(view, spec, entries.data(), std::min<size_t>(kSearchEntries, n_entries), found.data(),
				&n_found, &stats, work.data(), work.size())
				.is_ok())
			std::abort();
		for (uint32_t i = 0; i < n_found; i++)
			nodes[i] = found[i].node;
		if (compared.model.spec.bits != 0)
			score_rows(data.all(), data.query(q), nodes.data(), n_found, entry_scores.data());
		else
			for (uint32_t i = 0; i < n_found; i++)
				entry_scores[i] = found[i].score;
		std::sort(entry_scores.begin(), entry_scores.begin() + n_found);

		size_t hits = 0;

		for (size_t i = 0; i < std::min<size_t>(kNearest, n_found); i++)
			hits += entry_scores[i] <= data.last[q];
		return hits;
	}

	double recall(uint32_t width)
	{
		size_t hits = 0;

		for (size_t q = 0; q < data.queries.n; q++)
			hits += search(q, width);
		return static_cast<double>(hits) / static_cast<double>(data.queries.n * kNearest);
	}
};

struct Wanted
{
	double target;
	uint32_t width = 0; // 0: not reached
	double recall = 0;
	double n_scored = 0;
	double us = 1e30;
};

void
compare(const Data &data)
{
	std::vector<std::unique_ptr<Compared>> all;
	std::vector<std::vector<Wanted>> wanted;

	for (const uint32_t bits : {0u, 128u, 256u, 512u, 1024u, 2048u, 1u, 2u, 4u})
		all.push_back(std::make_unique<Compared>(data, bits));
	for (const auto &compared : all)
	{
		uint32_t width = kNearest;

		wanted.push_back({{.95}, {.99}});
		for (Wanted &want : wanted.back())
			for (; width <= kMostWidth; width += width / 8)
			{
				Searcher searcher(data, *compared);

				want.recall = searcher.recall(width);
				want.n_scored = static_cast<double>(searcher.stats.n_scored) / data.queries.n;
				if (want.recall >= want.target)
				{
					want.width = width;
					break;
				}
			}
	}
	for (int turn = 0; turn < kTurns; turn++)
		for (size_t i = 0; i < all.size(); i++)
			for (Wanted &want : wanted[i])
			{
				Searcher searcher(data, *all[i]);
				const double begin = processor_us();

				if (want.width == 0)
					continue;
				(void) searcher.recall(want.width);
				want.us = std::min(want.us, (processor_us() - begin) / data.queries.n);
			}
	for (size_t i = 0; i < all.size(); i++)
		for (const Wanted &want : wanted[i])
			printf("%-10s %5zu B  %.2f: width %4u recall %.3f scored %6.0f  %7.1f us\n", all[i]->name().c_str(),
				all[i]->rows.row_stride, want.target, want.width, want.recall, want.n_scored,
				want.width ? want.us : 0.0);
}

} // namespace
} // namespace vectorgpu::engine::graph

int
main(int argc, char **argv)
{
	using namespace vectorgpu;
	engine::graph::Data data;

	if (argc != 5)
	{
		fprintf(stderr, "usage: %s ROWS QUERIES l2|cosine MOST_ROWS\n", argv[0]);
		return 1;
	}
	data.rows = bench::read_rows(argv[1]);
	data.queries = bench::read_rows(argv[2]);
	data.rows.n = std::min(data.rows.n, static_cast<uint32_t>(std::stoul(argv[4])));
	data.queries.n = std::min(data.queries.n, static_cast<uint32_t>(engine::graph::kQueries));
	data.spec = {strcmp(argv[3], "cosine") == 0 ? Metric::kCosine : Metric::kL2, ElementType::kFloat32, data.rows.dim};
	data.build();
	printf("%u rows of %u, %zu entry points\n", data.rows.n, data.rows.dim, data.entries.size());
	engine::graph::compare(data);
	return 0;
}
