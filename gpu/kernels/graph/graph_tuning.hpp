// Tuning of searches of graphs on the device. No CUDA here.
#pragma once

#include <cstdint>

namespace vectorgpu::kernels
{

/// The set of visited nodes that a search keeps (SONG, section 4.2) besides the list of the nearest: a node in the list
/// is never taken twice.
enum class GraphVisited : uint8_t
{
	kNone = 0,
	kHash = 1,   // open addressing; exact as far as it has room
	kBloom = 2,  // may take a node for visited that is not
	kCuckoo = 3, // fingerprints of 16 bits; the same
};

// A query alone takes 93 µs, 160 µs with 1 step; ten thousand take a few per cent longer and find more.
constexpr uint32_t kGraphDefaultSteps = 4;

/// Results depend on steps; with a filter for the visited, on all members.
struct GraphTuning
{
	GraphVisited visited = GraphVisited::kHash;
	bool selected_insertion = false; // section 4.4: only nodes that go into the list count as visited
	bool visited_deletion = false;   // section 4.5: and only while they are in it; hash table only
	uint32_t table_bits = 0; // the set has 2^table_bits words of 4 bytes, 6 ... kGraphMostTableBits; 0: by the width
	uint32_t steps = 0;      // nodes expanded at a time (section 5), up to kGraphMostSteps; 0: kGraphDefaultSteps
	// Warps of a query: 1 or 4; 0: by the number of queries, and 8 for a search with a block of its own
	// (GraphArgs::answers).
	uint32_t warps = 0;
	// 16 or 8: this many lanes of a warp for a query instead of warps, so that two or four queries share one; 0: none
	// shares a warp.
	uint32_t lanes = 0;
	// Blocks of a query with blocks of its own: 1, 2 or 4, a cluster, if the device has room for it; 0: as the engine
	// chooses.
	uint32_t blocks = 0;
	// Parts of a large batch of which one is searched while others are sent; 1: none; 0: as the engine chooses.
	uint32_t parts = 0;
	// 2: entry points of a query with blocks of its own are scored by a launch before; 1: by its blocks; 0: as the
	// engine chooses.
	uint32_t entries_apart = 0;
};

} // namespace vectorgpu::kernels
