// The times of the steps of the engine's start, for the log.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace vectorgpu::cuda
{

/// Times of the steps of a start. Scans read pages meanwhile, so the log says where the time goes.
class StartTimes
{
public:
	/// End a step; the next one begins.
	void done(const char *part)
	{
		const auto now = std::chrono::steady_clock::now();
		char text[64];

		snprintf(text, sizeof(text), "%s %s %.2f s", line_.empty() ? "the GPU is ready:" : ",", part,
			std::chrono::duration<double>(now - last_).count());
		line_ += text;
		last_ = now;
	}

	const std::string &line() const { return line_; }

private:
	std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
	std::string line_;
};

} // namespace vectorgpu::cuda
