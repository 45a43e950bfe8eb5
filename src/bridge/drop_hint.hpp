// Tells the supervisor that a transaction has removed relation files (DROP, TRUNCATE, REINDEX, a rewrite), so that
// copies of them go at once and not with the next sweep. A hint and no more: the sweep looks at files, and finds what
// no hint told of. PG dialect.
#pragma once

namespace vectorgpu::bridge
{

/// Registers the callback. Called once, from _PG_init.
void drop_hint_install();

} // namespace vectorgpu::bridge
