// See null_engine.hpp.
#include "worker/null_engine.hpp"

#include <atomic>

namespace vectorgpu::worker
{
namespace
{

using engine::CopyId;
using engine::Neighbor;
using engine::SegmentId;

class NullEngine final : public engine::Engine
{
public:
	const char *name() const override { return "null"; }

	Status create(const engine::CopySpec &, CopyId *copy) override
	{
		*copy = ++n_created_;
		return Status::ok();
	}

	Status load_segment(CopyId copy, SegmentId, const engine::RowBlock &) override
	{
		has_rows_[copy % kCopies].store(true, std::memory_order_relaxed);
		return Status::ok();
	}

	Status load_structure(CopyId, SegmentId, uint32_t, std::span<const uint8_t>) override { return Status::ok(); }
	Status seal_segment(CopyId, SegmentId) override { return Status::ok(); }
	Status drop_segment(CopyId, SegmentId) override { return Status::ok(); }
	Status append_delta(CopyId copy, uint64_t, const engine::RowBlock &rows) override
	{
		return load_segment(copy, 1, rows);
	}
	Status trim_delta(CopyId, uint64_t) override { return Status::ok(); }
	Status set_tombstones(CopyId, SegmentId, std::span<const uint8_t>) override { return Status::ok(); }
	Status set_delta_tombstones(CopyId, uint64_t, std::span<const uint8_t>) override { return Status::ok(); }
	Status drop(CopyId) override { return Status::ok(); }

	/// Return rows (0, 1), (1, 1), … with scores 0, 1, …, starting after `after` if it is set. A copy that never
	/// received a row has none.
	Status search(CopyId copy, std::span<const engine::SearchQuery> queries,
		std::vector<std::vector<Neighbor>> *results, engine::SearchControl *control) override
	{
		results->resize(queries.size());
		for (size_t i = 0; i < queries.size(); i++)
		{
			const uint32_t first = queries[i].has_after ? row_id_block(queries[i].after.row) + 1 : 0;
			std::vector<Neighbor> &result = (*results)[i];

			if (queries[i].coverage != nullptr)
				*queries[i].coverage = engine::Coverage::kAll;
			result.resize(has_rows_[copy % kCopies].load(std::memory_order_relaxed) ? queries[i].k : 0);
			for (size_t j = 0; j < result.size(); j++)
				result[j] = {static_cast<double>(first + j), make_row_id(static_cast<uint32_t>(first + j), 1)};
		}
		if (control != nullptr)
			control->progress.fetch_add(1, std::memory_order_relaxed);
		n_searches_.fetch_add(queries.size(), std::memory_order_relaxed);
		n_batches_.fetch_add(1, std::memory_order_relaxed);
		return Status::ok();
	}

	Status read_rows(CopyId, SegmentId, uint64_t, size_t, RowId *, void *) override
	{
		return Status::error(StatusCode::kUnsupported, "the null engine keeps no rows");
	}

	Status read_structure(CopyId, SegmentId, uint64_t, size_t, void *) override
	{
		return Status::error(StatusCode::kUnsupported, "the null engine keeps no structure");
	}

	Status read_tombstones(CopyId, SegmentId, uint64_t, size_t, uint8_t *) override
	{
		return Status::error(StatusCode::kUnsupported, "the null engine keeps no tombstones");
	}

	Status check_derived(CopyId, SegmentId, uint64_t, size_t, uint64_t *) override
	{
		return Status::error(StatusCode::kUnsupported, "the null engine derives nothing");
	}

	bool try_append_delta(CopyId copy, uint64_t, const engine::RowBlock &rows, Status *status) override
	{
		*status = load_segment(copy, 1, rows);
		return true;
	}

	bool answers_at_once(CopyId, size_t) const override { return true; }

	engine::EngineStats stats() const override
	{
		engine::EngineStats stats;

		stats.n_searches = n_searches_.load(std::memory_order_relaxed);
		stats.n_batches = n_batches_.load(std::memory_order_relaxed);
		return stats;
	}

	uint64_t n_rescored() const override { return 0; }

private:
	static constexpr size_t kCopies = 1024; // a benchmark uses a few

	std::atomic<bool> has_rows_[kCopies]{};
	std::atomic<uint64_t> n_created_{0};
	std::atomic<uint64_t> n_searches_{0};
	std::atomic<uint64_t> n_batches_{0};
};

} // namespace

std::unique_ptr<engine::Engine>
make_null_engine()
{
	return std::make_unique<NullEngine>();
}

} // namespace vectorgpu::worker
