// libFuzzer target: the description of a segment's inverted lists, as the worker's engine gets it from a backend. Bytes: number of
// lists, dimensions, rows (a byte each), where the description is cut in two, then the description.
#include <cstdlib>

#include "engine/lists.hpp"

using namespace vectorgpu;

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	engine::Lists lists;

	if (size < 4)
		return 0;

	const uint32_t n_lists = data[0];
	const uint32_t dim = data[1];
	const uint64_t n_rows = data[2];
	const std::span<const uint8_t> bytes(data + 4, size - 4);
	const size_t cut = bytes.empty() ? 0 : data[3] % bytes.size();

	if (!lists.append(n_lists, bytes.first(cut)).is_ok() || !lists.append(n_lists, bytes.subspan(cut)).is_ok() ||
		!lists.check(dim, n_rows).is_ok())
		return 0;
	// What was accepted leads each place to a row, and each row to one place.
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
