// libFuzzer target: a predicate program, as the worker gets it from a backend, over streams of codes. Input: flags (bit
// 0: NULLs, bit 1: zones), rows, bytes of the program divided by 8 (a byte each), the program, the codes (repeated
// where they are too few; stream s has codes of 2^(s % 4) bytes). An accepted program says the same of blocks of rows,
// with zones or without, as of each row by itself, and its counts are those of its bitmaps.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/row_bits.hpp"

using namespace vectorgpu::engine::predicate;

namespace
{

struct Stream
{
	std::vector<uint8_t> codes;
	std::vector<uint8_t> nulls;
	std::vector<Zone> zones;
};

bool
bit(const std::vector<uint8_t> &bits, uint64_t row)
{
	return (bits[row / 8] >> (row % 8) & 1) != 0;
}

/// The verdict of one row, from the streams.
RowVerdict
verdict_of(const Program &program, const std::vector<Stream> &streams, uint64_t row)
{
	uint64_t codes[kMostStreams] = {};
	uint64_t nulls = 0;

	for (size_t s = 0; s < streams.size(); s++)
	{
		codes[s] = code_at(streams[s].codes.data(), static_cast<uint8_t>(1u << (s % 4)), row);
		if (!streams[s].nulls.empty() && bit(streams[s].nulls, row))
			nulls |= uint64_t{1} << s;
	}
	return evaluate_row(program, codes, nulls);
}

void
check(const Program &program, const std::vector<Stream> &streams, bool with_zones, uint64_t n_rows)
{
	std::vector<ColumnCodes> columns;
	std::vector<uint8_t> pass(row_bits_bytes(n_rows));
	std::vector<uint8_t> maybe(pass.size());

	for (size_t s = 0; s < streams.size(); s++)
		columns.push_back({streams[s].codes.data(), streams[s].nulls.empty() ? nullptr : streams[s].nulls.data(),
			with_zones ? streams[s].zones.data() : nullptr, static_cast<uint8_t>(1u << (s % 4))});
	if (!program_fits(program, columns.data(), static_cast<uint32_t>(columns.size())))
		std::abort();

	const PassCounts counts = evaluate_rows(program, columns.data(), 0, n_rows, pass.data(), maybe.data());

	if (counts.n_pass != count_rows(pass.data(), 0, n_rows) ||
		counts.n_pass - counts.n_sure != count_rows(maybe.data(), 0, n_rows) ||
		(program.all_sure && counts.n_sure != counts.n_pass))
		std::abort();
	for (uint64_t row = 0; row < n_rows; row++)
	{
		const RowVerdict verdict = verdict_of(program, streams, row);

		if (bit(pass, row) != (verdict != RowVerdict::kFails) || bit(maybe, row) != (verdict == RowVerdict::kMaybe))
			std::abort();
	}
}

} // namespace

extern "C" int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;

	const uint8_t flags = data[0];
	const uint64_t n_rows = uint64_t{data[1]} * 9; // up to three blocks
	const size_t program_size = std::min<size_t>(size_t{data[2]} * 8, size - 3);
	const std::vector<uint8_t> bytes(data + 3, data + 3 + program_size); // of just that size
	const std::vector<uint8_t> source(data + 3 + program_size, data + size);
	const uint32_t n_steps = program_steps(bytes.data(), bytes.size());
	std::vector<Step> steps(n_steps);
	Program program;

	if (program_open(bytes.data(), bytes.size(), steps.data(), n_steps, &program) != nullptr)
		return 0;

	std::vector<Stream> streams(program.n_streams);
	size_t taken = 0;
	const auto fill = [&](std::vector<uint8_t> *bytes_of, size_t n)
	{
		bytes_of->resize(n);
		for (uint8_t &byte : *bytes_of)
			byte = source.empty() ? 0 : source[taken++ % source.size()];
	};

	for (size_t s = 0; s < streams.size(); s++)
	{
		const auto width = static_cast<uint8_t>(1u << (s % 4));

		fill(&streams[s].codes, n_rows * width);
		if ((flags & 1) != 0)
			fill(&streams[s].nulls, row_bits_bytes(n_rows));
		streams[s].zones.resize((n_rows + kBlockRows - 1) / kBlockRows);
		make_zones(
			{streams[s].codes.data(), streams[s].nulls.empty() ? nullptr : streams[s].nulls.data(), nullptr, width},
			n_rows, streams[s].zones.data());
	}
	check(program, streams, (flags & 2) != 0, n_rows);
	return 0;
}
