// See engine_copies.hpp.
#include "cuda/engine_copies.hpp"

#include <algorithm>

#include "common/cores.hpp"
#include "common/limits.hpp"
#include "cuda/resident/device_copy.hpp"
#include "cuda/resident/device_hashed_copy.hpp"
#include "cuda/resident/device_match_copy.hpp"
#include "cuda/resident/device_sparse_copy.hpp"
#include "engine/copies/match_delta.hpp"

namespace vectorgpu::cuda
{
namespace
{

constexpr size_t kMostHostThreads = 16;              // that judge rows found by codes or bounds
constexpr uint64_t kMostKeyRows = uint64_t{1} << 31; // of a segment: the kernels' numbers of rows are 32 bits

} // namespace

Status
EngineCopies::create(const engine::CopySpec &spec, engine::CopyId *copy)
{
	std::shared_ptr<ResidentCopy> made;

	VECTORGPU_TRY(make(spec, &made));

	const std::unique_lock lock(mutex_);

	copies_.emplace(next_copy_, std::move(made));
	*copy = next_copy_++;
	return Status::ok();
}

std::shared_ptr<ResidentCopy>
EngineCopies::find(engine::CopyId id) const
{
	const std::shared_lock lock(mutex_);
	const auto found = copies_.find(id);

	return found == copies_.end() ? nullptr : found->second;
}

bool
EngineCopies::drop(engine::CopyId id)
{
	std::shared_ptr<ResidentCopy> dropped; // freed after the lock
	const std::unique_lock lock(mutex_);
	const auto found = copies_.find(id);

	if (found == copies_.end())
		return false;
	dropped = std::move(found->second);
	copies_.erase(found);
	return true;
}

size_t
EngineCopies::n_copies() const
{
	const std::shared_lock lock(mutex_);

	return copies_.size();
}

uint64_t
EngineCopies::n_scaled_segments() const
{
	const std::shared_lock lock(mutex_);
	uint64_t n = 0;

	for (const auto &[id, copy] : copies_)
		n += copy->n_scaled_segments();
	return n;
}

size_t
EngineCopies::rounded_row_bytes(const engine::CopySpec &spec)
{
	return DeviceCopy::rounded_row_bytes(spec);
}

Status
EngineCopies::hold_key_codes(const ResidentCopy &copy, const engine::KeyArea &area, const ProgramRuns &runs,
	std::shared_ptr<engine::KeyCodes> *codes)
{
	if (!ways_.holds_keys || area.n_rows < ways_.least_key_rows || area.n_rows == 0 || area.n_rows > kMostKeyRows ||
		!copy.takes_passing())
		return Status::error(StatusCode::kUnsupported, "the host finds the rows that pass");

	auto made = std::make_shared<DeviceKeyCodes>(budget_, runs.contexts, uploader_, runs.n_programs);

	VECTORGPU_TRY(made->load(area));

	const std::unique_lock lock(mutex_);

	std::erase_if(key_codes_, [](const auto &held) { return held.expired(); });
	key_codes_.push_back(made);
	*codes = std::move(made);
	return Status::ok();
}

bool
EngineCopies::drop_key_codes()
{
	std::vector<std::weak_ptr<DeviceKeyCodes>> all;
	bool dropped = false;

	{
		const std::unique_lock lock(mutex_);

		all.swap(key_codes_);
	}
	for (const std::weak_ptr<DeviceKeyCodes> &held : all)
		if (const std::shared_ptr<DeviceKeyCodes> codes = held.lock(); codes != nullptr)
			dropped |= codes->drop();
	return dropped;
}

bool
EngineCopies::drop_rounded(bool all)
{
	std::vector<std::shared_ptr<ResidentCopy>> copies;
	bool dropped = false;

	{
		const std::shared_lock lock(mutex_);

		for (const auto &[id, copy] : copies_)
			copies.push_back(copy);
	}
	for (const std::shared_ptr<ResidentCopy> &copy : copies)
		dropped |= copy->drop_rounded(all);
	return dropped;
}

Status
EngineCopies::make(const engine::CopySpec &spec, std::shared_ptr<ResidentCopy> *made)
{
	const engine::DistanceSpec &distance = spec.distance;
	const uint32_t most = distance.element == ElementType::kBit ? kMaxBitDimensions : kMaxDimensions;

	if (spec.kind == engine::CopyKind::kMatch)
		return make_match(spec, made);
	if (spec.kind == engine::CopyKind::kSparse)
		return make_sparse(spec, made);
	if (!engine::metric_supports(distance.metric, distance.element))
		return Status::error(StatusCode::kUnsupported, "the element type does not have the metric");
	if (distance.dim < 1 || distance.dim > most)
		return Status::error(StatusCode::kInvalidArgument, "the number of dimensions is out of range");
	if (spec.kind == engine::CopyKind::kHashedGraph)
		return make_hashed(spec, made);
	if (!holds(spec.kind))
		return Status::error(StatusCode::kUnsupported, "the CUDA engine does not hold such copies");
	if (distance.element == ElementType::kBit && spec.kind != engine::CopyKind::kRows &&
		!(spec.kind == engine::CopyKind::kGraph && ways_.holds_bit_graphs))
		return Status::error(StatusCode::kUnsupported, "the CUDA engine does not hold such copies of bits");
	*made = std::make_shared<DeviceCopy>(spec, budget_, uploader_, lane_,
		RowForms{options_.narrow, options_.rounded, ways_.scaled, ways_.both_roundings, ways_.scaled_least_bytes,
			options_.rows_on_host});
	return Status::ok();
}

Status
EngineCopies::make_hashed(const engine::CopySpec &spec, std::shared_ptr<ResidentCopy> *made)
{
	if (spec.distance.element == ElementType::kBit || !engine::graph::codes_support(spec.distance.metric))
		return Status::error(StatusCode::kUnsupported, "the metric has no angles");
	if (!ways_.holds_hashed)
		return Status::error(StatusCode::kUnsupported, "graphs are not searched by codes on this GPU");
	*made = std::make_shared<DeviceHashedCopy>(spec, budget_, uploader_, host_pool());
	return Status::ok();
}

Status
EngineCopies::make_sparse(const engine::CopySpec &spec, std::shared_ptr<ResidentCopy> *made)
{
	if (spec.distance.element != ElementType::kSet || !engine::sparse_metric(spec.distance.metric))
		return Status::error(StatusCode::kUnsupported, "sparse vectors do not have the metric");
	if (!ways_.holds_sparse)
		return Status::error(StatusCode::kUnsupported, "sparse vectors are not compared on this GPU");
	if (spec.distance.dim < sizeof(uint32_t) || spec.distance.dim > kMaxDimensions)
		return Status::error(StatusCode::kInvalidArgument, "the size of a slot is out of range");
	*made = std::make_shared<DeviceSparseCopy>(spec, budget_, uploader_, host_pool());
	return Status::ok();
}

Status
EngineCopies::make_match(const engine::CopySpec &spec, std::shared_ptr<ResidentCopy> *made) const
{
	if (spec.distance.element != ElementType::kSet || !engine::match_metric(spec.distance.metric))
		return Status::error(StatusCode::kUnsupported, "matches are counted in sets only");
	if (!ways_.holds_matches)
		return Status::error(StatusCode::kUnsupported, "matches are not counted on this GPU");
	if (spec.distance.dim < sizeof(uint32_t) || spec.distance.dim > kMaxDimensions)
		return Status::error(StatusCode::kInvalidArgument, "the size of a slot is out of range");
	*made = std::make_shared<DeviceMatchCopy>(spec, budget_);
	return Status::ok();
}

/// True if copies of this kind lie in device memory.
bool
EngineCopies::holds(engine::CopyKind kind) const
{
	return kind == engine::CopyKind::kRows || kind == engine::CopyKind::kLists ||
		(kind == engine::CopyKind::kGraph && ways_.holds_graphs) || (engine::has_codes(kind) && ways_.holds_codes);
}

/// The host's threads that judge rows found by the device; made for the first copy that needs them.
engine::ThreadPool *
EngineCopies::host_pool()
{
	std::call_once(pool_made_,
		[this] { pool_ = std::make_unique<engine::ThreadPool>(std::min<size_t>(count_cores(), kMostHostThreads)); });
	return pool_.get();
}

} // namespace vectorgpu::cuda
