// The sessions' builds of inverted lists and graphs: the requests of build_messages.hpp. They run on one thread, one
// after the other, so that neither searches nor loading wait for a training. A graph is made on a further thread
// (graph_job.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/interface/list_builder.hpp"
#include "wire/codec.hpp"
#include "worker/graph_job.hpp"
#include "worker/task_thread.hpp"

namespace vectorgpu::worker
{

class BuildJobs
{
public:
	/// graph_budget_bytes: host memory for all builds of graphs together.
	BuildJobs(engine::Engine &engine, uint64_t graph_budget_bytes)
		: engine_(engine), graph_budget_bytes_(graph_budget_bytes)
	{
	}

	/// Throws bad_alloc.
	void start();

	/// Stop the running build as soon as possible; drop waiting requests.
	void stop();

	/// Run `work`, which answers the session's request, on the thread. A session has one request at a time. Any thread.
	/// Throws bad_alloc.
	void push(uint64_t session, std::function<void()> work);

	/// The body of a reply; empty for all requests but ASSIGN.
	struct Answer
	{
		std::vector<uint8_t> bytes; // RowLabel [n_rows], then terms and codes if the lists have them
		uint32_t n_rows = 0;
	};

	/// Any request of build_messages.hpp but READ_BUILD, on the thread. The answer has at most `room` bytes.
	wire::ReplyStatus build(uint64_t session, const wire::RequestView &view, size_t room, Answer *answer);

	/// READ_BUILD, on the thread.
	wire::ReplyStatus read(
		uint64_t session, const wire::ReadBuildRequest &request, size_t room, std::vector<uint8_t> *bytes);

	/// The client no longer waits for the session's request: stop it as soon as possible, or do not begin it. Any
	/// thread.
	void cancel(uint64_t session);

	/// The session has ended. Any thread.
	void closed(uint64_t session);

	/// The state at a caller's last call of progressing().
	struct Seen
	{
		TaskThread::Seen thread;
		uint64_t progress = 0;
	};

	/// As TaskThread::progressing.
	bool progressing(Seen *seen) const;

private:
	struct Job
	{
		std::unique_ptr<engine::ListBuilder> builder; // of lists; else null
		std::unique_ptr<GraphJob> graph;              // of a graph; else null
		std::vector<engine::Neighbor> neighbors;      // read in parts, if has_neighbors
		bool has_neighbors = false;
		uint64_t bytes = 0;           // of host memory, for the builder of lists
		std::vector<uint32_t> labels; // scratch of a batch, as the three below
		std::vector<float> scores;
		std::vector<float> terms;
		std::vector<uint8_t> is_out;
	};

	/// A waiting or running request.
	struct Task
	{
		bool cancelled = false;
	};

	void forget(uint64_t session);
	void begin_task(const Task *task);
	void end_task(uint64_t session, const Task *task);
	bool cancelled() const { return control_.stop.load(std::memory_order_relaxed); }
	wire::ReplyStatus begin_lists(uint64_t session, const wire::BeginListsRequest &spec);
	wire::ReplyStatus begin_graph(uint64_t session, const engine::GraphBuildSpec &spec);
	wire::ReplyStatus graph_request(Job *job, const wire::RequestView &view);
	wire::ReplyStatus list_request(Job *job, const wire::RequestView &view, size_t room, Answer *answer);
	static wire::ReplyStatus begin_codes(Job *job, const wire::BeginCodesRequest &spec);
	static wire::ReplyStatus begin_counts(Job *job, const wire::BeginCountsRequest &spec);
	static wire::ReplyStatus count_request(Job *job, const wire::RequestView &view);
	static wire::ReplyStatus assign(Job *job, const wire::RequestView &view, size_t room, Answer *answer);

	engine::Engine &engine_;
	const uint64_t graph_budget_bytes_;
	std::mutex mutex_; // running_, stopping_, tasks_ and their contents; begin and end of a task, with control_.stop
	engine::SearchControl control_; // of the running task
	const Task *running_ = nullptr;
	bool stopping_ = false;
	std::map<uint64_t, std::shared_ptr<Task>> tasks_; // by session
	std::map<uint64_t, Job> jobs_;                    // by session; used by the thread only
	std::vector<std::unique_ptr<GraphJob>> ending_;   // abandoned, but still running; used by the thread only
	TaskThread thread_;
};

} // namespace vectorgpu::worker
