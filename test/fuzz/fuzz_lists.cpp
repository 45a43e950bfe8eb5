// libFuzzer target: the description of a segment's inverted lists, with codes or without, as the worker's engine gets
// it from a backend. Input: number of lists, dimensions, rows (a byte each), the place where the description is cut in
// two, the description. If it is accepted and has codes, all rows are estimated.
#include <cstdlib>
#include <vector>

#include "engine/copies/lists.hpp"

using namespace vectorgpu;

namespace
{

void
estimate_all(const engine::Lists &lists, uint32_t dim, uint64_t n_rows)
{
	const engine::ivf::CodeModel &model = lists.code_model();
	const std::vector<float> query(dim, 1.0f);
	std::vector<uint8_t> memory(engine::ivf::code_query_bytes(model.spec));
	std::vector<double> scores(n_rows);
	engine::ivf::CodeQuery prepared;

	if (!engine::ivf::code_query_prepare(model, query.data(), memory.data(), memory.size(), &prepared).is_ok())
		std::abort();
	engine::ivf::code_scores(prepared, 0, lists.codes(), lists.terms(), n_rows, scores.data());
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};
	engine::Lists lists;

	if (size < 4)
		return 0;

	const uint32_t n_lists = data[0];
	const uint32_t dim = data[1];
	const uint64_t n_rows = data[2];
	const std::span<const uint8_t> bytes(data + 4, size - 4);
	const size_t cut = bytes.empty() ? 0 : data[3] % bytes.size();

	for (const Metric metric : kMetrics)
	{
		engine::Lists coded;

		if (coded.append(n_lists, bytes).is_ok() &&
			coded.check_coded({metric, ElementType::kFloat32, dim}, n_rows).is_ok())
			estimate_all(coded, dim, n_rows);
	}
	if (!lists.append(n_lists, bytes.first(cut)).is_ok() || !lists.append(n_lists, bytes.subspan(cut)).is_ok() ||
		!lists.check(dim, n_rows).is_ok())
		return 0;
	// Accepted lists map each place to a row, and each row to one place.
	uint64_t seen = 0;

	for (uint32_t list = 0; list < lists.n_lists(); list++)
		for (uint64_t place = lists.offsets()[list]; place < lists.offsets()[list + 1]; place++, seen++)
			if (lists.numbers()[place] >= n_rows)
				std::abort();
	for (uint64_t i = 0; i < uint64_t{n_lists} * dim; i++)
		if (!(lists.centroids()[i] - lists.centroids()[i] == 0))
			std::abort();
	if (seen != n_rows)
		std::abort();
	return 0;
}
