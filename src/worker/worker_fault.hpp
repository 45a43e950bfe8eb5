// Fault points of the worker, for tests. The environment variable VECTORGPU_WORKER_FAULT='name:nth:action' (several
// separated by commas; nth 0: every call) names a point and the action at its nth call: error (the operation fails),
// enomem (bad_alloc), sleep (5 s), exit (immediate _exit), abort, corrupt (the operation damages what it sends).
// Builds without VECTORGPU_FAULTS have no fault points.
#pragma once

namespace vectorgpu::worker
{

enum class Fault : unsigned char
{
	kNone = 0,
	kError = 1,
	kCorrupt = 2,
};

#ifdef VECTORGPU_FAULTS
/// Parse the setting; call this once, before threads start. False: it is malformed.
bool fault_setup(const char *setting);

/// Count a call of the point and do its action. May sleep, throw bad_alloc, or end the process.
Fault fault_hit(const char *name);
Fault fault_hit_no_throw(const char *name); // enomem counts as error
#define WORKER_FAULT(name) (::vectorgpu::worker::fault_hit(name))
#define WORKER_FAULT_NO_THROW(name) (::vectorgpu::worker::fault_hit_no_throw(name))
#else
#define WORKER_FAULT(name) (::vectorgpu::worker::Fault::kNone)
#define WORKER_FAULT_NO_THROW(name) (::vectorgpu::worker::Fault::kNone)
#endif

} // namespace vectorgpu::worker
