// See graph_job.hpp.
#include "worker/graph_job.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "worker/builds/page_reader.hpp"
#include "worker/worker_fault.hpp"
#include "worker/residency/residency.hpp"
#include "worker/result_part.hpp"

namespace vectorgpu::worker
{

using wire::GraphBuildStage;
using wire::ReplyStatus;

namespace
{

static_assert(static_cast<uint32_t>(engine::GraphStage::kFailed) == static_cast<uint32_t>(GraphBuildStage::kFailed) &&
	static_cast<uint32_t>(engine::GraphStage::kRecall) == static_cast<uint32_t>(GraphBuildStage::kRecall));

} // namespace

engine::GraphBuildSpec
GraphJob::engine_spec(const wire::BeginGraphRequest &spec)
{
	engine::GraphBuildSpec build;

	build.rows = {spec.metric, spec.element, spec.dim};
	build.n_rows = spec.n_rows;
	build.degree = spec.degree;
	build.prune = static_cast<engine::graph::PruneKind>(spec.prune);
	build.seed = spec.seed;
	build.calibrate = spec.measure != 0;
	build.code_bits = spec.code_bits;
	return build;
}

engine::GraphBuildSpec
GraphJob::engine_spec(const wire::BeginInsertRequest &spec)
{
	engine::GraphBuildSpec build = engine_spec(spec.graph);

	build.n_base = spec.n_base;
	build.n_kept = spec.n_kept;
	return build;
}

uint64_t
GraphJob::bytes_of(engine::Engine &engine, const engine::GraphBuildSpec &spec)
{
	return engine::graph_build_host_bytes(spec, engine.n_threads());
}

ReplyStatus
GraphJob::make(engine::Engine &engine, const engine::GraphBuildSpec &spec, std::unique_ptr<GraphJob> *job)
{
	std::unique_ptr<GraphJob> made(new GraphJob);
	const Status status = engine.make_graph_builder(spec, &made->control_, nullptr, &made->builder_);

	if (!status.is_ok())
		return reply_status(status);
	made->bytes_ = bytes_of(engine, spec);
	*job = std::move(made);
	return ReplyStatus::kOk;
}

GraphJob::~GraphJob()
{
	control_.stop.store(true, std::memory_order_relaxed);
	if (thread_.joinable())
		thread_.join();
}

void
GraphJob::abandon()
{
	State open = State::kOpen;

	control_.stop.store(true, std::memory_order_relaxed);
	if (thread_.joinable())
		state_.compare_exchange_strong(open, State::kAbandoned, std::memory_order_acq_rel);
}

ReplyStatus
GraphJob::add_rows(const wire::RequestView &view)
{
	const engine::DistanceSpec &rows = builder_->spec().rows;

	if (thread_.joinable() || view.row_bytes != vector_bytes(rows.element, rows.dim) ||
		view.build_rows.position != n_rows_)
		return ReplyStatus::kInvalid;

	const Status status = builder_->add_rows(view.vectors, view.build_rows.n_rows);

	if (status.is_ok())
		n_rows_ += view.build_rows.n_rows;
	return reply_status(status);
}

ReplyStatus
GraphJob::add_pages(const wire::RequestView &view, engine::SearchControl *control)
{
	const engine::DistanceSpec &rows = builder_->spec().rows;
	const uint32_t n = view.graph_pages.n_rows;

	if (thread_.joinable() || view.graph_pages.position != n_rows_ || n > builder_->spec().n_rows - n_rows_)
		return ReplyStatus::kInvalid;

	const std::optional<PageReader> reader = PageReader::make(view, uint64_t{n} * vector_bytes(rows.element, rows.dim));

	if (!reader)
		return ReplyStatus::kInvalid;

	const Status status = builder_->read_rows(n,
		[&](uint64_t first, size_t n_bytes, unsigned char *to)
		{
			if (control->stop.load(std::memory_order_relaxed))
				return Status::error(StatusCode::kCancelled, "canceled");
			control->progress.fetch_add(1, std::memory_order_relaxed);
			return reader->read(first, n_bytes, to);
		});

	if (status.is_ok())
		n_rows_ += n;
	return reply_status(status);
}

ReplyStatus
GraphJob::add_base(const wire::RequestView &view, engine::GraphBasePiece piece)
{
	const wire::BuildRowsRequest &rows = view.build_rows;
	const bool edges = piece == engine::GraphBasePiece::kEdges;
	uint64_t *n = edges ? &n_base_edges_ : piece == engine::GraphBasePiece::kNumbers ? &n_base_numbers_ : nullptr;

	if (thread_.joinable() || view.row_bytes != (edges ? builder_->spec().degree : 1) * sizeof(uint32_t) ||
		(n != nullptr && rows.position != *n))
		return ReplyStatus::kInvalid;

	const Status status = builder_->add_base(piece, view.vectors, rows.n_rows);

	if (status.is_ok() && n != nullptr)
		*n += rows.n_rows;
	return reply_status(status);
}

ReplyStatus
GraphJob::start()
{
	if (thread_.joinable() || n_rows_ != builder_->spec().n_rows)
		return ReplyStatus::kInvalid;
	try
	{
		thread_ = std::thread([this] { run(); });
	}
	catch (const std::system_error &)
	{
		return ReplyStatus::kRefused;
	}
	return ReplyStatus::kOk;
}

void
GraphJob::run()
{
	try
	{
		outcome_ =
			WORKER_FAULT("build_graph") == Fault::kError ? ReplyStatus::kInternal : reply_status(builder_->build());
	}
	catch (const std::bad_alloc &)
	{
		outcome_ = ReplyStatus::kOutOfMemory;
	}
	catch (const std::exception &)
	{
		outcome_ = ReplyStatus::kInternal;
	}

	State open = State::kOpen;

	if (state_.compare_exchange_strong(open, State::kEnded, std::memory_order_acq_rel))
		return;
	builder_.reset(); // it is large and not used any more
	state_.store(State::kEnded, std::memory_order_release);
}

wire::GraphBuildState
GraphJob::progress() const
{
	const engine::GraphProgress &progress = builder_->progress();
	wire::GraphBuildState state{};

	state.done = progress.done.load(std::memory_order_relaxed);
	state.total = progress.total.load(std::memory_order_relaxed);
	state.progress = control_.progress.load(std::memory_order_relaxed);
	if (state_.load(std::memory_order_acquire) != State::kEnded)
	{
		const engine::GraphStage stage = progress.stage.load();

		// A build that fails has perhaps no edges, which may be read in kRecall.
		state.stage = static_cast<GraphBuildStage>(stage == engine::GraphStage::kFailed
				? engine::GraphStage::kEdges
				: std::min(stage, engine::GraphStage::kRecall));
		return state;
	}
	state.failure = outcome_;
	state.stage = outcome_ == ReplyStatus::kOk ? GraphBuildStage::kDone : GraphBuildStage::kFailed;
	if (outcome_ == ReplyStatus::kOk)
	{
		state.n_entries = static_cast<uint32_t>(builder_->entries().size());
		state.n_connected = builder_->report().n_connected;
		state.n_points = builder_->calibration().n_points;
		state.n_depths = builder_->depths().n_depths;
		state.n_queries = builder_->calibration().n_queries;
		state.exact = builder_->exact_neighbors();
	}
	return state;
}

ReplyStatus
GraphJob::read(const wire::ReadBuildRequest &request, std::vector<uint8_t> *bytes) const
{
	const wire::GraphBuildState now = progress();

	if (request.result == wire::BuildResult::kGraphState)
		return copy_part(&now, sizeof(now), request, bytes);
	// Edges are there when recall is measured, which does not change them. Who reads them as it fails learns why.
	if (now.stage == GraphBuildStage::kFailed && request.result == wire::BuildResult::kEdges)
		return now.failure;
	if (now.stage != GraphBuildStage::kDone &&
		(now.stage != GraphBuildStage::kRecall || request.result != wire::BuildResult::kEdges))
		return ReplyStatus::kInvalid;
	switch (request.result)
	{
		case wire::BuildResult::kEdges:
			return copy_part(builder_->edges().data(), builder_->edges().size() * sizeof(uint32_t), request, bytes);
		case wire::BuildResult::kEntries:
			return copy_part(builder_->entries().data(), builder_->entries().size() * sizeof(uint32_t), request, bytes);
		case wire::BuildResult::kHash:
			return copy_part(builder_->hash().data(), builder_->hash().size(), request, bytes);
		case wire::BuildResult::kCodes:
			return copy_part(builder_->codes().data(), builder_->codes().size(), request, bytes);
		case wire::BuildResult::kRecall:
		{
			const engine::ivf::Calibration &calibration = builder_->calibration();
			wire::WidthRecall points[engine::ivf::kMaxCalibrationPoints];

			for (uint32_t i = 0; i < calibration.n_points; i++)
				points[i] = {calibration.probes[i], calibration.recall[i]};
			return copy_part(points, calibration.n_points * sizeof(points[0]), request, bytes);
		}
		case wire::BuildResult::kDepths:
		{
			const engine::ivf::DepthCalibration &depths = builder_->depths();
			wire::DepthRecall recalls[engine::ivf::kMaxDepths];

			static_assert(wire::kMaxWidthRecalls == engine::ivf::kMaxCalibrationPoints);
			for (uint32_t d = 0; d < depths.n_depths; d++)
			{
				recalls[d].n_nearest = depths.depths[d];
				recalls[d].n_queries = depths.n_queries;
				std::copy_n(depths.recall[d], wire::kMaxWidthRecalls, recalls[d].recall);
			}
			return copy_part(recalls, depths.n_depths * sizeof(recalls[0]), request, bytes);
		}
		default:
			return ReplyStatus::kInvalid;
	}
}

} // namespace vectorgpu::worker
