// amvalidate for filter classes. PG dialect.
#pragma once

#include "am/keys/key_kind.hpp"

namespace vectorgpu::am
{

/// Whether the operator class with this family and input type is a filter class, by its support function 1.
bool is_filter_class_of(Oid family, Oid input_type);

/// Check a filter class and its family; what is wrong is reported as INFO.
bool validate_filter_class(const char *method, Oid family, Oid input_type);

} // namespace vectorgpu::am
