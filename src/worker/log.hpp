// One-line messages on standard error, which the server writes to its log. Any thread.
#pragma once

#include <cstdarg>
#include <cstdio>

#include <unistd.h>

namespace vectorgpu::worker
{

/// Write "vectorgpu worker [pid]: message" in one write call.
__attribute__((format(printf, 1, 2))) inline void
log_line(const char *format, ...)
{
	char line[512];
	int length = snprintf(line, sizeof(line), "vectorgpu worker [%d]: ", static_cast<int>(getpid()));
	va_list arguments;

	va_start(arguments, format);
	length += vsnprintf(line + length, sizeof(line) - static_cast<size_t>(length) - 1, format, arguments);
	va_end(arguments);
	if (length > static_cast<int>(sizeof(line)) - 2)
		length = static_cast<int>(sizeof(line)) - 2;
	line[length++] = '\n';
	// A failed write is ignored: the worker continues without a log.
	[[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, static_cast<size_t>(length));
}

} // namespace vectorgpu::worker
