// The build of one session's graph: rows arrive, then a further thread builds the graph while the thread of builds
// continues to answer; then edges, entry points and recall are read in parts.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "engine/interface/engine.hpp"
#include "engine/interface/graph_builder.hpp"
#include "wire/codec.hpp"

namespace vectorgpu::worker
{

class GraphJob
{
public:
	/// What to ask the engine for.
	static engine::GraphBuildSpec engine_spec(const wire::BeginGraphRequest &spec);
	static engine::GraphBuildSpec engine_spec(const wire::BeginInsertRequest &spec);

	/// Throws bad_alloc.
	static wire::ReplyStatus make(
		engine::Engine &engine, const engine::GraphBuildSpec &spec, std::unique_ptr<GraphJob> *job);

	/// Stop the build and wait for its thread.
	~GraphJob();

	/// The result is not wanted: the build stops as soon as possible and frees its memory. After this only ended() may
	/// be called.
	void abandon();

	/// Return true if the build does not run: the destructor then waits for no more than the rows that go to a GPU.
	bool ended() const { return !thread_.joinable() || state_.load(std::memory_order_acquire) == State::kEnded; }

	/// Return the host memory of a build.
	static uint64_t bytes_of(engine::Engine &engine, const engine::GraphBuildSpec &spec);
	uint64_t bytes() const { return bytes_; }

	/// One thread at a time.
	wire::ReplyStatus add_rows(const wire::RequestView &view);
	/// control: progress of the reading, and its end.
	wire::ReplyStatus add_pages(const wire::RequestView &view, engine::SearchControl *control);
	wire::ReplyStatus add_base(const wire::RequestView &view, engine::GraphBasePiece piece);
	wire::ReplyStatus start();
	wire::ReplyStatus read(const wire::ReadBuildRequest &request, std::vector<uint8_t> *bytes) const;

private:
	GraphJob() = default;
	void run();
	wire::GraphBuildState progress() const;

	uint64_t bytes_ = 0;
	uint64_t n_rows_ = 0;         // received
	uint64_t n_base_edges_ = 0;   // rows of the base whose edges were received
	uint64_t n_base_numbers_ = 0; // rows of the base whose numbers were received
	engine::SearchControl control_;
	std::unique_ptr<engine::GraphBuilder> builder_;
	wire::ReplyStatus outcome_ = wire::ReplyStatus::kOk; // when it has ended
	enum class State
	{
		kOpen,
		kAbandoned, // while it ran
		kEnded,
	};
	std::atomic<State> state_{State::kOpen};
	std::thread thread_;
};

} // namespace vectorgpu::worker
