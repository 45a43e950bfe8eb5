// See sparse_rows.hpp.
#include "engine/copies/sparse_rows.hpp"

#include <algorithm>
#include <cstring>

namespace vectorgpu::engine
{
namespace
{

Status
invalid(const char *message)
{
	return Status::error(StatusCode::kInvalidArgument, message);
}

} // namespace

void
SparseRows::append(uint64_t n_rows, std::span<const uint8_t> bytes)
{
	const uint64_t ends_bytes = n_rows * sizeof(uint64_t);
	const size_t before = bytes_.size();

	// The last end comes with these bytes and tells the size. Growing by doubling would take twice the memory.
	if (n_rows > 0 && before < ends_bytes && before + bytes.size() >= ends_bytes)
	{
		uint8_t last[sizeof(uint64_t)];
		uint64_t elements;

		for (size_t i = 0; i < sizeof(last); i++) // it may have come in two pieces
		{
			const size_t at = ends_bytes - sizeof(last) + i;

			last[i] = at < before ? bytes_[at] : bytes[at - before];
		}
		std::memcpy(&elements, last, sizeof(elements));
		if (elements <= n_rows * kMostSparseBytes)
			bytes_.reserve(ends_bytes + elements);
	}
	bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Status
SparseRows::check(uint64_t n_rows)
{
	const uint64_t ends_bytes = n_rows * sizeof(uint64_t);

	if (n_rows > UINT32_MAX || bytes_.size() < ends_bytes ||
		(n_rows > 0 && bytes_.size() - ends_bytes != ends()[n_rows - 1]))
		return invalid("the segment's sparse vectors are incomplete");
	elements_at_ = ends_bytes;
	dim_ = 0;
	for (uint64_t i = 0; i < n_rows; i++)
	{
		if (ends()[i] < start(i) || ends()[i] > bytes_.size() - ends_bytes || ends()[i] - start(i) > kMostSparseBytes ||
			(ends()[i] - start(i)) % kSparseElementBytes != 0)
			return invalid("the ends of the segment's sparse vectors are out of order");

		const SparseVector vector = row(i);

		if (sparse_fault(vector, kMaxSparseDimensions) != nullptr)
			return invalid("the segment has a bad sparse vector");
		if (vector.n > 0)
			dim_ = std::max(dim_, static_cast<uint32_t>(vector.indices[vector.n - 1]) + 1);
	}
	return Status::ok();
}

bool
open_sparse(const void *value, size_t n_bytes, SparseVector *vector)
{
	uint32_t length;

	if (n_bytes < sizeof(length))
		return false;
	std::memcpy(&length, value, sizeof(length));
	if (length > n_bytes - sizeof(length) || length > kMostSparseBytes || length % kSparseElementBytes != 0)
		return false;
	*vector = sparse_vector(static_cast<const uint8_t *>(value) + sizeof(length), length);
	return sparse_fault(*vector, kMaxSparseDimensions) == nullptr;
}

} // namespace vectorgpu::engine
