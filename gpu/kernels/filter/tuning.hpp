// Measured choices, as data: README.md ("Tuning") has the measurements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/filter/filter.hpp"

namespace vectorgpu::kernels
{

/// From this many queries on the filter is used. It is faster than the direct scan even for one query, in every form:
/// it reads the rows once as well, and tensor cores leave the other units to the loads.
constexpr uint32_t
filter_min_queries()
{
	return 1;
}

/// A filter needs a sample that is small beside the rows.
constexpr uint32_t kFilterLeastRows = 16384;
constexpr uint32_t kFilterLeastRowsPerK = 40; // the sample has a group per 32 rows and needs more groups than k

/// A small source that is searched after larger ones goes without a sample: earlier results cut its rows off. At most
/// this many rows, since each may then be a candidate of every query (16 bytes each).
constexpr uint32_t kUnsampledMostRows = 128 * 1024;

/// If rows x dims x queries of such a source is below this, score canonically and skip the filter: fewer launches, and
/// no more time.
constexpr uint64_t kBoundedMostProducts = uint64_t{20} << 20;

/// Groups of the sample whose k-th smallest minimum is the first threshold: more of them sharpen it, at the cost of
/// sampling. At least 4 k, so that few of the k first share a group. Batches that are slowed by candidates and too
/// small for stages take more groups, as long as these are few of all and rows are short: to sample long ones takes
/// longer than the candidates that this saves.
constexpr uint32_t kShortRowBytes = 512;
constexpr uint32_t
filter_sample_groups(uint32_t k, uint32_t n_queries, uint32_t n_groups, uint32_t row_bytes)
{
	const bool takes_more = n_queries > 8 && n_queries < 128 && row_bytes <= kShortRowBytes;
	const uint32_t least = takes_more ? std::clamp(n_groups / 8, 512u, 2048u) : 512;

	return std::max(least, std::max(4 * k, std::min(16 * k, 2048u)));
}

/// From this many queries on batches go over the rows in stages, each with thresholds sharpened by the stages before:
/// candidates are then the main cost. For fewer queries the launches cost more.
constexpr uint32_t kStagedLeastQueries = 128;
constexpr uint32_t kStageGrowth = 4;

/// A stage may grow by this much where it then is the last: a few tiles are no stage of their own. Not of scaled rows,
/// since more of them pass.
constexpr uint32_t kMostStageGrowth = 6;

/// Tiles after which the thresholds are first sharpened, in stages.
constexpr uint32_t
filter_first_stage(uint32_t n_tiles, uint32_t n_sampled)
{
	return std::min(n_tiles, std::max(2 * n_sampled, n_tiles / 32));
}

/// Bytes of the rows that stay in L2 from one small batch to the next while others make way: half of it.
constexpr uint64_t kFilterKeptBytes = uint64_t{24} << 20;
constexpr uint64_t kFilterMostKeptBytes = uint64_t{28} << 20; // with the number of tiles rounded

/// Tiles of each `period` that stay in L2, of rows with that many bytes together; 0: too few would.
constexpr uint32_t
filter_kept_tiles(uint32_t period, uint64_t row_bytes)
{
	const uint64_t nearest = (period * kFilterKeptBytes + row_bytes / 2) / row_bytes;
	const uint64_t kept =
		nearest * row_bytes <= period * kFilterMostKeptBytes ? nearest : period * kFilterKeptBytes / row_bytes;

	return static_cast<uint32_t>(std::min<uint64_t>(kept, period));
}

/// float32 rows are kept as scaled bytes if these leave at most this many candidates to a query like the rows (k = 10,
/// mean): to read and score that many takes less than the pass saves.
constexpr double kScaledMostCandidates = 400;

/// And if a segment has this many of these bytes: the pass over fewer takes no longer than what more candidates cost,
/// except for few queries. These read bytes beside binary16 where a segment has one such part of that.
constexpr uint64_t kScaledLeastBytes = uint64_t{128} << 20;
constexpr uint64_t kScaledPartBeside = 5;

/// Searches for more rows read a segment in binary16, or its float32 rows, and not its scaled ones: with k = 1,000
/// these leave 5,400 candidates (1M x 768 in groups, H200: 64 queries 4.0 ms; binary16 0.97). With k = 100 they leave
/// 356.
constexpr uint32_t kScaledMostK = 128;

/// The same where there is binary16 too; README.md ("Tuning") has the measurements. Bytes are faster as long as the
/// pass saves more than more candidates cost: in a large batch that depends on the dimensions. is_long:
/// kScaledLeastBytes of them.
constexpr uint32_t
scaled_most_k_beside_halves(uint32_t n_queries, uint32_t dim_pad, bool is_long)
{
	constexpr uint32_t kMost = 50;

	if (!is_long)
		return n_queries <= 4 ? 32 : 0;
	if (n_queries <= 8)
		return kScaledMostK;
	if (n_queries < kStagedLeastQueries)
		return kMost;
	return dim_pad <= 256 ? 0 : std::min((dim_pad - 256) / 5, kMost);
}

/// The bound of scaled rows is so wide that several times as many rows pass a threshold from a small sample: more
/// groups are sampled.
constexpr uint32_t
scaled_sample_groups(uint32_t n_groups)
{
	return std::clamp(n_groups / 16, 1024u, 16384u);
}

/// Up to this k few queries over scaled rows go without stages, with room for this many more candidates. In stages
/// there is room for a stage that is kStageGrowth times as long as those before: of 131,072 rows like embeddings up to
/// 972 and 4,272 pass the threshold from a quarter of them, for k = 10 and 100.
constexpr uint32_t kScaledUnstagedMostK = 32;
constexpr uint32_t kScaledMoreCandidates = 8192;
constexpr uint32_t
scaled_staged_capacity(uint32_t k)
{
	return 32 * k + 2048;
}

/// PartialReduce needs bins of many rows: with fewer rows a bin the exact filter costs little more.
constexpr uint32_t kLeastRowsPerBin = 32;

/// Room for candidates, by what is likely in random order.
constexpr uint32_t
filter_capacity(uint32_t k, uint32_t n_tiles, uint32_t n_first, uint32_t n_sampled, uint32_t n_untrusted)
{
	const uint64_t in_first = static_cast<uint64_t>(k) * n_first / std::max(n_sampled, 1u);
	const uint64_t likely = std::max<uint64_t>(in_first, uint64_t{k} * kMostStageGrowth);

	return static_cast<uint32_t>(
		std::min<uint64_t>(2 * likely + 1024 + n_untrusted, uint64_t{n_tiles} * kFilterTileRows));
}

/// Few queries read lists of reals each separately (ivf_few.hpp), while the chain of launches reads a list once for all
/// of its queries. This way is taken up to this many pairs of a query and a list for each list (SIFT, gpu_ivf_bench
/// --few-pairs: at 2 faster by 2 to 16 %, at 4 slower by 28 to 31 %), or up to this many bytes of rows that all pairs
/// read, which is an estimate.
constexpr double kFewRealsPairsPerList = 2.5;
constexpr uint64_t kFewRealsLittleBytes = uint64_t{128} << 20;

/// Where the chain reads rows in binary16 instead (cuda/search/rounded_lists.hpp), two launches are taken if they read
/// at most this many bytes more than the chain: an estimate of what the chain's launches cost. A query alone reads
/// slower, since at most as many blocks share it as leave room for its candidates.
constexpr uint64_t kFewRealsSpareBytes = uint64_t{256} << 20;
constexpr uint64_t kFewRealsSpareBytesOfOne = uint64_t{96} << 20;

/// Rows of all pairs of a query and a list, in bytes, from which on the chain goes list by list over rows in binary16
/// though most lists have one query; an estimate.
constexpr uint64_t kRoundedListsLeastBytes = uint64_t{64} << 20;

/// Queries of a chunk up to which it may read rows in signed bytes, where exact searches do; larger chunks read
/// binary16, if rows are kept so; an estimate.
constexpr uint32_t kRoundedListsMostScaled = 256;

} // namespace vectorgpu::kernels
