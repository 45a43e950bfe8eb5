// See key_coder.hpp.
#include "am/keys/key_coder.hpp"

#include <cstring>

namespace vectorgpu::am
{

KeyCoder *
index_key_coder(Relation index)
{
	const int n_columns = IndexRelationGetNumberOfKeyAttributes(index) - 1;
	KeyCoder *coder;
	KeyLayout *layout;

	if (n_columns == 0)
		return nullptr;
	coder = static_cast<KeyCoder *>(palloc0(offsetof(KeyCoder, columns) + n_columns * sizeof(KeyColumn)));
	layout = &coder->layout;
	layout->n_columns = static_cast<uint8>(n_columns);
	for (int i = 0; i < n_columns; i++)
	{
		KeyColumn *column = &coder->columns[i];

		key_column_of_index(index, static_cast<AttrNumber>(i + 2), column);
		layout->formats[i] = key_format(column);
		for (uint32 j = 0; j < column->n_streams; j++)
		{
			layout->widths[layout->n_streams] = column->widths[j];
			layout->columns[layout->n_streams++] = static_cast<uint8>(i);
		}
	}
	return coder;
}

void
key_coder_check(Relation index, const KeyCoder *coder, const KeyLayout *stored)
{
	if (memcmp(&coder->layout, stored, sizeof(KeyLayout)) != 0)
		ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				errmsg("index \"%s\" was built for other key columns", RelationGetRelationName(index)),
				errdetail("The codes in its pages are not those of its operator classes and collations today."),
				errhint("Rebuild it with REINDEX INDEX.")));
}

void
key_image(const KeyCoder *coder, const Datum *values, const bool *isnull, char *image)
{
	const KeyLayout *layout = &coder->layout;
	char *flags = image + key_flags_offset(layout);
	char *at = image;

	memset(image, 0, key_image_bytes(layout));
	for (uint32 i = 0; i < layout->n_columns; i++)
	{
		const KeyColumn *column = &coder->columns[i];
		uint64 codes[kMostKeyStreams] = {};

		if (isnull[i])
			flags[i / 8] |= static_cast<char>(1 << (i % 8));
		else
			key_encode(column, values[i], codes);
		for (uint32 j = 0; j < column->n_streams; j++)
		{
			memcpy(at, &codes[j], column->widths[j]);
			at += column->widths[j];
		}
	}
}

} // namespace vectorgpu::am
