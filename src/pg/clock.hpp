// Time that only goes forward, for pauses, deadlines and ages: the wall clock (GetCurrentTimestamp) is set back and
// forth, and what waits for it would then wait for as long as it was set back. PG dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "portability/instr_time.h"
}

namespace vectorgpu::pg
{

/// Milliseconds of CLOCK_MONOTONIC, the same for all processes of the machine since it was started; never 0.
inline uint64
monotonic_ms()
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return static_cast<uint64>(INSTR_TIME_GET_MILLISEC(now)) + 1;
}

} // namespace vectorgpu::pg
