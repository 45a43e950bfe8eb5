// libFuzzer target: the rows that a SEARCH names itself, as the worker gets them. Input: the copy's first row of the
// delta (4 bytes), the number of its rows (2 bytes), the bytes. What is accepted has the counts that it says, and rows
// within bounds.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/predicate/row_bits.hpp"
#include "worker/keys/given_rows.hpp"

using namespace vectorgpu;

namespace
{

void
require(bool condition)
{
	if (!condition)
		std::abort();
}

void
check_segment(const engine::PassingSegment &segment)
{
	require(segment.segment > 0 && segment.n_pass <= segment.n_rows);
	if (!segment.listed)
	{
		require(segment.bits.size() == engine::predicate::row_bits_bytes(segment.n_rows));
		require(engine::predicate::count_rows(segment.bits.data(), 0, segment.n_rows) == segment.n_pass);
		return;
	}
	require(segment.rows.size() == segment.n_pass);
	for (size_t i = 0; i < segment.rows.size(); i++)
		require(segment.rows[i] < segment.n_rows && (i == 0 || segment.rows[i - 1] < segment.rows[i]));
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t first = 0;
	uint16_t n_rows = 0;
	uint32_t before = 0;

	if (size < sizeof(first) + sizeof(n_rows))
		return 0;
	memcpy(&first, data, sizeof(first));
	memcpy(&n_rows, data + sizeof(first), sizeof(n_rows));

	const std::vector<uint8_t> bytes(data + sizeof(first) + sizeof(n_rows), data + size); // of just that size
	const auto passing = worker::given_rows(bytes, first, uint64_t{first} + n_rows);

	if (passing == nullptr)
		return 0;

	require(passing->delta_end >= first && passing->delta_end <= uint64_t{first} + n_rows);
	for (const auto &segment : passing->segments)
	{
		require(segment->segment > before);
		before = segment->segment;
		check_segment(*segment);
	}
	return 0;
}
