// Work beside other work, which is done without it if need be.
#pragma once

#include <exception>
#include <thread>
#include <utility>

namespace vectorgpu::engine
{

/// Run work on a thread of its own, which the result joins; not at all if there is none. What it throws, for want of
/// memory, ends it.
template <class Work>
std::jthread
beside(Work work)
{
	try
	{
		return std::jthread(
			[work = std::move(work)]
			{
				try
				{
					work();
				}
				catch (const std::exception &)
				{
				}
			});
	}
	catch (const std::exception &)
	{
		return {};
	}
}

} // namespace vectorgpu::engine
