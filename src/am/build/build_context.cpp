// See build_context.hpp.
#include "am/build/build_context.hpp"

#include <cstring>

extern "C"
{
#include "executor/instrument.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
}

namespace vectorgpu::am
{

namespace
{

constexpr uint64 kKeyBufferUsage = kFirstContextKey;
constexpr uint64 kKeyWalUsage = kFirstContextKey + 1;
constexpr uint64 kKeyQueryText = kFirstContextKey + 2;

} // namespace

void
build_context_estimate(ParallelContext *context, int n_workers)
{
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(BufferUsage), n_workers));
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(WalUsage), n_workers));
	shm_toc_estimate_keys(&context->estimator, 2);
	if (debug_query_string != nullptr)
	{
		shm_toc_estimate_chunk(&context->estimator, strlen(debug_query_string) + 1);
		shm_toc_estimate_keys(&context->estimator, 1);
	}
}

void
build_context_store(ParallelContext *context, int n_workers)
{
	shm_toc_insert(
		context->toc, kKeyBufferUsage, shm_toc_allocate(context->toc, mul_size(sizeof(BufferUsage), n_workers)));
	shm_toc_insert(context->toc, kKeyWalUsage, shm_toc_allocate(context->toc, mul_size(sizeof(WalUsage), n_workers)));
	if (debug_query_string != nullptr)
	{
		char *text = static_cast<char *>(shm_toc_allocate(context->toc, strlen(debug_query_string) + 1));

		strcpy(text, debug_query_string);
		shm_toc_insert(context->toc, kKeyQueryText, text);
	}
}

void
build_context_collect(const ParallelContext *context)
{
	BufferUsage *buffer_usage = static_cast<BufferUsage *>(shm_toc_lookup(context->toc, kKeyBufferUsage, false));
	WalUsage *wal_usage = static_cast<WalUsage *>(shm_toc_lookup(context->toc, kKeyWalUsage, false));

	for (int i = 0; i < context->nworkers_launched; i++)
		InstrAccumParallelQuery(&buffer_usage[i], &wal_usage[i]);
}

void
build_context_enter(shm_toc *toc)
{
	debug_query_string = static_cast<const char *>(shm_toc_lookup(toc, kKeyQueryText, true));
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	InstrStartParallelQuery();
}

void
build_context_leave(shm_toc *toc)
{
	BufferUsage *buffer_usage = static_cast<BufferUsage *>(shm_toc_lookup(toc, kKeyBufferUsage, false));
	WalUsage *wal_usage = static_cast<WalUsage *>(shm_toc_lookup(toc, kKeyWalUsage, false));

	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber], &wal_usage[ParallelWorkerNumber]);
}

} // namespace vectorgpu::am
