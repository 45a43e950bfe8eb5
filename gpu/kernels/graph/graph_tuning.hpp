// How searches of graphs go on the device. No CUDA here.
#pragma once

#include <cstdint>

namespace vectorgpu::kernels
{

/// Which set of visited nodes a search keeps (SONG, section 4.2), beside the list of the nearest: a node that is in
/// that is never taken twice.
enum class GraphVisited : uint8_t
{
	kNone = 0,
	kHash = 1,   // open addressing; exact as far as it has room
	kBloom = 2,  // may take a node for visited that is not
	kCuckoo = 3, // fingerprints of 16 bits; the same
};

constexpr uint32_t kGraphDefaultSteps =
	4; // a query alone takes 93 µs, 160 with 1; ten thousand take a few per cent longer and find more

/// Results depend on steps, and with a filter on all.
struct GraphTuning
{
	GraphVisited visited = GraphVisited::kHash;
	bool selected_insertion = false; // section 4.4: only nodes that go into the list count as visited
	bool visited_deletion = false;   // section 4.5: and only while they are in it; hash table only
	uint32_t table_bits =
		0;              // the set has 2^table_bits words of 4 bytes, 6 ... kGraphMostTableBits; 0: as the width wants
	uint32_t steps = 0; // nodes expanded at a time (section 5), up to kGraphMostSteps; 0: kGraphDefaultSteps
	uint32_t warps = 0; // of a query: 1 or 4; 0: as the number of queries wants, and 8 where a search does all of it
						// (GraphArgs::answers)
	uint32_t lanes = 0; // 16 or 8: that many of a warp for a query instead of warps, so that two or four queries are in
						// one; 0: none shares a warp
	uint32_t blocks = 0; // of a query where a search does all of it: 1, 2 or 4, a cluster, where the device has room
						 // for that; 0: as the engine chooses
};

} // namespace vectorgpu::kernels
