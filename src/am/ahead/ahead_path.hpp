// The planner's side of `Vectorgpu Read Ahead`: a hook that puts the node on the outer side of nested loops whose inner
// side is a search by one of our indexes. PG dialect.
#pragma once

namespace vectorgpu::am
{

/// Define the setting and install the hook. Called once, from _PG_init.
void ahead_path_install();

/// Register the plan's methods, by which parallel workers find them. Called once, from _PG_init.
void ahead_node_install();

} // namespace vectorgpu::am
