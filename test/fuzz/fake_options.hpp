// Storage parameters and options of operator classes as core passes them on: names, types and bounds as defined by the
// module, values drawn from the input of a fuzz target. Values that core refuses (names, bounds, members) are never
// drawn.
#pragma once

#include "fake_server.hpp"

extern "C"
{
#include "access/reloptions.h"
}

namespace vectorgpu::fuzz
{

/// The bytes of one input, taken from the front; zeros after its end.
struct Draw
{
	const uint8_t *data;
	size_t size;

	template <class T>
	T take()
	{
		T value = {};
		const size_t n = size < sizeof(T) ? size : sizeof(T);

		__builtin_memcpy(&value, data, n);
		data += n;
		size -= n;
		return value;
	}
};

/// The input of build_reloptions; set by the target.
extern Draw options_draw;

/// The options of an operator class as core makes them: `define` declares them, values are drawn from options_draw;
/// palloc'd. Raises the errors of their validators.
bytea *operator_class_options(PGFunction define);

/// The support function that every index has: the shape function of its operator class.
extern FmgrInfo shape_function;

} // namespace vectorgpu::fuzz
