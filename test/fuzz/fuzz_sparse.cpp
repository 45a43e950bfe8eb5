// libFuzzer target: the description of a segment of sparse vectors, as the worker's engine gets it from a backend, and
// a query. Input: rows, the place where the description is cut in two, bytes of the query (a byte each), the query, the
// description. Accepted rows are good vectors, and the bound of a row's distance is not above the distance.
#include <cmath>
#include <cstdlib>
#include <vector>

#include "engine/copies/sparse_rows.hpp"
#include "engine/distance/distance.hpp"
#include "engine/distance/sparse_query.hpp"

using namespace vectorgpu;
using namespace vectorgpu::engine;

namespace
{

void
require(bool condition)
{
	if (!condition)
		std::abort();
}

void
require_good(const SparseVector &vector)
{
	require(vector.n <= static_cast<uint32_t>(kMaxNonZeros));
	for (uint32_t i = 0; i < vector.n; i++)
	{
		require(vector.indices[i] >= 0 && vector.indices[i] < kMaxSparseDimensions);
		require(i == 0 || vector.indices[i] > vector.indices[i - 1]);
		require(std::isfinite(vector.values[i]) && vector.values[i] != 0);
	}
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};
	SparseRows rows;
	SparseVector vector = {nullptr, nullptr, 0};

	if (size < 3 || size - 3 < data[2])
		return 0;

	const uint64_t n_rows = data[0];
	const std::vector<uint8_t> query(data + 3, data + 3 + data[2]); // of just that size, and aligned
	const std::span<const uint8_t> bytes(data + 3 + data[2], size - 3 - data[2]);
	const size_t cut = bytes.empty() ? 0 : data[1] % bytes.size();
	const bool asks = open_sparse(query.data(), query.size(), &vector);

	if (asks)
		require_good(vector);
	rows.append(n_rows, bytes.first(cut));
	rows.append(n_rows, bytes.subspan(cut));
	if (!rows.check(n_rows).is_ok())
		return 0;
	require(rows.bytes().size() == bytes.size());
	for (uint64_t i = 0; i < n_rows; i++)
	{
		require_good(rows.row(i));
		require(rows.row(i).n == 0 || static_cast<uint32_t>(rows.row(i).indices[rows.row(i).n - 1]) < rows.dim());
	}
	for (const Metric metric : kMetrics)
	{
		constexpr uint32_t kHashed = kMaxSparseDimensions;
		std::vector<SparseSlot> table(sparse_table_bytes(vector.n, kHashed) / sizeof(SparseSlot));
		SparseQuery prepared;

		if (!asks)
			return 0;
		sparse_query_init(&prepared, metric, vector, kHashed, table.data());
		for (uint64_t i = 0; i < n_rows; i++)
		{
			const double distance = finish_score(metric, sparse_score(metric, rows.row(i), vector));

			require(!(sparse_least_distance(prepared, rows.row(i)) > distance));
		}
	}
	return 0;
}
