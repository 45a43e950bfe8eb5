// A monotonic clock, for pauses, deadlines and ages. The wall clock (GetCurrentTimestamp) may be set back, and a wait
// that depends on it would then last longer by that much. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "portability/instr_time.h"
}

namespace vectorgpu::pg
{

/// Return milliseconds of CLOCK_MONOTONIC, which all processes of the machine share; never 0.
inline uint64
monotonic_ms()
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return static_cast<uint64>(INSTR_TIME_GET_MILLISEC(now)) + 1;
}

} // namespace vectorgpu::pg
