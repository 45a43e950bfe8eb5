// The build of one graph that a session has under way: rows come in, a thread of its own makes the graph beside, so
// that the thread of builds goes on answering; then edges, entry points and recall are read in parts.
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

	/// Stops what runs, and waits for that.
	~GraphJob();

	/// Nobody wants it any more: what runs stops as soon as it can, and gives back what it holds. No other call but
	/// ended() behind it.
	void abandon();

	/// Nothing of it runs (any more): it goes without waiting.
	bool ended() const { return !thread_.joinable() || state_.load(std::memory_order_acquire) == State::kEnded; }

	/// Host memory that a build takes.
	static uint64_t bytes_of(engine::Engine &engine, const engine::GraphBuildSpec &spec);
	uint64_t bytes() const { return bytes_; }

	/// One thread at a time.
	wire::ReplyStatus add_rows(const wire::RequestView &view);
	wire::ReplyStatus add_base(const wire::RequestView &view, engine::GraphBasePiece piece);
	wire::ReplyStatus start();
	wire::ReplyStatus read(const wire::ReadBuildRequest &request, std::vector<uint8_t> *bytes) const;

private:
	GraphJob() = default;
	void run();
	wire::GraphBuildState progress() const;

	uint64_t bytes_ = 0;
	uint64_t n_rows_ = 0;         // that have come
	uint64_t n_base_edges_ = 0;   // rows of the graph before whose edges have come ...
	uint64_t n_base_numbers_ = 0; // ... and whose numbers have
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
