// See index_fallbacks.hpp. Open addressing by (database, index). A slot that was taken once is never free again, so a
// look-up ends at its index or at the first free slot; in a full table, where slots are reassigned, after all slots.
// Counting holds the lock shared; assigning a slot holds it exclusively, so that no count goes to another index.
#include "bridge/index_fallbacks.hpp"

#include "pg/shared_memory.hpp"

#include <cstring>

extern "C"
{
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
}

namespace vectorgpu::bridge
{

namespace
{

constexpr uint32 kNone = PG_UINT32_MAX;
constexpr char kTranche[] = "vectorgpu_fallbacks"; // in pg_stat_activity.wait_event

struct IndexSlot
{
	uint64 key;            // database << 32 | index; 0: free
	pg_atomic_uint64 last; // value of `clock` at the last count
	pg_atomic_uint64 counts[static_cast<int>(Fallback::kCount)];
};

struct FallbackTable
{
	LWLock lock;
	pg_atomic_uint64 clock;                 // fallbacks counted
	IndexSlot slots[FLEXIBLE_ARRAY_MEMBER]; // [n_slots]
};

FallbackTable *attached = nullptr;
bool unavailable = false;
uint32 n_slots = kIndexSlots; // the same in all processes, since a preloaded value is inherited from the postmaster

static_assert(
	sizeof(FallbackTable) + kIndexSlots * sizeof(IndexSlot) <= 16384, "taken from the server's spare shared memory");

Size
table_bytes()
{
	return sizeof(FallbackTable) + n_slots * sizeof(IndexSlot);
}

void
clear(IndexSlot *slot)
{
	pg_atomic_init_u64(&slot->last, 0);
	for (pg_atomic_uint64 &count : slot->counts)
		pg_atomic_init_u64(&count, 0);
}

void
init_table(void *piece)
{
	FallbackTable *made = static_cast<FallbackTable *>(piece);

	memset(made, 0, table_bytes());
	LWLockInitialize(&made->lock, LWLockNewTrancheId());
	pg_atomic_init_u64(&made->clock, 0);
	for (uint32 i = 0; i < n_slots; i++)
		clear(&made->slots[i]);
}

FallbackTable *
table()
{
	if (attached != nullptr || unavailable || !IsUnderPostmaster)
		return attached;
	attached = static_cast<FallbackTable *>(pg::shared_piece("vectorgpu fallbacks", table_bytes(), init_table));
	unavailable = attached == nullptr;
	if (attached != nullptr)
		LWLockRegisterTranche(attached->lock.tranche, kTranche);
	return attached;
}

uint64
key_of(Oid index)
{
	return uint64{MyDatabaseId} << 32 | index;
}

/// Return the slot of a key, or the first free one; kNone: neither. The caller holds the lock.
uint32
find_slot(const FallbackTable *fallbacks, uint64 key)
{
	const uint32 first = murmurhash32(static_cast<uint32>(key) ^ static_cast<uint32>(key >> 32)) % n_slots;

	for (uint32 i = 0; i < n_slots; i++)
	{
		const uint32 slot = (first + i) % n_slots;

		if (fallbacks->slots[slot].key == key || fallbacks->slots[slot].key == 0)
			return slot;
	}
	return kNone;
}

IndexSlot *
oldest_slot(FallbackTable *fallbacks)
{
	IndexSlot *oldest = &fallbacks->slots[0];

	for (uint32 i = 1; i < n_slots; i++)
		if (pg_atomic_read_u64(&fallbacks->slots[i].last) < pg_atomic_read_u64(&oldest->last))
			oldest = &fallbacks->slots[i];
	return oldest;
}

/// Return the key's slot; assign one if another process has not done so meanwhile. The caller holds the lock
/// exclusively.
IndexSlot *
take_slot(FallbackTable *fallbacks, uint64 key)
{
	const uint32 found = find_slot(fallbacks, key);
	IndexSlot *slot = found != kNone ? &fallbacks->slots[found] : oldest_slot(fallbacks);

	if (slot->key != key)
	{
		clear(slot);
		slot->key = key;
	}
	return slot;
}

/// The caller holds the lock.
void
count(FallbackTable *fallbacks, IndexSlot *slot, Fallback reason)
{
	pg_atomic_fetch_add_u64(&slot->counts[static_cast<int>(reason)], 1);
	pg_atomic_write_u64(&slot->last, pg_atomic_add_fetch_u64(&fallbacks->clock, 1));
}

} // namespace

void
index_fallbacks_init()
{
	if (pg::reserve_shared_memory(sizeof(FallbackTable) + kPreloadedIndexSlots * sizeof(IndexSlot)))
		n_slots = kPreloadedIndexSlots;
}

void
count_index_fallback(Oid index, Fallback reason)
{
	FallbackTable *fallbacks = table();
	const uint64 key = key_of(index);
	uint32 found;
	bool has_slot;

	if (fallbacks == nullptr)
		return;
	LWLockAcquire(&fallbacks->lock, LW_SHARED);
	found = find_slot(fallbacks, key);
	has_slot = found != kNone && fallbacks->slots[found].key == key;
	if (has_slot)
		count(fallbacks, &fallbacks->slots[found], reason);
	LWLockRelease(&fallbacks->lock);
	if (has_slot)
		return;
	LWLockAcquire(&fallbacks->lock, LW_EXCLUSIVE);
	count(fallbacks, take_slot(fallbacks, key), reason);
	LWLockRelease(&fallbacks->lock);
}

bool
read_index_fallbacks(Oid index, uint64 *counts)
{
	FallbackTable *fallbacks = table();
	const uint64 key = key_of(index);
	uint32 found;

	memset(counts, 0, sizeof(uint64) * static_cast<int>(Fallback::kCount));
	if (fallbacks == nullptr)
		return false;
	LWLockAcquire(&fallbacks->lock, LW_SHARED);
	found = find_slot(fallbacks, key);
	if (found != kNone && fallbacks->slots[found].key == key)
		for (int i = 0; i < static_cast<int>(Fallback::kCount); i++)
			counts[i] = pg_atomic_read_u64(&fallbacks->slots[found].counts[i]);
	LWLockRelease(&fallbacks->lock);
	return true;
}

} // namespace vectorgpu::bridge
