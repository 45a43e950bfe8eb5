// The properties of an index column that pages and stored values depend on. PG dialect.
#pragma once

#include "storage/metapage.hpp"

#include <cstring>

namespace vectorgpu::am
{

/// The properties of an index column, from the operator class (support function 1) and the column's type modifier.
struct IndexShape
{
	ElementType element;
	Metric metric;
	uint32 dim; // elements (bits for kBit)
	AmId am;
	uint8 am_options[kAmOptionBytes]; // MetaData::am_options; set only for access methods with stored values
};

/// Return the shape of an index that is built.
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
