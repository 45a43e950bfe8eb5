// The end of a benchmark whose step has failed.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace vectorgpu::test
{

/// Print the message of a Status or an Outcome and exit with status 1, unless it is a success. what: begins the line.
template <class Result>
void
must(const Result &result, const char *what = program_invocation_short_name)
{
	if (result.is_ok())
		return;
	std::fprintf(stderr, "%s: %s\n", what, std::string(result.message).c_str());
	std::exit(1);
}

} // namespace vectorgpu::test
