// Shared by the files of the handler: exceptions become statuses.
#pragma once

#include <exception>
#include <new>

#include "wire/messages.hpp"

namespace vectorgpu::worker
{

/// Run `work` and turn an exception into a status.
template <class Work>
wire::ReplyStatus
guarded(Work work)
{
	try
	{
		return work();
	}
	catch (const std::bad_alloc &)
	{
		return wire::ReplyStatus::kOutOfMemory;
	}
	catch (const std::exception &)
	{
		return wire::ReplyStatus::kInternal;
	}
}

} // namespace vectorgpu::worker
