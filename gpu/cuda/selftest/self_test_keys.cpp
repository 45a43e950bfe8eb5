// The part of the self-test about programs over codes of key columns: streams of every width, every step, lists that
// come with the counts and longer ones, bitmaps, blocks that their zones decide. The oracle is the host's evaluation.
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cuda/selftest/self_test.hpp"
#include "cuda/selftest/test_data.hpp"
#include "engine/interface/key_codes.hpp"
#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/row_bits.hpp"
#include "engine/predicate/tree.hpp"

namespace vectorgpu::cuda
{
namespace
{

namespace predicate = engine::predicate;
using predicate::Node;

constexpr uint32_t kRows = 200001;
constexpr uint32_t kStreams = 4;
constexpr uint8_t kWidths[kStreams] = {1, 2, 4, 8};

/// The codes of all streams: of no order but those of stream 2, which ascend. Those of streams 1 and 3 may be NULL.
struct Codes
{
	std::vector<uint8_t> area;
	std::vector<predicate::Zone> zones[kStreams];
	std::vector<predicate::ColumnCodes> columns;

	Codes()
	{
		constexpr size_t kNullBytes = (kRows + 63) / 64 * 8;
		uint64_t state = 20261128;
		size_t begins[kStreams];
		size_t n_bytes = 0;

		for (uint32_t s = 0; s < kStreams; s++)
		{
			begins[s] = n_bytes;
			n_bytes += (size_t{kRows} * kWidths[s] + 7) / 8 * 8;
		}
		area.resize(n_bytes + kStreams * kNullBytes);
		for (uint32_t s = 0; s < kStreams; s++)
		{
			uint8_t *const nulls = area.data() + n_bytes + s * kNullBytes;

			for (uint32_t row = 0; row < kRows; row++)
			{
				const uint64_t random = next(&state) % 1000;
				const uint64_t code = s == 2 ? row / 100 : s == 3 ? random << 50 | random : random;

				std::memcpy(area.data() + begins[s] + size_t{row} * kWidths[s], &code, kWidths[s]);
				if (s % 2 == 1 && next(&state) % 9 == 0)
					nulls[row / 8] = static_cast<uint8_t>(nulls[row / 8] | 1u << row % 8);
			}
			zones[s].resize((kRows + predicate::kBlockRows - 1) / predicate::kBlockRows);
			columns.push_back({area.data() + begins[s], nulls, nullptr, kWidths[s]});
			predicate::make_zones(columns[s], kRows, zones[s].data());
			columns[s].zones = zones[s].data();
		}
	}
};

/// Whether the rows that the device finds are the host's.
Status
compare(engine::KeyCodes *held, const Codes &codes, Node *root, uint64_t *n_programs)
{
	std::vector<uint8_t> bytes;
	std::vector<predicate::Step> steps;
	std::vector<uint8_t> bits(predicate::row_bits_bytes(kRows));
	predicate::Program program{};
	engine::PassingSegment found;

	if (!predicate::simplify(root))
		return failed("a program of the test is too deep");
	bytes.resize(predicate::program_bytes(root));
	predicate::write_program(root, bytes.data());
	steps.resize(predicate::program_steps(bytes.data(), bytes.size()));
	if (predicate::program_open(
			bytes.data(), bytes.size(), steps.data(), static_cast<uint32_t>(steps.size()), &program) != nullptr)
		return failed("a program of the test is wrong");
	VECTORGPU_TRY(held->find_rows(program, &found));
	++*n_programs;

	const uint64_t n_pass =
		predicate::evaluate_rows(program, codes.columns.data(), 0, kRows, bits.data(), nullptr).n_pass;
	const bool listed = n_pass <= kRows / engine::kFewOfRows;
	bool same = found.n_rows == kRows && found.n_pass == n_pass && found.listed == listed;

	if (listed)
	{
		std::vector<uint32_t> rows(n_pass);

		(void) predicate::list_rows(bits.data(), kRows, rows.data(), rows.size());
		same = same && found.rows == rows;
	}
	else
		same = same && found.bits == bits;
	return same ? Status::ok()
				: failed("the GPU finds other rows that pass than the CPU: program " + std::to_string(*n_programs));
}

/// Programs: each step, few and many rows, joints.
Status
run(engine::KeyCodes *held, const Codes &codes, uint64_t *n_programs)
{
	const uint64_t few[] = {3, 500, 900};
	std::vector<uint64_t> many;

	for (uint64_t code = 0; code < 300; code++)
		many.push_back(code << 50 | code);

	Node leaves[] = {
		predicate::nothing(),
		predicate::all(),
		predicate::maybe(),
		predicate::is_null(1),
		predicate::not_null(3),
		predicate::exact_range(2, 100, 290), // some 19,000 rows, most of them in whole blocks
		predicate::exact_range(2, 1000, 1003),
		predicate::exact_range(1, 200, 800),
		predicate::loose_range(3, 5ull << 50, 99ull << 50, 20ull << 50, 60ull << 50),
		predicate::equal(0, 77, true),
		predicate::not_equal(1, 500, true),
		predicate::not_equal(0, 12, false),
		predicate::in_list(1, few, 3, false),
		predicate::not_in_list(1, few, 3, true),
		predicate::in_list(3, many.data(), static_cast<uint32_t>(many.size()), true),
		predicate::not_in_list(3, many.data(), static_cast<uint32_t>(many.size()), false),
		predicate::exact_bits(0, 0x11, 0x10),
		predicate::loose_bits(3, 0x3, 0x1),
	};

	for (Node &leaf : leaves)
	{
		Node root = leaf;

		VECTORGPU_TRY(compare(held, codes, &root, n_programs));
	}
	for (size_t i = 3; i + 3 < std::size(leaves); i++)
	{
		Node inner = predicate::joint(i % 2 == 0 ? predicate::Op::kAnd : predicate::Op::kOr);
		Node root = predicate::joint(i % 2 == 0 ? predicate::Op::kOr : predicate::Op::kAnd);
		Node operands[] = {leaves[i], leaves[i + 1], leaves[i + 3]};

		predicate::add_operand(&inner, &operands[0]);
		predicate::add_operand(&inner, &operands[1]);
		predicate::add_operand(&root, &inner);
		predicate::add_operand(&root, &operands[2]);
		VECTORGPU_TRY(compare(held, codes, &root, n_programs));
	}
	return Status::ok();
}

} // namespace

Status
self_test_keys(engine::Engine *engine, uint64_t *n_programs)
{
	const Codes codes;

	*n_programs = 0;
	return with_copy(engine, {Metric::kL2, ElementType::kFloat32, 8},
		[&](engine::CopyId copy)
		{
			std::shared_ptr<engine::KeyCodes> held;

			VECTORGPU_TRY(engine->hold_key_codes(copy, {codes.area, codes.columns, kRows}, &held));
			return run(held.get(), codes, n_programs);
		});
}

} // namespace vectorgpu::cuda
