// A chunk of queries over the inverted lists of one segment:
//   coarse      canonical scores of all centroids, the n_probes first; many queries over many lists: as an exact search
//               of the centroids by the filter, with the same result
//   threshold   from the smallest scores of groups of rows of the nearest lists, and from what was found before
//   scan        canonical scores of all rows of the lists; those up to the threshold are candidates. Few queries go one
//               by one, many list by list. Reals: where there are rounded rows, estimates by them say which are
//               scored (rounded_lists.hpp)
//   merge       into what the query has found
// Where lists have codes, these choose the rows whose scores are computed (coded_search.hpp). Without vectors the rows
// that codes choose are the answer.
#pragma once

#include <vector>

#include "cuda/resident/ivf_lists.hpp"
#include "cuda/search/chunk.hpp"
#include "kernels/ivf/ivf.hpp"

namespace vectorgpu::cuda
{

struct ListChunk : QueryChunk
{
	uint32_t *probes = nullptr;           // [n_sources, n_queries]
	uint32_t *n_scored = nullptr;         // [n_queries]: rows that codes chose and that were scored
	uint8_t *redo = nullptr;              // [n_queries]: 1, or kAnswerIsAway
	uint8_t *byte_queries = nullptr;      // [n_queries, dim_pad], if all of them are bytes
	int32_t *byte_norms = nullptr;        // [n_queries]
	std::vector<uint64_t> n_pairs;        // [n_sources]: lists searched by all queries together
	std::vector<uint32_t> max_probes;     // [n_sources]
	uint32_t *candidates = nullptr;       // [n_sources, n_queries]
	std::vector<uint32_t> max_candidates; // [n_sources]
	bool careful = false;                 // no query can be marked in redo
};

// Queries per list, on average, from which on the scan goes list by list (gpu/kernels/ivf/README.md).
constexpr double kLeastQueriesPerList = 1.25;

/// Groups of rows that give a threshold for max_k results.
uint32_t list_groups(uint32_t max_k);

/// Room for candidates of a query in a segment. A query with more of them is searched again by scan_carefully.
uint32_t list_candidates(const Source &source, uint32_t max_k);

/// Queues the work on the call's stream. The arena's pieces are needed until the stream has done it.
class ListScan
{
public:
	ListScan(const SearchCall &call, Arena *arena) : call_(call), arena_(arena) {}

	/// Queries whose results are incomplete, for lack of room, are marked in chunk.redo. s: the source's number in the
	/// chunk.
	Status scan(const Source &source, size_t s, const ListChunk &chunk);

	/// The same in windows of places with room for all their rows: slower, and no query is marked.
	Status scan_carefully(const Source &source, size_t s, const ListChunk &chunk);

	/// The same by codes. answers: as CodedRequest.
	Status scan_codes(const Source &source, size_t s, const ListChunk &chunk, const kernels::Answers &answers);

	/// True if scan_codes can write answers.
	static bool can_answer(const Source &source, size_t s, const ListChunk &chunk);

private:
	/// Scans list by list.
	enum class ListWay : uint8_t
	{
		kScores,  // of all rows
		kBytes,   // exact integers
		kRounded, // rounded_lists.hpp
	};

	Status begin(const Source &source, size_t s, const ListChunk &chunk, kernels::IvfScanArgs *scan);
	Status rank_lists(
		const Source &source, size_t s, const ListChunk &chunk, kernels::IvfProbes *probes, bool *by_select = nullptr);
	bool filter_ranks(const Source &source, const ListChunk &chunk, uint32_t n_probes) const;
	Status rank_by_filter(const Source &source, const ListChunk &chunk, uint32_t *n_probes, const kernels::Best &best);
	Status sort_lists(const DeviceLists &lists, const kernels::ScoreArgs &score, const kernels::Best &ranked);
	Status sample(size_t n, kernels::IvfScanArgs *scan);
	Status find_thresholds(const ListChunk &chunk, const kernels::IvfScanArgs &scan);
	Status take_candidates(size_t n, uint32_t room, kernels::Candidates *candidates);
	/// narrow: of kRounded.
	Status scan_list_by_list(const Source &source, const ListChunk &chunk, ListWay way, const kernels::Rows &narrow,
		kernels::IvfScanArgs *scan);
	Status merge(const ListChunk &chunk, const kernels::IvfScanArgs &scan, uint8_t *redo);

	const SearchCall &call_;
	Arena *const arena_;
};

} // namespace vectorgpu::cuda
