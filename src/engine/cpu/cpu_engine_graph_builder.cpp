// See cpu_engine_graph_builder.hpp.
#include "engine/cpu/cpu_engine_graph_builder.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "common/huge_pages.hpp"
#include "engine/cpu/beside.hpp"
#include "engine/cpu/nearest_rows.hpp"
#include "engine/cpu/rows_ahead.hpp"
#include "engine/graph/calibrate/calibrate.hpp"
#include "engine/graph/entries.hpp"
#include "engine/graph/insert.hpp"
#include "engine/graph/calibrate/measure.hpp"
#include "engine/interface/graph_layout.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine
{
namespace
{

constexpr uint32_t kLeastRows = 20000;   // smaller graphs are measured as sessions do, whose lists may be exact as well
constexpr uint32_t kRowsPerLeftOut = 10; // a smaller limit if near copies are left out with them: a group of copies
										 // goes as a whole, and other paths do not lead over it
constexpr double kLeastHeldOut = 0.4;    // of them: else their copies stay in the graph and are not counted
constexpr double kMostCopies = 0.1; // near copies held out with each row on average: with more, the search for them
									// is measured too, for which they must be in the graph

class CpuGraphBuilder final : public GraphBuilder
{
public:
	CpuGraphBuilder(const GraphBuildSpec &spec, ThreadPool *pool, SearchControl *control, Engine *searcher,
		const NearGroupsTuning &near_groups)
		: spec_(spec), pool_(pool), control_(control), searcher_(searcher), near_groups_(near_groups),
		  row_bytes_(vector_bytes(spec.rows.element, spec.rows.dim))
	{
		const size_t n_bytes = size_t{spec.n_rows} * row_bytes_;

		vectors_ = std::make_unique_for_overwrite<unsigned char[]>(n_bytes);
		ask_for_huge_pages(vectors_.get(), n_bytes);
		base_edges_.reserve(size_t{spec.n_base} * spec.degree);
		base_numbers_.reserve(spec.n_base);
	}

	Status add_rows(const void *vectors, size_t n) override
	{
		if (!takes_rows(n))
			return too_many_rows();
		memcpy(vectors_.get() + n_added_ * row_bytes_, vectors, n * row_bytes_);
		n_added_ += n;
		hand_on();
		return Status::ok();
	}

	Status read_rows(size_t n, const ReadBytes &read) override
	{
		if (!takes_rows(n))
			return too_many_rows();

		Status status = read_pieces(pool_, n * row_bytes_, read, vectors_.get() + n_added_ * row_bytes_);

		n_added_ += status.is_ok() ? n : 0;
		hand_on();
		return status;
	}

	Status add_base(GraphBasePiece piece, const void *items, size_t n) override
	{
		const size_t most = piece == GraphBasePiece::kEntries ? graph::kMaxEntries : spec_.n_base;
		const size_t width = piece == GraphBasePiece::kEdges ? spec_.degree : 1;
		std::vector<uint32_t> &to = piece == GraphBasePiece::kEdges ? base_edges_
			: piece == GraphBasePiece::kNumbers                     ? base_numbers_
																	: base_entries_;

		if (progress_.stage != GraphStage::kRows || spec_.n_base == 0 || n > most - to.size() / width)
			return Status::error(StatusCode::kInvalidArgument, "more of a graph than was announced");

		const size_t before = to.size();

		to.resize(before + n * width);
		memcpy(to.data() + before, items, n * width * sizeof(uint32_t));
		return Status::ok();
	}

	Status build() override
	{
		if (progress_.stage != GraphStage::kRows || n_added_ != spec_.n_rows || !base_is_whole())
			return Status::error(StatusCode::kInvalidArgument, "the graph has not all of its rows");

		Status status = Status::error(StatusCode::kInternal, "the build of a graph was left");

		try
		{
			status = build_graph();
			if (status.is_ok() && spec_.code_bits > 0)
				status = make_codes();
			if (status.is_ok() && spec_.calibrate)
				status = measure();
		}
		catch (...)
		{
			finish(status);
			throw;
		}
		finish(status);
		return status;
	}

	const GraphBuildSpec &spec() const override { return spec_; }
	const GraphProgress &progress() const override { return progress_; }
	const std::vector<uint32_t> &edges() const override { return edges_; }
	const std::vector<uint32_t> &entries() const override { return entries_; }
	const ivf::Calibration &calibration() const override { return calibration_; }
	const ivf::DepthCalibration &depths() const override { return depths_; }
	const graph::BuildReport &report() const override { return report_; }
	bool exact_neighbors() const override { return exact_neighbors_; }
	const std::vector<uint8_t> &hash() const override { return hash_; }
	const std::vector<uint8_t> &codes() const override { return codes_; }

private:
	bool takes_rows(size_t n) const { return progress_.stage == GraphStage::kRows && n <= spec_.n_rows - n_added_; }

	static Status too_many_rows()
	{
		return Status::error(StatusCode::kInvalidArgument, "more rows than were announced");
	}

	static Status status_of(const graph::Outcome &outcome)
	{
		return outcome.is_ok() ? Status::ok() : Status::error(outcome.code, outcome.message);
	}

	void enter(GraphStage stage)
	{
		progress_.done.store(0, std::memory_order_relaxed);
		progress_.total.store(0, std::memory_order_relaxed);
		progress_.stage.store(stage);
	}

	void finish(const Status &status)
	{
		ahead_.reset(); // it reads the rows
		vectors_.reset();
		std::vector<uint32_t>().swap(base_edges_);
		std::vector<uint32_t>().swap(base_numbers_);
		std::vector<uint32_t>().swap(base_entries_);
		work_.reset();
		held_.reset();
		enter(status.is_ok() ? GraphStage::kDone : GraphStage::kFailed);
	}

	graph::Call call()
	{
		graph::Call call;

		call.progress = [](void *context, uint64_t done, uint64_t total)
		{ return static_cast<CpuGraphBuilder *>(context)->go_on(done, total); };
		call.progress_context = this;
		call.n_threads = pool_->n_threads();
		call.parallel = [](void *context, size_t n_tasks, void (*task)(void *, size_t), void *argument)
		{ static_cast<ThreadPool *>(context)->run(n_tasks, [&](size_t i) { task(argument, i); }); };
		call.parallel_context = pool_;
		return call;
	}

	bool go_on(uint64_t done, uint64_t total)
	{
		progress_.done.store(done, std::memory_order_relaxed);
		progress_.total.store(total, std::memory_order_relaxed);
		control_->progress.fetch_add(1, std::memory_order_relaxed);
		return !control_->stop.load(std::memory_order_relaxed);
	}

	/// As the graph is built.
	graph::GraphRows rows() const
	{
		graph::GraphRows rows;

		rows.spec = spec_.rows;
		rows.spec.metric = graph::build_metric(spec_.rows.metric);
		rows.rows = vectors_.get();
		rows.row_stride = row_bytes_;
		rows.n_rows = spec_.n_rows;
		return rows;
	}

	graph::BuildSpec build_spec() const
	{
		graph::BuildSpec spec;

		spec.degree = spec_.degree;
		spec.prune = spec_.prune;
		spec.knn.k = 0;
		spec.knn.seed = spec_.seed;
		spec.knn.n_aside = spec_.calibrate && spec_.n_base == 0 && spec_.prune == graph::PruneKind::kRank
			? graph::query_rows(spec_.n_rows)
			: 0;
		return spec;
	}

	/// The number of rows stays as announced, since memory was computed from it.
	bool base_is_whole() const
	{
		return spec_.n_base == 0 ||
			(base_edges_.size() == size_t{spec_.n_base} * spec_.degree && base_numbers_.size() == spec_.n_base &&
				!base_entries_.empty() &&
				base_numbers_.size() -
						static_cast<size_t>(std::count(base_numbers_.begin(), base_numbers_.end(), graph::kNoNode)) ==
					spec_.n_kept);
	}

	/// Uses the pool's threads, also with a searcher: few rows are searched for.
	Status insert_rows(const graph::BuildSpec &spec, const graph::BuildHooks &hooks)
	{
		const graph::BaseGraph base = {spec_.n_base, base_edges_.data(), base_entries_.data(),
			static_cast<uint32_t>(base_entries_.size()), base_numbers_.data()};

		work_bytes_ =
			graph::graph_insert_bytes(rows(), spec, {spec_.n_base, spec_.n_base - spec_.n_kept}, pool_->n_threads());
		work_ = std::make_unique_for_overwrite<uint8_t[]>(work_bytes_);

		const graph::Outcome outcome = graph::graph_insert(
			rows(), spec, base, edges_.data(), entries_.data(), &report_, work_.get(), work_bytes_, call(), hooks);

		entries_.resize(report_.n_entries);
		return status_of(outcome);
	}

	Status build_graph()
	{
		const graph::BuildSpec spec = build_spec();
		graph::BuildHooks hooks;

		hooks.on_stage = [](void *context, graph::BuildStage stage)
		{
			static_cast<CpuGraphBuilder *>(context)->enter(
				stage == graph::BuildStage::kNeighbors ? GraphStage::kNeighbors : GraphStage::kEdges);
		};
		hooks.neighbors = [](void *context, const graph::GraphRows &rows, const graph::KnnLists &lists)
		{ return static_cast<CpuGraphBuilder *>(context)->find_neighbors(rows, lists); };

		edges_.reserve(size_t{spec_.n_rows} * spec_.degree);
		ask_for_huge_pages(edges_.data(), edges_.capacity() * sizeof(uint32_t));
		edges_.resize(size_t{spec_.n_rows} * spec_.degree);
		entries_.resize(graph::entry_count(spec_.n_rows, spec));
		if (spec_.n_base > 0)
			return insert_rows(spec, hooks);
		hooks.helper = &helper_;
		hooks.entries = [](void *context, uint32_t *entries, uint32_t *n_entries)
		{
			const std::vector<uint32_t> &early = static_cast<CpuGraphBuilder *>(context)->early_entries_;

			std::copy(early.begin(), early.end(), entries);
			*n_entries = static_cast<uint32_t>(early.size());
			return early.empty() ? graph::Found::kNo : graph::Found::kYes;
		};
		work_bytes_ = graph::graph_build_bytes(rows(), spec, pool_->n_threads());
		work_ = std::make_unique_for_overwrite<uint8_t[]>(work_bytes_);
		ask_for_huge_pages(work_.get(), work_bytes_);

		const graph::Outcome outcome = graph::graph_build(
			rows(), spec, edges_.data(), entries_.data(), &report_, work_.get(), work_bytes_, call(), hooks);

		entries_.resize(report_.n_entries);
		return status_of(outcome);
	}

	/// Uses the metric of searches.
	Status make_codes()
	{
		const size_t code_bytes = graph::code_bytes(spec_.code_bits, spec_.rows.dim);
		GraphHashHead head;
		graph::GraphRows all = rows();
		std::vector<std::vector<float>> work(pool_->n_threads());
		std::atomic<uint32_t> next{0};

		all.spec = spec_.rows;
		model_.spec = {spec_.rows, spec_.code_bits, graph::CodeSpec().seed};

		const uint32_t piece_rows = graph::code_piece_rows(model_.spec);
		const uint32_t n_pieces = static_cast<uint32_t>((uint64_t{spec_.n_rows} + piece_rows - 1) / piece_rows);

		for (std::vector<float> &own : work)
			own.resize(graph::code_work_floats(model_.spec));
		hash_.resize(sizeof(head) + graph::code_model_floats(spec_.code_bits, spec_.rows.dim) * sizeof(float));
		codes_.resize(size_t{spec_.n_rows} * code_bytes);

		float *floats = reinterpret_cast<float *>(hash_.data() + sizeof(head));

		enter(GraphStage::kRecall);
		if (!graph::train_codes(model_.spec, all, &model_.bound, floats, work[0].data(), call()))
			return Status::error(StatusCode::kCancelled, "canceled");
		model_.floats = floats;
		head.seed = model_.spec.seed;
		head.bound = model_.bound;
		memcpy(hash_.data(), &head, sizeof(head));
		pool_->run(pool_->n_threads(),
			[&](size_t thread)
			{
				for (uint32_t piece;
					(piece = next.fetch_add(1)) < n_pieces && go_on(uint64_t{piece} * piece_rows, spec_.n_rows);)
				{
					graph::GraphRows some = all;

					some.rows = all.row(piece * piece_rows);
					some.n_rows = std::min(piece_rows, spec_.n_rows - piece * piece_rows);
					graph::make_codes(
						model_, some, codes_.data() + size_t{piece} * piece_rows * code_bytes, work[thread].data());
				}
			});
		return control_->stop.load(std::memory_order_relaxed) ? Status::error(StatusCode::kCancelled, "canceled")
															  : Status::ok();
	}

	/// Measure the graph without the queries. With exact neighbours near copies are left out with them, and the
	/// neighbours of the queries are known, unless searches have another metric, or neighbours were looked for among
	/// near rows alone.
	Status hold_out(graph::MeasuredGraph *measured)
	{
		const graph::BuildSpec spec = build_spec();
		uint32_t n = spec.knn.n_aside;

		if (spec_.n_base > 0)
			return Status::ok();
		if (exact_neighbors_)
			n = std::max(n, graph::exact_query_rows(spec_.n_rows));
		held_out_.resize(n);
		if (exact_neighbors_ && spec_.prune == graph::PruneKind::kRank && spec_.n_rows >= kLeastRows)
		{
			const Status held = hold_out_copies(spec, measured);

			if (!held.is_ok() || measured->held_out != nullptr)
				return held;
		}
		return status_of(graph::measure_without(
			rows(), spec, held_out_.data(), n, measured, work_.get(), work_bytes_, call(), &helper_));
	}

	/// Does nothing if few queries would remain.
	Status hold_out_copies(const graph::BuildSpec &spec, graph::MeasuredGraph *measured)
	{
		const uint32_t n = static_cast<uint32_t>(held_out_.size());
		const uint32_t *edges = nullptr;

		for (uint32_t q = 0; q < n; q++)
			held_out_[q] = static_cast<uint32_t>(stratified_row(q, n, spec_.n_rows));
		left_out_.resize(spec_.n_rows / kRowsPerLeftOut);
		nearest_.resize(size_t{n} * graph::kCalibrationNeighbors);

		graph::HeldOutRows held = {held_out_.data(), n, left_out_.data(), 0};
		graph::Outcome outcome = graph::graph_hold_out_copies(rows(), spec, graph::kCalibrationNeighbors,
			static_cast<uint32_t>(left_out_.size()), &held, work_.get(), work_bytes_, pool_->n_threads());

		if (!outcome.is_ok() || held.n_queries == 0 || held.n_queries < kLeastHeldOut * n ||
			held.n_rows - held.n_queries > kMostCopies * held.n_queries)
			return status_of(outcome);
		outcome = graph::graph_build_held_out(rows(), spec, held, graph::kCalibrationNeighbors, nearest_.data(),
			measured->entries, measured->n_entries, &edges, work_.get(), work_bytes_, call(), &helper_);
		if (outcome.code == StatusCode::kUnsupported)
			return Status::ok();
		if (!outcome.is_ok())
			return status_of(outcome);
		measured->edges = edges;
		measured->held_out = held.queries;
		measured->n_held_out = held.n_queries;
		measured->left_out = held.rows;
		measured->n_left_out = held.n_rows;
		measured->copies_left_out = true;
		measured->nearest =
			!near_neighbors_ && graph::build_metric(spec_.rows.metric) == spec_.rows.metric ? nearest_.data() : nullptr;
		return Status::ok();
	}

	Status measure()
	{
		graph::MeasuredGraph measured;

		measured.rows = rows();
		measured.rows.spec = spec_.rows;
		measured.hash = spec_.code_bits > 0 ? &model_ : nullptr;
		measured.codes = codes_.data();
		measured.edges = edges_.data();
		measured.degree = spec_.degree;
		measured.entries = entries_.data();
		measured.n_entries = report_.n_entries;
		enter(GraphStage::kRecall);

		const Status held = hold_out(&measured);

		if (!held.is_ok())
			return held;

		if (spec_.n_base == 0 && hold_compared_rows())
			measured.helper = &helper_;

		const size_t work_bytes = graph::calibrate_bytes(measured, pool_->n_threads());
		const auto work = std::make_unique_for_overwrite<uint8_t[]>(work_bytes);

		return status_of(graph::calibrate(measured, &calibration_, work.get(), work_bytes, call(), &depths_));
	}

	/// BuildHooks::neighbors.
	graph::Found find_neighbors(const graph::GraphRows &rows, const graph::KnnLists &lists)
	{
		if (searcher_ == nullptr)
			return graph::Found::kNo;

		NearGroups groups;
		bool grouped = false;
		const std::jthread entries = // joined at the end, whatever happens
			spec_.n_base == 0 ? beside([this, rows] { choose_entries_early(rows); }) : std::jthread();
		graph::Found found = hold_rows_and_group(rows, &groups, &grouped);

		near_neighbors_ = false;
		if (found == graph::Found::kYes)
			found = grouped ? held_->find_near(&groups, lists, &near_neighbors_) : held_->find(lists);
		if (found != graph::Found::kYes || spec_.n_base > 0) // then these are the new rows
			held_.reset();
		exact_neighbors_ = found == graph::Found::kYes;
		return found;
	}

	/// As call(), for work beside the stage that shows its progress.
	graph::Call call_beside()
	{
		graph::Call quiet = call();

		quiet.progress = [](void *context, uint64_t, uint64_t)
		{
			SearchControl *control = static_cast<CpuGraphBuilder *>(context)->control_;

			control->progress.fetch_add(1, std::memory_order_relaxed);
			return !control->stop.load(std::memory_order_relaxed);
		};
		return quiet;
	}

	/// Choose the first entry points while the searcher works. The memory of the stages that they are chosen in
	/// otherwise is not used meanwhile, so that the build takes no more.
	void choose_entries_early(const graph::GraphRows &rows)
	{
		const graph::BuildSpec spec = build_spec();
		std::vector<uint32_t> entries(graph::entry_count(rows.n_rows, spec));
		const size_t bytes = graph::choose_entries_bytes(rows, spec, pool_->n_threads());
		const auto work = std::make_unique_for_overwrite<uint8_t[]>(bytes);
		uint32_t n_entries = 0;

		if (graph::choose_entries(rows, spec, entries.data(), &n_entries, work.get(), bytes, call_beside()).is_ok())
		{
			entries.resize(n_entries);
			early_entries_ = std::move(entries);
		}
	}

	/// Hand rows to the searcher, and meanwhile group many rows. *grouped: whether that was done.
	graph::Found hold_rows_and_group(const graph::GraphRows &rows, NearGroups *groups, bool *grouped)
	{
		std::jthread grouping;

		*grouped = false;
		if (spec_.n_base == 0 && NearGroups::serve(rows, near_groups_))
			grouping = beside([this, rows, groups, grouped]
				{ *grouped = groups->train(searcher_, rows, near_groups_, control_).is_ok(); });

		const graph::Found found = hold_rows(rows);

		if (grouping.joinable())
			grouping.join();
		return found;
	}

	/// Hand rows to the searcher, as far as that has not been done: all of them, if it had no room while they came.
	graph::Found hold_rows(const graph::GraphRows &rows)
	{
		const std::unique_ptr<RowsAhead> ahead = std::move(ahead_);
		const graph::Found found = ahead != nullptr ? ahead->end() : graph::Found::kNo;

		if (found != graph::Found::kNo)
			return found;
		make_held(rows);
		return held_->load();
	}

	void make_held(const graph::GraphRows &rows)
	{
		held_.reset();
		held_ = std::make_unique<SearcherRows>(
			searcher_, rows, control_, [this](uint64_t done) { return go_on(done, spec_.n_rows); });
	}

	/// Hand the rows that are there to the searcher while others come. Those of an old graph come with the new ones.
	void hand_on()
	{
		if (searcher_ == nullptr || spec_.n_base > 0)
			return;
		try
		{
			if (held_ == nullptr)
			{
				make_held(rows());
				if (held_->begin() == graph::Found::kYes)
					ahead_ = std::make_unique<RowsAhead>(held_.get());
			}
			if (ahead_ != nullptr)
				ahead_->added(static_cast<uint32_t>(n_added_));
		}
		catch (const std::exception &) // no memory or no thread: the build begins with it, as far as it can
		{
			ahead_.reset();
		}
	}

	/// See that the searcher that helped with the build holds the rows as searches compare them.
	bool hold_compared_rows()
	{
		if (held_ == nullptr || graph::build_metric(spec_.rows.metric) == spec_.rows.metric)
			return held_ != nullptr;

		graph::GraphRows compared = rows();

		compared.spec = spec_.rows;
		if (hold_rows(compared) != graph::Found::kYes)
			held_.reset();
		return held_ != nullptr;
	}

	const GraphBuildSpec spec_;
	ThreadPool *const pool_;
	SearchControl *const control_;
	Engine *const searcher_;
	const NearGroupsTuning near_groups_;
	const size_t row_bytes_;
	std::vector<uint32_t> base_edges_;   // [n_base, degree]
	std::vector<uint32_t> base_numbers_; // [n_base]
	std::vector<uint32_t> base_entries_;
	std::unique_ptr<unsigned char[]> vectors_; // [n_rows, row_bytes_], until the graph is built
	size_t n_added_ = 0;                       // of these
	std::unique_ptr<uint8_t[]> work_;          // of the graph's build, until it is measured
	size_t work_bytes_ = 0;
	std::unique_ptr<SearcherRows> held_; // of a searcher that found all neighbours, until the build has ended
	const graph::Helper helper_ = helper_of(&held_);
	std::vector<uint32_t> early_entries_; // that the build begins with; empty: it chooses them
	std::vector<uint32_t> held_out_;      // rows that measure the graph
	std::vector<uint32_t> left_out_;      // all rows left out for that
	std::vector<uint32_t> nearest_;       // [held_out_, kCalibrationNeighbors]
	std::vector<uint32_t> edges_;
	std::vector<uint32_t> entries_;
	std::vector<uint8_t> hash_;
	std::vector<uint8_t> codes_;
	graph::CodeModel model_; // over hash_
	ivf::Calibration calibration_;
	ivf::DepthCalibration depths_;
	graph::BuildReport report_;
	GraphProgress progress_;
	std::unique_ptr<RowsAhead> ahead_; // while rows come
	bool exact_neighbors_ = false;
	bool near_neighbors_ = false; // ... by exact searches of near rows alone
};

} // namespace

uint64_t
graph_build_host_bytes(const GraphBuildSpec &spec, size_t n_threads)
{
	graph::BuildSpec build;
	graph::GraphRows rows;

	build.degree = spec.degree;
	build.knn.k = 0; // the build's choice for the degree
	build.knn.n_aside = graph::query_rows(spec.n_rows);
	rows.spec = spec.rows;
	rows.row_stride = vector_bytes(spec.rows.element, spec.rows.dim);
	rows.n_rows = spec.n_rows;
	const uint64_t own = uint64_t{spec.n_rows} *
		(rows.row_stride + spec.degree * sizeof(uint32_t) + graph::code_bytes(spec.code_bits, spec.rows.dim));

	if (spec.n_base > 0)
		return own + uint64_t{spec.n_base} * (spec.degree + 1) * sizeof(uint32_t) +
			graph::kMaxEntries * sizeof(uint32_t) +
			graph::graph_insert_bytes(rows, build, {spec.n_base, spec.n_base - spec.n_kept}, n_threads);
	return own + graph::graph_build_bytes(rows, build, n_threads);
}

std::unique_ptr<GraphBuilder>
make_cpu_graph_builder(const GraphBuildSpec &spec, ThreadPool *pool, SearchControl *control, Engine *searcher,
	const NearGroupsTuning &near_groups)
{
	return std::make_unique<CpuGraphBuilder>(spec, pool, control, searcher, near_groups);
}

} // namespace vectorgpu::engine
