// See budget.hpp.
#include "cuda/budget.hpp"

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

Held::~Held()
{
	if (budget_ != nullptr)
		budget_->give(buffer_.bytes());
}

Status
Held::allocate(Budget *budget, size_t bytes, const char *purpose)
{
	VECTORGPU_TRY(budget->take(bytes));
	if (Status status = buffer_.allocate(budget->device(), bytes, purpose); !status.is_ok())
	{
		budget->give(bytes);
		return status;
	}
	budget_ = budget;
	return Status::ok();
}

} // namespace vectorgpu::cuda
