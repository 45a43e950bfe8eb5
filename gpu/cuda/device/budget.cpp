// See budget.hpp.
#include "cuda/device/budget.hpp"

namespace vectorgpu::cuda
{

Status
Budget::take(uint64_t bytes)
{
	const uint64_t before = used_.fetch_add(bytes, std::memory_order_relaxed);

	if (most_ != 0 && before + bytes > most_)
	{
		give(bytes);
		return Status::error(StatusCode::kOutOfMemory, "the budget of device memory is used up");
	}
	return Status::ok();
}

void
Held::reset() noexcept
{
	const size_t bytes = buffer_.bytes(); // of host memory: none

	buffer_.reset();
	host_.reset();
	if (budget_ != nullptr)
		budget_->give(bytes);
	budget_ = nullptr;
}

Status
Held::allocate(const Device *device, Budget *budget, size_t bytes, const char *purpose)
{
	reset();
	if (budget != nullptr)
		VECTORGPU_TRY(budget->take(bytes));
	if (Status status = buffer_.allocate(device, bytes, purpose); !status.is_ok())
	{
		if (budget != nullptr)
			budget->give(bytes);
		return status;
	}
	budget_ = budget;
	return Status::ok();
}

Status
Held::allocate_on_host(const Device *device, size_t bytes, const char *purpose)
{
	reset();
	return host_.allocate(device, bytes, purpose);
}

Status
Held::allocate_pinned(const Device *device, size_t bytes, const char *purpose)
{
	reset();
	return host_.allocate_pinned(device, bytes, purpose);
}

} // namespace vectorgpu::cuda
