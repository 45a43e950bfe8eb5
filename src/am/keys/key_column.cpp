// See key_column.hpp.
#include "am/keys/key_column.hpp"

#include "am/keys/array_code.hpp"
#include "am/keys/exact_code.hpp"
#include "am/keys/value_code.hpp"
#include "am/method/am_interface.hpp"

extern "C"
{
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"
}

namespace vectorgpu::am
{

namespace
{

/// The number and widths of the streams of a column whose kind is known.
void
set_streams(KeyColumn *column)
{
	const ExactKind *exact = exact_kind(column->kind);

	column->n_streams = 1;
	column->widths[0] = exact != nullptr ? exact->width : sizeof(uint64);
	column->widths[1] = sizeof(uint64);
	if (column->kind == KeyKind::kEnum)
		column->widths[0] = sizeof(Oid);
	if (column->kind == KeyKind::kUuid || column->kind == KeyKind::kArray || column->in_order)
		column->n_streams = 2;
}

/// A text or bytea: equality first, then, where values sort as bytes do, the prefix.
void
encode_bytes(const KeyColumn *column, Datum value, uint64 *codes)
{
	struct varlena *stored = PG_DETOAST_DATUM_PACKED(value);
	const char *bytes = VARDATA_ANY(stored);
	const size_t size = VARSIZE_ANY_EXHDR(stored);

	if (column->bytewise && size <= kShortBytes)
		codes[0] = short_bytes_code(bytes, size);
	else
		codes[0] = hashed_code(key_hash(column, PointerGetDatum(stored)));
	if (column->in_order)
		codes[1] = prefix_code(bytes, size);
	if (reinterpret_cast<Pointer>(stored) != DatumGetPointer(value))
		pfree(stored);
}

void
encode_array(const KeyColumn *column, Datum value, uint64 *codes)
{
	ArrayElements elements;
	ArrayBits signature;

	array_elements(column, value, &elements);
	signature = array_signature(elements);
	for (int i = 0; i < kMostKeyStreams; i++)
		codes[i] = signature.bits[i];
	pfree(elements.elements);
}

} // namespace

void
key_column_open(Oid family, Oid class_type, Oid type, Oid collation, KeyColumn *column)
{
	const Oid shape = get_opfamily_proc(family, class_type, class_type, kShapeSupport);
	const int32 code = OidIsValid(shape) ? DatumGetInt32(OidFunctionCall0(shape)) : 0;
	const Oid hash = get_opfamily_proc(family, class_type, class_type, kHashSupport);

	if (!is_filter_class(code) || (code & 0xFF) < 1 || (code & 0xFF) > kLastKeyKind)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("operator class is not for conditions inside an index"),
				errdetail("Only the first key column is searched by distance."),
				errhint(
					"To search by the column, make an index for it alone. For conditions on it, name an operator class "
					"whose name ends in _filter_ops, if its type has one.")));
	*column = {};
	column->kind = static_cast<KeyKind>(code & 0xFF);
	column->family = family;
	column->class_type = class_type;
	column->type = getBaseType(type);
	column->collation = collation;
	column->bytewise = column->kind == KeyKind::kBytea ||
		((column->kind == KeyKind::kText || column->kind == KeyKind::kArray) && OidIsValid(collation) &&
			get_collation_isdeterministic(collation));
	column->in_order =
		column->kind == KeyKind::kBytea || (column->kind == KeyKind::kText && pg::collation_sorts_bytes(collation));
	if (column->kind == KeyKind::kArray)
		array_column_open(column);
	else if (OidIsValid(hash))
		fmgr_info(hash, &column->hash);
	set_streams(column);
}

void
key_column_of_index(Relation index, AttrNumber attribute, KeyColumn *column)
{
	const int i = attribute - 1;

	key_column_open(index->rd_opfamily[i], index->rd_opcintype[i], TupleDescAttr(RelationGetDescr(index), i)->atttypid,
		index->rd_indcollation[i], column);
}

uint32
key_format(const KeyColumn *column)
{
	return static_cast<uint32>(column->kind) | (column->bytewise ? 1u << 8 : 0) | (column->in_order ? 1u << 9 : 0);
}

uint64
key_hash(const KeyColumn *column, Datum value)
{
	FmgrInfo *hash = const_cast<FmgrInfo *>(&column->hash);

	return DatumGetUInt64(FunctionCall2Coll(hash, column->collation, value, UInt64GetDatum(0)));
}

void
key_encode(const KeyColumn *column, Datum value, uint64 *codes)
{
	switch (column->kind)
	{
		case KeyKind::kNumeric:
			codes[0] = numeric_code(value);
			return;
		case KeyKind::kUuid:
		{
			const char *bytes = reinterpret_cast<const char *>(DatumGetUUIDP(value)->data);

			codes[0] = prefix_code(bytes, UUID_LEN);
			codes[1] = prefix_code(bytes + sizeof(uint64), UUID_LEN - sizeof(uint64));
			return;
		}
		case KeyKind::kText:
		case KeyKind::kBytea:
			encode_bytes(column, value, codes);
			return;
		case KeyKind::kInet:
			if (!ipv4_code(value, codes))
				codes[0] = hashed_code(key_hash(column, value));
			return;
		case KeyKind::kEnum:
			codes[0] = DatumGetObjectId(value);
			return;
		case KeyKind::kArray:
			encode_array(column, value, codes);
			return;
		default:
			codes[0] = exact_code(column->kind, value);
	}
}

} // namespace vectorgpu::am
