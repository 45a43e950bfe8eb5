// The copies of an engine: made, found, dropped, and what they give up where memory lacks. Any thread may call; no lock
// is held during work on a copy.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "cuda/context_pool.hpp"
#include "cuda/cuda_engine.hpp"
#include "cuda/passing/key_codes.hpp"
#include "cuda/resident/append_lane.hpp"
#include "cuda/resident/resident_copy.hpp"
#include "cuda/search/ways.hpp"
#include "engine/cpu/thread_pool.hpp"

namespace vectorgpu::cuda
{

class EngineCopies
{
public:
	/// All outlive it. ways: may change until the engine is handed out.
	EngineCopies(const CudaEngineOptions &options, const Ways &ways, Uploader *uploader, AppendLane *lane)
		: options_(options), ways_(ways), uploader_(uploader), lane_(lane)
	{
	}

	/// Call before the first copy is made.
	void set_budget(Budget *budget) { budget_ = budget; }

	/// Make an empty copy. kUnsupported, kInvalidArgument; may throw.
	Status create(const engine::CopySpec &spec, engine::CopyId *copy);

	/// Null if there is none. A copy that is dropped meanwhile lives as long as its pointer.
	std::shared_ptr<ResidentCopy> find(engine::CopyId id) const;

	/// False if there is none.
	bool drop(engine::CopyId id);

	/// Drop all, before the streams go.
	void clear() { copies_.clear(); }

	size_t n_copies() const;
	uint64_t n_scaled_segments() const;

	static size_t rounded_row_bytes(const engine::CopySpec &spec);

	/// What programs over codes of key columns are run with.
	struct ProgramRuns
	{
		ContextPool *contexts;
		std::atomic<uint64_t> *n_programs;
	};

	/// See Engine. May throw.
	Status hold_key_codes(const ResidentCopy &copy, const engine::KeyArea &area, const ProgramRuns &runs,
		std::shared_ptr<engine::KeyCodes> *codes);

	// Free what copies can do without. False if there was nothing.
	bool drop_key_codes();       // of all segments
	bool drop_rounded(bool all); // rounded rows of all copies: the second form of them, or all

private:
	Status make(const engine::CopySpec &spec, std::shared_ptr<ResidentCopy> *made);
	Status make_hashed(const engine::CopySpec &spec, std::shared_ptr<ResidentCopy> *made);
	Status make_sparse(const engine::CopySpec &spec, std::shared_ptr<ResidentCopy> *made);
	Status make_match(const engine::CopySpec &spec, std::shared_ptr<ResidentCopy> *made) const;
	bool holds(engine::CopyKind kind) const;
	engine::ThreadPool *host_pool();

	const CudaEngineOptions &options_;
	const Ways &ways_;
	Uploader *const uploader_;
	AppendLane *const lane_;
	Budget *budget_ = nullptr;
	std::once_flag pool_made_;
	std::unique_ptr<engine::ThreadPool> pool_; // outlives the copies
	mutable std::shared_mutex mutex_;          // all below
	std::map<engine::CopyId, std::shared_ptr<ResidentCopy>> copies_;
	engine::CopyId next_copy_ = 1;
	std::vector<std::weak_ptr<DeviceKeyCodes>> key_codes_; // those that were not dropped
};

} // namespace vectorgpu::cuda
