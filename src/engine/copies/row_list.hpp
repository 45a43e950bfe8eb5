// Rows of a resident copy: an append-only list in chunks that never move, so that searches read the rows they know of
// while a writer adds more behind them. Writers are serialised by the copy's mutex; readers hold the chunks by
// shared_ptr.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/copies/populator.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::engine
{

/// A fixed number of rows. The writer fills slots from the front; a reader looks only at slots it was told of.
class RowChunk
{
public:
	/// Throws bad_alloc. `with_norms`: the metric's filter needs them. `huge_pages`: it will be full soon.
	RowChunk(size_t n_slots, size_t row_bytes, bool with_norms, bool huge_pages);
	~RowChunk();
	RowChunk(const RowChunk &) = delete;
	RowChunk &operator=(const RowChunk &) = delete;

	/// Has the kernel make the memory now, and changes nothing of what is in it. Any thread.
	void populate() noexcept;

	/// Fills slots [at, at + n) with row_ids [n] and vectors [n, row_bytes].
	void fill(const DistanceSpec &spec, size_t at, const RowId *row_ids, const uint8_t *vectors, size_t n);

	/// [n_slots]
	const RowId *row_ids() const { return row_ids_; }

	/// [n_slots, row_bytes]
	const uint8_t *vectors() const { return vectors_; }

	/// [n_slots], Σ x², or null
	const double *square_norms() const { return square_norms_; }

private:
	size_t row_bytes_;
	void *memory_; // one mapping has all three
	size_t memory_bytes_;
	RowId *row_ids_;
	double *square_norms_;
	uint8_t *vectors_;
};

/// Rows [first, last) of a list, for a reader: keeps its chunks alive.
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
		kSegment, // grows fast and to a great length
		kDelta,   // grows row by row, and its view is copied at each
	};

	/// populator: makes the memory of the chunk that a segment will need next; null: nobody does. with_vectors: false
	/// for row ids alone.
	RowList(const DistanceSpec &spec, Kind kind, Populator *populator = nullptr, bool with_vectors = true);

	uint64_t first() const { return first_; }
	uint64_t last() const { return last_; }

	/// Appends n rows at last(). Throws bad_alloc, then the list is as before.
	void append(const RowId *row_ids, const uint8_t *vectors, size_t n);

	/// Nothing more will be appended: lets go of what was made for it.
	void finish() { spare_ = nullptr; }

	/// Forgets rows before `position`. Beyond last() the list is empty and goes on there.
	void trim(uint64_t position);

	/// Takes back what was appended since last() was `last`: nobody has been told of it.
	void truncate(uint64_t last) { last_ = last; }

	RowListView view() const { return {chunks_, chunk_start_, first_, last_, chunk_rows_}; }

	/// Of a row's vector.
	size_t row_bytes() const { return row_bytes_; }

	uint64_t memory_bytes() const { return (last_ - first_) * slot_bytes_; }

private:
	std::shared_ptr<RowChunk> next_chunk();

	DistanceSpec spec_;
	Kind kind_;
	Populator *populator_;
	size_t row_bytes_;
	bool with_norms_;
	size_t chunk_rows_;
	size_t slot_bytes_;
	std::vector<std::shared_ptr<const RowChunk>> chunks_; // what views copy
	std::vector<std::shared_ptr<RowChunk>> writable_;     // the same chunks
	std::shared_ptr<RowChunk> spare_; // of a segment: the chunk that comes next, if it was made ahead
	uint64_t chunk_start_ = 0;
	uint64_t first_ = 0;
	uint64_t last_ = 0;
};

} // namespace vectorgpu::engine
