// A device that is too small, for tests of the tiered engine: a CPU engine with a limit.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/cpu/cpu_engine.hpp"
#include "engine/held_rows.hpp"
#include "worker/tiers/tiered_engine.hpp"

namespace vectorgpu::worker
{

using namespace engine::test;
using engine::CopyId;
using engine::CopySpec;
using engine::DistanceSpec;
using engine::Neighbor;
using engine::RowBlock;
using engine::SearchQuery;
using engine::SegmentId;

constexpr uint32_t kDim = 16;
constexpr uint64_t kBytesPerRow = kDim * 4 + 16;
constexpr uint64_t kHostRowBytes = kDim * 4 + sizeof(RowId); // of a row that the device reads in host memory

/// Refuses rows beyond `limit`, as a device does. Keeps copies of graphs with codes and of sets in host memory. The
/// structure of a segment counts as on the device if there was room for it at the seal or at attach(). With reads_host
/// rows of lists with codes may lie in host memory.
class SmallDevice final : public engine::Engine
{
public:
	std::atomic<uint64_t> limit{~uint64_t{0}};
	std::atomic<bool> broken_create{false};
	std::atomic<bool> unsupported{false}; // create() fails with kUnsupported
	std::atomic<bool> broken_seal{false};
	std::atomic<bool> unsupported_seal{
		false}; // seal_segment() fails with kUnsupported, as for codes that it cannot scan
	std::atomic<uint64_t> n_searches{0};
	bool reads_host = false;       // set before any copy is made
	std::function<void()> on_read; // called before the next read of rows, as a move makes
	std::function<void()> on_move; // called before the next move of rows to host memory

	const char *name() const override { return "cuda"; }
	const char *description() const override { return "a small device"; }
	Status create(const CopySpec &spec, CopyId *copy) override
	{
		const std::lock_guard guard(lock_);

		if (unsupported)
			return Status::error(StatusCode::kUnsupported, "the device does not hold such copies");
		if (broken_create)
			return full();

		const Status status = inner_->create(spec, copy);

		if (status.is_ok() && keeps_on_host(spec.kind))
			kept_[*copy];
		if (status.is_ok() && may_keep_rows_on_host(spec))
			coded_[*copy].begins = spec.rows_on_host;
		return status;
	}

	Status load_segment(CopyId copy, SegmentId segment, const RowBlock &rows) override
	{
		const std::lock_guard guard(lock_);
		const auto found = coded_.find(copy);

		if (found == coded_.end())
			return kept_.contains(copy) || has_room(rows) ? inner_->load_segment(copy, segment, rows) : full();

		const auto [place, is_new] = found->second.segments.try_emplace(segment);

		if (is_new)
			place->second.on_host = found->second.begins;

		const Status status =
			place->second.on_host || has_room(rows) ? inner_->load_segment(copy, segment, rows) : full();

		if (status.is_ok())
			place->second.n_rows += rows.n_rows;
		else if (is_new)
			found->second.segments.erase(place);
		return status;
	}

	bool may_keep_rows_on_host(const CopySpec &spec) const override
	{
		return reads_host && spec.kind == engine::CopyKind::kCodedLists;
	}

	/// A segment that is being loaded, else the largest that fits.
	Status move_rows_to_host(CopyId copy, uint64_t most_bytes) override
	{
		if (const auto now = std::exchange(on_move, nullptr))
			now();

		const std::lock_guard guard(lock_);
		Coded &coded = coded_.at(copy);
		CodedSegment *chosen = nullptr;
		bool too_large = false;

		for (auto &[id, segment] : coded.segments)
		{
			const bool fits = segment.n_rows * kHostRowBytes <= most_bytes;

			if (segment.on_host || segment.n_rows == 0)
				continue;
			too_large |= !fits;
			if (fits &&
				(chosen == nullptr || (!segment.sealed && chosen->sealed) ||
					(segment.sealed == chosen->sealed && segment.n_rows > chosen->n_rows)))
				chosen = &segment;
		}
		n_moves++;
		if (chosen != nullptr)
			chosen->on_host = true;
		else if (too_large)
			return full();
		else if (std::exchange(coded.begins, true))
			return Status::error(StatusCode::kNotFound, "nothing to move");
		return Status::ok();
	}

	Status seal_segment(CopyId copy, SegmentId segment) override
	{
		const std::lock_guard guard(lock_);

		if (broken_seal)
			return full();
		if (unsupported_seal)
			return Status::error(StatusCode::kUnsupported, "the device does not scan such codes");

		const Status status = inner_->seal_segment(copy, segment);

		if (const auto coded = coded_.find(copy); status.is_ok() && coded != coded_.end())
			coded->second.segments[segment].sealed = true;
		if (const auto found = kept_.find(copy); status.is_ok() && found != kept_.end())
		{
			found->second.segments[segment].sealed = true;
			if (found->second.attached)
				(void) bring(&found->second.segments[segment]);
		}
		return status;
	}

	Status load_structure(CopyId copy, SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		const std::lock_guard guard(lock_);

		if (coded_.contains(copy) && resident_bytes() + bytes.size() > limit)
			return full();

		const Status status = inner_->load_structure(copy, segment, parameter, bytes);

		if (const auto found = kept_.find(copy); status.is_ok() && found != kept_.end())
			found->second.segments[segment].bytes += bytes.size();
		return status;
	}

	bool keeps_on_host(engine::CopyKind kind) const override
	{
		return kind == engine::CopyKind::kHashedGraph || kind == engine::CopyKind::kMatch;
	}

	Status attach(CopyId copy) override
	{
		const std::lock_guard guard(lock_);

		Status status;

		if (const auto found = coded_.find(copy); found != coded_.end())
			return bring_rows(&found->second);
		kept_.at(copy).attached = true;
		for (auto &[id, segment] : kept_.at(copy).segments)
			if (segment.sealed && !bring(&segment))
				status = full();
		return status;
	}

	Status detach(CopyId copy) override
	{
		const std::lock_guard guard(lock_);

		kept_.at(copy).attached = false;
		for (auto &[id, segment] : kept_.at(copy).segments)
			segment.there = false;
		return Status::ok();
	}

	/// Bytes of structures of copies in host memory.
	uint64_t attached_bytes() const
	{
		const std::lock_guard guard(lock_);

		uint64_t bytes = 0;

		for (const auto &[copy, kept] : kept_)
			for (const auto &[id, segment] : kept.segments)
				bytes += segment.there ? segment.bytes : 0;
		return bytes;
	}

	Status read_structure(CopyId copy, SegmentId segment, uint64_t first, size_t n, void *bytes) override
	{
		return inner_->read_structure(copy, segment, first, n, bytes);
	}

	Status read_tombstones(CopyId copy, SegmentId segment, uint64_t first, size_t n, uint8_t *bits) override
	{
		return inner_->read_tombstones(copy, segment, first, n, bits);
	}

	Status check_derived(CopyId copy, SegmentId segment, uint64_t first, size_t n, uint64_t *n_different) override
	{
		return inner_->check_derived(copy, segment, first, n, n_different);
	}

	Status drop_segment(CopyId copy, SegmentId segment) override
	{
		const std::lock_guard guard(lock_);

		if (const auto found = kept_.find(copy); found != kept_.end())
			found->second.segments.erase(segment);
		if (const auto found = coded_.find(copy); found != coded_.end())
			found->second.segments.erase(segment);
		return inner_->drop_segment(copy, segment);
	}

	Status append_delta(CopyId copy, uint64_t position, const RowBlock &rows) override
	{
		const std::lock_guard guard(lock_);

		return kept_.contains(copy) || has_room(rows) ? inner_->append_delta(copy, position, rows) : full();
	}

	Status trim_delta(CopyId copy, uint64_t position) override { return inner_->trim_delta(copy, position); }

	Status set_tombstones(CopyId copy, SegmentId segment, std::span<const uint8_t> bits) override
	{
		return inner_->set_tombstones(copy, segment, bits);
	}

	Status set_delta_tombstones(CopyId copy, uint64_t first, std::span<const uint8_t> bits) override
	{
		return inner_->set_delta_tombstones(copy, first, bits);
	}

	Status drop(CopyId copy) override
	{
		const std::lock_guard guard(lock_);

		kept_.erase(copy);
		coded_.erase(copy);
		return inner_->drop(copy);
	}

	Status search(CopyId copy, std::span<const SearchQuery> queries, std::vector<std::vector<Neighbor>> *results,
		engine::SearchControl *control) override
	{
		n_searches++;
		return inner_->search(copy, queries, results, control);
	}

	Status read_rows(CopyId copy, SegmentId segment, uint64_t first, size_t n, RowId *ids, void *vectors) override
	{
		if (const auto now = std::exchange(on_read, nullptr))
			now();
		return inner_->read_rows(copy, segment, first, n, ids, vectors);
	}

	engine::EngineStats stats() const override
	{
		engine::EngineStats stats = inner_->stats();

		stats.resident_bytes = resident_bytes();
		stats.budget_bytes = limit;
		return stats;
	}

	/// Count the rows as if they were on the device.
	uint64_t host_bytes(CopyId copy) const override
	{
		const std::lock_guard guard(lock_);
		const auto found = coded_.find(copy);

		return found == coded_.end() ? inner_->host_bytes(copy) : moved_bytes(found->second);
	}

	/// Rows of all copies that lie in host memory.
	uint64_t n_moved() const
	{
		const std::lock_guard guard(lock_);
		uint64_t bytes = 0;

		for (const auto &[copy, coded] : coded_)
			bytes += moved_bytes(coded);
		return bytes / kHostRowBytes;
	}

	std::atomic<uint64_t> n_moves{0}; // calls of move_rows_to_host
	uint64_t n_rescored() const override { return inner_->n_rescored(); }

private:
	struct KeptSegment
	{
		uint64_t bytes = 0; // of its structure
		bool sealed = false;
		bool there = false;
	};

	struct Kept
	{
		bool attached = true;
		std::map<SegmentId, KeptSegment> segments;
	};

	struct CodedSegment
	{
		uint64_t n_rows = 0;
		bool on_host = false;
		bool sealed = false;
	};

	struct Coded
	{
		bool begins = false; // new segments begin in host memory
		std::map<SegmentId, CodedSegment> segments;
	};

	static uint64_t moved_bytes(const Coded &coded)
	{
		uint64_t bytes = 0;

		for (const auto &[id, segment] : coded.segments)
			bytes += segment.on_host ? segment.n_rows * kHostRowBytes : 0;
		return bytes;
	}

	Status bring_rows(Coded *coded)
	{
		Status status;

		for (auto &[id, segment] : coded->segments)
			if (segment.on_host && segment.sealed)
			{
				if (resident_bytes() + segment.n_rows * kHostRowBytes <= limit)
					segment.on_host = false;
				else
					status = full();
			}
		if (status.is_ok())
			coded->begins = false;
		return status;
	}

	uint64_t resident_bytes() const
	{
		const std::lock_guard guard(lock_);

		uint64_t bytes = inner_->stats().resident_bytes + attached_bytes();

		for (const auto &[copy, kept] : kept_)
			bytes -= inner_->host_bytes(copy);
		for (const auto &[copy, coded] : coded_)
			bytes -= moved_bytes(coded);
		return bytes;
	}

	bool bring(KeptSegment *segment)
	{
		segment->there = segment->there || resident_bytes() + segment->bytes <= limit;
		return segment->there;
	}

	bool has_room(const RowBlock &rows) const { return resident_bytes() + rows.n_rows * kBytesPerRow <= limit; }
	static Status full() { return Status::error(StatusCode::kOutOfMemory, "the device is full"); }

	std::unique_ptr<engine::Engine> inner_ = engine::make_cpu_engine({});
	mutable std::recursive_mutex lock_; // calls come from any thread; a place is dropped by the last search in it
	std::map<CopyId, Kept> kept_;
	std::map<CopyId, Coded> coded_; // if reads_host
};

inline uint64_t test_now_ns = 1;

inline uint64_t
test_clock()
{
	return test_now_ns;
}

class Tiered : public testing::Test
{
protected:
	Tiered() { make(~uint64_t{0}); }

	void make(uint64_t host_bytes)
	{
		auto device = std::make_unique<SmallDevice>();
		TieredEngineOptions options;

		test_now_ns = 1;
		lines_.clear();
		options.host_bytes = host_bytes;
		options.background = false;
		options.clock = test_clock;
		options.log = [this](const char *line) { lines_.emplace_back(line); };
		device_ = device.get();
		engine_ = make_tiered_engine(std::move(device), engine::make_cpu_engine({}), options);
	}

	/// A copy of all rows as one sealed segment.
	CopyId load(const Rows &rows)
	{
		CopyId copy = 0;

		EXPECT_TRUE(engine_->create(rows.spec, &copy).is_ok());
		EXPECT_TRUE(engine_->load_segment(copy, 1, rows.block()).is_ok());
		EXPECT_TRUE(engine_->seal_segment(copy, 1).is_ok());
		return copy;
	}

	void expect_answers(CopyId copy, const Rows &rows, const std::set<RowId> &dead = {})
	{
		std::mt19937 rng(5);
		Rows queries(rows.spec);
		std::vector<std::vector<Neighbor>> results;

		queries.add_random(3, Data::kGaussian, rng, 0);
		for (size_t i = 0; i < queries.n(); i++)
		{
			const SearchQuery query = {queries.vector(i), 20, false, {}};

			ASSERT_OK(engine_->search(copy, {&query, 1}, &results));
			ASSERT_NO_FATAL_FAILURE(expect_same(results[0], rows.nearest(query.query, 20, nullptr, dead)));
		}
	}

	Rows random_rows(size_t n, unsigned seed)
	{
		std::mt19937 rng(seed);
		Rows rows({Metric::kL2, ElementType::kFloat32, kDim});

		rows.add_random(n, Data::kGaussian, rng, 100);
		return rows;
	}

	void pass_seconds(uint64_t n) { test_now_ns += n * 1000 * 1000 * 1000; }

	std::unique_ptr<TieredEngine> engine_;
	SmallDevice *device_ = nullptr;
	std::vector<std::string> lines_;
};

} // namespace vectorgpu::worker
