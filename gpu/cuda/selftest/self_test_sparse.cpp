// The part of the self-test about sparse vectors: searches of a segment against the definition. A bound that is too
// high would leave rows out.
#include "cuda/selftest/self_test.hpp"

#include <set>
#include <string>
#include <vector>

#include "cuda/selftest/test_data.hpp"
#include "engine/copies/sparse_rows.hpp"
#include "engine/distance/distance.hpp"

namespace vectorgpu::cuda
{
namespace
{

using engine::Neighbor;

constexpr uint32_t kSlotBytes = 56;
constexpr uint32_t kRows = 3000;
constexpr uint32_t kQueries = 12;
constexpr size_t kNeighbors = 20;

struct Vector
{
	std::vector<int32_t> indices;
	std::vector<float> values;

	engine::SparseVector view() const { return {indices.data(), values.data(), static_cast<uint32_t>(values.size())}; }
	size_t n_bytes() const { return values.size() * engine::kSparseElementBytes; }
	void append_to(std::vector<uint8_t> *bytes) const
	{
		append(bytes, indices.data(), indices.size());
		append(bytes, values.data(), values.size());
	}
};

/// Vectors of 0 to 79 elements, half of them among the first 40 indices.
std::vector<Vector>
make_vectors(size_t n, uint64_t *state)
{
	std::vector<Vector> vectors(n);

	for (Vector &vector : vectors)
	{
		std::set<int32_t> indices;

		for (uint32_t left = next(state) % 80; left > 0; left--)
			indices.insert(static_cast<int32_t>(next(state) % (left % 2 == 0 ? 40 : 1000000000)));
		for (const int32_t index : indices)
			if (const float value = next_real(state); value != 0)
			{
				vector.indices.push_back(index);
				vector.values.push_back(value);
			}
	}
	return vectors;
}

/// Load the segment and search; *found: the answers.
Status
search(engine::Engine *engine, Metric metric, const std::vector<Vector> &rows,
	std::span<const engine::SearchQuery> queries, std::vector<std::vector<Neighbor>> *found)
{
	std::vector<uint8_t> description;
	uint64_t end = 0;

	for (const Vector &row : rows)
	{
		end += row.n_bytes();
		append(&description, &end, 1);
	}
	for (const Vector &row : rows)
		row.append_to(&description);
	return with_copy(engine, {{metric, ElementType::kSet, kSlotBytes}, engine::CopyKind::kSparse},
		[&](engine::CopyId copy)
		{
			VECTORGPU_TRY(load_sealed(engine, copy, kRows, nullptr, 1, description));
			return engine->search(copy, queries, found);
		});
}

} // namespace

Status
self_test_sparse(engine::Engine *engine, uint64_t *n_searches)
{
	uint64_t state = 3;
	const std::vector<Vector> rows = make_vectors(kRows, &state);
	const std::vector<Vector> vectors = make_vectors(kQueries, &state);

	*n_searches = 0;
	for (const Metric metric : {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1})
	{
		std::vector<std::vector<uint8_t>> stored(kQueries);
		std::vector<engine::SearchQuery> queries(kQueries);
		std::vector<std::vector<Neighbor>> found;

		for (size_t i = 0; i < kQueries; i++)
		{
			const uint32_t length = static_cast<uint32_t>(vectors[i].n_bytes());

			append(&stored[i], &length, 1);
			vectors[i].append_to(&stored[i]);
			queries[i] = {stored[i].data(), kNeighbors, false, {}};
			queries[i].query_bytes = stored[i].size();
		}
		*n_searches += kQueries;
		VECTORGPU_TRY(search(engine, metric, rows, queries, &found));
		for (size_t i = 0; i < kQueries; i++)
		{
			std::vector<Neighbor> wanted;

			for (uint32_t row = 0; row < kRows; row++)
				if (!is_dead(row))
					wanted.push_back({engine::finish_score(
										  metric, engine::sparse_score(metric, rows[row].view(), vectors[i].view())),
						id_of(row)});
			keep_first(&wanted, kNeighbors);
			if (!same_answer(wanted, found[i]))
				return failed("the GPU's answer differs from the CPU's: sparse vectors, metric " +
					std::to_string(static_cast<int>(metric)));
		}
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
