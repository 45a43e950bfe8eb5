// Tells the supervisor that an index was dropped, so that its copy goes at once and not with the next sweep. A hint and no
// more: the sweep looks at files, and finds what no hint told of. PG dialect.
#pragma once

#include "pg/postgres.hpp"

namespace vectorgpu::bridge
{

/// Puts the hook in. is_ours: true if an access method is one of the extension's. Called once, from _PG_init.
void drop_hint_install(bool (*is_ours)(Oid access_method));

} // namespace vectorgpu::bridge
