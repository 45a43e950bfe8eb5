// Inverted lists over the rows of a store, built through Engine's interface, and codes of the rows by host threads.
#pragma once

#include <memory>

#include "engine/interface/codes_layout.hpp"
#include "engine/interface/engine.hpp"
#include "row_store.hpp"

namespace vectorgpu::bench
{

struct BuiltLists
{
	uint32_t dim = 0;
	std::vector<float> centroids;  // [n_lists, dim]
	std::vector<uint64_t> offsets; // [n_lists + 1]
	std::vector<uint32_t> numbers; // by place

	uint32_t n_lists() const { return static_cast<uint32_t>(offsets.size() - 1); }
};

/// Train lists and assign all rows.
BuiltLists build_lists(engine::Engine *engine, const RowStore &store, const Options &options, Report *report);

/// The part of a segment's description behind the lists (codes_layout.hpp).
struct EncodedRows
{
	engine::CodesLayout layout;
	std::unique_ptr<uint8_t[]> bytes; // [layout.bytes()]

	/// Bytes of a row, with its term.
	double row_bytes() const
	{
		return static_cast<double>(engine::ivf::code_bytes(layout.spec)) +
			(engine::ivf::code_has_terms(layout.spec) ? 4 : 0);
	}
};

/// Train codes on a sample and encode all rows. Exits where there are no such codes. report: may be null.
EncodedRows encode_rows(
	const RowStore &store, const BuiltLists &lists, const Storage &storage, const Options &options, Report *report);

/// A segment of such a copy, sealed. kUnsupported and kOutOfMemory: *copy is dropped. rows of kRows: all of the store
/// by number; lists and encoded are not read then.
Status load_copy(engine::Engine *engine, engine::CopyKind kind, const RowStore &store, const BuiltLists &lists,
	const EncodedRows &encoded, const Options &options, engine::CopyId *copy);

} // namespace vectorgpu::bench
