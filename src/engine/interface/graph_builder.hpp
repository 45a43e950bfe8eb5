// An engine's part in the build of an index with a graph: it takes all rows, builds their graph and measures recall by
// the width of the search. Every engine returns the result of engine/graph with one thread, except that the nearest
// rows may come from an engine's exact search.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/limits.hpp"
#include "common/status.hpp"
#include "engine/distance/distance.hpp"
#include "engine/graph/build.hpp"
#include "engine/graph/codes/codes.hpp"
#include "engine/ivf/calibration.hpp"

namespace vectorgpu::engine
{

struct GraphBuildSpec
{
	DistanceSpec rows; // no sets; metric: of searches
	uint32_t n_rows = 0;
	uint32_t degree = 32;
	graph::PruneKind prune = graph::PruneKind::kRank;
	uint64_t seed = 1;
	bool calibrate = false;
	uint32_t code_bits = 0; // kind of codes (graph/codes/code_scores.hpp), by which recall is then measured; 0: none
	// Rows of an old graph that others are inserted into (engine/graph/insert.hpp), without codes; 0: a new build.
	uint32_t n_base = 0;
	uint32_t n_kept = 0; // of these, kept ones
};

/// kInvalidArgument or kUnsupported for a spec that no engine can work with.
inline Status
check_graph_build(const GraphBuildSpec &spec)
{
	if (spec.rows.element == ElementType::kSet)
		return Status::error(StatusCode::kUnsupported, "the element type has no graph");
	if (!metric_supports(spec.rows.metric, spec.rows.element))
		return Status::error(StatusCode::kUnsupported, "the element type does not have the metric");
	if (spec.rows.dim < 1 ||
		spec.rows.dim >
			static_cast<uint32_t>(spec.rows.element == ElementType::kBit ? kMaxBitDimensions : kMaxDimensions))
		return Status::error(StatusCode::kInvalidArgument, "the number of dimensions is out of range");
	if (spec.n_rows < 1 || spec.n_rows >= graph::kNoNode || spec.degree < graph::kMinDegree ||
		spec.degree > graph::kMaxDegree)
		return Status::error(StatusCode::kInvalidArgument, "the number of rows or edges is out of range");
	if (spec.prune != graph::PruneKind::kRank && spec.prune != graph::PruneKind::kRng)
		return Status::error(StatusCode::kInvalidArgument, "unknown kind of pruning");
	if (spec.code_bits != 0 && !graph::code_bits_valid(spec.code_bits))
		return Status::error(StatusCode::kInvalidArgument, "the number of bits is out of range");
	if (spec.code_bits != 0 && !graph::codes_support(spec.rows.metric))
		return Status::error(StatusCode::kUnsupported, "the metric has no codes");
	if (spec.n_base >= graph::kNoNode || spec.n_kept > spec.n_base || spec.n_kept > spec.n_rows ||
		(spec.n_base != 0 && spec.code_bits != 0))
		return Status::error(StatusCode::kInvalidArgument, "rows cannot be inserted into this graph");
	return Status::ok();
}

/// The pieces of the old graph.
enum class GraphBasePiece : uint32_t
{
	kEdges = 0,   // uint32 [degree] of a row
	kNumbers = 1, // uint32 of a row: its number among the rows of the build, kNoNode if it is removed
	kEntries = 2, // uint32: an entry point
};

enum class GraphStage : uint32_t
{
	kRows = 0, // waiting for rows
	kNeighbors = 1,
	kEdges = 2,
	kRecall = 3,
	kDone = 4,
	kFailed = 5,
};

/// The progress of a build, which may be read while it runs.
struct GraphProgress
{
	std::atomic<GraphStage> stage{GraphStage::kRows};
	std::atomic<uint64_t> done{0}; // of the stage, in units of its own
	std::atomic<uint64_t> total{0};
};

/// One build: add_rows until all are there, build once, then read the results. One thread at a time; progress() from
/// any thread.
class GraphBuilder
{
public:
	virtual ~GraphBuilder() = default;

	/// Add rows: vectors [n, dim] of the rows' element. kInvalidArgument if there would be more than announced.
	virtual Status add_rows(const void *vectors, size_t n) = 0;

	/// Reads bytes [first, first + n_bytes) of the rows of a call, as add_rows takes them; called by several threads.
	using ReadBytes = std::function<Status(uint64_t first, size_t n_bytes, unsigned char *to)>;

	/// The same, for n rows that `read` brings, in pieces. After a failure none of them has been added.
	virtual Status read_rows(size_t n, const ReadBytes &read) = 0;

	/// With n_base: the next n items of a piece of the old graph, 4-byte numbers at any address. kInvalidArgument if
	/// there would be more than possible; build() checks the values.
	virtual Status add_base(GraphBasePiece piece, const void *items, size_t n) = 0;

	/// Build; takes long. kInvalidArgument unless all rows (and all of the old graph) are there, kCancelled if the
	/// control says stop. Memory needed for the build alone is freed when it returns.
	virtual Status build() = 0;

	virtual const GraphBuildSpec &spec() const = 0;
	virtual const GraphProgress &progress() const = 0;

	/// After a build: edges [n_rows, degree], entry points, recall by width, of the 10 nearest rows and of more.
	virtual const std::vector<uint32_t> &edges() const = 0;
	virtual const std::vector<uint32_t> &entries() const = 0;
	virtual const ivf::Calibration &calibration() const = 0;
	virtual const ivf::DepthCalibration &depths() const = 0;
	virtual const graph::BuildReport &report() const = 0;

	/// With code_bits: the codes' parameters as in GraphLayout (hash_at), and codes [n_rows, code_bytes].
	virtual const std::vector<uint8_t> &hash() const = 0;
	virtual const std::vector<uint8_t> &codes() const = 0;

	/// Whether the nearest rows are those of an exact search.
	virtual bool exact_neighbors() const = 0;
};

/// Bytes of host memory that a build with n_threads takes.
uint64_t graph_build_host_bytes(const GraphBuildSpec &spec, size_t n_threads);

} // namespace vectorgpu::engine
