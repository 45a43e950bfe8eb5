// The base of copies whose host's part is a copy of the CPU engine, which searches whatever the device has no part of.
#pragma once

#include <memory>

#include "cuda/device/uploader.hpp"
#include "cuda/resident/device_codes.hpp"
#include "cuda/resident/host_backed_copy.hpp"
#include "engine/cpu/cpu_engine_copy.hpp"
#include "engine/cpu/thread_pool.hpp"

namespace vectorgpu::cuda
{

/// Made, Part: as HostBackedCopy has them.
template <class Made, class Part>
class CpuBackedCopy : public HostBackedCopy<engine::CpuCopy, Made, const Part>
{
public:
	/// pool: of the host's threads. The pointers outlive the copy.
	CpuBackedCopy(const engine::CopySpec &spec, Budget *budget, Uploader *uploader, engine::ThreadPool *pool)
		: HostBackedCopy<engine::CpuCopy, Made, const Part>(spec), budget_(budget), uploader_(uploader), pool_(pool)
	{
	}

	Status prepare_segment(engine::SegmentId segment) override
	{
		const std::lock_guard writing(this->device_mutex_);

		return prepare(segment);
	}

	Status seal_segment(engine::SegmentId segment) override
	{
		const std::lock_guard writing(this->device_mutex_);

		VECTORGPU_TRY(prepare(segment));
		return this->host_.seal_segment(segment);
	}

	Status drop_segment(engine::SegmentId segment) override
	{
		const std::lock_guard writing(this->device_mutex_);

		VECTORGPU_TRY(this->host_.drop_segment(segment));
		this->forget(segment);
		return Status::ok();
	}

protected:
	/// Return what the device's part of a prepared segment is made of; null if there is none.
	virtual std::shared_ptr<const Made> made_of(engine::SegmentId segment) const = 0;

	/// Add to *n_different the bytes from `at` on of the device's memory that differ from the host's. Caller holds the
	/// uploader's mutex.
	Status compare(const Held &held, size_t at, const void *host, size_t n_bytes, uint64_t *n_different) const
	{
		return count_different(budget_->device(), uploader_, held.as<uint8_t>() + at,
			static_cast<const uint8_t *>(host), n_bytes, n_different);
	}

	Budget *const budget_;
	Uploader *const uploader_;
	engine::ThreadPool *const pool_;

private:
	/// Caller holds device_mutex_.
	Status prepare(engine::SegmentId segment)
	{
		VECTORGPU_TRY(this->host_.prepare_segment(segment));
		return this->take_prepared(segment, made_of(segment));
	}
};

} // namespace vectorgpu::cuda
