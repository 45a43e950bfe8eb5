// Indexes over sparsevec: stored values in TID order, each search compares all of them. See README.md. PG dialect.
#pragma once

#include <type_traits>

#include "am/method/am_interface.hpp"
#include "storage/value_format.hpp"
#include "engine/distance/sparse.hpp"

namespace vectorgpu::am
{

/// Stream of a segment beside the common ones: uint64 [n_rows], the end of each row's stored value in kVectors.
/// kVectors has the values without their lengths: int32 indices [nnz], then float values [nnz].
constexpr StreamKind kSparseEnds = StreamKind{4};

/// The contents of MetaData::am_options.
struct SparseOptions
{
	int32 dim;         // of the column's type modifier
	int32 dim_flipped; // ~dim: no other page says how many dimensions there are, so that damage would go unnoticed
};

static_assert(sizeof(SparseOptions) <= kAmOptionBytes && std::is_trivially_copyable_v<SparseOptions>);

inline SparseOptions
sparse_options(const uint8 *am_options)
{
	SparseOptions options;

	memcpy(&options, am_options, sizeof(options));
	return options;
}

/// sparse_method.cpp. The description of an access method by this name, for operator classes of sparsevec.
AccessMethod sparse_method(const char *name, bool named_for_pgvector);

/// sparse_value.cpp
extern const ValueFormat kSparseValues;

/// sparse_format.cpp
extern const SegmentFormat kSparseFormat;

/// sparse_worker.cpp
extern const WorkerStructure kSparseWorkerStructure;

/// sparse_search.cpp. AccessMethod::search_segment: scores every row of the segment.
bool sparse_search_segment(const SegmentSearch *search);

} // namespace vectorgpu::am
