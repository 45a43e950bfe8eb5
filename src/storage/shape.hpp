// What an index column is: what pages and stored values have to know of it. PG dialect.
#pragma once

#include "storage/metapage.hpp"

#include <cstring>

namespace vectorgpu::am
{

/// What an index column is: read from the operator class (support function 1) and the column's type modifier.
struct IndexShape
{
	ElementType element;
	Metric metric;
	uint32 dim; // elements (bits for kBit)
	AmId am;
	uint8 am_options[kAmOptionBytes]; // MetaData::am_options; access methods with values of their own only
};

/// The shape of an index that is built.
inline IndexShape
shape_of_meta(const MetaData *meta)
{
	IndexShape shape = {};

	shape.element = meta->element;
	shape.metric = meta->metric;
	shape.dim = meta->dim;
	shape.am = meta->am;
	memcpy(shape.am_options, meta->am_options, sizeof(shape.am_options));
	return shape;
}

} // namespace vectorgpu::am
