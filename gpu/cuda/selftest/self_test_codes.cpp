// The part of the self-test about lists with codes: codes and codebooks by chance, candidates by engine/ivf's
// estimates.
#include "cuda/selftest/self_test.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
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
constexpr uint32_t kDistinct = 20; // queries of a batch; larger ones ask them again

struct Case
{
	Metric metric;
	uint32_t dim;
	ivf::CodeKind kind;
	engine::ivf::PqSpec pq; // m, bits, opq
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
};

/// A linear congruential generator (Knuth's MMIX): the same numbers everywhere.
uint32_t
next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return static_cast<uint32_t>(*state >> 33);
}

float
next_real(uint64_t *state)
{
	return static_cast<float>(next(state) % 65536) * 0x1p-15f - 1.0f;
}

template <class T>
void
put(std::vector<uint8_t> *bytes, const T *values, size_t n)
{
	const uint8_t *from = reinterpret_cast<const uint8_t *>(values);

	bytes->insert(bytes->end(), from, from + n * sizeof(T));
}

/// What engine/ivf chooses, but for every fifth row, which is dead. Place i is row i; lists are of the same number of
/// rows.
std::vector<Neighbor>
expected(const Case &test, engine::CopyKind kind, const ivf::CodeModel &model, const std::vector<float> &rows,
	const std::vector<float> &centroids, const std::vector<float> &terms, const std::vector<uint8_t> &codes,
	const float *query)
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
	engine::compute_scores(spec, query, centroids.data(), row_bytes, kLists, scores.data());
	for (uint32_t list = 0; list < kLists; list++)
		ranked.push_back({scores[list], list});
	std::sort(ranked.begin(), ranked.end(), engine::neighbor_less);
	if (!ivf::code_query_prepare(model, unit.data(), memory.data(), memory.size(), &prepared).is_ok())
		return {}; // which no answer equals
	for (uint32_t i = 0; i < kProbes; i++)
	{
		const uint64_t first = ranked[i].row * (kRows / kLists);
		const uint64_t end = first + kRows / kLists;
		const uint64_t from = first / unit_rows * unit_rows;

		scores.resize(end - from);
		ivf::code_scores(prepared, ivf::code_list_constant(model.spec, ranked[i].score),
			codes.data() + from * ivf::code_bytes(model.spec), terms.empty() ? nullptr : terms.data() + from,
			end - from, scores.data());
		for (uint64_t place = first; place < end; place++)
			estimates.push_back({scores[place - from], place});
	}
	std::sort(estimates.begin(), estimates.end(), engine::neighbor_less);
	estimates.resize(std::min<size_t>(estimates.size(), test.n_candidates));
	for (const Neighbor &candidate : estimates)
	{
		double score = candidate.score + 0.0; // -0 becomes +0

		if (candidate.row % 5 == 0)
			continue;
		if (kind == engine::CopyKind::kCodedLists)
			engine::compute_scores(spec, query, rows.data() + candidate.row * test.dim, row_bytes, 1, &score);
		found.push_back({score, candidate.row * 3 + 7});
	}
	std::sort(found.begin(), found.end(), engine::neighbor_less);
	found.resize(std::min<size_t>(found.size(), kNeighbors));
	return found;
}

Status
run(engine::Engine *engine, const Case &test, engine::CopyKind kind, engine::CopyId copy)
{
	const engine::CodesHead head = {static_cast<uint32_t>(test.kind), test.pq.m,
		test.kind == ivf::CodeKind::kPq ? test.pq.bits : 0, test.pq.opq ? 1u : 0u};
	const engine::SegmentProbes probes[] = {{1, kProbes, test.n_candidates}};
	uint64_t state = 20170228;
	engine::CodesLayout layout;
	std::vector<float> rows(size_t{kRows} * test.dim);
	std::vector<float> centroids(size_t{kLists} * test.dim);
	std::vector<float> queries(size_t{std::min(test.n_queries, kDistinct)} * test.dim);
	std::vector<uint64_t> offsets;
	std::vector<uint32_t> numbers;
	std::vector<RowId> ids;
	std::vector<uint8_t> dead((kRows + 7) / 8);
	std::vector<uint8_t> description;
	std::vector<engine::SearchQuery> batch;
	std::vector<std::vector<Neighbor>> found;

	if (const char *error = engine::code_spec_of(head, {test.metric, ElementType::kFloat32, test.dim}, &layout.spec);
		error != nullptr)
		return Status::error(StatusCode::kInternal, error);
	layout.n_rows = kRows;

	std::vector<float> model(ivf::code_model_floats(layout.spec));
	std::vector<float> terms(ivf::code_has_terms(layout.spec) ? kRows : 0);
	std::vector<uint8_t> codes(ivf::all_code_bytes(layout.spec, kRows));

	for (std::vector<float> *values : {&rows, &centroids, &queries, &model, &terms})
		for (float &value : *values)
			value = next_real(&state);
	for (uint8_t &code : codes)
		code = static_cast<uint8_t>(
			next(&state) % (test.kind == ivf::CodeKind::kHalves ? 64 : 256)); // small halves are finite
	if (test.kind == ivf::CodeKind::kSq8)
		for (uint32_t d = 0; d < test.dim; d++)
			model[test.dim + d] = (model[test.dim + d] + 1.0f) / 128.0f;
	for (uint32_t list = 0; list <= kLists; list++)
		offsets.push_back(uint64_t{list} * (kRows / kLists));
	for (uint32_t i = 0; i < kRows; i++)
	{
		numbers.push_back(i);
		ids.push_back(RowId{i} * 3 + 7);
		if (i % 5 == 0)
			dead[i / 8] = static_cast<uint8_t>(dead[i / 8] | 1 << (i % 8));
	}
	put(&description, offsets.data(), offsets.size());
	put(&description, centroids.data(), centroids.size());
	put(&description, numbers.data(), numbers.size());
	put(&description, &head, 1);
	put(&description, model.data(), model.size());
	put(&description, terms.data(), terms.size());
	put(&description, codes.data(), codes.size());
	VECTORGPU_TRY(engine->load_segment(copy, 1, {ids, rows.data(), kRows}));
	VECTORGPU_TRY(engine->load_structure(copy, 1, kLists, description));
	VECTORGPU_TRY(engine->seal_segment(copy, 1));
	VECTORGPU_TRY(engine->set_tombstones(copy, 1, dead));
	for (size_t q = 0; q < test.n_queries; q++)
	{
		batch.push_back({queries.data() + q % kDistinct * test.dim, kNeighbors, false, {}});
		batch.back().probes = probes;
	}
	VECTORGPU_TRY(engine->search(copy, batch, &found));

	const ivf::CodeModel made = ivf::make_code_model(layout.spec, model.data());

	for (size_t distinct = 0; distinct < std::min<size_t>(batch.size(), kDistinct); distinct++)
	{
		const std::vector<Neighbor> wanted = expected(
			test, kind, made, rows, centroids, terms, codes, static_cast<const float *>(batch[distinct].query));
		bool same = !wanted.empty();

		for (size_t q = distinct; q < batch.size(); q += kDistinct)
			same = same &&
				std::equal(wanted.begin(), wanted.end(), found[q].begin(), found[q].end(),
					[](const Neighbor &a, const Neighbor &b)
					{ return std::memcmp(&a.score, &b.score, sizeof(double)) == 0 && a.row == b.row; });
		if (!same)
			return Status::error(StatusCode::kUnavailable,
				"the GPU's answer from codes differs from the CPU's: metric " +
					std::to_string(static_cast<int>(test.metric)) + ", codes " +
					std::to_string(static_cast<int>(test.kind)) + ", " + std::to_string(test.dim) + " dimensions, " +
					std::to_string(test.n_queries) + " queries");
	}

	std::vector<uint8_t> held(description.size());

	VECTORGPU_TRY(engine->read_structure(copy, 1, 0, held.size(), held.data()));
	return held == description
		? Status::ok()
		: Status::error(StatusCode::kUnavailable, "the GPU does not give back the codes that it was given");
}

} // namespace

Status
self_test_codes(engine::Engine *engine)
{
	for (const Case &test : kCases)
	{
		for (const engine::CopyKind kind : {engine::CopyKind::kCodedLists, engine::CopyKind::kCodes})
		{
			engine::CopyId copy = 0;

			VECTORGPU_TRY(engine->create({{test.metric, ElementType::kFloat32, test.dim}, kind}, &copy));

			const Status status = run(engine, test, kind, copy);

			VECTORGPU_TRY(engine->drop(copy));
			VECTORGPU_TRY(status);
		}
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
