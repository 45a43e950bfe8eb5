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
	/// graph_budget_bytes: host memory that builds of graphs may take, all together.
	BuildJobs(engine::Engine &engine, uint64_t graph_budget_bytes)
		: engine_(engine), graph_budget_bytes_(graph_budget_bytes)
	{
	}

	/// Throws bad_alloc.
	void start();

	/// What runs stops as soon as it can, what waits is dropped.
	void stop();

	/// Runs work, which answers the session's request, on the thread. Any thread. A session asks for one thing at a
	/// time. Throws bad_alloc.
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

	/// Nobody waits for what the session has asked for: it stops as soon as it can, or is not begun. Any thread.
	void cancel(uint64_t session);

	/// The session is over. Any thread.
	void closed(uint64_t session);

	/// What a caller of progressing() saw the last time.
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
		std::unique_ptr<engine::ListBuilder> builder; // of lists,
		std::unique_ptr<GraphJob> graph;              // or a graph
		std::vector<engine::Neighbor> neighbors;      // read in parts, when there
		bool has_neighbors = false;
		uint64_t bytes = 0;           // of host memory, that the builder of lists may take
		std::vector<uint32_t> labels; // scratch, of a batch
		std::vector<float> scores;
		std::vector<float> terms;
		std::vector<uint8_t> is_out;
	};

	/// A request that waits or runs.
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
	static wire::ReplyStatus graph_request(Job *job, const wire::RequestView &view);
	wire::ReplyStatus list_request(Job *job, const wire::RequestView &view, size_t room, Answer *answer);
	static wire::ReplyStatus begin_codes(Job *job, const wire::BeginCodesRequest &spec);
	static wire::ReplyStatus assign(Job *job, const wire::RequestView &view, size_t room, Answer *answer);

	engine::Engine &engine_;
	const uint64_t graph_budget_bytes_;
	std::mutex
		mutex_; // running_, stopping_, tasks_ and what is in them; who ends or begins a task, and control_.stop with it
	engine::SearchControl control_; // of the task that runs
	const Task *running_ = nullptr;
	bool stopping_ = false;
	std::map<uint64_t, std::shared_ptr<Task>> tasks_; // by session
	std::map<uint64_t, Job> jobs_;                    // by session; the thread's
	std::vector<std::unique_ptr<GraphJob>> ending_;   // nobody's any more, but they have not noticed yet; the thread's
	TaskThread thread_;
};

} // namespace vectorgpu::worker
