// The choice between inverted lists and all rows of a copy, by a model of the time of both. As for graphs
// (gpu_choice.hpp) it depends on the copy, the query and batches as clients make them, not on the present batch.
// Arithmetic alone, no CUDA.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vectorgpu::cuda
{

/// The batches that the choice looks at: one client, what clients of a server make, and what a join asks at once.
constexpr uint32_t kChoiceOne = 1;
constexpr uint32_t kChoiceMany = 16;
constexpr uint32_t kChoiceLarge = 256;

/// A segment with lists, and what queries of a batch read of it.
struct ListChoice
{
	uint64_t n_rows = 0;
	uint32_t dim = 0;
	uint32_t n_lists = 0;
	double probes = 0;         // lists that a query looks at
	uint32_t row_bytes = 0;    // of a row in its lists: as each query reads it by itself ...
	uint32_t narrow_bytes = 0; // ... and as many queries share it
	uint32_t pass_bytes = 0;   // of a row in a pass over all
	bool is_scaled = false;    // these are of rows rounded to bytes: more of them are scored
	bool is_byte = false;      // rows and queries: no row is scored besides
};

/// A pass over all rows.
struct ListPass
{
	uint64_t k = 0;
	bool one_launch = false; // search/one_pass.hpp
	bool masked = false;     // some rows fail conditions; then also in lists
};

/// Microseconds of a batch that looks at lists of the segments, and of one that looks at all of their rows.
double lists_us(std::span<const ListChoice> segments, uint32_t n_queries, bool masked);
double list_pass_us(std::span<const ListChoice> segments, uint32_t n_queries, const ListPass &pass);

/// The same segments in batches of kChoiceOne, kChoiceMany and kChoiceLarge.
struct ListChoices
{
	std::vector<ListChoice> one;
	std::vector<ListChoice> many;
	std::vector<ListChoice> large;
};

/// True if all rows are to be scored.
bool choose_pass(const ListChoices &choices, const ListPass &pass);

} // namespace vectorgpu::cuda
