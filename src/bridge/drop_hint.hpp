// Tells the supervisor that a transaction has removed relation files (DROP, TRUNCATE, REINDEX, a rewrite), so that
// their copies are dropped at once and not by the next sweep. It is only a hint: a sweep looks at files and needs none.
// PG dialect.
#pragma once

namespace vectorgpu::bridge
{

/// Register the callback. Called once, from _PG_init.
void drop_hint_install();

} // namespace vectorgpu::bridge
