// The result of an operation in code that knows no PostgreSQL (engine, wire, worker): a code and a message, never an
// exception across a thread, process or C border. Each code maps to one SQLSTATE in src/pg.
#pragma once

#include <string>
#include <utility>

namespace vectorgpu
{

enum class StatusCode : unsigned char
{
	kOk = 0,
	kInvalidArgument = 1, // 22023
	kOutOfMemory = 2,     // 53200
	kUnsupported = 3,     // 0A000
	kNotFound = 4,        // a copy that is not resident, a version that is behind
	kCancelled = 5,       // 57014
	kUnavailable = 6,     // 08006
	kInternal = 7,        // XX000
};

struct [[nodiscard]] Status
{
	StatusCode code = StatusCode::kOk;
	std::string message;

	static Status ok() { return {}; }
	static Status error(StatusCode code, std::string message) { return {code, std::move(message)}; }
	bool is_ok() const { return code == StatusCode::kOk; }
};

} // namespace vectorgpu
