// Shared by the parts of fuzz_options. The layouts of gpuivf and gpugraph have names in common, so that each has a file
// of its own.
#pragma once

#include <cstring>

#include "am/method/am_interface.hpp"
#include "storage/metapage.hpp"
#include "common/limits.hpp"
#include "fake_options.hpp"

namespace vectorgpu::fuzz
{

/// The metapage that options are stored in.
inline am::MetaData meta;

/// Draw element, metric and dimensions into an otherwise empty metapage.
inline void
draw_shape(Draw *draw)
{
	constexpr Metric kMetrics[] = {Metric::kL2, Metric::kInnerProduct, Metric::kCosine, Metric::kL1};
	const uint8_t element = draw->take<uint8_t>();

	memset(&meta, 0, sizeof(meta));
	meta.element = (element & 1) != 0 ? ElementType::kFloat16 : ElementType::kFloat32;
	meta.metric = kMetrics[element >> 1 & 3];
	meta.dim = draw->take<uint16_t>() % kMaxDimensions + 1u;
}

inline am::IndexShape
shape_now()
{
	am::IndexShape shape = {};

	shape.element = meta.element;
	shape.metric = meta.metric;
	shape.dim = meta.dim;
	return shape;
}

/// Require the error code that a refusal of options must have.
inline void
require_refusal()
{
	REQUIRE(error_code == ERRCODE_INVALID_PARAMETER_VALUE || error_code == ERRCODE_FEATURE_NOT_SUPPORTED);
}

/// options_graph.cpp
void define_graph();
void try_graph(Draw draw);

} // namespace vectorgpu::fuzz
