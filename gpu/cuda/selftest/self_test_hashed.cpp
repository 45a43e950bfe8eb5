// The part of the self-test about graphs with codes: searches of a graph with random edges, against the CPU engine's
// searches of the same copy.
#include "cuda/selftest/self_test.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cuda/selftest/test_data.hpp"
#include "engine/cpu/cpu_engine.hpp"
#include "engine/graph/codes/codes.hpp"
#include "engine/interface/graph_layout.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;

constexpr uint32_t kDegree = 10;
constexpr uint32_t kEntries = 20;
constexpr uint32_t kDim = 24;
constexpr size_t kNeighbors = 20;
constexpr size_t kDifferent = 50; // queries of a batch; larger ones repeat them

struct Case
{
	uint32_t bits;
	uint32_t n_rows;
	uint32_t width;
	uint32_t n_queries;
};

constexpr Case kCases[] = {
	{32, 2000, 100, 3},
	{64, 2000, 60, 1100},
	{128, 2000, 200, 50},
	{128, 12000, 1400, 3},
	{256, 2000, 33, 1100},
	{512, 2000, 129, 3},
	{1, 2000, 100, 3}, // of a dimension, by RaBitQ
	{2, 2000, 60, 1100},
	{4, 12000, 200, 50},
};

std::vector<float>
make_vectors(size_t n, uint64_t *state)
{
	std::vector<float> vectors(n * kDim);

	for (float &value : vectors)
		value = next_real(state);
	return vectors;
}

std::vector<uint8_t>
describe(const Case &test, const std::vector<float> &vectors, uint64_t *state)
{
	const engine::DistanceSpec spec = {Metric::kL2, ElementType::kFloat32, kDim};
	const engine::GraphHeader header = {kDegree, 1, kEntries, test.bits};
	const engine::GraphPartLayout part = {0, test.n_rows, 0, kEntries};
	const engine::graph::GraphRows rows = {spec, vectors.data(), kDim * sizeof(float), test.n_rows};
	engine::graph::CodeModel model;
	engine::GraphHashHead head;
	std::vector<float> floats(engine::graph::code_model_floats(test.bits, kDim));
	std::vector<uint8_t> codes(test.n_rows * engine::graph::code_bytes(test.bits, kDim));
	std::vector<uint8_t> bytes;

	model.spec = {spec, test.bits, 1};
	model.floats = floats.data();

	std::vector<float> work(engine::graph::code_work_floats(model.spec));

	engine::graph::train_codes(model.spec, rows, &model.bound, floats.data(), work.data());
	engine::graph::make_codes(model, rows, codes.data(), work.data());
	head.seed = model.spec.seed;
	head.bound = model.bound;
	append(&bytes, &header, 1);
	append(&bytes, &part, 1);
	for (uint32_t i = 0; i < kEntries; i++)
	{
		const uint32_t entry = i * (test.n_rows / kEntries);

		append(&bytes, &entry, 1);
	}
	for (uint32_t i = 0; i < test.n_rows * kDegree; i++)
	{
		const uint32_t edge = next(state) % 16 == 0 ? engine::graph::kNoNode : next(state) % test.n_rows;

		append(&bytes, &edge, 1);
	}
	append(&bytes, &head, 1);
	append(&bytes, floats.data(), floats.size());
	append(&bytes, codes.data(), codes.size());
	return bytes;
}

/// The data of both engines: made once, since a worker's start waits for it.
struct Made
{
	explicit Made(const Case &test)
		: vectors(make_vectors(test.n_rows, &state)),
		  queries(make_vectors(std::min<size_t>(test.n_queries, kDifferent), &state)),
		  description(describe(test, vectors, &state))
	{
	}

	uint64_t state = 20200420;
	std::vector<float> vectors; // [n_rows, kDim]
	std::vector<float> queries; // [at most kDifferent, kDim]
	std::vector<uint8_t> description;
};

/// The answers of an engine to the first n_queries of the case's queries.
Status
answers(engine::Engine *engine, const Case &test, const Made &made, size_t n_queries,
	std::vector<std::vector<Neighbor>> *found)
{
	const engine::SegmentProbes probes[] = {{1, test.width}};
	std::vector<engine::SearchQuery> batch;

	for (size_t q = 0; q < n_queries; q++)
	{
		batch.push_back({made.queries.data() + q % kDifferent * kDim, kNeighbors, false, {}});
		batch.back().probes = probes;
	}
	return with_copy(engine, {{Metric::kL2, ElementType::kFloat32, kDim}, engine::CopyKind::kHashedGraph},
		[&](engine::CopyId copy)
		{
			VECTORGPU_TRY(load_sealed(engine, copy, test.n_rows, made.vectors.data(), kDegree, made.description));
			return engine->search(copy, batch, found);
		});
}

} // namespace

Status
self_test_hashed(engine::Engine *engine, uint64_t *n_searches)
{
	const std::unique_ptr<engine::Engine> host = engine::make_cpu_engine({});

	*n_searches = 0;
	if (host == nullptr)
		return Status::error(StatusCode::kOutOfMemory, "out of memory");
	for (const Case &test : kCases)
	{
		const Made made(test);
		std::vector<std::vector<Neighbor>> found;
		std::vector<std::vector<Neighbor>> wanted;

		*n_searches += test.n_queries; // each of one segment, and too narrow to score all rows
		VECTORGPU_TRY(answers(engine, test, made, test.n_queries, &found));
		VECTORGPU_TRY(answers(host.get(), test, made, std::min<size_t>(test.n_queries, kDifferent), &wanted));
		for (size_t q = 0; q < found.size(); q++)
			if (!same_answer(wanted[q % kDifferent], found[q]))
				return failed("the GPU's answer from a graph with codes differs from the CPU's: " +
					std::to_string(test.bits) + " bits, " + std::to_string(test.n_queries) + " queries");
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
