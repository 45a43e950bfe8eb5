// Rows of a resident copy: an append-only list in chunks that never move, so that searches read the rows of their view
// while a writer appends more. Writers are serialised by the copy's mutex; readers hold the chunks by shared_ptr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/copies/populator.hpp"
#include "engine/filter/rounded_rows.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// A fixed number of rows. The writer fills slots from the front; a reader reads only the slots of its view.
class RowChunk
{
public:
	/// Throws bad_alloc. `with_norms`: the metric's filter needs them. rounded_bytes: of a rounded row; 0: none are
	/// kept. `huge_pages`: the chunk will be full soon.
	RowChunk(size_t n_slots, size_t row_bytes, bool with_norms, size_t rounded_bytes, bool huge_pages);
	~RowChunk();
	RowChunk(const RowChunk &) = delete;
	RowChunk &operator=(const RowChunk &) = delete;

	/// Have the kernel make the memory now; the content is unchanged. Any thread.
	void populate() noexcept;

	/// Fill slots [at, at + n) with row_ids [n] and vectors [n, row_bytes].
	void fill(const DistanceSpec &spec, size_t at, const RowId *row_ids, const uint8_t *vectors, size_t n);

	/// [n_slots]
	const RowId *row_ids() const { return row_ids_; }

	/// [n_slots, row_bytes]
	const uint8_t *vectors() const { return vectors_; }

	/// [n_slots], Σ x², or null
	const double *square_norms() const { return square_norms_; }

	/// [n_slots], or null: no rounded rows
	const Rounding *roundings() const { return roundings_; }

	/// Of a chunk with rounded rows: whether all rows so far are exact in bytes, 0 ... 255, or in binary16.
	bool all_bytes() const { return all_bytes_; }
	bool all_halves() const { return all_halves_; }

	/// The rounded row of a slot [rounded_bytes].
	const int8_t *rounded(size_t slot) const { return rounded_ + slot * rounded_bytes_; }

private:
	size_t row_bytes_;
	size_t rounded_bytes_;
	void *memory_; // one mapping has all of them
	size_t memory_bytes_;
	RowId *row_ids_;
	double *square_norms_;
	uint8_t *vectors_;
	Rounding *roundings_;
	int8_t *rounded_;
	bool all_bytes_ = true; // whole numbers 0 ... 255
	bool all_halves_ = true;
};

/// Rows [first, last) of a list, for a reader. Keeps the chunks alive.
struct RowListView
{
	std::vector<std::shared_ptr<const RowChunk>> chunks;
	uint64_t chunk_start = 0; // position of the first chunk's first slot
	uint64_t first = 0;
	uint64_t last = 0;
	size_t chunk_rows = 1; // slots per chunk

	/// The row at a position in [first, last).
	RowId row_id(uint64_t position) const
	{
		const uint64_t slot = position - chunk_start;

		return chunks[slot / chunk_rows]->row_ids()[slot % chunk_rows];
	}

	const uint8_t *vector(uint64_t position, size_t row_bytes) const
	{
		const uint64_t slot = position - chunk_start;

		return chunks[slot / chunk_rows]->vectors() + slot % chunk_rows * row_bytes;
	}
};

/// Positions count from 0 when the list is made; trim() forgets the first ones.
class RowList
{
public:
	enum class Kind
	{
		kSegment, // grows fast and becomes long
		kDelta,   // grows row by row, and its view is copied each time
	};

	/// populator: makes the memory of a segment's next chunk ahead; null: none. with_vectors: false for row ids alone.
	/// rounded: rounded rows are kept beside; the specification `rounds`.
	RowList(const DistanceSpec &spec, Kind kind, Populator *populator = nullptr, bool with_vectors = true,
		bool rounded = false);

	uint64_t first() const { return first_; }
	uint64_t last() const { return last_; }

	/// Append n rows at last(). Throws bad_alloc and changes nothing then.
	void append(const RowId *row_ids, const uint8_t *vectors, size_t n);

	/// Free the chunk that was made ahead: no row will be appended any more.
	void finish() { spare_ = nullptr; }

	/// Forget rows before `position`. Beyond last() the list becomes empty and continues at `position`.
	void trim(uint64_t position);

	/// Take back the rows appended since last() was `last`. No view has them.
	void truncate(uint64_t last) { last_ = last; }

	RowListView view() const { return {chunks_, chunk_start_, first_, last_, chunk_rows_}; }

	/// Bytes of a row's vector.
	size_t row_bytes() const { return row_bytes_; }

	uint64_t memory_bytes() const { return (last_ - first_) * slot_bytes_; }

private:
	std::shared_ptr<RowChunk> next_chunk();

	DistanceSpec spec_;
	Kind kind_;
	Populator *populator_;
	size_t row_bytes_;
	bool with_norms_;
	size_t rounded_bytes_;
	size_t chunk_rows_;
	size_t slot_bytes_;
	std::vector<std::shared_ptr<const RowChunk>> chunks_; // copied by views
	std::vector<std::shared_ptr<RowChunk>> writable_;     // the same chunks
	std::shared_ptr<RowChunk> spare_;                     // of a segment: the next chunk, if it was made ahead
	uint64_t chunk_start_ = 0;
	uint64_t first_ = 0;
	uint64_t last_ = 0;
};

} // namespace vectorgpu::engine
