// The delta of a copy: rows in the order in which they came, by position. They lie in pieces, of which the last one
// grows; where there are more than one, each is as large as pieces may be or has another form than the next. A piece
// holds float32 rows in the narrowest form that holds all of them, and what the filter needs beside them, as sealed
// segments do.
//
// A value: a writer changes a copy of it and, once everything went well, puts it in the place of the old one. Rows that
// were sent and not kept lie behind those that are, and the next ones go over them.
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
	/// What a delta is made of and where.
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

	/// Appends at last(). least: the form of the copy's segments, since a query that one form cannot take goes another
	/// way in all. may_wait false: *waits says whether it would have had to wait or to allocate, and then nothing has
	/// happened.
	Status append(const Place &place, kernels::Form least, const engine::RowBlock &rows, bool may_wait, bool *waits);

	/// Forgets rows before `position`. Beyond last() the delta is empty and goes on there. Waits for what was sent if
	/// memory may go.
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
