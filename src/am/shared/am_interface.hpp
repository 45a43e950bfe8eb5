// What an access method fills in, and the callbacks that it shares with the others. An access method is a handler that
// sets IndexAmRoutine's callbacks to thin functions, each passing its AccessMethod to a function below. PG dialect.
#pragma once

#include "am/shared/metapage.hpp"
#include "engine/topk.hpp"

extern "C"
{
#include "access/amapi.h"
#include "nodes/execnodes.h"
}

namespace vectorgpu::am
{

/// One query against one segment.
struct SegmentSearch
{
	Relation index;
	const MetaData *meta;
	const SegmentEntry *segment;
	BufferAccessStrategy strategy;
	const void *query;   // one vector of the index's element type, as stored in streams
	engine::TopK *topk;  // takes the candidates: scores of engine::compute_scores, row ids
	uint64 *n_compared;  // to be increased by the rows whose distance was computed
};

struct AccessMethod
{
	const char *name;
	AmId id;

	/// True if the access method can search such an index.
	bool (*supports)(ElementType element, Metric metric);

	/// Offers the rows of a segment that have a value and no tombstone. Called in a context that is reset soon after;
	/// holds no content lock when it returns. Returns false if a page was foreign (see page_read): what it offered till
	/// then is thrown away. The delta and the NULL rows are the scan driver's.
	bool (*search_segment)(const SegmentSearch *search);
};

/// What an index column is: read from the operator class (support function 1) and the column's type modifier.
struct IndexShape
{
	ElementType element;
	Metric metric;
	uint32 dim; // elements (bits for kBit)
};

/// Support function 1 of every operator class returns this code: element << 8 | metric.
constexpr int16 kShapeSupport = 1;

constexpr int32
shape_code(ElementType element, Metric metric)
{
	return static_cast<int32>(element) << 8 | static_cast<int32>(metric);
}

/// The strategy of the one ordering operator of every operator class.
constexpr int16 kDistanceStrategy = 1;

/// shape.cpp. The shape of a new index. Raises 22023 if the column has no dimensions, 54000 if it has too many, 0A000 if
/// the access method cannot search it.
IndexShape index_shape(const AccessMethod *am, Relation index);

/// shape.cpp. The IndexAmRoutine of an access method without boolean operators, the shared callbacks not yet set.
IndexAmRoutine *new_routine();

/// shape.cpp. amoptions of an access method without storage parameters: refuses all of them.
bytea *no_options(Datum reloptions, bool validate);

/// validate.cpp. amvalidate.
bool shared_validate(const AccessMethod *am, Oid opclass_oid);

/// build.cpp. ambuild, ambuildempty, ambuildphasename, aminsert.
IndexBuildResult *shared_build(const AccessMethod *am, Relation heap, Relation index, IndexInfo *info);
void shared_build_empty(const AccessMethod *am, Relation index);
char *shared_build_phase_name(int64 phase);
bool shared_insert(const AccessMethod *am, Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap);

/// scan.cpp. ambeginscan, amrescan, amgettuple, amendscan.
IndexScanDesc shared_begin_scan(const AccessMethod *am, Relation index, int n_keys, int n_orderbys);
void shared_rescan(IndexScanDesc scan, ScanKey keys, int n_keys, ScanKey orderbys, int n_orderbys);
bool shared_get_tuple(IndexScanDesc scan, ScanDirection direction);
void shared_end_scan(IndexScanDesc scan);

} // namespace vectorgpu::am
