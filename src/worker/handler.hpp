// Parses a request and passes it to the thread that answers it. Called by the dispatcher.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "engine/interface/engine.hpp"
#include "worker/batcher.hpp"
#include "worker/build_jobs.hpp"
#include "worker/clock.hpp"
#include "worker/counters.hpp"
#include "worker/options.hpp"
#include "worker/reply.hpp"
#include "worker/residency/residency.hpp"
#include "worker/session.hpp"
#include "worker/task_thread.hpp"

namespace vectorgpu::worker
{

class Handler
{
public:
	Handler(const Options &options, engine::Engine &engine, Clock clock);

	void start();
	void stop();

	/// Handle the request of `length` bytes that was just taken from the session's slot (busy is set). It is answered
	/// before this returns, or later by another thread; a SEARCH goes into the caller's round.
	void handle(const std::shared_ptr<Session> &session, size_t length, Round *round);

	/// The client no longer waits for the session's request.
	void cancel(const std::shared_ptr<Session> &session);

	/// The session has ended: cancel its search, end its leases.
	void closed(const std::shared_ptr<Session> &session);

	/// change: 1 or -1.
	void count_session(int change) { n_sessions_.fetch_add(static_cast<uint64_t>(change), std::memory_order_relaxed); }
	uint64_t n_sessions() const { return n_sessions_.load(std::memory_order_relaxed); }

	Batcher &batcher() { return batcher_; }
	TaskThread &loader() { return loader_; }
	BuildJobs &builds() { return builds_; }
	wire::EngineKind engine_kind() const;

private:
	using SessionPtr = std::shared_ptr<Session>;

	void dispatch(const SessionPtr &session, Round *round);
	void search(const SessionPtr &session, Round *round);
	void find_and_submit(const SessionPtr &session, Round *round);
	wire::ReplyStatus set_search(const SessionPtr &session, const wire::RequestView &view, Search *search);
	void submit(Search *search, Round *round);
	void search_many(const SessionPtr &session, Round *round);
	wire::ReplyStatus add_group(const SessionPtr &session, Round *round);
	bool takes_more(const Session &session) const;
	static void mark_last(const Session &session);
	void forget_groups(Session *session);
	bool finish_part(Session *session, SearchGroup *group, const Search &search, const wire::ReplyHeader &header,
		std::vector<engine::Neighbor> *rows);
	void store_group(Session *session, SearchGroup *group);
	void send_group(Session *session, SearchGroup *group);
	void cancel_many(const SessionPtr &session);
	engine::RowBlock own_rows(Session *session, uint32_t n_rows);
	void searched(std::span<Search *const> searches, const Status &status,
		std::vector<std::vector<engine::Neighbor>> *results, const BatchInfo &info);
	bool answer(Session *session, SearchGroup *group, const Search &search, const Status &status,
		std::vector<engine::Neighbor> *result, const BatchInfo &info);
	void store_rows(Session *session, ReplyBody *body, std::vector<engine::Neighbor> *result, const BatchInfo &info);
	void next(const SessionPtr &session);
	void describe(const SessionPtr &session);
	void stats(const SessionPtr &session);
	void inventory(const SessionPtr &session);
	void on_loader(const SessionPtr &session, std::function<void()> work);
	wire::ReplyStatus load(const SessionPtr &session);
	void create(const SessionPtr &session);
	void manifest(const SessionPtr &session);
	void checksum(const SessionPtr &session);
	void build(const SessionPtr &session);
	void read_build(const SessionPtr &session);

	const Options &options_;
	engine::Engine &engine_;
	const Clock clock_;
	const uint64_t started_ns_;
	std::atomic<uint64_t> n_sessions_{0};
	Counters counters_;
	Residency residency_;
	TaskThread loader_;
	BuildJobs builds_;
	Batcher batcher_; // last, since its thread uses the members above
};

} // namespace vectorgpu::worker
