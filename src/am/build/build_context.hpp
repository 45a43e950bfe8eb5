// What each parallel context of a build has besides its own state: counts of buffers and WAL, the text of the query. PG
// dialect.
#pragma once

#include "pg/postgres.hpp"

extern "C"
{
#include "access/parallel.h"
#include "storage/shm_toc.h"
}

namespace vectorgpu::am
{

constexpr uint64 kFirstContextKey = 100; // keys of the table of contents below it are the caller's

/// Count the memory for n_workers, before InitializeParallelDSM, and put it there afterwards.
void build_context_estimate(ParallelContext *context, int n_workers);
void build_context_store(ParallelContext *context, int n_workers);

/// Add up the workers' counts, when they have ended.
void build_context_collect(const ParallelContext *context);

/// In a worker: begin to work, and to count; end both.
void build_context_enter(shm_toc *toc);
void build_context_leave(shm_toc *toc);

} // namespace vectorgpu::am
