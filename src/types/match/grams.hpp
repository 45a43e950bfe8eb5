// The n-grams of a string (section V-A) as elements. PG dialect.
#pragma once

#include "types/match/element.hpp"

namespace vectorgpu::types
{

/// Return the ordered n-grams of a text Datum, n = gram_length characters.
extern ElementList gram_elements(Datum text, int gram_length);

} // namespace vectorgpu::types
