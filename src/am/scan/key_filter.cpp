// See key_filter.hpp. Codes are read from the pages a block of rows at a time, and evaluated where they were copied to.
#include "am/scan/key_filter.hpp"

#include "engine/predicate/evaluate.hpp"
#include "engine/predicate/row_bits.hpp"
#include "am/scan/row_set.hpp"
#include "storage/delta_value.hpp"
#include "storage/key_stream.hpp"

extern "C"
{
#include "miscadmin.h"
}

namespace vectorgpu::am
{

namespace
{

using engine::predicate::ColumnCodes;

constexpr uint64 kBlockRows = 16 * engine::predicate::kBlockRows; // read and evaluated at a time

/// Room for the codes of a block of rows, of the streams that the conditions name.
struct CodeBlock
{
	ColumnCodes columns[kMaxKeyStreams];
	char *codes[kMaxKeyStreams];
	uint8 *nulls[kMaxKeyStreams];
	bool used[kMaxKeyStreams];
	uint32 n_streams;
};

void
begin_block(CodeBlock *block, const KeyFilter *filter, const KeyLayout *layout)
{
	const engine::predicate::Program *program = &filter->conditions.program;

	memset(block, 0, sizeof(*block));
	block->n_streams = layout->n_streams;
	for (uint32 i = 0; i < program->n_steps; i++)
		if (engine::predicate::has_stream(program->steps[i].op))
			block->used[program->steps[i].stream] = true;
	for (uint32 i = 0; i < layout->n_streams; i++)
	{
		block->columns[i].width = layout->widths[i];
		if (!block->used[i])
			continue;
		block->codes[i] = static_cast<char *>(palloc(kBlockRows * layout->widths[i]));
		block->nulls[i] = static_cast<uint8 *>(palloc(kBlockRows / 8));
		block->columns[i].codes = block->codes[i];
		block->columns[i].nulls = block->nulls[i];
	}
}

/// Read the codes of rows [first, first + n). False if a page was foreign.
bool
read_block(CodeBlock *block, Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids,
	uint64 first, uint64 n, BufferAccessStrategy strategy)
{
	for (uint32 i = 0; i < block->n_streams; i++)
	{
		if (!block->used[i])
			continue;
		if (!key_read_codes(index, meta, segment, ids, i, first, n, block->codes[i], strategy) ||
			!key_read_nulls(index, meta, segment, ids, meta->keys.columns[i], first, n, block->nulls[i], strategy))
			return false;
	}
	return true;
}

/// The bits of the rows of `ids` that the scan may return; null: it may return all. False if a page was foreign.
bool
find_given_rows(const KeyFilter *filter, Relation index, const MetaData *meta, const SegmentEntry *segment,
	StreamKind ids, uint64 n_rows, uint8 **given, BufferAccessStrategy strategy)
{
	*given = nullptr;
	if (filter->rows == nullptr)
		return true;
	*given = static_cast<uint8 *>(
		palloc_extended(engine::predicate::row_bits_bytes(n_rows) + 8, MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO));
	return row_set_mark(&filter->entries, index, meta, segment, ids, n_rows, *given, strategy);
}

/// True if one of bits [n] is set. They are followed by seven bytes that are zero or bits of rows behind.
bool
any_row(const uint8 *bits, uint64 n)
{
	uint64 any = 0;

	for (uint64 i = 0; i < (n + 7) / 8; i += sizeof(any))
	{
		uint64 word;

		memcpy(&word, bits + i, sizeof(word));
		any |= word;
	}
	return any != 0;
}

/// Set `bits` [n_rows] of the rows of `ids` that meet the conditions and have no tombstone, and *n_set.
/// first_tombstone: the bit of the first of them. False if a page was foreign.
bool
find_rows(const KeyFilter *filter, Relation index, const MetaData *meta, const SegmentEntry *segment, StreamKind ids,
	uint64 n_rows, uint64 first_tombstone, uint8 *bits, uint64 *n_set, BufferAccessStrategy strategy)
{
	uint8 *dead = static_cast<uint8 *>(palloc(kBlockRows / 8 + 2));
	CodeBlock block;
	uint8 *given;

	*n_set = 0;
	if (!find_given_rows(filter, index, meta, segment, ids, n_rows, &given, strategy))
		return false;
	begin_block(&block, filter, &meta->keys);
	for (uint64 first = 0; first < n_rows; first += kBlockRows)
	{
		const uint64 n = Min(kBlockRows, n_rows - first);
		const uint64 bit = first_tombstone + first;

		CHECK_FOR_INTERRUPTS();
		if (given != nullptr && !any_row(given + first / 8, n))
		{
			memset(bits + first / 8, 0, (n + 7) / 8);
			continue;
		}
		if (!read_block(&block, index, meta, segment, ids, first, n, strategy))
			return false;
		engine::predicate::evaluate_rows(filter->conditions.program, block.columns, 0, n, bits + first / 8, nullptr);
		for (uint64 i = 0; given != nullptr && i < (n + 7) / 8; i++)
			bits[first / 8 + i] &= given[first / 8 + i];
		if (segment->n_dead > 0 &&
			!stream_read(
				index, meta, segment, StreamKind::kTombstones, bit / 8, (bit + n + 7) / 8 - bit / 8, dead, strategy))
			return false;
		for (uint64 i = 0; segment->n_dead > 0 && i < n; i++)
			if ((dead[(bit % 8 + i) / 8] & (1 << ((bit + i) % 8))) != 0)
				bits[(first + i) / 8] &= static_cast<uint8>(~(1 << ((first + i) % 8)));
		*n_set += engine::predicate::count_rows(bits + first / 8, 0, n);
	}
	return true;
}

} // namespace

bool
key_filter_decides(const KeyFilter *filter)
{
	return filter->conditions.program.exact && (filter->rows == nullptr || filter->rows->exact);
}

void
key_filter_reset(KeyFilter *filter)
{
	for (uint32 i = 0; i < filter->n_segments; i++)
	{
		pfree(filter->segments[i].rows);
		pfree(filter->segments[i].null_rows);
	}
	filter->n_segments = 0;
	if (filter->given != nullptr)
		pfree(filter->given);
	filter->given = nullptr;
	filter->given_known = false;
}

const PassingRows *
key_filter_rows(
	KeyFilter *filter, Relation index, const MetaData *meta, const SegmentEntry *segment, BufferAccessStrategy strategy)
{
	PassingRows *passing = &filter->segments[filter->n_segments];

	for (uint32 i = 0; i < filter->n_segments; i++)
		if (filter->segments[i].segment == segment->id)
			return &filter->segments[i];
	Assert(filter->n_segments < kMaxSegments);
	passing->segment = segment->id;
	passing->rows = static_cast<uint8 *>(
		MemoryContextAllocHuge(filter->context, engine::predicate::row_bits_bytes(segment->n_rows) + 8));
	passing->null_rows = static_cast<uint8 *>(
		MemoryContextAllocHuge(filter->context, engine::predicate::row_bits_bytes(segment->n_null_rows) + 8));
	if (!find_rows(filter, index, meta, segment, StreamKind::kRowIds, segment->n_rows, 0, passing->rows,
			&passing->n_rows, strategy) ||
		!find_rows(filter, index, meta, segment, StreamKind::kNullRowIds, segment->n_null_rows, segment->n_rows,
			passing->null_rows, &passing->n_null_rows, strategy))
		return nullptr;
	filter->n_segments++;
	return passing;
}

bool
key_filter_passes(const KeyFilter *filter, const MetaData *meta, RowId row, const char *image)
{
	const KeyLayout *layout = &meta->keys;
	const char *flags = image + key_flags_offset(layout);
	uint64 codes[kMaxKeyStreams] = {};
	uint64 nulls = 0;
	Size offset = 0;

	if (filter->rows != nullptr && !row_set_has(&filter->entries, row))
		return false;
	for (uint32 stream = 0; stream < layout->n_streams; stream++)
	{
		const uint32 column = layout->columns[stream];

		memcpy(&codes[stream], image + offset, layout->widths[stream]);
		offset += layout->widths[stream];
		if ((flags[column / 8] & (1 << (column % 8))) != 0)
			nulls |= UINT64CONST(1) << stream;
	}
	return engine::predicate::evaluate_row(filter->conditions.program, codes, nulls) !=
		engine::predicate::RowVerdict::kFails;
}

void
key_filter_delta(KeyFilter *filter, const MetaData *meta, uint64 *headers, const char *bodies, Size stride, uint64 n)
{
	for (uint64 i = 0; i < n; i++)
		if (!key_filter_passes(
				filter, meta, headers[i] & kDeltaRowIdMask, bodies + i * stride + meta_vector_bytes(meta)))
			headers[i] |= kDeltaDead;
}

bool
key_filter_values(
	const KeyFilter *filter, Relation index, const MetaData *meta, uint64 first, uint64 n, uint64 *headers)
{
	char *image = static_cast<char *>(palloc(meta_key_bytes(meta)));
	bool intact = true;

	for (uint64 i = 0; i < n && intact; i++)
	{
		const RowId row = headers[i] & kDeltaRowIdMask;

		if ((headers[i] & (kDeltaContinued | kDeltaDead)) != 0)
			continue;
		// The rows that another index has found are few, and the codes of each are read from a page of their own.
		if (filter->rows != nullptr && !row_set_has(&filter->entries, row))
		{
			headers[i] |= kDeltaDead;
			continue;
		}
		intact = delta_read_keys(index, meta, first + i, image);
		if (intact && !key_filter_passes(filter, meta, row, image))
			headers[i] |= kDeltaDead;
	}
	pfree(image);
	return intact;
}

} // namespace vectorgpu::am
