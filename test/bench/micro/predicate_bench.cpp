// Evaluation of predicate programs over codes, one thread. Arguments: bytes of a code, share of the rows that pass in
// thousandths. Counters: bytes of codes a second, rows a second.
#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/row_bits.hpp"
#include "engine/predicate/tree.hpp"

namespace vectorgpu::engine::predicate
{
namespace
{

/// Random codes of a stream of 64 MB, which no cache holds.
struct Stream
{
	uint8_t width;
	std::vector<uint8_t> codes;
	std::vector<uint8_t> nulls;
	uint64_t n_rows;

	explicit Stream(uint8_t bytes_of_code) : width(bytes_of_code), codes(size_t{64} << 20)
	{
		std::mt19937_64 random(7);

		for (size_t i = 0; i < codes.size(); i += 8)
			*reinterpret_cast<uint64_t *>(&codes[i]) = random();
		n_rows = codes.size() / width;
		nulls.assign(row_bits_bytes(n_rows), 0x10);
	}

	uint64_t most() const { return width == 8 ? UINT64_MAX : (uint64_t{1} << (8 * width)) - 1; }
};

void
run(benchmark::State &state, const Stream &stream, Node *root, const uint8_t *nulls, const Zone *zones, int n_streams)
{
	const ColumnCodes column = {stream.codes.data(), nulls, zones, stream.width};
	std::vector<uint8_t> pass(row_bits_bytes(stream.n_rows));
	PassCounts counts = {0, 0};

	simplify(root);

	std::vector<uint8_t> bytes(program_bytes(root));

	write_program(root, bytes.data());

	std::vector<Step> steps(program_steps(bytes.data(), bytes.size()));
	Program program;

	if (program_open(bytes.data(), bytes.size(), steps.data(), static_cast<uint32_t>(steps.size()), &program) !=
		nullptr)
		state.SkipWithError("no program");

	const std::vector<ColumnCodes> columns(static_cast<size_t>(n_streams), column);

	for (auto _ : state)
		counts = evaluate_rows(program, columns.data(), 0, stream.n_rows, pass.data(), nullptr);
	state.counters["passes"] = static_cast<double>(counts.n_pass) / static_cast<double>(stream.n_rows);
	state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(stream.codes.size()));
	state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(stream.n_rows));
}

void
range(benchmark::State &state)
{
	const Stream stream(static_cast<uint8_t>(state.range(0)));
	Node node = exact_range(0, 0, stream.most() / 1000 * static_cast<uint64_t>(state.range(1)));

	run(state, stream, &node, nullptr, nullptr, 1);
}

void
range_with_nulls(benchmark::State &state)
{
	const Stream stream(static_cast<uint8_t>(state.range(0)));
	Node node = loose_range(0, 0, stream.most() / 100, 1, stream.most() / 200);

	run(state, stream, &node, stream.nulls.data(), nullptr, 1);
}

void
two_columns(benchmark::State &state)
{
	const Stream stream(static_cast<uint8_t>(state.range(0)));
	Node root = joint(Op::kAnd);
	Node low = exact_range(0, 0, stream.most() / 2);
	Node high = exact_range(1, stream.most() / 3, stream.most());

	add_operand(&root, &low);
	add_operand(&root, &high);
	run(state, stream, &root, nullptr, nullptr, 2);
}

/// range(1) codes of a list, which rows have only by chance.
void
list(benchmark::State &state)
{
	const Stream stream(static_cast<uint8_t>(state.range(0)));
	std::vector<uint64_t> codes;

	for (int64_t i = 0; i < state.range(1); i++)
		codes.push_back(stream.most() / static_cast<uint64_t>(state.range(1)) * static_cast<uint64_t>(i));

	Node node = in_list(0, codes.data(), static_cast<uint32_t>(codes.size()), false);

	run(state, stream, &node, nullptr, nullptr, 1);
}

/// The bits of one element of an array, which a sixteenth of random codes have.
void
four_bits(benchmark::State &state)
{
	const Stream stream(static_cast<uint8_t>(state.range(0)));
	Node node = loose_bits(0, 0x8421, 0x8421);

	run(state, stream, &node, nullptr, nullptr, 1);
}

void
skipped_blocks(benchmark::State &state)
{
	const Stream stream(static_cast<uint8_t>(state.range(0)));
	const std::vector<Zone> zones(stream.n_rows / kBlockRows, Zone{1000, 2000, kBlockRows, 0});
	Node node = exact_range(0, 3000, 4000);

	run(state, stream, &node, nullptr, zones.data(), 1);
}

BENCHMARK(range)->ArgsProduct({{1, 2, 4, 8}, {10, 500}});
BENCHMARK(range_with_nulls)->Arg(4)->Arg(8);
BENCHMARK(two_columns)->Arg(4)->Arg(8);
BENCHMARK(list)->ArgsProduct({{4, 8}, {4, 24, 100, 1000, 8000}});
BENCHMARK(four_bits)->Arg(2)->Arg(8);
BENCHMARK(skipped_blocks)->Arg(4);

} // namespace
} // namespace vectorgpu::engine::predicate
