// See passing_device.hpp.
#include "cuda/passing/passing_device.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/predicate/row_bits.hpp"

namespace vectorgpu::cuda
{

DevicePassing
kept_of(const Device *device, const engine::PassingSegment &segment, const Source &source)
{
	const std::shared_ptr<const void> kept = segment.device.get(device, source.alive);

	DevicePassing found = kept == nullptr ? DevicePassing{} : *static_cast<const DevicePassing *>(kept.get());

	if (found.rows == nullptr)
		found.rows = found_on_device(segment).rows;
	return found;
}

void
keep(const Device *device, const engine::PassingSegment &segment, const Source &source, DevicePassing made)
{
	const DevicePassing kept = kept_of(device, segment, source);

	if (made.rows == nullptr)
		made.rows = kept.rows;
	if (made.dead == nullptr)
	{
		made.dead = kept.dead;
		made.lists = kept.lists;
		made.packed = kept.packed;
	}
	segment.device.set(device, source.alive, std::make_shared<const DevicePassing>(std::move(made)));
}

Status
list_on_device(const SearchCall &call, Budget *budget, const engine::PassingSegment &segment, const Source &source,
	std::shared_ptr<const Held> *rows)
{
	*rows = kept_of(call.device, segment, source).rows;
	if (*rows != nullptr)
		return Status::ok();

	const size_t bytes = segment.n_pass * sizeof(uint32_t);
	auto made = std::make_shared<Held>();
	std::vector<uint32_t> listed;

	if (!made->allocate(budget, bytes, "rows that pass").is_ok())
		return Status::ok();
	if (!segment.listed)
	{
		listed.resize(segment.n_pass);
		if (engine::predicate::list_rows(segment.bits.data(), segment.n_rows, listed.data(), listed.size()) !=
			listed.size())
			return Status::error(StatusCode::kInvalidArgument, "fewer rows pass than were counted");
	}

	const std::vector<uint32_t> &from = segment.listed ? segment.rows : listed;

	VECTORGPU_TRY(send_through(call, made->as<uint8_t>(), {reinterpret_cast<const uint8_t *>(from.data()), bytes}));
	*rows = made;
	keep(call.device, segment, source, {std::move(made), nullptr, nullptr, nullptr});
	return Status::ok();
}

Status
send_through(const SearchCall &call, uint8_t *to, std::span<const uint8_t> bytes)
{
	const PinnedBuffer &pinned = call.context->pinned_in;

	while (!bytes.empty())
	{
		const size_t here = std::min(bytes.size(), pinned.bytes());

		std::memcpy(pinned.get(), bytes.data(), here);
		VECTORGPU_TRY(call.check(
			cudaMemcpyAsync(to, pinned.get(), here, cudaMemcpyHostToDevice, call.stream()), "send rows that pass"));
		VECTORGPU_TRY(call.context->stream.synchronize());
		to += here;
		bytes = bytes.subspan(here);
	}
	return Status::ok();
}

} // namespace vectorgpu::cuda
