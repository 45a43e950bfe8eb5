// Codes of a segment's key columns on the device, and programs over them: the rows that pass are found there
// (kernels/select/pass_rows.hpp). They count against the budget, and give way where memory for rows lacks.
#pragma once

#include <atomic>
#include <shared_mutex>
#include <vector>

#include "cuda/context_pool.hpp"
#include "cuda/device/budget.hpp"
#include "cuda/device/uploader.hpp"
#include "engine/interface/key_codes.hpp"

namespace vectorgpu::cuda
{

class DeviceKeyCodes final : public engine::KeyCodes
{
public:
	/// n_programs: incremented by find_rows.
	DeviceKeyCodes(Budget *budget, ContextPool *contexts, Uploader *uploader, std::atomic<uint64_t> *n_programs)
		: budget_(budget), contexts_(contexts), uploader_(uploader), n_programs_(n_programs)
	{
	}

	/// Upload the codes and their zones. kOutOfMemory also if a quarter of the budget would not stay free.
	Status load(const engine::KeyArea &area);

	/// Give the memory back. False if there was none. Waits for find_rows.
	bool drop();

	Status find_rows(const engine::predicate::Program &program, engine::PassingSegment *found) override;
	Status check(const engine::KeyArea &area, uint64_t first, uint64_t n_bytes, uint64_t *n_different) override;

private:
	struct Place // of a stream, in held_
	{
		uint64_t codes;
		uint64_t nulls;
		uint64_t zones;
		uint8_t width;
		bool has_nulls;
	};

	Status find(const engine::predicate::Program &program, engine::PassingSegment *found);
	Status compare(uint64_t at, std::span<const uint8_t> bytes, uint64_t *n_different);
	std::vector<engine::predicate::ColumnCodes> columns() const;
	uint64_t zone_bytes() const;

	Budget *const budget_;
	ContextPool *const contexts_;
	Uploader *const uploader_;
	std::atomic<uint64_t> *const n_programs_;
	std::shared_mutex mutex_; // held_: exclusive to free it
	Held held_;               // the area, then the zones of each stream; empty once they have given way
	std::vector<Place> places_;
	uint64_t area_bytes_ = 0;
	uint32_t n_rows_ = 0;
};

} // namespace vectorgpu::cuda
