// Parts of a build's results, for READ_BUILD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "wire/build_messages.hpp"

namespace vectorgpu::worker
{

/// Copy the requested part of a result [n_bytes] to *bytes. kInvalid: it is not inside the result. Throws bad_alloc.
inline wire::ReplyStatus
copy_part(const void *data, size_t n_bytes, const wire::ReadBuildRequest &request, std::vector<uint8_t> *bytes)
{
	if (request.first > n_bytes || request.n_bytes > n_bytes - request.first)
		return wire::ReplyStatus::kInvalid;
	bytes->resize(request.n_bytes);
	memcpy(bytes->data(), static_cast<const uint8_t *>(data) + request.first, request.n_bytes);
	return wire::ReplyStatus::kOk;
}

} // namespace vectorgpu::worker
