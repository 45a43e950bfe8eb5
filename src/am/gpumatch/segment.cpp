// Writing a segment of gpumatch: rows in TID order become values, a dictionary and lists. See README.md ("Build") and
// segment_format.hpp for the callbacks, which run in one memory context.
//
// Rows are inverted in memory (engine/match/run_builder.hpp) until the run is full (maintenance_work_mem, or what may
// be sorted in one go); then it goes to a temporary file. Rows come in order, so that the lists of a key, taken run by
// run, are in order.
#include "am/gpumatch/gpumatch.hpp"

#include "am/build/build.hpp"
#include "am/gpumatch/match_memory.hpp"
#include "engine/match/run_builder.hpp"
#include "engine/match/tile_lists.hpp"
#include "pg/fault.hpp"
#include "storage/spool.hpp"

#include <algorithm>

extern "C"
{
#include "commands/progress.h"
#include "utils/backend_progress.h"
}

namespace vectorgpu::am
{

namespace
{

using engine::match::Key;
using engine::match::RunBuilder;

constexpr uint32 kMostRuns = 1024;
// A run is sorted without a look for interrupts, and sixteen million keys, which 1 GB holds, take half a minute.
// kKeysPerRun keys take a tenth of a second, and less time each, since they stay in the processor's caches. Later runs
// have more: three billion keys fit into the runs before the last ones, which are bounded by memory alone.
constexpr uint64 kKeysPerRun = 128 * 1024;
constexpr uint64 kPairsPerKey = 64; // of a full run
constexpr uint32 kRunsPerStep = 16; // runs of one size; the next ones have kKeysPerRun keys more
constexpr uint32 kLastRuns = 128;
constexpr uint32 kPostingsPerCopy = 4096;
constexpr uint64 kKeysBetweenLooks = 1024;

/// The sorted keys of one run, read from its file.
struct RunReader
{
	BufFile *file;
	uint32 left; // keys behind the current one
	uint32 key_size;
	uint32 n_rows;
	uint8 *key; // [key_capacity]
	uint32 key_capacity;
	bool at_end;
};

struct MatchSegment
{
	SegmentPlan plan;
	RunBuilder run;
	uint32 n_runs;
	BufFile *runs[kMostRuns];
	uint32 run_keys[kMostRuns];
	uint64 n_rows;
	uint64 value_bytes;
	uint64 key_bytes;
	uint64 n_keys;
	uint64 n_list_items;
	bool has_texts;
	uint64 text_bytes;
	BufFile *text_items;
	BufFile *texts;
	BufFile *values;
	BufFile *ends;
	BufFile *keys;
	BufFile *dictionary;
	BufFile *lists;
	engine::match::TileRows tile; // of the list that is being written
};

void *
match_begin(const SegmentPlan *plan)
{
	MatchSegment *state = static_cast<MatchSegment *>(palloc0(sizeof(MatchSegment)));

	state->plan = *plan;
	engine::match::run_init(&state->run, match_memory());
	state->has_texts = match_options(plan->meta->am_options).has_texts != 0;
	if (state->has_texts)
	{
		state->text_items = BufFileCreateTemp(false);
		state->texts = BufFileCreateTemp(false);
	}
	else
	{
		state->values = BufFileCreateTemp(false);
		state->ends = BufFileCreateTemp(false);
	}
	return state;
}

/// Sorts the run and writes it to a file of its own: for each key its size, its bytes, the number of its rows, the
/// rows.
void
flush_run(MatchSegment *state)
{
	RunBuilder *run = &state->run;
	BufFile *file;

	if (run->n_keys == 0)
		return;
	if (state->n_runs == kMostRuns)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("too many elements to index within maintenance_work_mem"),
				errhint("Increase maintenance_work_mem.")));
	(void) VG_FAULT("match_flush_run");
	file = BufFileCreateTemp(false);
	engine::match::run_sort(run);
	for (uint32 i = 0; i < run->n_keys; i++)
	{
		const Key key = engine::match::run_key(run, i);
		uint32 key_size = static_cast<uint32>(key.size);
		size_t n;
		const uint32 *rows = engine::match::run_rows(run, i, &n);
		uint32 n_rows = static_cast<uint32>(n);

		if (i % kKeysBetweenLooks == 0)
			CHECK_FOR_INTERRUPTS();
		BufFileWrite(file, &key_size, sizeof(key_size));
		BufFileWrite(file, const_cast<uint8 *>(key.data), key.size);
		BufFileWrite(file, &n_rows, sizeof(n_rows));
		BufFileWrite(file, const_cast<uint32 *>(rows), n * sizeof(uint32));
	}
	state->run_keys[state->n_runs] = run->n_keys;
	state->runs[state->n_runs++] = file;
	engine::match::run_free(run);
}

bool
run_is_full(const MatchSegment *state)
{
	const RunBuilder *run = &state->run;
	const uint64 most_keys = kKeysPerRun * (1 + state->n_runs / kRunsPerStep);

	if (state->n_runs < kMostRuns - kLastRuns && (run->n_keys >= most_keys || run->n_pairs >= kPairsPerKey * most_keys))
		return true;
	return engine::match::run_bytes(run) > static_cast<Size>(maintenance_work_mem) * 1024;
}

/// Appends the text of a stored value. False if it has none.
bool
put_text(MatchSegment *state, const engine::match::Parts &parts)
{
	engine::match::TextView text;
	uint64 item;

	if (!engine::match::open_text_payload(parts, &text))
		return false;
	state->text_bytes += text.n * text.width;
	item = engine::match::text_item(state->text_bytes, text.width);
	BufFileWrite(state->text_items, &item, sizeof(item));
	if (text.n > 0)
		BufFileWrite(state->texts, const_cast<uint8 *>(text.data), text.n * text.width);
	return true;
}

/// Appends the bytes of a stored value.
void
put_value(MatchSegment *state, const char *bytes, Size n_bytes, uint64 size)
{
	uint64 item;

	state->value_bytes += n_bytes;
	item = state->value_bytes | Min(size, kMaxValueSize) << kValueSizeShift;
	BufFileWrite(state->values, const_cast<char *>(bytes), n_bytes);
	BufFileWrite(state->ends, &item, sizeof(item));
}

void
match_put(void *opaque, RowId row, const void *vector, [[maybe_unused]] const RowOrigin &origin)
{
	MatchSegment *state = static_cast<MatchSegment *>(opaque);
	const char *value = static_cast<const char *>(vector);
	const Size n_bytes = stored_bytes(value) - sizeof(uint32);
	engine::match::Parts parts;

	if (!engine::match::open_parts(value + sizeof(uint32), n_bytes, &parts))
		elog(ERROR, "row (%u,%u) has no stored value", row_id_block(row), row_id_offset(row));
	if (state->n_rows == PG_UINT32_MAX)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("a segment of a gpumatch index cannot have more than %u rows", PG_UINT32_MAX)));
	if (!engine::match::run_add_value(&state->run, static_cast<uint32>(state->n_rows), parts) ||
		(state->has_texts && !put_text(state, parts)))
		elog(ERROR, "row (%u,%u) has no stored value", row_id_block(row), row_id_offset(row));
	if (!state->has_texts)
		put_value(state, value + sizeof(uint32), n_bytes, parts.size);
	state->n_rows++;
	if (run_is_full(state))
		flush_run(state);
}

/// Steps to the next key of a run.
void
next_key(RunReader *reader)
{
	if (reader->left == 0)
	{
		reader->at_end = true;
		return;
	}
	reader->left--;
	spool_read(reader->file, &reader->key_size, sizeof(reader->key_size));
	if (reader->key_size > reader->key_capacity)
	{
		reader->key_capacity = reader->key_size;
		reader->key = static_cast<uint8 *>(repalloc(reader->key, reader->key_capacity));
	}
	spool_read(reader->file, reader->key, reader->key_size);
	spool_read(reader->file, &reader->n_rows, sizeof(reader->n_rows));
}

void
put_tile(MatchSegment *state)
{
	const size_t n = engine::match::tile_finish(&state->tile);

	BufFileWrite(state->lists, state->tile.items, n * sizeof(uint16));
	state->n_list_items += n;
}

/// Appends rows to the list of the next entry.
void
put_rows(MatchSegment *state, const uint32 *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		if (!engine::match::tile_takes(&state->tile, rows[i]))
			put_tile(state);
		engine::match::tile_add(&state->tile, rows[i]);
	}
}

/// Writes the entry of a key, whose rows have been put.
void
write_entry(MatchSegment *state, Key key)
{
	DictionaryEntry entry;

	put_tile(state);
	entry = {engine::match::key_prefix(key), state->key_bytes + key.size, state->n_list_items};
	BufFileWrite(state->keys, const_cast<uint8 *>(key.data), key.size);
	BufFileWrite(state->dictionary, &entry, sizeof(entry));
	state->key_bytes += key.size;
	state->n_keys++;
}

/// Compares two readers of one array: true if a's key is larger, or the keys are equal and a's rows are larger. A heap
/// by this order has the smallest on top.
bool
comes_later(const RunReader *a, const RunReader *b)
{
	const int order = engine::match::key_compare({a->key, a->key_size}, {b->key, b->key_size});

	return order > 0 || (order == 0 && a > b);
}

/// Merges the runs' files into keys, dictionary and lists. False if it gave way.
bool
merge_runs(MatchSegment *state)
{
	RunReader *readers = static_cast<RunReader *>(palloc0(sizeof(RunReader) * Max(state->n_runs, 1)));
	RunReader *heap[kMostRuns];
	uint32 n_heap = 0;
	uint32 *rows = static_cast<uint32 *>(palloc(kPostingsPerCopy * sizeof(uint32)));

	for (uint32 i = 0; i < state->n_runs; i++)
	{
		spool_seek(state->runs[i], 0);
		readers[i].file = state->runs[i];
		readers[i].left = state->run_keys[i];
		readers[i].key_capacity = 64;
		readers[i].key = static_cast<uint8 *>(palloc(readers[i].key_capacity));
		next_key(&readers[i]);
		if (readers[i].at_end)
			continue;
		heap[n_heap++] = &readers[i];
		std::push_heap(heap, heap + n_heap, comes_later);
	}
	for (uint64 n_lists = 0; n_heap > 0; n_lists++)
	{
		RunReader *reader = heap[0];

		if (n_lists % kKeysBetweenLooks == 0)
		{
			CHECK_FOR_INTERRUPTS();
			(void) VG_FAULT("match_merge_runs");
			if (state->plan.give_way != nullptr && state->plan.give_way(state->plan.give_way_state))
				return false;
		}
		for (uint32 done = 0; done < reader->n_rows;)
		{
			const uint32 n = Min(reader->n_rows - done, kPostingsPerCopy);

			CHECK_FOR_INTERRUPTS();
			spool_read(reader->file, rows, n * sizeof(uint32));
			put_rows(state, rows, n);
			done += n;
		}

		// The entry follows the key's last list: its bytes must outlast the step of the reader.
		const Key key = {
			static_cast<const uint8 *>(memcpy(palloc(Max(reader->key_size, 1)), reader->key, reader->key_size)),
			reader->key_size};

		std::pop_heap(heap, heap + n_heap, comes_later);
		next_key(reader);
		if (reader->at_end)
			n_heap--;
		else
			std::push_heap(heap, heap + n_heap, comes_later);
		if (n_heap == 0 || engine::match::key_compare(key, {heap[0]->key, heap[0]->key_size}) != 0)
			write_entry(state, key);
		pfree(const_cast<uint8 *>(key.data));
	}
	return true;
}

/// Writes the only run, which is in memory.
void
write_run(MatchSegment *state)
{
	RunBuilder *run = &state->run;

	engine::match::run_sort(run);
	for (uint32 i = 0; i < run->n_keys; i++)
	{
		size_t n;
		const uint32 *rows = engine::match::run_rows(run, i, &n);

		if (i % kKeysBetweenLooks == 0)
			CHECK_FOR_INTERRUPTS();
		put_rows(state, rows, n);
		write_entry(state, engine::match::run_key(run, i));
	}
	engine::match::run_free(run);
}

bool
match_prepare(void *opaque, SegmentEntry *entry)
{
	MatchSegment *state = static_cast<MatchSegment *>(opaque);

	if (state->plan.mode == WriteMode::kBulk)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, kPhaseOfAm);
	state->keys = BufFileCreateTemp(false);
	state->dictionary = BufFileCreateTemp(false);
	state->lists = BufFileCreateTemp(false);
	if (state->n_runs == 0)
		write_run(state);
	else
	{
		flush_run(state);
		if (!merge_runs(state))
			return false;
	}
	entry->streams[static_cast<int>(kKeyBytes)].n_bytes = state->key_bytes;
	entry->streams[static_cast<int>(kDictionary)].n_bytes = state->n_keys * sizeof(DictionaryEntry);
	entry->streams[static_cast<int>(kTileLists)].n_bytes = state->n_list_items * sizeof(uint16);
	if (state->has_texts)
	{
		entry->streams[static_cast<int>(kTextItems)].n_bytes = state->n_rows * sizeof(uint64);
		entry->streams[static_cast<int>(kTexts)].n_bytes = state->text_bytes;
	}
	else
	{
		entry->streams[static_cast<int>(StreamKind::kVectors)].n_bytes = state->value_bytes;
		entry->streams[static_cast<int>(kValueEnds)].n_bytes = state->n_rows * sizeof(uint64);
	}
	return true;
}

/// Copies a temporary file into a stream, whose size prepare has set. Returns the block behind, or InvalidBlockNumber.
BlockNumber
copy_stream(MatchSegment *state, SegmentEntry *entry, StreamKind kind, BufFile *file, BlockNumber start)
{
	StreamEntry *stream = &entry->streams[static_cast<int>(kind)];
	uint64 left = stream->n_bytes;
	char chunk[BLCKSZ];
	StreamWriter writer;

	if (left == 0)
		return start;
	spool_seek(file, 0);
	stream_write_begin(&writer, state->plan.index, state->plan.mode, state->plan.meta->uuid, entry->id, kind, start);
	for (uint64 n = 0; left > 0; n++)
	{
		const Size part = Min(left, sizeof(chunk));

		if (n % kKeysBetweenLooks == 0 && state->plan.give_way != nullptr &&
			state->plan.give_way(state->plan.give_way_state))
			return InvalidBlockNumber;
		spool_read(file, chunk, part);
		stream_write(&writer, chunk, part);
		left -= part;
	}
	stream_write_end(&writer, stream);
	return static_cast<BlockNumber>(start + stream_blocks(stream->n_bytes));
}

BlockNumber
match_write(void *opaque, SegmentEntry *entry, BlockNumber start)
{
	MatchSegment *state = static_cast<MatchSegment *>(opaque);
	const struct
	{
		StreamKind kind;
		BufFile *file;
	} streams[] = {{StreamKind::kVectors, state->values}, {kValueEnds, state->ends}, {kKeyBytes, state->keys},
		{kDictionary, state->dictionary}, {kTileLists, state->lists}, {kTextItems, state->text_items},
		{kTexts, state->texts}};

	for (const auto &stream : streams)
	{
		start = copy_stream(state, entry, stream.kind, stream.file, start);
		if (start == InvalidBlockNumber)
			break;
	}
	return start;
}

void
match_end(void *opaque)
{
	MatchSegment *state = static_cast<MatchSegment *>(opaque);

	BufFile *const files[] = {
		state->values, state->ends, state->keys, state->dictionary, state->lists, state->text_items, state->texts};

	for (BufFile *file : files)
		if (file != nullptr)
			BufFileClose(file);
	for (uint32 i = 0; i < state->n_runs; i++)
		BufFileClose(state->runs[i]);
}

/// SegmentFormat::may_be_older: release 0.2 wrote lists of rows, and values beside texts.
bool
may_be_older(const MetaData *, const SegmentEntry *segment)
{
	return segment == nullptr ||
		(segment->streams[static_cast<int>(kTileLists)].n_bytes == 0 &&
			(segment->n_rows == 0 || match_has_values(segment)));
}

} // namespace

const SegmentFormat kMatchFormat = {
	.begin = match_begin,
	.put = match_put,
	.placed = nullptr,
	.share = nullptr,
	.prepare = match_prepare,
	.write = match_write,
	.end = match_end,
	.read_vectors = nullptr,
	.check_entry = match_check_entry,
	.check = match_check,
	.version = kSegmentVersion, // release 0.2 would take tile lists for no lists, and find no row
	.may_be_older = may_be_older,
};

} // namespace vectorgpu::am
