// The part of the self-test about lists with codes: random codes and codebooks, candidates by engine/ivf's estimates.
#include "cuda/selftest/self_test.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "cuda/selftest/test_data.hpp"
#include "engine/interface/codes_layout.hpp"
#include "engine/distance/distance.hpp"
#include "engine/ivf/kmeans.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;
namespace ivf = engine::ivf;

constexpr uint32_t kRows = 6000;
constexpr uint32_t kLists = 12;
constexpr uint32_t kProbes = 5;
constexpr uint32_t kNeighbors = 20;
constexpr uint32_t kDistinct = 20; // queries of a batch; larger ones repeat them

struct Case
{
	Metric metric;
	uint32_t dim;
	ivf::CodeKind kind;
	engine::ivf::PqSpec pq; // m, bits (of a dimension of kRabitq), opq
	uint32_t n_queries;
	uint32_t n_candidates;
};

constexpr Case kCases[] = {
	{Metric::kL2, 40, ivf::CodeKind::kPq, {.m = 20, .bits = 8}, 300, 60},
	{Metric::kL2, 40, ivf::CodeKind::kPq, {.m = 7, .bits = 8, .opq = true}, 2, 100},
	{Metric::kInnerProduct, 33, ivf::CodeKind::kPq, {.m = 11, .bits = 4}, 300, 60},
	{Metric::kCosine, 24, ivf::CodeKind::kPq, {.m = 12, .bits = 4}, 1, 2100},
	{Metric::kCosine, 48, ivf::CodeKind::kPq, {.m = 16, .bits = 8}, 20, 100},
	{Metric::kL2, 144, ivf::CodeKind::kPq, {.m = 144, .bits = 8}, 20, 60}, // tables that do not fit shared memory
	{Metric::kL2, 140, ivf::CodeKind::kSq8, {}, 300, 60},
	{Metric::kInnerProduct, 31, ivf::CodeKind::kSq8, {}, 2, 60},
	{Metric::kCosine, 64, ivf::CodeKind::kSq8, {}, 20, 60},
	{Metric::kL1, 64, ivf::CodeKind::kSq8, {}, 20, 60},
	{Metric::kL2, 65, ivf::CodeKind::kHalves, {}, 20, 60},
	{Metric::kCosine, 40, ivf::CodeKind::kHalves, {}, 2, 60},
	{Metric::kL2, 40, ivf::CodeKind::kRabitq, {.bits = 4}, 300, 60},
	{Metric::kCosine, 33, ivf::CodeKind::kRabitq, {.bits = 8}, 20, 2100},
	{Metric::kInnerProduct, 100, ivf::CodeKind::kRabitq, {.bits = 2}, 2, 60},
	{Metric::kL2, 64, ivf::CodeKind::kRabitq, {.bits = 1}, 20, 60},
};

/// The data of a case. Random codes need not be those of the rows.
struct Made
{
	Made(const Case &test, const engine::CodesHead &head, const ivf::CodeSpec &spec)
		: rows(size_t{kRows} * test.dim), centroids(size_t{kLists} * test.dim),
		  queries(size_t{std::min(test.n_queries, kDistinct)} * test.dim), model(ivf::code_model_floats(spec)),
		  terms(ivf::code_has_terms(spec) ? kRows : 0), codes(ivf::all_code_bytes(spec, kRows))
	{
		uint64_t state = 20170228;

		for (std::vector<float> *values : {&rows, &centroids, &queries, &model, &terms})
			for (float &value : *values)
				value = next_real(&state);
		for (uint8_t &code : codes)
			code = static_cast<uint8_t>(
				next(&state) % (test.kind == ivf::CodeKind::kHalves ? 64 : 256)); // small halves are finite
		if (test.kind == ivf::CodeKind::kSq8)
			for (uint32_t d = 0; d < test.dim; d++)
				model[test.dim + d] = (model[test.dim + d] + 1.0f) / 128.0f;
		if (test.kind == ivf::CodeKind::kRabitq)
			make_rabitq(ivf::make_code_model(spec, model.data()).rabitq, &state);
		describe(head);
	}

	/// A seed, and factors that are numbers: of the errors, some at which the bound is the score.
	void make_rabitq(const ivf::RabitqModel &rabitq, uint64_t *state)
	{
		const size_t factors_at = ivf::kCodeBlockRows * ivf::rabitq_plane_bytes(rabitq.spec);
		const size_t block_bytes = ivf::kCodeBlockRows * ivf::rabitq_code_bytes(rabitq.spec);

		*rabitq.seed = 20170228;
		for (size_t block = 0; block < codes.size(); block += block_bytes)
			for (size_t i = 0; i < ivf::rabitq_n_factors(rabitq.spec) * ivf::kCodeBlockRows; i++)
			{
				const float real = next_real(state);
				const float factor = i / ivf::kCodeBlockRows == ivf::kRabitqError ? real * real / 8 : real;

				std::memcpy(codes.data() + block + factors_at + i * sizeof(factor), &factor, sizeof(factor));
			}
	}

	void describe(const engine::CodesHead &head)
	{
		std::vector<uint64_t> offsets;
		std::vector<uint32_t> numbers(kRows);

		for (uint32_t list = 0; list <= kLists; list++)
			offsets.push_back(uint64_t{list} * (kRows / kLists));
		std::iota(numbers.begin(), numbers.end(), 0);
		append(&description, offsets.data(), offsets.size());
		append(&description, centroids.data(), centroids.size());
		append(&description, numbers.data(), numbers.size());
		append(&description, &head, 1);
		append(&description, model.data(), model.size());
		append(&description, terms.data(), terms.size());
		append(&description, codes.data(), codes.size());
	}

	std::vector<float> rows;
	std::vector<float> centroids;
	std::vector<float> queries;
	std::vector<float> model;
	std::vector<float> terms;
	std::vector<uint8_t> codes;
	std::vector<uint8_t> description;
};

/// The live rows that engine/ivf chooses. Place i is row i; all lists have the same number of rows.
std::vector<Neighbor>
expected(const Case &test, engine::CopyKind kind, const Made &made, const ivf::CodeModel &model, const float *query)
{
	const engine::DistanceSpec spec = {test.metric, ElementType::kFloat32, test.dim};
	const size_t row_bytes = test.dim * sizeof(float);
	const size_t unit_rows = ivf::code_unit_rows(model.spec);
	std::vector<float> unit(query, query + test.dim);
	std::vector<uint8_t> memory(ivf::code_query_bytes(model.spec));
	std::vector<double> scores(kLists);
	std::vector<Neighbor> ranked;
	std::vector<Neighbor> estimates;
	std::vector<Neighbor> found;
	ivf::CodeQuery prepared;

	if (test.metric == Metric::kCosine)
		ivf::normalise_rows(unit.data(), 1, test.dim);
	engine::compute_scores(spec, query, made.centroids.data(), row_bytes, kLists, scores.data());
	for (uint32_t list = 0; list < kLists; list++)
		ranked.push_back({scores[list], list});
	std::sort(ranked.begin(), ranked.end(), engine::neighbor_less);
	if (!ivf::code_query_prepare(model, unit.data(), memory.data(), memory.size(), &prepared).is_ok())
		return {}; // is taken for a wrong answer
	for (uint32_t i = 0; i < kProbes; i++)
	{
		const uint64_t first = ranked[i].row * (kRows / kLists);
		const uint64_t end = first + kRows / kLists;
		const uint64_t from = first / unit_rows * unit_rows;

		scores.resize(end - from);
		ivf::code_scores(prepared, ivf::code_list_constant(model.spec, ranked[i].score),
			made.codes.data() + from * ivf::code_bytes(model.spec),
			made.terms.empty() ? nullptr : made.terms.data() + from, end - from, scores.data());
		for (uint64_t place = first; place < end; place++)
			estimates.push_back({scores[place - from], place});
	}
	keep_first(&estimates, test.n_candidates);
	for (const Neighbor &candidate : estimates)
	{
		double score = candidate.score + 0.0; // -0 becomes +0

		if (is_dead(candidate.row))
			continue;
		if (kind == engine::CopyKind::kCodedLists)
			engine::compute_scores(spec, query, made.rows.data() + candidate.row * test.dim, row_bytes, 1, &score);
		found.push_back({score, id_of(candidate.row)});
	}
	keep_first(&found, kNeighbors);
	return found;
}

Status
run(engine::Engine *engine, const Case &test, engine::CopyKind kind, engine::CopyId copy)
{
	const engine::CodesHead head = {static_cast<uint32_t>(test.kind), test.pq.m,
		test.kind == ivf::CodeKind::kPq || test.kind == ivf::CodeKind::kRabitq ? test.pq.bits : 0,
		test.pq.opq ? 1u : 0u};
	const engine::SegmentProbes probes[] = {{1, kProbes, test.n_candidates}};
	ivf::CodeSpec spec;
	std::vector<engine::SearchQuery> batch;
	std::vector<std::vector<Neighbor>> found;

	if (const char *error = engine::code_spec_of(head, {test.metric, ElementType::kFloat32, test.dim}, &spec);
		error != nullptr)
		return Status::error(StatusCode::kInternal, error);

	Made made(test, head, spec);
	const ivf::CodeModel model = ivf::make_code_model(spec, made.model.data());

	VECTORGPU_TRY(load_sealed(engine, copy, kRows, made.rows.data(), kLists, made.description));
	for (size_t q = 0; q < test.n_queries; q++)
	{
		batch.push_back({made.queries.data() + q % kDistinct * test.dim, kNeighbors, false, {}});
		batch.back().probes = probes;
	}
	VECTORGPU_TRY(engine->search(copy, batch, &found));
	for (size_t distinct = 0; distinct < std::min<size_t>(batch.size(), kDistinct); distinct++)
	{
		const std::vector<Neighbor> wanted =
			expected(test, kind, made, model, static_cast<const float *>(batch[distinct].query));

		for (size_t q = distinct; q < batch.size(); q += kDistinct)
			if (wanted.empty() || !same_answer(wanted, found[q]))
				return failed("the GPU's answer from codes differs from the CPU's: metric " +
					std::to_string(static_cast<int>(test.metric)) + ", codes " +
					std::to_string(static_cast<int>(test.kind)) + ", " + std::to_string(test.dim) + " dimensions, " +
					std::to_string(test.n_queries) + " queries");
	}

	std::vector<uint8_t> held(made.description.size());

	VECTORGPU_TRY(engine->read_structure(copy, 1, 0, held.size(), held.data()));
	return held == made.description ? Status::ok() : failed("the GPU does not give back the codes that it was given");
}

} // namespace

Status
self_test_codes(engine::Engine *engine)
{
	for (const Case &test : kCases)
		for (const engine::CopyKind kind : {engine::CopyKind::kCodedLists, engine::CopyKind::kCodes})
			VECTORGPU_TRY(with_copy(engine, {{test.metric, ElementType::kFloat32, test.dim}, kind},
				[&](engine::CopyId copy) { return run(engine, test, kind, copy); }));
	return Status::ok();
}

} // namespace vectorgpu::cuda
