// The key columns behind an index's first column: how the values of a row become the image of its codes. PG dialect.
#pragma once

#include "am/keys/key_column.hpp"
#include "storage/key_layout.hpp"

extern "C"
{
#include "utils/rel.h"
}

namespace vectorgpu::am
{

struct KeyCoder
{
	KeyLayout layout;
	KeyColumn columns[FLEXIBLE_ARRAY_MEMBER]; // [layout.n_columns]
};

/// Open the key columns of an index, in the current memory context. Null if it has its first column only. Raises 0A000
/// if the operator class of another column is no filter class.
KeyCoder *index_key_coder(Relation index);

/// Raise 55000 unless the pages, of this layout, have the codes that the coder makes. coder: of an index with key
/// columns.
void key_coder_check(Relation index, const KeyCoder *coder, const KeyLayout *stored);

/// Write the image of a row. values, isnull: of the key columns, [n_columns]. image [key_image_bytes]. What it
/// allocates is in the current memory context.
void key_image(const KeyCoder *coder, const Datum *values, const bool *isnull, char *image);

} // namespace vectorgpu::am
