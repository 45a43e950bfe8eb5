// A small batch over byte rows in one pass and one launch: the kernel takes the queries over, samples, finds
// thresholds, filters, and finishes. All other batches use the chain of filter.hpp. See README.md, "One pass".
#pragma once

#include "kernels/filter/filter.hpp"
#include "kernels/filter/one_pass_tuning.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kOnePassMostQueries = 64;

/// How the kernel divides its work.
struct OnePassPlan
{
	uint32_t n_blocks = 0; // at most the processors, perhaps fewer than queries; 0: no kernel serves this batch
	uint32_t tiles_per_block = 0;
	// The block's own tiles; the others, a multiple of shared_tiles, go to the block that asks first.
	uint32_t n_own = 0;
	uint32_t n_shared = 0;    // a launch adds it to kShared
	uint32_t n_minima = 0;    // of the sample, each of 32 rows
	uint32_t n_sampled = 0;   // tiles
	uint32_t kept_of_16 = 16; // of 16 tiles, spread evenly, whose rows stay in L2
	OnePassTuning tuning;
};

/// A query's values that the host computes besides its bytes.
struct OnePassQuery
{
	double norm; // |x|
	uint32_t k;
	uint32_t unused = 0;
};

/// Few queries lie among the kernel's arguments, where every block reads them.
struct OnePassInline
{
	static constexpr uint32_t kBytes = 2048;
	static constexpr uint32_t kQueries = 16;

	alignas(16) uint8_t bytes[kBytes];
	OnePassQuery queries[kQueries];

	static bool holds(size_t n_queries, size_t pitch) { return n_queries <= kQueries && n_queries * pitch <= kBytes; }
};

/// Counters on which blocks wait for each other, in device memory. They only grow: the host knows their values before a
/// launch, given up or not.
struct OnePassCounters
{
	static constexpr uint32_t kStride = 32;    // words from one to the next
	static constexpr uint32_t kTakenOver = 0;  // queries
	static constexpr uint32_t kSampled = 1;    // blocks
	static constexpr uint32_t kThresholds = 2; // that were found
	static constexpr uint32_t kPassedOn = 3;   // blocks that have passed on all their candidates
	static constexpr uint32_t kShared = 4;     // groups of tiles that were taken, also in vain
	static constexpr uint32_t kGivenUp = 5;    // not a counter: the last launch that was given up
	static constexpr uint32_t kWords = 6 * kStride;

	uint32_t *counters = nullptr; // [kWords]
	uint32_t before[5] = {};
	uint32_t launch = 0;          // a number, not that of the launch before and not 0
	uint32_t most_looks = 0;      // at a counter, before a block gives up
	uint32_t *given_up = nullptr; // in pinned host memory: becomes `launch` if this one is given up
};

/// Times of a launch, if there is room for them: for each block, when it reached each step, in ns of the device's
/// clock.
struct OnePassStamps
{
	enum What
	{
		kBegin,
		kQueriesHere,
		kFirstProduct,
		kSampled, // and counted
		kAllSampled,
		kThresholds,
		kRowsDone,
		kPassedOn,    // its last candidates, and counted
		kAllPassedOn, // from here on, blocks that have a query
		kCut,         // candidates are cut back
		kScored,
		kSorted,
		kAnswered,
		kFirstCopy,
		kLastCopy,
		kCount,
	};
	static constexpr const char *kNames[kCount] = {"begin", "queries here", "first product", "sampled", "all sampled",
		"thresholds", "rows done", "passed on", "all passed on", "cut", "scored", "sorted", "answered", "first copy",
		"last copy"};

	uint64_t *times = nullptr; // [blocks, kCount] in device memory; null: no times are recorded
};

struct OnePassArgs
{
	Metric metric = Metric::kL2; // L2 or inner product
	RowParts parts;
	uint32_t n_queries = 0;
	uint32_t dim_pad = 0;
	FilterBound bound;

	// In pinned host memory, or, if OnePassInline holds them, any memory.
	const uint8_t *host_bytes = nullptr;        // [n_queries, filter_operand_bytes(kByte)]
	const OnePassQuery *host_queries = nullptr; // [n_queries]

	// Written by the kernel for its own use.
	uint8_t *operand = nullptr; // [n_queries, filter_operand_bytes(kByte)]
	uint32_t *k = nullptr;
	double *norms = nullptr;
	float *minima = nullptr; // [n_queries, n_minima]
	float *thresholds = nullptr;
	Candidates candidates; // keys are not used

	Answers answers; // a query with more than kFinishMostCandidates, or too many after the cut, gets no answer
	OnePassCounters counters;
	OnePassStamps stamps;
};

/// n_tiles: of all parts together.
OnePassPlan plan_one_pass(uint32_t n_queries, uint32_t dim_pad, uint32_t n_tiles, const OnePassTuning &tuning = {});

/// Numbers that a launch adds to kTakenOver and kThresholds; to kShared it adds the plan's number, to the others its
/// blocks.
uint32_t one_pass_taken_over(uint32_t n_queries, uint32_t dim_pad);
uint32_t one_pass_thresholds(uint32_t n_queries);

/// Answer all queries. Blocks wait for each other: two such launches on the device at the same time may both be given
/// up. Then *args.counters.given_up is set before the last answer is there, and the answers are invalid. plan: from
/// plan_one_pass, with a kernel.
[[nodiscard]] cudaError_t launch_one_pass(const OnePassArgs &args, const OnePassPlan &plan, cudaStream_t stream);

/// Set shared-memory limits; once per device. n_processors: of a device with warp-group products; 0: there are none.
[[nodiscard]] cudaError_t prepare_one_pass(uint32_t n_processors);

} // namespace vectorgpu::kernels
