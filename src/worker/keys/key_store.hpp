// The key columns of one copy: their codes, and the rows that meet the conditions of searches. Those of a program are
// found once and kept, until room is needed, for all searches with the same program (engine/predicate: canonical
// bytes).
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/interface/engine.hpp"
#include "worker/keys/key_streams.hpp"

namespace vectorgpu::worker
{

/// Searches with conditions: those that found their rows, and those whose rows were known.
struct FilterCounters
{
	std::atomic<uint64_t> n_made{0};
	std::atomic<uint64_t> n_found{0};
};

/// The codes of one segment. Immutable once complete.
struct KeyArea
{
	uint64_t n_rows = 0;
	std::vector<uint8_t> bytes;
	std::vector<std::vector<engine::predicate::Zone>> zones; // by stream
	std::shared_ptr<engine::KeyCodes> held;                  // the same on the engine's device; null: not there
};

/// Writers hold the copy's write mutex; passing() may come from any thread. Functions throw bad_alloc and then change
/// nothing.
class KeyStore
{
public:
	KeyStore(const wire::KeyColumns &keys, FilterCounters *counters);

	const wire::KeyColumns &keys() const { return keys_; }
	size_t image_bytes() const { return image_bytes_; }
	uint64_t area_bytes(uint64_t n_rows) const { return key_area_bytes(keys_, n_rows); }

	/// Append bytes to the area of a segment that has n_rows rows.
	void load(engine::SegmentId segment, uint64_t n_rows, std::span<const uint8_t> bytes);

	/// Complete a segment's area, which has area_bytes(n_rows): make its zone maps, and let the engine, which outlives
	/// the store, hold its codes for this copy. engine null: the host evaluates.
	void seal(engine::SegmentId segment, uint64_t n_rows, engine::Engine *engine = nullptr, engine::CopyId copy = 0);
	void drop(engine::SegmentId segment);

	/// Searches look at these sealed segments from now on. Never throws.
	void publish(std::span<const engine::SegmentId> segments);

	void append(uint64_t position, const uint8_t *images, uint64_t n_rows);
	void trim(uint64_t position);

	/// True if a program is well-formed and about streams that there are.
	bool takes(std::span<const uint8_t> program) const;

	/// Return the rows that meet a program that it takes. *found: they were known.
	std::shared_ptr<const engine::Passing> passing(std::span<const uint8_t> program, bool *found);

	/// Host memory of the rows that are known of programs. They may count once more on the engine's device.
	uint64_t known_bytes() const { return known_bytes_.load(std::memory_order_relaxed); }

	/// Read back, for checks. False if they are not held.
	bool read_area(engine::SegmentId segment, uint64_t first, uint64_t n_bytes, uint8_t *bytes) const;
	bool read_delta(uint64_t first, uint64_t n_rows, uint8_t *images) const;

	/// Compare bytes of a segment's area with those on the device. *n_different: bytes; 0 if none are there.
	Status check_held(engine::SegmentId segment, uint64_t first, uint64_t n_bytes, uint64_t *n_different) const;

private:
	struct Known;
	using KnownProgram = std::pair<const std::string, Known>;
	using Areas = std::map<engine::SegmentId, std::shared_ptr<const KeyArea>>;

	std::shared_ptr<const engine::Passing> make(const std::string &program, const Areas &live, const Known &known);
	std::shared_ptr<const engine::Passing> passing_of_last(std::span<const uint8_t> program);
	void evaluate_delta(const engine::predicate::Program &program, const Known &known, engine::Passing *made) const;
	void keep(const std::string &program, std::shared_ptr<const engine::Passing> passing, uint64_t generation);

	const wire::KeyColumns keys_;
	const size_t image_bytes_;
	FilterCounters *const counters_;

	mutable std::mutex mutex_; // everything below
	std::map<engine::SegmentId, std::shared_ptr<KeyArea>> loading_;
	Areas sealed_;
	Areas live_; // of sealed_
	DeltaKeys delta_;
	uint64_t generation_ = 0; // of live_ and of the delta's front

	/// The rows of one program.
	struct Known
	{
		std::shared_ptr<const engine::Passing> passing;
		uint64_t generation = 0;
		uint64_t bytes = 0;
		std::list<KnownProgram *>::iterator place; // in by_use_
	};
	std::map<std::string, Known> known_;
	std::list<KnownProgram *> by_use_;     // of known_, those used last at the end
	std::atomic<uint64_t> known_bytes_{0}; // read without the mutex
};

} // namespace vectorgpu::worker
