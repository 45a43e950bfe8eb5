// When and how rows are grouped for a search of their nearest rows (near_groups.hpp): data.
#pragma once

#include <cstdint>

namespace vectorgpu::engine
{

struct NearGroupsTuning
{
	double least_products = 2.5e14; // of elements, of all pairs: a large GPU multiplies them in 0.7 s; fewer do not pay
	uint32_t group_rows = 24576;    // on average: a CUDA engine copies, and filters, no fewer candidates than 16,384
	uint32_t cluster_rows = 256;    // on average
	uint32_t sampled = 32;          // of so many rows one is sampled
	uint32_t near_clusters = 4;     // of each cluster of a group: candidates whatever the sample says
	double share = 0.96;            // of the sample's true nearest rows that are to be among the candidates
	double most_pairs = 0.3;        // of all pairs that groups may compare: beyond, they are not worth their trouble
};

} // namespace vectorgpu::engine
