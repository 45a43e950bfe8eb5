// The base of copies in host memory: the delta, its tombstones, and the count of bytes held. Segments are the derived
// class's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "engine/copies/published_copy.hpp"
#include "engine/copies/rows_view.hpp"
#include "engine/copies/stored_copy.hpp"

namespace vectorgpu::engine
{

template <class Snapshot, class Segment>
class HostCopy : public PublishedCopy<StoredCopy, Snapshot, Segment>
{
	using Base = PublishedCopy<StoredCopy, Snapshot, Segment>;

public:
	explicit HostCopy(const DistanceSpec &spec) : spec_(spec), delta_(spec, RowList::Kind::kDelta) {}

	const DistanceSpec &spec() const override { return spec_; }
	uint64_t host_bytes() const override { return host_bytes_.load(std::memory_order_relaxed); }

	Status append_delta(uint64_t position, const RowBlock &rows) override
	{
		const std::lock_guard lock(mutex_);

		return append(position, rows);
	}

	/// False if another writer is at work, perhaps for long.
	bool try_append_delta(uint64_t position, const RowBlock &rows, Status *status) override
	{
		const std::unique_lock lock(mutex_, std::try_to_lock);

		if (!lock.owns_lock())
			return false;
		*status = append(position, rows);
		return true;
	}

	Status trim_delta(uint64_t position) override
	{
		const std::lock_guard lock(mutex_);
		const RowList before = delta_; // its chunks are shared

		delta_.trim(position);
		this->publish_or([&] { delta_ = before; });
		return Status::ok();
	}

	Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits) override
	{
		const std::lock_guard lock(mutex_);
		auto dead = std::make_shared<const Bitmap>(bits.begin(), bits.end());
		const uint64_t first_before = std::exchange(delta_dead_first_, first_position);

		delta_dead_.swap(dead);
		this->publish_or(
			[&]
			{
				delta_dead_.swap(dead);
				delta_dead_first_ = first_before;
			});
		return Status::ok();
	}

protected:
	using Base::mutex_;
	using Base::segments_;

	/// Bytes of a segment, for host_bytes().
	virtual uint64_t bytes_of(const Segment &segment) const = 0;

	/// Count what is held anew. Caller holds the mutex.
	void account() override
	{
		uint64_t bytes = delta_.memory_bytes() + (delta_dead_ != nullptr ? delta_dead_->size() : 0);

		for (const auto &[id, segment] : segments_)
			bytes += bytes_of(segment);
		host_bytes_.store(bytes, std::memory_order_relaxed);
	}

	RowsView delta_view() const { return {delta_.view(), delta_dead_, delta_dead_first_, kDeltaSegment, {}, {}}; }
	uint64_t n_delta_rows() const { return delta_.last() - delta_.first(); }

	static Status invalid(const char *message) { return Status::error(StatusCode::kInvalidArgument, message); }
	static Status not_held() { return invalid("rows that are not held"); }

	/// kInvalidArgument if the parts of a block of rows do not fit each other.
	static Status check_rows(const RowBlock &rows, bool with_vectors)
	{
		if (rows.row_ids.size() != rows.n_rows)
			return invalid("the number of row ids differs from the number of rows");
		if (rows.n_rows > 0 && with_vectors && rows.vectors == nullptr)
			return invalid("rows without vectors");
		return Status::ok();
	}

private:
	/// Caller holds the mutex.
	Status append(uint64_t position, const RowBlock &rows)
	{
		if (Status status = check_rows(rows, true); !status.is_ok())
			return status;

		const uint64_t last = delta_.last();

		if (position > last)
			return invalid("the rows leave a gap behind the delta that is held");

		const uint64_t held = last - position;

		if (held >= rows.n_rows)
			return Status::ok();
		delta_.append(rows.row_ids.data() + held,
			static_cast<const uint8_t *>(rows.vectors) + held * delta_.row_bytes(), rows.n_rows - held);
		this->publish_or([&] { delta_.truncate(last); });
		return Status::ok();
	}

	const DistanceSpec spec_;
	RowList delta_;
	std::shared_ptr<const Bitmap> delta_dead_;
	uint64_t delta_dead_first_ = 0;
	std::atomic<uint64_t> host_bytes_{0};
};

} // namespace vectorgpu::engine
