// See passing_device.hpp.
#include "cuda/passing/passing_device.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace vectorgpu::cuda
{

DevicePassing
kept_of(const engine::PassingSegment &segment, const Source &source)
{
	const std::shared_ptr<const void> kept = segment.device.get(source.alive);

	DevicePassing found = kept == nullptr ? DevicePassing{} : *static_cast<const DevicePassing *>(kept.get());

	if (found.rows == nullptr)
		found.rows = found_on_device(segment).rows;
	return found;
}

void
keep(const engine::PassingSegment &segment, const Source &source, DevicePassing made)
{
	const DevicePassing kept = kept_of(segment, source);

	if (made.rows == nullptr)
		made.rows = kept.rows;
	if (made.dead == nullptr)
		made.dead = kept.dead;
	segment.device.set(source.alive, std::make_shared<const DevicePassing>(std::move(made)));
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
