// See fake_server.hpp: pages in memory as the buffers of one relation, and the other server functions that a check of
// an index calls.
#include "fake_server.hpp"

#include "pg/define_setting.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

extern "C"
{
#include "access/xact.h"
#include "access/xlog.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/pg_locale.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"
#include "utils/uuid.h"
}

namespace vectorgpu::fuzz
{

void free_memory(); // fake_server.cpp

std::vector<char> pages;

namespace
{

int n_pins;

struct Sort
{
	std::vector<pg_uuid_t> keys;
	size_t next;
};

std::vector<Sort *> sorts;
std::vector<MemoryContext> contexts;

} // namespace

Call::Call()
{
	error_text[0] = '\0';
	n_pins = 0;
	CurrentMemoryContext = nullptr; // an error leaves it where it was
	the_relation()->rd_amcache = nullptr;
}

Call::~Call()
{
	for (MemoryContext context : contexts)
		MemoryContextReset(context);
	contexts.clear();
	for (Sort *sort : sorts)
		delete sort;
	sorts.clear();
	free_memory();
}

int
pins()
{
	return n_pins;
}

Relation
the_relation()
{
	static RelationData relation = {};
	static FormData_pg_class form = {};

	if (relation.rd_att == nullptr)
	{
		relation.rd_att = static_cast<TupleDesc>(std::calloc(1, sizeof(TupleDescData) + sizeof(FormData_pg_attribute)));
		relation.rd_att->natts = 1;
		TupleDescAttr(relation.rd_att, 0)->atttypmod = -1;
		std::strcpy(NameStr(form.relname), "fuzzed");
		form.relpersistence = RELPERSISTENCE_PERMANENT;
		form.relkind = RELKIND_INDEX;
		relation.rd_rel = &form;
		// The index is on an expression (column 0), so that the table is not accessed by place.
		relation.rd_index = static_cast<Form_pg_index>(std::calloc(1, sizeof(FormData_pg_index) + sizeof(int16)));
		relation.rd_index->indnatts = relation.rd_index->indnkeyatts = 1;
		relation.rd_tableam = table_methods();
	}
	BufferBlocks = pages.data();
	return &relation;
}

} // namespace vectorgpu::fuzz

using namespace vectorgpu::fuzz;

extern "C"
{

	MemoryContext TopTransactionContext = nullptr;
	char *BufferBlocks;
	Block *LocalBufferBlockPointers;
	BufferDescPadded *BufferDescriptors;
	BufferUsage pgBufferUsage;
	int NBuffers = 16384;
	int NLocBuffer = 0;
	int old_snapshot_threshold = -1;
	int XactIsoLevel = XACT_READ_COMMITTED;
	int maintenance_work_mem = 65536;
	int work_mem = 4096;
	bool pgstat_track_counts = false;

	BlockNumber RelationGetNumberOfBlocksInFork(Relation relation, ForkNumber fork)
	{
		return static_cast<BlockNumber>(pages.size() / BLCKSZ);
	}

	Buffer ReadBufferExtended(
		Relation relation, ForkNumber fork, BlockNumber block, ReadBufferMode mode, BufferAccessStrategy strategy)
	{
		if (block >= pages.size() / BLCKSZ)
			ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("could not read block %u", block)));
		n_pins++;
		pgBufferUsage.shared_blks_read++; // every checksum is compared
		return static_cast<Buffer>(block + 1);
	}

	bool ReadRecentBuffer(RelFileNode node, ForkNumber fork, BlockNumber block, Buffer buffer)
	{
		return false;
	}

	BlockNumber BufferGetBlockNumber(Buffer buffer)
	{
		return static_cast<BlockNumber>(buffer - 1);
	}

	void LockBuffer(Buffer buffer, int mode) {}

	void ReleaseBuffer(Buffer buffer)
	{
		REQUIRE(n_pins-- > 0);
	}

	void UnlockReleaseBuffer(Buffer buffer)
	{
		ReleaseBuffer(buffer);
	}

	BufferAccessStrategy GetAccessStrategy(BufferAccessStrategyType type)
	{
		return nullptr;
	}

	void FreeAccessStrategy(BufferAccessStrategy strategy) {}

	bool RecoveryInProgress()
	{
		return false;
	}

	Snapshot GetTransactionSnapshot()
	{
		return nullptr;
	}

	Snapshot RegisterSnapshot(Snapshot snapshot)
	{
		return snapshot;
	}

	void UnregisterSnapshot(Snapshot snapshot) {}

	void vacuum_delay_point() {}

	// Memory of a context is freed with all other memory at the end of the call; its callbacks run when they would in a
	// server.
	MemoryContext AllocSetContextCreateInternal(
		MemoryContext parent, const char *name, Size min_size, Size init_size, Size max_size)
	{
		contexts.push_back(static_cast<MemoryContext>(palloc0(sizeof(MemoryContextData))));
		return contexts.back();
	}

	void MemoryContextRegisterResetCallback(MemoryContext context, MemoryContextCallback *callback)
	{
		callback->next = context->reset_cbs;
		context->reset_cbs = callback;
	}

	void MemoryContextReset(MemoryContext context)
	{
		while (context->reset_cbs != nullptr)
		{
			MemoryContextCallback *callback = context->reset_cbs;

			context->reset_cbs = callback->next;
			callback->func(callback->arg);
		}
	}

	void MemoryContextDelete(MemoryContext context)
	{
		MemoryContextReset(context);
	}

	int pg_database_encoding_max_length()
	{
		return 1;
	}

	// --- sorting of 16-byte keys ------------------------------------------------------------

	TypeCacheEntry *lookup_type_cache(Oid type, int flags)
	{
		static TypeCacheEntry entry;

		return &entry;
	}

	Tuplesortstate *tuplesort_begin_datum(Oid type, Oid operator_oid, Oid collation, bool nulls_first, int memory_kb,
		SortCoordinate coordinate, int options)
	{
		sorts.push_back(new Sort{{}, 0});
		return reinterpret_cast<Tuplesortstate *>(sorts.back());
	}

	void tuplesort_putdatum(Tuplesortstate *state, Datum value, bool is_null)
	{
		reinterpret_cast<Sort *>(state)->keys.push_back(*DatumGetUUIDP(value));
	}

	void tuplesort_performsort(Tuplesortstate *state)
	{
		std::vector<pg_uuid_t> &keys = reinterpret_cast<Sort *>(state)->keys;

		std::sort(keys.begin(), keys.end(),
			[](const pg_uuid_t &a, const pg_uuid_t &b) { return std::memcmp(a.data, b.data, sizeof(a.data)) < 0; });
	}

	bool tuplesort_getdatum(Tuplesortstate *state, bool forward, Datum *value, bool *is_null, Datum *abbreviated)
	{
		Sort *sort = reinterpret_cast<Sort *>(state);

		if (sort->next == sort->keys.size())
			return false;
		*value = PointerGetDatum(palloc(sizeof(pg_uuid_t)));
		std::memcpy(DatumGetPointer(*value), &sort->keys[sort->next++], sizeof(pg_uuid_t));
		*is_null = false;
		return true;
	}

	void tuplesort_end(Tuplesortstate *state) {}

} // extern "C"

// --- settings keep their defaults ----------------------------------------------------

namespace vectorgpu::pg
{

void
define_real(const char *name, const char *summary, const char *detail, double *value, double initial, double least,
	double most, GucContext context, int flags, GucRealCheckHook check, GucRealAssignHook assign, GucShowHook show)
{
	*value = initial;
}

void
define_int(const char *name, const char *summary, const char *detail, int *value, int initial, int least, int most,
	GucContext context, int flags, GucIntCheckHook check, GucIntAssignHook assign, GucShowHook show)
{
	*value = initial;
}

void
reserve_prefix(const char *prefix)
{
}

} // namespace vectorgpu::pg
