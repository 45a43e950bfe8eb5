// The delta of a copy: rows in the order of their arrival, by position. They lie in pieces. Only the last piece grows;
// each other piece has the largest size or another form than the next one. As a sealed segment, a piece holds float32
// rows in the narrowest form that holds all of them, with the values that the filter needs.
//
// A value type: a writer changes a copy of the delta and replaces the old one after success. Rows that were sent and
// not kept lie behind the kept ones, and the next rows overwrite them.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/resident/append_lane.hpp"
#include "cuda/device/block.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

class Delta
{
public:
	/// The rows' type and the resources of a delta.
	struct Place
	{
		engine::DistanceSpec spec;
		Budget *budget;
		AppendLane *lane;
		bool narrow;
	};

	/// Rows [first, first + n_rows) of a piece; `position` of the first of them.
	struct Part
	{
		const Filled *piece;
		uint32_t first;
		uint32_t n_rows;
		uint64_t position;
	};

	uint64_t first() const { return first_; } // first position held
	uint64_t last() const { return last_; }
	AppendLane::Ticket ticket() const { return ticket_; }

	/// Append at last(). least: the narrowest form allowed, that of the copy's segments: a query that one form cannot
	/// take goes another way over all rows. If may_wait is false and the append would have to wait or to allocate,
	/// set *waits and change nothing.
	Status append(const Place &place, kernels::Form least, const engine::RowBlock &rows, bool may_wait, bool *waits);

	/// Forget rows before `position`. Beyond last() the delta becomes empty and continues at `position`. Waits for sent
	/// rows if memory may be freed.
	Status trim(const Place &place, uint64_t position);

	/// The rows held, in order.
	std::vector<Part> parts() const;

private:
	uint64_t n_gone_of_last() const;
	bool can_grow(const Place &place) const;
	Status make_room(const Place &place, kernels::Form form, uint64_t n_rows);
	Status grow(const Place &place, uint64_t n_rows);
	Status send(const Place &place, const engine::RowBlock &rows, uint8_t *slot);

	std::vector<Filled> pieces_;
	uint64_t start_ = 0; // position of the first piece's first row
	uint64_t first_ = 0;
	uint64_t last_ = 0;
	AppendLane::Ticket ticket_ = 0;
};

} // namespace vectorgpu::cuda
