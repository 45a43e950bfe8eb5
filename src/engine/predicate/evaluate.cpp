// See evaluate.hpp. Rows are evaluated block by block, so that the results that wait stay in the first cache, and a
// step whose result cannot matter is left out.
#include "engine/predicate/evaluate.hpp"

#include <bit>
#include <cstring>

#include "engine/predicate/code_list.hpp"
#include "engine/predicate/judge.hpp"
#include "engine/predicate/predicate_kernels.hpp"

namespace vectorgpu::engine::predicate
{

namespace
{

constexpr size_t kBlockWords = kBlockRows / 64;
constexpr uint32_t kFewCodes = 8;  // of a list: each is compared with all rows
static_assert(kMostStreams <= 64); // evaluate_row has a bit for each

using Words = uint64_t[kBlockWords];

/// The result of a step for a block; bits behind its last row are zero.
struct Result
{
	Words pass;
	Words sure;
};

/// A block of rows that is being evaluated.
struct Block
{
	const Program *program;
	const ColumnCodes *columns;
	const PredicateKernels *kernels;
	CodeFilter *filter; // of the list that was evaluated last
	uint64_t number;
	size_t n_rows;
	size_t n_words;
	uint64_t last_mask; // the rows of the last word
};

uint64_t
row_mask(const Block &block, size_t word)
{
	return word + 1 < block.n_words ? ~uint64_t{0} : block.last_mask;
}

void
fill(const Block &block, bool value, uint64_t *words)
{
	for (size_t i = 0; i < block.n_words; i++)
		words[i] = value ? row_mask(block, i) : 0;
}

/// Write the NULL rows of a block, or, inverted, those that are not.
void
load_nulls(const Block &block, const ColumnCodes &column, bool inverted, uint64_t *words)
{
	if (column.nulls == nullptr)
	{
		fill(block, inverted, words);
		return;
	}
	words[block.n_words - 1] = 0;
	memcpy(words, column.nulls + block.number * (kBlockRows / 8), (block.n_rows + 7) / 8);
	for (size_t i = 0; i < block.n_words; i++)
		words[i] = (inverted ? ~words[i] : words[i]) & row_mask(block, i);
}

void
drop_nulls(const Block &block, const ColumnCodes &column, uint64_t *words)
{
	Words present;

	if (column.nulls == nullptr)
		return;
	load_nulls(block, column, true, present);
	for (size_t i = 0; i < block.n_words; i++)
		words[i] &= present[i];
}

const uint8_t *
codes_of(const Block &block, const ColumnCodes &column)
{
	return static_cast<const uint8_t *>(column.codes) + block.number * kBlockRows * column.width;
}

uint64_t
greatest_code(const ColumnCodes &column)
{
	return column.width == 8 ? UINT64_MAX : (uint64_t{1} << (8 * column.width)) - 1;
}

/// The rows whose code lies in [low, high], NULL or not.
void
match_range(const Block &block, const ColumnCodes &column, uint64_t low, uint64_t high, uint64_t *words)
{
	const uint64_t most = greatest_code(column);

	if (low > most || low > high)
	{
		fill(block, false, words);
		return;
	}
	block.kernels->range[std::countr_zero(column.width)](
		codes_of(block, column), block.n_rows, low, high < most ? high : most, words);
}

/// The rows whose code has the bits, NULL or not.
void
match_bits(const Block &block, const ColumnCodes &column, uint64_t mask, uint64_t value, uint64_t *words)
{
	const uint64_t most = greatest_code(column);

	if (value > most)
	{
		fill(block, false, words);
		return;
	}
	block.kernels->bits[std::countr_zero(column.width)](
		codes_of(block, column), block.n_rows, mask & most, value, words);
}

void
match_list(const Block &block, const ColumnCodes &column, const Step &step, uint64_t *words)
{
	if (step.n_codes > kFewCodes)
	{
		set_filter(block.filter, step);
		match_codes(*block.filter, codes_of(block, column), column.width, block.n_rows, words);
		return;
	}

	Words one;

	fill(block, false, words);
	for (uint32_t c = 0; c < step.n_codes; c++)
	{
		match_range(block, column, step.code(c), step.code(c), one);
		for (size_t i = 0; i < block.n_words; i++)
			words[i] |= one[i];
	}
}

void
match_not_equal(const Block &block, const ColumnCodes &column, const Step &step, uint64_t *words)
{
	match_list(block, column, step, words);
	for (size_t i = 0; i < block.n_words; i++)
		words[i] = ~words[i] & row_mask(block, i);
}

/// kRange, kNotEqual, kIn, kBits, from the codes.
void
evaluate_codes(const Block &block, const Step &step, Result *result)
{
	const ColumnCodes &column = block.columns[step.stream];

	if (step.op == Op::kRange)
		match_range(block, column, step.code(0), step.code(1), result->pass);
	else if (step.op == Op::kIn)
		match_list(block, column, step, result->pass);
	else if (step.op == Op::kBits)
		match_bits(block, column, step.code(0), step.code(1), result->pass);
	else
		match_not_equal(block, column, step, result->pass);
	drop_nulls(block, column, result->pass);
	if (block.program->all_sure)
		return;
	if ((step.flags & kNeverSure) != 0)
		fill(block, false, result->sure);
	else if (step.op == Op::kRange && step.n_codes == 4)
	{
		match_range(block, column, step.code(2), step.code(3), result->sure);
		drop_nulls(block, column, result->sure);
	}
	else
		memcpy(result->sure, result->pass, block.n_words * sizeof(uint64_t));
	if (step.op == Op::kNotEqual && (step.flags & kRecheck) != 0)
		load_nulls(block, column, true, result->pass);
}

/// A step that is no joint.
void
evaluate_leaf(const Block &block, const Step &step, Result *result)
{
	const Zone *zones = has_stream(step.op) ? block.columns[step.stream].zones : nullptr;
	const Verdict verdict = !has_stream(step.op) ? judge_zone(step, kNoRows)
		: zones != nullptr                       ? judge_zone(step, zones[block.number])
												 : Verdict{Share::kSome, Share::kSome};

	if (verdict.pass != Share::kSome && verdict.sure != Share::kSome)
	{
		fill(block, verdict.pass == Share::kEvery, result->pass);
		fill(block, verdict.sure == Share::kEvery, result->sure);
	}
	else if (step.op == Op::kIsNull || step.op == Op::kNotNull)
	{
		load_nulls(block, block.columns[step.stream], step.op == Op::kNotNull, result->pass);
		memcpy(result->sure, result->pass, block.n_words * sizeof(uint64_t));
	}
	else
		evaluate_codes(block, step, result);
}

void
join(const Block &block, Op op, const Result &right, Result *left)
{
	for (size_t i = 0; i < block.n_words; i++)
		left->pass[i] = op == Op::kAnd ? left->pass[i] & right.pass[i] : left->pass[i] | right.pass[i];
	if (block.program->all_sure)
		return;
	for (size_t i = 0; i < block.n_words; i++)
		left->sure[i] = op == Op::kAnd ? left->sure[i] & right.sure[i] : left->sure[i] | right.sure[i];
}

/// Whether a left operand decides the result of `op`.
bool
decides(const Block &block, Op op, const Result &left)
{
	const uint64_t *words = block.program->all_sure ? left.pass : left.sure;

	for (size_t i = 0; i < block.n_words; i++)
		if (op == Op::kAnd ? left.pass[i] != 0 : words[i] != row_mask(block, i))
			return false;
	return true;
}

/// Evaluate all steps for a block. results [kMostDepth]: the first becomes the program's.
void
evaluate_block(const Block &block, Result *results)
{
	const Step *steps = block.program->steps;
	uint32_t depth = 0;

	for (uint32_t i = 0; i < block.program->n_steps; i++)
	{
		if (is_joint(steps[i].op))
		{
			depth--;
			join(block, steps[i].op, results[depth], &results[depth - 1]);
		}
		else
			evaluate_leaf(block, steps[i], &results[depth++]);
		while (steps[i].joined_at != 0 && decides(block, steps[steps[i].joined_at].op, results[depth - 1]))
			i = steps[i].joined_at;
	}
}

/// Count a block's result, and write it to the bitmaps from its first row on.
void
deliver(const Block &block, Result *result, uint8_t *pass, uint8_t *maybe, PassCounts *counts)
{
	const size_t n_bytes = (block.n_rows + 7) / 8;
	uint64_t *sure = block.program->all_sure ? result->pass : result->sure;

	for (size_t i = 0; i < block.n_words; i++)
	{
		counts->n_pass += static_cast<uint64_t>(std::popcount(result->pass[i]));
		counts->n_sure += static_cast<uint64_t>(std::popcount(sure[i]));
	}
	if (pass != nullptr)
		memcpy(pass, result->pass, n_bytes);
	if (maybe == nullptr)
		return;
	for (size_t i = 0; i < block.n_words; i++)
		sure[i] = result->pass[i] & ~sure[i];
	memcpy(maybe, sure, n_bytes);
}

} // namespace

bool
program_fits(const Program &program, const ColumnCodes *columns, uint32_t n_columns)
{
	for (uint32_t i = 0; i < program.n_steps; i++)
	{
		const Step &step = program.steps[i];

		if (!has_stream(step.op))
			continue;
		if (step.stream >= n_columns)
			return false;

		const uint8_t width = columns[step.stream].width;

		if (width != 1 && width != 2 && width != 4 && width != 8)
			return false;
	}
	return true;
}

PassCounts
evaluate_rows(const Program &program, const ColumnCodes *columns, uint64_t first_row, uint64_t n_rows, uint8_t *pass,
	uint8_t *maybe)
{
	Result results[kMostDepth];
	CodeFilter filter;
	PassCounts counts = {0, 0};
	Block block = {&program, columns, &predicate_kernels(), &filter, first_row / kBlockRows, 0, 0, 0};

	filter.step = nullptr;
	for (uint64_t done = 0; done < n_rows; done += block.n_rows, block.number++)
	{
		block.n_rows = n_rows - done < kBlockRows ? static_cast<size_t>(n_rows - done) : kBlockRows;
		block.n_words = (block.n_rows + 63) / 64;
		block.last_mask = ~uint64_t{0} >> (block.n_words * 64 - block.n_rows);

		const Verdict verdict = judge_block(program, columns, block.number);

		if (verdict.pass != Share::kSome && verdict.sure != Share::kSome)
		{
			fill(block, verdict.pass == Share::kEvery, results[0].pass);
			fill(block, verdict.sure == Share::kEvery, results[0].sure);
		}
		else
			evaluate_block(block, results);
		deliver(block, &results[0], pass == nullptr ? nullptr : pass + done / 8,
			maybe == nullptr ? nullptr : maybe + done / 8, &counts);
	}
	return counts;
}

RowVerdict
evaluate_row(const Program &program, const uint64_t *codes, uint64_t nulls)
{
	Zone zone = kNoRows;
	const Verdict verdict = judge_program(program,
		[&zone, codes, nulls](const Step &step)
		{
			zone = row_zone((nulls >> step.stream & 1) != 0, codes[step.stream]);
			return &zone;
		});

	if (verdict.pass == Share::kNone)
		return RowVerdict::kFails;
	return verdict.sure == Share::kEvery ? RowVerdict::kPasses : RowVerdict::kMaybe;
}

} // namespace vectorgpu::engine::predicate
