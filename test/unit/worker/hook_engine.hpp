// An engine for tests: the CPU engine with a gate before each search and a record of the calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/cpu/cpu_engine.hpp"

namespace vectorgpu::worker_test
{

struct SearchCall
{
	engine::CopyId copy;
	std::vector<size_t> ks;
};

class HookEngine final : public engine::Engine
{
public:
	/// n_at_once: batches that run side by side.
	explicit HookEngine(size_t n_at_once = 1) : n_at_once_(n_at_once), inner_(engine::make_cpu_engine({})) {}

	/// While it is closed, searches wait and make no progress.
	void set_gate(bool open)
	{
		const std::lock_guard lock(mutex_);

		open_ = open;
		changed_.notify_all();
	}

	bool waiting()
	{
		const std::lock_guard lock(mutex_);

		return n_waiting_ > 0;
	}

	/// Searches that wait at the gate.
	size_t n_waiting()
	{
		const std::lock_guard lock(mutex_);

		return n_waiting_;
	}

	std::vector<SearchCall> calls()
	{
		const std::lock_guard lock(mutex_);

		return calls_;
	}

	std::atomic<bool> out_of_memory{false}; // searches and loads fail with it
	size_t threads = 1;                     // n_threads; set before the worker starts
	std::atomic<bool> at_once{false};       // answers_at_once and try_append_delta return true
	std::atomic<bool> elsewhere{false};     // computes_elsewhere returns true
	std::atomic<bool> deaf{false};          // a search that waits for the gate ignores the stop flag
	std::atomic<uint64_t> budget{0};        // budget_bytes in its statistics

	std::shared_ptr<engine::KeyCodes> key_codes; // hold_key_codes gives them; null: it holds none

	const char *name() const override { return "hook"; }
	size_t n_threads() const override { return threads; }

	Status hold_key_codes(engine::CopyId, const engine::KeyArea &, std::shared_ptr<engine::KeyCodes> *codes) override
	{
		if (key_codes == nullptr)
			return Status::error(StatusCode::kUnsupported, "told so");
		*codes = key_codes;
		return Status::ok();
	}

	Status create(const engine::CopySpec &spec, engine::CopyId *copy) override { return inner_->create(spec, copy); }

	Status load_segment(engine::CopyId copy, engine::SegmentId segment, const engine::RowBlock &rows) override
	{
		if (out_of_memory)
			return Status::error(StatusCode::kOutOfMemory, "told so");
		return inner_->load_segment(copy, segment, rows);
	}

	Status load_structure(
		engine::CopyId copy, engine::SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		if (out_of_memory)
			return Status::error(StatusCode::kOutOfMemory, "told so");
		return inner_->load_structure(copy, segment, parameter, bytes);
	}

	Status seal_segment(engine::CopyId c, engine::SegmentId s) override { return inner_->seal_segment(c, s); }
	Status prepare_segment(engine::CopyId c, engine::SegmentId s) override { return inner_->prepare_segment(c, s); }
	Status drop_segment(engine::CopyId c, engine::SegmentId s) override { return inner_->drop_segment(c, s); }

	Status append_delta(engine::CopyId copy, uint64_t position, const engine::RowBlock &rows) override
	{
		if (out_of_memory)
			return Status::error(StatusCode::kOutOfMemory, "told so");
		return inner_->append_delta(copy, position, rows);
	}

	Status trim_delta(engine::CopyId copy, uint64_t position) override { return inner_->trim_delta(copy, position); }

	Status set_tombstones(engine::CopyId copy, engine::SegmentId segment, std::span<const uint8_t> bits) override
	{
		return inner_->set_tombstones(copy, segment, bits);
	}

	Status set_delta_tombstones(engine::CopyId copy, uint64_t first, std::span<const uint8_t> bits) override
	{
		return inner_->set_delta_tombstones(copy, first, bits);
	}

	bool answers_at_once(engine::CopyId, size_t) const override { return at_once; }

	bool try_append_delta(engine::CopyId copy, uint64_t position, const engine::RowBlock &rows, Status *status) override
	{
		if (at_once)
			*status = append_delta(copy, position, rows);
		return at_once;
	}

	bool computes_elsewhere() const override { return elsewhere; }
	size_t n_batches_at_once() const override { return n_at_once_; }
	Status drop(engine::CopyId copy) override { return inner_->drop(copy); }

	Status search(engine::CopyId copy, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<engine::Neighbor>> *results, engine::SearchControl *control) override
	{
		{
			std::unique_lock lock(mutex_);
			SearchCall &call = calls_.emplace_back();

			call.copy = copy;
			for (const engine::SearchQuery &query : queries)
				call.ks.push_back(query.k);
			n_waiting_++;
			while (!open_ && (deaf || !control->stop))
				changed_.wait_for(lock, std::chrono::milliseconds(5));
			n_waiting_--;
		}
		if (out_of_memory)
			throw std::bad_alloc();
		return inner_->search(copy, queries, results, control);
	}

	Status read_rows(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n, RowId *ids, void *vectors) override
	{
		return inner_->read_rows(copy, segment, first, n, ids, vectors);
	}

	Status read_structure(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n, void *bytes) override
	{
		return inner_->read_structure(copy, segment, first, n, bytes);
	}

	Status read_tombstones(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n, uint8_t *bits) override
	{
		return inner_->read_tombstones(copy, segment, first, n, bits);
	}

	Status check_derived(
		engine::CopyId copy, engine::SegmentId segment, uint64_t first, size_t n, uint64_t *n_different) override
	{
		return inner_->check_derived(copy, segment, first, n, n_different);
	}

	engine::EngineStats stats() const override
	{
		engine::EngineStats stats = inner_->stats();

		stats.budget_bytes = budget;
		return stats;
	}

	uint64_t n_rescored() const override { return inner_->n_rescored(); }

private:
	const size_t n_at_once_;
	std::unique_ptr<engine::Engine> inner_;
	std::mutex mutex_;
	std::condition_variable changed_;
	bool open_ = true;
	size_t n_waiting_ = 0;
	std::vector<SearchCall> calls_;
};

} // namespace vectorgpu::worker_test
