// The base of copies that are in host memory as a whole and have a part of each segment on the device as well. A
// segment without that part, for want of room or while the copy is detached, is searched by the host.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "cuda/resident/resident_copy.hpp"

namespace vectorgpu::cuda
{

/// Host: the copy in host memory. Made: what it makes of a segment once all of the segment has come. Part: what the
/// device holds of a segment; its `made` is what it was made of.
template <class Host, class Made, class Part>
class HostBackedCopy : public ResidentCopy
{
public:
	const engine::DistanceSpec &spec() const override { return host_.spec(); }
	uint64_t host_bytes() const override { return host_.host_bytes(); }

	Status load_segment(engine::SegmentId segment, const engine::RowBlock &rows) override
	{
		return host_.load_segment(segment, rows);
	}
	Status load_structure(engine::SegmentId segment, uint32_t parameter, std::span<const uint8_t> bytes) override
	{
		return host_.load_structure(segment, parameter, bytes);
	}
	Status prepare_segment(engine::SegmentId segment) override { return host_.prepare_segment(segment); }
	Status seal_segment(engine::SegmentId segment) override { return host_.seal_segment(segment); }
	Status drop_segment(engine::SegmentId segment) override { return host_.drop_segment(segment); }
	Status append_delta(uint64_t position, const engine::RowBlock &rows) override
	{
		return host_.append_delta(position, rows);
	}
	bool try_append_delta(uint64_t position, const engine::RowBlock &rows, Status *status) override
	{
		return host_.try_append_delta(position, rows, status);
	}
	Status trim_delta(uint64_t position) override { return host_.trim_delta(position); }
	Status set_tombstones(engine::SegmentId segment, std::span<const uint8_t> bits) override
	{
		return host_.set_tombstones(segment, bits);
	}
	Status set_delta_tombstones(uint64_t first_position, std::span<const uint8_t> bits) override
	{
		return host_.set_delta_tombstones(first_position, bits);
	}
	Status read_rows(
		engine::SegmentId segment, uint64_t first, size_t n_rows, RowId *row_ids, void *vectors) const override
	{
		return host_.read_rows(segment, first, n_rows, row_ids, vectors);
	}
	Status read_structure(engine::SegmentId segment, uint64_t first, size_t n_bytes, void *bytes) const override
	{
		return host_.read_structure(segment, first, n_bytes, bytes);
	}
	Status read_tombstones(engine::SegmentId segment, uint64_t first, size_t n_rows, uint8_t *bits) const override
	{
		return host_.read_tombstones(segment, first, n_rows, bits);
	}

	/// Upload what is missing on the device; segments prepared later are uploaded too. The first failure, after all
	/// segments were tried: a smaller one may fit where a larger one does not.
	Status attach() override
	{
		const std::lock_guard writing(device_mutex_);
		Status status;

		attached_ = true;
		for (const auto &[id, made] : prepared_)
			if (Status uploaded = bring(id, made); !uploaded.is_ok() && status.is_ok())
				status = std::move(uploaded);
		return status;
	}

	Status detach() override
	{
		const std::lock_guard writing(device_mutex_);
		std::map<engine::SegmentId, std::shared_ptr<Part>> gone; // freed after the lock
		const std::lock_guard lock(mutex_);

		attached_ = false;
		gone.swap(parts_);
		return Status::ok();
	}

protected:
	template <class... Args>
	explicit HostBackedCopy(Args &&...args) : host_(std::forward<Args>(args)...)
	{
	}

	/// Upload the device's part of a prepared segment, which is not there, and put_part() it. made: not null. Caller
	/// holds device_mutex_.
	virtual Status upload(engine::SegmentId id, const std::shared_ptr<const Made> &made) = 0;

	/// All of a segment has come. The host searches it if the device has no room for it or refuses it; the failure of a
	/// lost device is returned. Caller holds device_mutex_.
	Status take_prepared(engine::SegmentId id, const std::shared_ptr<const Made> &made)
	{
		prepared_[id] = made;
		if (!attached_)
			return Status::ok();

		const Status status = bring(id, made);

		return status.code == StatusCode::kOutOfMemory || status.code == StatusCode::kInternal ? Status::ok() : status;
	}

	/// The segment was dropped. Caller holds device_mutex_.
	void forget(engine::SegmentId id)
	{
		prepared_.erase(id);
		(void) take_part(id);
	}

	/// Return the device's part of a segment, or null. made: if it is given, only the part that was made of it.
	std::shared_ptr<Part> find_part(engine::SegmentId id, const Made *made = nullptr) const
	{
		const std::lock_guard lock(mutex_);
		const auto found = parts_.find(id);

		return found == parts_.end() || (made != nullptr && found->second->made.get() != made) ? nullptr
																							   : found->second;
	}

	void put_part(engine::SegmentId id, std::shared_ptr<Part> part)
	{
		const std::lock_guard lock(mutex_);

		parts_[id].swap(part); // the old one is freed after the lock
	}

	/// Return the device's part of a segment and keep it no longer. Searches may hold it.
	std::shared_ptr<Part> take_part(engine::SegmentId id)
	{
		const std::lock_guard lock(mutex_);
		const auto found = parts_.find(id);
		std::shared_ptr<Part> part;

		if (found != parts_.end())
		{
			part = std::move(found->second);
			parts_.erase(found);
		}
		return part;
	}

	Host host_;
	std::mutex device_mutex_;  // writers of the device's parts: held across uploads, taken before mutex_
	mutable std::mutex mutex_; // parts_
	std::map<engine::SegmentId, std::shared_ptr<Part>> parts_;

private:
	/// Caller holds device_mutex_.
	Status bring(engine::SegmentId id, const std::shared_ptr<const Made> &made)
	{
		return made == nullptr || find_part(id, made.get()) != nullptr ? Status::ok() : upload(id, made);
	}

	std::map<engine::SegmentId, std::shared_ptr<const Made>> prepared_; // under device_mutex_, as the next one
	bool attached_ = true;
};

} // namespace vectorgpu::cuda
