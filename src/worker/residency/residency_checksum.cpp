// Checksums of a copy's data, read back from the engine. See residency.hpp.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "worker/residency/residency_parts.hpp"

namespace vectorgpu::worker
{

using wire::ReplyStatus;

namespace
{

constexpr size_t kChecksumBlockBytes = 1024 * 1024;

} // namespace

/// The checksum of the description of a segment's structure.
ReplyStatus
Residency::structure_checksum(const Copy &copy, const wire::ChecksumRequest &request, wire::ChecksumReply *reply,
	const std::function<void()> &progress)
{
	std::vector<uint8_t> bytes(std::min<uint64_t>(kChecksumBlockBytes, request.n_rows));
	XXH3_state_t sum;

	XXH3_64bits_reset(&sum);
	for (uint64_t done = 0; done < request.n_rows;)
	{
		const size_t n = std::min<uint64_t>(bytes.size(), request.n_rows - done);
		const Status status = engine_.read_structure(copy.id, request.segment, request.first + done, n, bytes.data());

		if (!status.is_ok())
			return reply_status(status);
		XXH3_64bits_update(&sum, bytes.data(), n);
		done += n;
		progress();
	}
	*reply = {0, XXH3_64bits_digest(&sum), 0, 0, 0};
	return ReplyStatus::kOk;
}

/// The checksum of bytes of a segment's area of codes, which are compared with those on the device, or of the codes of
/// rows of the delta.
ReplyStatus
Residency::key_checksum(const Copy &copy, const wire::ChecksumRequest &request, wire::ChecksumReply *reply)
{
	const bool delta = request.segment == 0;
	std::vector<uint8_t> bytes;

	if (copy.keys == nullptr)
		return ReplyStatus::kInvalid;
	bytes.resize(request.n_rows * (delta ? copy.keys->image_bytes() : 1));
	if (!(delta ? copy.keys->read_delta(request.first, request.n_rows, bytes.data())
				: copy.keys->read_area(request.segment, request.first, request.n_rows, bytes.data())))
		return ReplyStatus::kInvalid;

	uint64_t n_different = 0;

	if (!delta)
		if (const Status status = copy.keys->check_held(request.segment, request.first, request.n_rows, &n_different);
			!status.is_ok())
			return reply_status(status);
	*reply = {0, XXH3_64bits(bytes.data(), bytes.size()), 0, 0, n_different};
	return ReplyStatus::kOk;
}

ReplyStatus
Residency::checksum(const wire::CopyKey &key, const wire::ChecksumRequest &request, wire::ChecksumReply *reply,
	const std::function<void()> &progress)
{
	std::shared_ptr<Copy> copy;

	{
		const std::lock_guard lock(mutex_);

		copy = lookup(key);
	}
	if (copy == nullptr)
		return ReplyStatus::kAbsent;
	if (request.n_rows >
		wire::kMaxChecksumBytes / (request.structure != 0 && request.segment != 0 ? 1 : copy->delta_row_bytes()))
		return ReplyStatus::kInvalid;
	if (request.structure == 2)
		return key_checksum(*copy, request, reply);
	if (request.structure != 0)
		return structure_checksum(*copy, request, reply, progress);

	const size_t row_bytes = request.segment == 0 ? copy->row_bytes : copy->segment_row_bytes;
	const size_t block_rows =
		std::max<size_t>(8, kChecksumBlockBytes / copy->row_bytes / 8 * 8); // whole bytes of tombstones
	std::vector<RowId> row_ids(std::min<uint64_t>(block_rows, request.n_rows));
	std::vector<uint8_t> vectors(row_ids.size() * row_bytes);
	Bits dead((row_ids.size() + 7) / 8);
	XXH3_state_t id_state;
	XXH3_state_t vector_state;
	XXH3_state_t dead_state;

	*reply = {};
	XXH3_64bits_reset(&id_state);
	XXH3_64bits_reset(&vector_state);
	XXH3_64bits_reset(&dead_state);
	for (uint64_t done = 0; done < request.n_rows;)
	{
		const uint64_t first = request.first + done;
		const size_t n = std::min<uint64_t>(block_rows, request.n_rows - done);
		uint64_t n_different = 0;
		Status status = engine_.read_rows(copy->id, request.segment, first, n, row_ids.data(), vectors.data());

		if (status.is_ok())
			status = engine_.read_tombstones(copy->id, request.segment, first, n, dead.data());
		if (status.is_ok())
			status = engine_.check_derived(copy->id, request.segment, first, n, &n_different);
		if (!status.is_ok())
			return reply_status(status);
		XXH3_64bits_update(&id_state, row_ids.data(), n * sizeof(RowId));
		XXH3_64bits_update(&vector_state, vectors.data(), n * row_bytes);
		XXH3_64bits_update(&dead_state, dead.data(), (n + 7) / 8);
		reply->n_dead += count_range(dead, 0, n);
		reply->n_different += n_different;
		done += n;
		progress();
	}
	reply->row_ids_xxh3 = XXH3_64bits_digest(&id_state);
	reply->vectors_xxh3 = XXH3_64bits_digest(&vector_state);
	reply->dead_xxh3 = XXH3_64bits_digest(&dead_state);
	return ReplyStatus::kOk;
}

} // namespace vectorgpu::worker
