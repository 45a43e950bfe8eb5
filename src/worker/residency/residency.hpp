// The copies that the engine holds: their versions, leases and bytes, and eviction when the budget is full. One mutex
// guards the copies' fields and is never held during an engine call; a copy's write mutex serialises its writers (the
// loading thread, and MANIFEST on the engine's thread). Copies are reference counted: one that is dropped or evicted
// during a search is freed when the search ends.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/interface/engine.hpp"
#include "wire/codec.hpp"
#include "worker/clock.hpp"
#include "worker/keys/key_store.hpp"
#include "worker/queue.hpp"

namespace vectorgpu::worker
{

using Bits = std::vector<uint8_t>; // bit i of byte i / 8 is 1 << (i % 8)

struct Segment
{
	uint64_t n_rows = 0;
	uint32_t parameter = 0;       // of LOAD_STRUCTURE
	uint64_t structure_bytes = 0; // by LOAD_STRUCTURE
	uint64_t key_bytes = 0;       // by LOAD_KEYS
	bool complete = false;        // SEAL was given
	bool live = false;            // in the current manifest: the engine searches it
	uint64_t tombstone_generation = 0;
	uint64_t n_dead = 0;
	Bits dead;             // valid, or valid once the segment is live; empty: no row is dead
	Bits arriving;         // parts of the next bitmap
	uint64_t next_bit = 0; // of `arriving`
};

struct Copy
{
	explicit Copy(engine::Engine &copy_engine) : engine(copy_engine) {}
	~Copy();
	Copy(const Copy &) = delete;
	Copy &operator=(const Copy &) = delete;

	engine::Engine &engine;
	CopyQueue queue; // used by the batcher
	wire::CopyKey key{};
	engine::CopySpec spec;
	engine::CopyId id = 0;
	bool created = false;           // in the engine
	size_t row_bytes = 0;           // of one vector, or slot, of the delta
	size_t segment_row_bytes = 0;   // of one vector of a segment
	size_t rounded_row_bytes = 0;   // of a rounded row beside it
	std::shared_ptr<KeyStore> keys; // null: the index has no key columns
	std::mutex write_mutex;

	/// Bytes of a row of the delta: vector, or slot, and codes.
	size_t delta_row_bytes() const { return row_bytes + (keys != nullptr ? keys->image_bytes() : 0); }

	/// What n_rows of a segment are charged with.
	uint64_t segment_bytes(uint64_t n_rows) const;

	/// What a search looks at from now on: changes while no search runs.
	std::atomic<uint64_t> searched_manifest{0};
	std::atomic<uint64_t> searched_delta_first{0};

	/// Bytes that it held when it was last found for a search.
	std::atomic<uint64_t> searched_bytes{0};

	// Under Residency's mutex; segments' bitmaps under write_mutex.
	wire::CopyVersion version{};
	uint64_t delta_first = 0;
	uint64_t delta_tombstone_generation = 0;
	Bits delta_dead;               // from delta_dead_first on
	uint64_t delta_dead_first = 0; // a multiple of 8
	uint64_t delta_n_dead = 0;
	std::map<uint32_t, Segment> segments;
	bool current = false; // it has had a MANIFEST and can be searched
	uint64_t lease = 0;   // session that loads it, or 0
	uint64_t reserved_bytes = 0;
	uint64_t held_bytes = 0;
	uint64_t n_searches = 0;
	uint64_t n_loads = 0;
	uint64_t last_used_ns = 0;
};

struct ResidencyCounters
{
	uint64_t n_copies = 0;
	uint64_t resident_bytes = 0;
	uint64_t n_evictions = 0;
	uint64_t n_loads = 0;
	uint64_t loaded_bytes = 0;
};

class Residency
{
public:
	Residency(engine::Engine &engine, uint64_t budget_bytes, Clock clock);

	// Any thread; these return quickly.
	wire::ReplyStatus find(const wire::CopyKey &key, const wire::SearchRequest &search,
		std::span<const wire::SegmentProbes> probes, uint64_t now_ns, std::shared_ptr<Copy> *copy);
	wire::ReplyStatus describe(
		const wire::CopyKey &key, wire::CopyState *state, std::vector<wire::SegmentState> *segments);
	void inventory(uint32_t first, size_t most, std::vector<wire::CopyInfo> *infos);
	ResidencyCounters counters();
	uint64_t budget_bytes() const { return budget_bytes_; }
	const FilterCounters &filter_counters() const { return filter_counters_; }

	/// Call append() for the rows of a SEARCH if it need not wait. False: append() must be called on the loading
	/// thread. True: the copy has the rows now, or cannot take them; the search then reports why. Throws bad_alloc.
	bool try_append(
		const wire::CopyKey &key, const wire::RowsRequest &request, const engine::RowBlock &rows, size_t row_bytes);

	// On the loading thread. session: of the request. They throw bad_alloc; the copy is then unchanged.
	// key_columns: n_columns 0: none. bytes: of a segment's area of codes.
	wire::ReplyStatus create(const wire::CopyKey &key, const wire::CreateRequest &request,
		const wire::KeyColumns &key_columns, uint64_t session);
	wire::ReplyStatus load_keys(
		const wire::CopyKey &key, const wire::KeysRequest &request, std::span<const uint8_t> bytes, uint64_t session);
	wire::ReplyStatus load_rows(const wire::CopyKey &key, const wire::RowsRequest &request,
		const engine::RowBlock &rows, size_t row_bytes, uint64_t session);
	wire::ReplyStatus load_structure(const wire::CopyKey &key, const wire::StructureRequest &request,
		std::span<const uint8_t> bytes, uint64_t session);
	wire::ReplyStatus seal(const wire::CopyKey &key, const wire::SegmentRequest &request, uint64_t session);

	/// rows.row_ids are row headers: the row id with flags above it. The rows' codes follow their vectors.
	wire::ReplyStatus append(const wire::CopyKey &key, const wire::RowsRequest &request, const engine::RowBlock &rows,
		size_t row_bytes, uint64_t session);
	wire::ReplyStatus tombstones(const wire::CopyKey &key, const wire::TombstonesRequest &request,
		std::span<const uint8_t> bits, uint64_t session);
	wire::ReplyStatus drop(const wire::CopyKey &key);

	/// Remove the copy if the engine has lost it with a device: a session loads it anew. Any thread.
	void forget_lost(const wire::CopyKey &key);

	wire::ReplyStatus checksum(const wire::CopyKey &key, const wire::ChecksumRequest &request,
		wire::ChecksumReply *reply, const std::function<void()> &progress);

	/// End the leases of a session that has ended. Drop copies that were never current, and segments that were not
	/// published.
	void end_leases(uint64_t session);

	/// On the engine's thread, between two batches.
	wire::ReplyStatus manifest(
		const wire::CopyKey &key, const wire::ManifestRequest &request, const uint32_t *segment_ids, uint64_t session);

private:
	struct KeyHash
	{
		size_t operator()(const wire::CopyKey &key) const;
	};
	struct KeyEqual
	{
		bool operator()(const wire::CopyKey &a, const wire::CopyKey &b) const;
	};

	std::shared_ptr<Copy> lookup(const wire::CopyKey &key);
	wire::ReplyStatus writable(
		const wire::CopyKey &key, uint64_t session, bool lease_needed, std::shared_ptr<Copy> *copy);
	wire::ReplyStatus reserve(Copy *copy, uint64_t bytes);
	uint64_t plan_rounded(Copy *copy, uint64_t expected_bytes);
	bool must_evict(const Copy *copy, uint64_t bytes);
	bool make_room(uint64_t bytes, const Copy *but_not, std::vector<std::shared_ptr<Copy>> *evicted);
	void remove(const std::shared_ptr<Copy> &copy);
	enum class Wait : bool
	{
		kNo,
		kYes,
	};
	wire::ReplyStatus append_delta(
		Copy *copy, const wire::RowsRequest &request, const engine::RowBlock &rows, Wait wait, bool *done);
	wire::ReplyStatus segment_tombstones(
		Copy *copy, const wire::TombstonesRequest &request, std::span<const uint8_t> bits);
	wire::ReplyStatus delta_tombstones(
		Copy *copy, const wire::TombstonesRequest &request, std::span<const uint8_t> bits);
	wire::ReplyStatus publish(Copy *copy, const wire::ManifestRequest &request, const uint32_t *segment_ids);
	wire::ReplyStatus key_checksum(const Copy &copy, const wire::ChecksumRequest &request, wire::ChecksumReply *reply);
	wire::ReplyStatus structure_checksum(const Copy &copy, const wire::ChecksumRequest &request,
		wire::ChecksumReply *reply, const std::function<void()> &progress);
	void drop_unpublished(Copy *copy);

	engine::Engine &engine_;
	const uint64_t budget_bytes_;
	const Clock clock_;
	FilterCounters filter_counters_; // outlives the copies

	std::mutex mutex_;
	std::unordered_map<wire::CopyKey, std::shared_ptr<Copy>, KeyHash, KeyEqual> copies_;
	ResidencyCounters counters_;
};

/// Return the bytes of `n_rows` rows in an engine: vector, row id, norm.
uint64_t rows_bytes(uint64_t n_rows, size_t row_bytes);

wire::ReplyStatus reply_status(const Status &status);

} // namespace vectorgpu::worker
