// Copies of kind kSparse: the rows of a segment, and queries.
//
// The description of a segment of n rows, in the order of their ids: uint64 ends [n] of the rows' elements among all
// elements, in bytes, then the elements row by row: int32 indices, then float values (distance/sparse.hpp). A query,
// and a value of the delta (slot_values.hpp), is a uint32 length and that many bytes of elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "engine/distance/sparse.hpp"

namespace vectorgpu::engine
{

/// A segment's rows in host memory. Immutable once checked.
class SparseRows
{
public:
	/// Append to the description of n_rows rows. Throws bad_alloc and changes nothing then.
	void append(uint64_t n_rows, std::span<const uint8_t> bytes);

	/// Check the description after the last append. kInvalidArgument if it is not one of n_rows rows with good vectors.
	Status check(uint64_t n_rows);

	std::span<const uint8_t> bytes() const { return bytes_; }

	// After check().
	uint64_t elements_at() const { return elements_at_; } // in bytes()
	const uint64_t *ends() const { return reinterpret_cast<const uint64_t *>(bytes_.data()); }
	uint64_t start(uint64_t row) const { return row == 0 ? 0 : ends()[row - 1]; }
	SparseVector row(uint64_t row) const
	{
		return sparse_vector(bytes_.data() + elements_at_ + start(row), ends()[row] - start(row));
	}
	/// The least number of dimensions that the rows may have.
	uint32_t dim() const { return dim_; }

private:
	uint64_t elements_at_ = 0;
	uint32_t dim_ = 0;
	std::vector<uint8_t> bytes_;
};

/// Open n_bytes of a stored value, aligned to 4. False if it is malformed.
bool open_sparse(const void *value, size_t n_bytes, SparseVector *vector);

} // namespace vectorgpu::engine
