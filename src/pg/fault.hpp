// Fault points for tests. VG_FAULT("name") does nothing in release builds. Under VECTORGPU_FAULTS it counts its calls,
// and acts at the nth call if the superuser GUC vectorgpu.fault = 'name:nth:action' (several separated by commas) names
// it. Actions: error (ERRCODE_INTERNAL_ERROR), sleep (5 s, interruptible), lock (wait until no session holds
// pg_advisory_lock(1); only in a transaction and where no page is locked), exit (immediate _exit of the process),
// enomem (ERRCODE_OUT_OF_MEMORY), corrupt (return true: the caller damages its data). May ereport: PG dialect only.
#pragma once

#ifdef VECTORGPU_FAULTS
namespace vectorgpu::pg
{
bool fault_hit(const char *name);

/// Define vectorgpu.fault; called by _PG_init.
void fault_define_guc();
} // namespace vectorgpu::pg
#define VG_FAULT(name) (::vectorgpu::pg::fault_hit(name))
#else
#define VG_FAULT(name) (false)
#endif
