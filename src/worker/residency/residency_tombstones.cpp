// Tombstones. See residency.hpp. The order is that of residency_write.cpp.
#include "worker/residency/residency_parts.hpp"

#include <utility>

namespace vectorgpu::worker
{

using wire::ReplyStatus;

ReplyStatus
Residency::tombstones(
	const wire::CopyKey &key, const wire::TombstonesRequest &request, std::span<const uint8_t> bits, uint64_t session)
{
	std::shared_ptr<Copy> copy;
	const ReplyStatus status = writable(key, session, true, &copy);

	if (status != ReplyStatus::kOk)
		return status;
	if (WORKER_FAULT("tombstones") == Fault::kError)
		return ReplyStatus::kInternal;

	const std::lock_guard writing(copy->write_mutex);

	return request.segment == 0 ? delta_tombstones(copy.get(), request, bits)
								: segment_tombstones(copy.get(), request, bits);
}

/// Collect bits until the last part; then their union with the old bitmap takes effect. So no row revives, in whichever
/// order several clients send their views. The caller holds the write mutex.
ReplyStatus
Residency::segment_tombstones(Copy *copy, const wire::TombstonesRequest &request, std::span<const uint8_t> bits)
{
	const auto found = copy->segments.find(request.segment);

	if (found == copy->segments.end() || !found->second.complete)
		return ReplyStatus::kInvalid;

	Segment &segment = found->second;

	if (request.first_bit == 0)
	{
		segment.arriving.clear();
		segment.next_bit = 0;
	}
	if (request.first_bit != segment.next_bit || request.n_bits > segment.n_rows - request.first_bit)
		return ReplyStatus::kInvalid;
	segment.arriving.insert(segment.arriving.end(), bits.begin(), bits.end());
	segment.next_bit = request.first_bit + request.n_bits;
	if (request.last == 0)
		return ReplyStatus::kOk;
	if (segment.next_bit != segment.n_rows)
		return ReplyStatus::kInvalid;

	Bits dead = std::move(segment.arriving);

	segment.arriving = Bits();
	segment.next_bit = 0;
	if (segment.n_rows % 8 != 0)
		dead.back() = static_cast<uint8_t>(dead.back() & ((1 << (segment.n_rows % 8)) - 1));
	for (size_t i = 0; i < segment.dead.size(); i++)
		dead[i] = static_cast<uint8_t>(dead[i] | segment.dead[i]);
	if (segment.live && segment.n_rows > 0)
	{
		const Status status = engine_.set_tombstones(copy->id, request.segment, dead);

		if (!status.is_ok())
			return reply_status(status);
	}

	const uint64_t n_dead = count_bits(dead);
	const std::lock_guard lock(mutex_);

	segment.dead = std::move(dead);
	segment.n_dead = n_dead;
	segment.tombstone_generation = std::max(segment.tombstone_generation, request.generation);
	return ReplyStatus::kOk;
}

/// Each part takes effect at once. Rows that were merged away are skipped. The caller holds the write mutex.
ReplyStatus
Residency::delta_tombstones(Copy *copy, const wire::TombstonesRequest &request, std::span<const uint8_t> bits)
{
	const uint64_t last = request.first_bit + request.n_bits;
	Bits dead = copy->delta_dead;
	uint64_t n_dead = 0;

	if (last > copy->version.delta_end)
		return ReplyStatus::kInvalid;
	dead.resize(std::max<uint64_t>(dead.size(), (copy->version.delta_end - copy->delta_dead_first + 7) / 8));
	for (uint64_t i = 0; i < request.n_bits; i++)
	{
		const uint64_t number = request.first_bit + i;

		if (((bits[i / 8] >> (i % 8)) & 1) == 0 || number < copy->delta_first)
			continue;
		n_dead += test_bit(dead, number - copy->delta_dead_first) ? 0 : 1;
		set_bit(&dead, number - copy->delta_dead_first);
	}
	if (n_dead > 0)
	{
		const Status status = engine_.set_delta_tombstones(copy->id, copy->delta_dead_first, dead);

		if (!status.is_ok())
			return reply_status(status);
	}

	const std::lock_guard lock(mutex_);

	copy->delta_dead = std::move(dead);
	copy->delta_n_dead += n_dead;
	if (request.last != 0)
		copy->delta_tombstone_generation = std::max(copy->delta_tombstone_generation, request.generation);
	return ReplyStatus::kOk;
}

} // namespace vectorgpu::worker
