// Pieces of a buffer that was allocated before: the search path allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vectorgpu::cuda
{

constexpr size_t kArenaAlignment = 256;

/// Cuts pieces from a buffer.
class Arena
{
public:
	Arena(void *data, size_t bytes) : data_(static_cast<uint8_t *>(data)), bytes_(bytes) {}

	template <class T>
	T *take(size_t n)
	{
		const size_t bytes = (n * sizeof(T) + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;

		if (bytes > bytes_ - used_)
		{
			failed_ = true;
			return nullptr;
		}

		T *piece = reinterpret_cast<T *>(data_ + used_);

		used_ += bytes;
		return piece;
	}

	size_t left() const { return bytes_ - used_; }
	size_t mark() const { return used_; }
	void release(size_t mark) { used_ = mark; }
	bool failed() const { return failed_; }

private:
	uint8_t *data_;
	size_t bytes_;
	size_t used_ = 0;
	bool failed_ = false;
};

} // namespace vectorgpu::cuda
