// Shared by the tests of the worker's copies: what the worker says of a copy, and whether it answers from a version.
#pragma once

#include "worker/support.hpp"

namespace vectorgpu::worker_test
{

struct WorkerCopies : testing::Test
{
	DataDirectory directory;

	wire::CopyInfo info(Client *client, const CopyKey &key)
	{
		const wire::InventoryRequest request{0, 0};
		const Answer answer = exchange(client, RequestType::kInventory, CopyKey{}, {part_of(request)});
		wire::CopyInfo found{};

		for (uint32_t i = 0; i < answer.header.n_items; i++)
		{
			memcpy(&found, answer.body.data() + i * sizeof(found), sizeof(found));
			if (memcmp(&found.key, &key, sizeof(key)) == 0)
				return found;
		}
		return {};
	}

	ReplyStatus try_search(Client *client, const Table &table, const wire::CopyVersion &version)
	{
		std::vector<Neighbor> found;

		return search(client, table, table.query(1), 3, &found, version).status();
	}
};

} // namespace vectorgpu::worker_test
