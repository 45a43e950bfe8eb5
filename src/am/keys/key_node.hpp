// Nodes of a predicate in the current memory context. PG dialect.
#pragma once

#include "pg/postgres.hpp"

#include "engine/predicate/tree.hpp"

namespace vectorgpu::am
{

inline engine::predicate::Node *
key_node(const engine::predicate::Node &node)
{
	auto *copy = static_cast<engine::predicate::Node *>(palloc(sizeof(engine::predicate::Node)));

	*copy = node;
	return copy;
}

} // namespace vectorgpu::am
