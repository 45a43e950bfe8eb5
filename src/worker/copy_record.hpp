// What a copy has received, for the engines that are made of engines: enough to make it anew elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/interface/engine.hpp"

namespace vectorgpu::worker
{

using engine::CopyId;
using engine::Engine;
using engine::SegmentId;

/// A copy inside an engine.
struct CopyPlace
{
	Engine &engine;
	CopyId id = 0;
};

struct SegmentRows
{
	uint64_t n_rows = 0;
	uint32_t parameter = 0;       // of the structure
	uint64_t structure_bytes = 0; // by load_structure
	bool prepared = false;
	bool sealed = false;
	std::vector<uint8_t> dead; // the bitmap given last
};

/// The rows of a copy, by their numbers.
struct CopyRecord
{
	engine::CopySpec spec;
	uint64_t bytes_per_row = 0;         // of the delta
	uint64_t bytes_per_segment_row = 0; // 8 if segments have only row ids
	std::map<SegmentId, SegmentRows> segments;
	uint64_t delta_first = 0;
	uint64_t delta_last = 0;
	uint64_t delta_dead_first = 0;
	std::vector<uint8_t> delta_dead;
	bool has_delta_dead = false;
};

/// Set the spec and the bytes of a row. rounded_row_bytes: of rounded rows, if the spec asks for them.
void begin_record(const engine::CopySpec &spec, size_t rounded_row_bytes, CopyRecord *copy);

/// Approximate bytes of the rows and structures in an engine.
uint64_t record_bytes(const CopyRecord &copy);

/// Bytes that sealing or preparing a segment takes on top. A match index is made in host memory from its description
/// and takes about as many bytes again.
uint64_t seal_bytes(const CopyRecord &copy, SegmentId segment);

/// Transfer the copy's data from one place to a new one. The caller keeps writers away. Throws bad_alloc.
Status copy_rows(const CopyRecord &copy, const CopyPlace &from, const CopyPlace &to);

} // namespace vectorgpu::worker
