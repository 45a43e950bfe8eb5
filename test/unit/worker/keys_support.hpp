// Rows with two key columns, a number of four bytes that may be NULL and a number of one byte, and a condition on them.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "engine/predicate/tree.hpp"
#include "wire/copy_messages.hpp"

namespace vectorgpu::worker_test
{

inline wire::KeyColumns
two_columns()
{
	wire::KeyColumns keys{};

	keys.n_columns = keys.n_streams = 2;
	keys.widths[0] = 4;
	keys.widths[1] = 1;
	keys.columns[1] = 1;
	return keys;
}

constexpr size_t kImageBytes = 4 + 1 + 1;

struct KeyRow
{
	uint32_t number;
	bool null;
	uint8_t group;
};

inline std::vector<KeyRow>
random_keys(size_t n, uint32_t seed)
{
	std::mt19937 random(seed);
	std::vector<KeyRow> rows(n);

	for (KeyRow &row : rows)
		row = {static_cast<uint32_t>(random() % 1000), random() % 10 == 0, static_cast<uint8_t>(random() % 4)};
	return rows;
}

/// The codes of rows [first, last) as the delta's requests have them.
inline std::vector<uint8_t>
images_of(const std::vector<KeyRow> &rows, size_t first, size_t last)
{
	std::vector<uint8_t> bytes((last - first) * kImageBytes);

	for (size_t i = first; i < last; i++)
	{
		uint8_t *at = bytes.data() + (i - first) * kImageBytes;

		memcpy(at, &rows[i].number, 4);
		at[4] = rows[i].group;
		at[5] = rows[i].null ? 1 : 0;
	}
	return bytes;
}

/// The area of a segment with rows [0, n).
inline std::vector<uint8_t>
area_of(const std::vector<KeyRow> &rows, size_t n)
{
	const size_t numbers = (n * 4 + 7) / 8 * 8;
	const size_t groups = (n + 7) / 8 * 8;
	const size_t bits = (n + 63) / 64 * 8;
	std::vector<uint8_t> area(numbers + groups + 2 * bits);

	for (size_t i = 0; i < n; i++)
	{
		memcpy(area.data() + i * 4, &rows[i].number, 4);
		area[numbers + i] = rows[i].group;
		if (rows[i].null)
			area[numbers + groups + i / 8] = static_cast<uint8_t>(area[numbers + groups + i / 8] | 1u << (i % 8));
	}
	return area;
}

/// number in [low, high] and not group = `not_group` (255: any group).
struct Condition
{
	uint32_t low;
	uint32_t high;
	uint8_t not_group;

	bool holds(const KeyRow &row) const
	{
		return !row.null && row.number >= low && row.number <= high && row.group != not_group;
	}

	std::vector<uint8_t> program() const
	{
		namespace predicate = engine::predicate;
		predicate::Node root = predicate::joint(predicate::Op::kAnd);
		predicate::Node range = predicate::exact_range(0, low, high);
		predicate::Node other = predicate::not_equal(1, not_group, false);
		std::vector<uint8_t> bytes;

		predicate::add_operand(&root, &range);
		if (not_group != 255)
			predicate::add_operand(&root, &other);
		if (predicate::simplify(&root))
		{
			bytes.resize(predicate::program_bytes(&root));
			predicate::write_program(&root, bytes.data());
		}
		return bytes;
	}
};

} // namespace vectorgpu::worker_test
