// The ways in which an engine searches: those that its options ask for, without those that the self-test finds wrong on
// this device.
#pragma once

#include <cstdint>

#include "common/status.hpp"
#include "cuda/device/start_times.hpp"
#include "kernels/graph/graph_tuning.hpp"

namespace vectorgpu::cuda
{

class CudaEngine;
class GraphTrace;
struct CudaEngineOptions;
class Device;

/// An engine without one of these searches in another way, or refuses copies of that kind.
struct Ways
{
	uint32_t filter_min_queries = 0;
	kernels::GraphTuning graph_tuning;
	GraphTrace *graph_trace = nullptr; // of a benchmark
	bool one_pass = false;
	bool scaled = false;         // rows rounded to signed bytes; else to binary16 alone
	bool both_roundings = false; // to binary16 beside these
	uint64_t scaled_least_bytes = 0;
	bool few_lists = false;
	bool few_real_lists = false;
	double few_real_pairs = 0;
	bool rounded_lists = false;
	bool bins = true;
	uint64_t exact_elements = 0; // SearchOptions::exact_elements
	bool graph_alone = false;
	bool graph_choice = false;
	bool list_choice = false;
	bool holds_graphs = true;
	bool holds_bit_graphs = true; // graphs of bit strings; none without holds_graphs
	bool holds_hashed = true;     // graphs with codes
	bool holds_codes = true;
	bool holds_matches = true;
	bool holds_sparse = true;
	bool holds_keys = true;      // codes of key columns ...
	uint64_t least_key_rows = 0; // ... of segments with at least this many rows
};

/// The ways that the options ask for.
Ways asked_ways(const CudaEngineOptions &options);

/// Tests the engine's kernels (self_test.hpp) and removes the ways that answer wrongly from *ways, which must be the
/// engine's own. An error: the engine must not be used. times: gets a part for each test.
Status test_ways(
	CudaEngine *engine, const Device &device, const CudaEngineOptions &options, Ways *ways, StartTimes *times);

} // namespace vectorgpu::cuda
