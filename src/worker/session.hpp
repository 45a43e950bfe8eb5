// One connected client: its socket, its slot, and its present request. The dispatcher owns the table of sessions and
// alone takes requests. While `busy` is set, the request's fields belong to the thread that works on it. A session is
// freed with its last reference, so that a reply can be written after the client has gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <unistd.h>

#include "wire/codec.hpp"
#include "wire/server.hpp"
#include "worker/queue.hpp"
#include "worker/search_group.hpp"

namespace vectorgpu::worker
{

/// The thread that a request waits for. The request's heartbeat shows that thread's progress.
enum class Stage : uint8_t
{
	kNone = 0,
	kEngine = 1,
	kLoad = 2,
	kBuild = 3,
};

struct Session
{
	Session() = default;
	~Session()
	{
		if (kept_sequence != 0 && kept_total != nullptr)
			kept_total->fetch_sub(kept.size() * sizeof(engine::Neighbor), std::memory_order_relaxed);
		wire::free_slot(&slot);
		if (socket >= 0)
			close(socket);
	}
	Session(const Session &) = delete;
	Session &operator=(const Session &) = delete;

	uint64_t id = 0;
	wire::Role role = wire::Role::kBackend;
	uint32_t pid = 0;
	int socket = -1;
	wire::SlotMemory slot;

	std::atomic<bool> busy{false};
	std::atomic<Stage> stage{Stage::kNone};

	// The request, see above.
	wire::RequestView view;
	uint64_t sequence = 0;
	uint64_t taken_ns = 0;
	Search search;
	std::shared_ptr<SearchGroup> group;              // whose answers are the reply to the last SEARCH_MANY
	std::deque<std::shared_ptr<SearchGroup>> groups; // of SEARCH_MANYs whose answers a further one is to fetch
	std::vector<uint64_t> row_ids;                   // private copy
	std::vector<engine::Neighbor> kept;              // results for NEXT, from `kept_at` on
	size_t kept_at = 0;
	uint64_t kept_sequence = 0; // of their SEARCH; if not 0, they are counted in *kept_total
	std::atomic<uint64_t> *kept_total = nullptr;

	// Used by the dispatcher only.
	bool polled = false; // worker_polls is set
};

} // namespace vectorgpu::worker
