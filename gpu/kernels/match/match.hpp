// Host side of the kernels that count matches over an inverted index (README.md, "Match counts"). Launchers as in
// kernels.hpp.
//
// Rows lie in tiles of 65,536. A tile has its own lists, by code, of 16-bit places. A query is a set of code ranges;
// each is one contiguous slice of a tile's places. A row's count is how often it occurs in the slices.
//
// Counters hold count + 1, a row's *mark*: 0 stands for rows that are never returned (dead, not after `after`, beyond
// the end).
#pragma once

#include "common/limits.hpp"
#include "kernels/kernels.hpp"

namespace vectorgpu::kernels
{

constexpr uint32_t kMatchTileRows = 65536;
constexpr uint32_t kMatchPlacesPad = 8;    // places are padded to 16 bytes at the end of a tile
constexpr uint32_t kMatchZipperBins = 256; // of a query's gate

/// A tile in device memory.
struct MatchTile
{
	const uint32_t *codes = nullptr;  // [n_codes] ascending; null: all codes from 0, ends by code
	const uint32_t *ends = nullptr;   // [n_codes]: where the list of each ends
	const uint16_t *places = nullptr; // [ends[n_codes - 1]], 16-byte aligned, padded to kMatchPlacesPad
	uint32_t n_codes = 0;
	uint32_t n_rows = 0;
	uint32_t first_row = 0; // of the segment
};

/// Codes [first, last).
struct MatchRange
{
	uint32_t first;
	uint32_t last;
};

/// A chunk of a batch. Queries of a chunk have counters of the same width.
struct MatchQueries
{
	const MatchRange *ranges = nullptr;   // [range_ends[n_queries - 1]], of each query ascending and disjoint
	const uint32_t *range_ends = nullptr; // [n_queries]
	const uint32_t *k = nullptr;          // [n_queries], 1 ... kMaxSelectK
	// [n_queries]: rows with larger marks are left out; null: no query has an `after`.
	const uint32_t *after_marks = nullptr;
	const uint32_t *after_rows = nullptr; // [n_queries]: of rows with the same mark only those from here on count
	uint32_t n_queries = 0;
	uint32_t bits = 0; // of a counter: 4, 8, 16 or 32, wide enough for any mark of any query
};

/// The results of the tiles for each query: the gate (a zipper array, GENIE section III-C1, of marks >> zipper_shift of
/// rows that were taken) and the rows taken, packed: all ones - mark in the upper half, the row in the lower.
struct MatchCandidates
{
	uint32_t *zipper = nullptr;  // [n_queries, kMatchZipperBins], zero at first
	uint64_t *entries = nullptr; // [n_queries, capacity]
	uint32_t *counts = nullptr;  // [n_queries], zero at first
	uint32_t capacity = 0;       // at least max_k rows for each part of a tile, or all rows
	uint32_t zipper_shift = 0;   // mark >> zipper_shift < kMatchZipperBins
};

struct MatchTileArgs
{
	const MatchTile *tiles = nullptr; // [n_tiles]
	uint32_t n_tiles = 0;
	const uint8_t *dead = nullptr; // bitmap by row of the segment; null: none dead
	MatchQueries queries;
	MatchCandidates candidates;
};

constexpr uint32_t kMatchTextQuery = kTextWord; // most characters of a query
constexpr uint32_t kMatchNoSymbol = 255;  // marks characters of a query that no row has; rows' symbols are smaller
constexpr uint16_t kMatchNoText = 0xFFFF; // the length of a lane without a row
constexpr uint32_t kMatchTextGroup = 32;  // texts side by side, one a lane

/// Texts of up to match_text_rows(bits) rows in device memory: groups of 32 of nearly the same length, ascending by it.
/// Word j of group g of a lane, 4 symbols (the first one lowest), is text[(starts[g] + j) * 32 + lane].
struct MatchTextTile
{
	const uint32_t *starts = nullptr;  // [n_groups]
	const uint16_t *places = nullptr;  // [n_groups, 32] of the row within the tile
	const uint16_t *lengths = nullptr; // [n_groups, 32] symbols, or kMatchNoText
	const uint32_t *text = nullptr;
	uint32_t n_groups = 0;
	uint32_t n_rows = 0;
	uint32_t first_row = 0; // of the segment
};

/// A chunk of queries by edit distance. A row's mark is most_distance + 1 - its distance.
struct MatchTextArgs
{
	const MatchTextTile *tiles = nullptr; // [n_tiles]
	uint32_t n_tiles = 0;
	const uint8_t *dead = nullptr;    // bitmap by row of the segment; null: none dead
	const uint8_t *symbols = nullptr; // [n_queries, kMatchTextQuery]
	const uint32_t *sizes = nullptr;  // [n_queries] lengths of the queries
	uint32_t most_size = 0;           // of them
	uint32_t most_distance = 0;       // no distance is larger; most_distance + 1 fits a counter
	uint32_t n_parts = 1;             // of a tile: groups of a part make a block
	MatchQueries queries;             // ranges and range_ends are not used; bits: 8 or 16
	MatchCandidates candidates;
};

/// Rows of a tile of texts, whose marks have 8 or 16 bits.
uint32_t match_text_rows(uint32_t bits);

/// Parts of a tile with which few queries keep a device busy. Candidates have room for max_k rows of each.
uint32_t match_text_parts(uint32_t n_queries, uint32_t n_tiles);

/// Compute the edit distance of each row to each query by Myers' bit vectors (Journal of the ACM 46(3), 1999), a thread
/// for a pair, in a word of 32 bits if all queries have at most 32 characters, else of 64; then as launch_match_tiles.
/// Rows whose length alone is too far are left out, and so is the rest of a group that can no longer come near enough.
/// Grid (n_queries, n_tiles, n_parts), block 512, shared 64 kB and 4 kB.
[[nodiscard]] cudaError_t launch_match_texts(const MatchTextArgs &args, cudaStream_t stream);

/// Set its shared-memory limits; prepare_match_kernels calls it.
[[nodiscard]] cudaError_t prepare_match_text_kernels();

/// The parts that a tile is counted in: counters of a part are at most 64 kB.
uint32_t match_parts(uint32_t bits);

/// zipper_shift for marks up to most_mark.
uint32_t match_zipper_shift(uint32_t most_mark);

/// Count each tile for each query in shared memory and append the rows that may be among the k first: those that reach
/// the mark at which the gate says that k rows have been taken, at most the k first of each part of a tile. May be
/// called for some of the tiles at a time. The rows appended and their order are not reproducible; that they contain
/// the k first is. Grid (n_queries, n_tiles * parts), block 512, shared 32 or 64 kB and 7 kB.
[[nodiscard]] cudaError_t launch_match_tiles(const MatchTileArgs &args, cudaStream_t stream);

/// Set out [n_queries, stride] to the k first of the candidates, ascending, packed as in MatchCandidates, and n_out
/// [n_queries]. Reproducible. Grid n_queries, block 256.
[[nodiscard]] cudaError_t launch_match_merge(const MatchQueries &queries, const MatchCandidates &candidates,
	uint32_t max_k, uint64_t *out, uint32_t *n_out, uint32_t stride, cudaStream_t stream);

/// Set the shared-memory limits; once per device, before any launch.
[[nodiscard]] cudaError_t prepare_match_kernels();

} // namespace vectorgpu::kernels
