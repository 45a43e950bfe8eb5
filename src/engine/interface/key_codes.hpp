// Codes of key columns that an engine with a device holds, to find there the rows that meet a search's conditions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/status.hpp"
#include "engine/interface/passing.hpp"
#include "engine/predicate/zone.hpp"

namespace vectorgpu::engine
{

/// The codes of one segment, host memory. columns [n_streams] with zones; codes and nulls point into the area and are
/// aligned to 8 bytes from its begin.
struct KeyArea
{
	std::span<const uint8_t> bytes;
	std::span<const predicate::ColumnCodes> columns;
	uint64_t n_rows = 0;
};

/// The codes of one sealed segment. Thread-safe. Must not outlive its engine. They may be gone at any time, where
/// memory lacks for rows: then calls return kOutOfMemory, and the host evaluates programs.
class KeyCodes
{
public:
	virtual ~KeyCodes() = default;

	/// Evaluate a program that fits the columns (predicate::program_fits). *found: n_rows, n_pass, listed, and rows or
	/// bits are set as the host would set them, and what the engine keeps on its device; unchanged if it fails. Waits
	/// for a search that runs.
	virtual Status find_rows(const predicate::Program &program, PassingSegment *found) = 0;

	/// Compare bytes [first, first + n_bytes) on the device with those of the area; from byte 0 on also the zones.
	/// *n_different: bytes. kInvalidArgument if the area is of another size.
	virtual Status check(const KeyArea &area, uint64_t first, uint64_t n_bytes, uint64_t *n_different) = 0;
};

} // namespace vectorgpu::engine
