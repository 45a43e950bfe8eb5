// The SQL functions behind the views vectorgpu_worker and vectorgpu_indexes, over shared state, STATS and INVENTORY.
// Without a worker they raise no error; its columns are NULL. PG dialect.
#include "bridge/client_session.hpp"
#include "bridge/index_fallbacks.hpp"
#include "bridge/settings.hpp"
#include "bridge/shared_state.hpp"
#include "pg/privilege.hpp"

#include <cinttypes>
#include <cstring>

extern "C"
{
#include "access/htup_details.h"
#include "catalog/index.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

	PG_FUNCTION_INFO_V1(vectorgpu_worker_stats);
	PG_FUNCTION_INFO_V1(vectorgpu_worker_filters);
	PG_FUNCTION_INFO_V1(vectorgpu_worker_copies);
	PG_FUNCTION_INFO_V1(vectorgpu_worker_devices);
	PG_FUNCTION_INFO_V1(vectorgpu_worker_copy_devices);
	PG_FUNCTION_INFO_V1(vectorgpu_index_fallbacks);
}

namespace vectorgpu::bridge
{

namespace
{

enum StatsColumn
{
	kPid,
	kSupervisorPid,
	kReady,
	kEngine,
	kDevice,
	kUptime,
	kRestarts,
	kSessions,
	kQueued,
	kSearches,
	kBatches,
	kMeanBatchSize,
	kLatencyP50,
	kLatencyP99,
	kCopies,
	kResidentBytes,
	kMemoryBytes,
	kEvictions,
	kAnswered,
	kShippedRows,
	kInlineLoads,
	kBackgroundLoads,
	kBackgroundUpdates,
	kFallbacks,
	kFallbackReasons,
	kStatsColumns,
};

enum FilterColumn
{
	kFiltersMade,
	kFiltersFound,
	kFilterColumns,
};

enum DeviceColumn
{
	kDevices,
	kDeviceBytes,
	kLostDevices,
	kHostBytes,
	kDeviceColumns,
};

enum CopyDeviceColumn
{
	kOnTablespace,
	kOnFileNode,
	kOnUuid,
	kOnDevices,
	kOnDeviceBytes,
	kOnHostBytes,
	kCopyDeviceColumns,
};

enum CopyColumn
{
	kTablespace,
	kFileNode,
	kUuid,
	kCopyBytes,
	kRows,
	kDeltaRows,
	kDeadRows,
	kManifestGeneration,
	kDeltaEnd,
	kTombstoneGeneration,
	kLoads,
	kCopySearches,
	kIdle,
	kLoading,
	kCopyColumns,
};

enum IndexColumn
{
	kIndexFallbacks,
	kIndexReasons,
	kIndexColumns,
};

constexpr double kBucketUs = 0.256; // the histogram's unit

struct Row
{
	Datum *values;
	bool *nulls;
};

void
set(const Row &row, int column, Datum value)
{
	row.values[column] = value;
	row.nulls[column] = false;
}

void
set_int8(const Row &row, int column, uint64 value)
{
	set(row, column, Int64GetDatum(static_cast<int64>(value)));
}

void
check_columns(int n, int expected)
{
	if (n != expected)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH), errmsg("unexpected result type of a vectorgpu function"),
				errhint("Run ALTER EXTENSION vectorgpu UPDATE.")));
}

/// Return the upper end, in us, of the bucket with this quantile of all values; *known is false if there are none.
double
percentile_us(const uint64_t *histogram, double share, bool *known)
{
	double total = 0;
	double seen = 0;

	for (uint32 i = 0; i < wire::kHistogramBuckets; i++)
		total += static_cast<double>(histogram[i]);
	*known = total > 0;
	for (uint32 i = 0; i < wire::kHistogramBuckets; i++)
	{
		seen += static_cast<double>(histogram[i]);
		if (seen >= share * total)
			return kBucketUs * static_cast<double>(UINT64CONST(2) << i);
	}
	return 0;
}

void
fill_latency(const Row &row, int column, const wire::WorkerStats *stats, double share)
{
	bool known;
	const double value = percentile_us(stats->latency_histogram, share, &known);

	if (known)
		set(row, column, Float8GetDatum(value));
}

/// False without a worker.
bool
ask_stats(wire::WorkerStats *stats)
{
	wire::ReplyHeader header;
	Fallback reason;

	return session_ready(false) &&
		session_request(wire::RequestType::kStats, nullptr, nullptr, 0, &header, stats, sizeof(*stats), &reason) &&
		header.status == wire::ReplyStatus::kOk;
}

void
fill_from_worker(const Row &row)
{
	wire::WorkerStats stats;
	Interval *uptime;

	if (!ask_stats(&stats))
		return;
	stats.device[sizeof(stats.device) - 1] = '\0';
	uptime = static_cast<Interval *>(palloc0(sizeof(Interval)));
	uptime->time = static_cast<TimeOffset>((stats.now_ns - stats.started_ns) / 1000);
	set(row, kUptime, IntervalPGetDatum(uptime));
	set(row, kEngine, CStringGetTextDatum(session_engine() == wire::EngineKind::kCuda ? "cuda" : "cpu"));
	set(row, kDevice,
		CStringGetTextDatum(pg_any_to_server(stats.device, static_cast<int>(strlen(stats.device)), PG_UTF8)));
	set_int8(row, kSessions, stats.n_sessions);
	set_int8(row, kQueued, stats.n_queued);
	set_int8(row, kSearches, stats.n_searches);
	set_int8(row, kBatches, stats.n_batches);
	if (stats.n_batches > 0)
		set(row, kMeanBatchSize,
			Float8GetDatum(static_cast<double>(stats.n_searches) / static_cast<double>(stats.n_batches)));
	fill_latency(row, kLatencyP50, &stats, 0.50);
	fill_latency(row, kLatencyP99, &stats, 0.99);
	set_int8(row, kCopies, stats.n_copies);
	set_int8(row, kResidentBytes, stats.resident_bytes);
	set_int8(row, kMemoryBytes, stats.budget_bytes);
	set_int8(row, kEvictions, stats.n_evictions);
}

/// Return the counts by reason as the text of a JSON object.
char *
reasons_json(const uint64 *counts)
{
	StringInfoData json;

	initStringInfo(&json);
	for (int i = 0; i < static_cast<int>(Fallback::kCount); i++)
		appendStringInfo(
			&json, "%s\"%s\": " UINT64_FORMAT, i == 0 ? "{" : ", ", fallback_name(static_cast<Fallback>(i)), counts[i]);
	appendStringInfoChar(&json, '}');
	return json.data;
}

void
set_fallbacks(const Row &row, int total_column, int reasons_column, const uint64 *counts)
{
	uint64 total = 0;

	for (int i = 0; i < static_cast<int>(Fallback::kCount); i++)
		total += counts[i];
	set_int8(row, total_column, total);
	set(row, reasons_column, CStringGetTextDatum(reasons_json(counts)));
}

void
fill_from_shared(const Row &row, SharedState *state)
{
	const uint32 pid = pg_atomic_read_u32(&state->worker_pid);
	const uint32 supervisor = pg_atomic_read_u32(&state->supervisor_pid);
	const uint64 generation = pg_atomic_read_u64(&state->generation);
	uint64 counts[static_cast<int>(Fallback::kCount)];

	if (pid != 0)
		set(row, kPid, Int32GetDatum(static_cast<int32>(pid)));
	if (supervisor != 0)
		set(row, kSupervisorPid, Int32GetDatum(static_cast<int32>(supervisor)));
	set(row, kReady,
		BoolGetDatum(pg_atomic_read_u32(&state->worker_ready) != 0 && pg_atomic_read_u32(&state->worker_silent) == 0));
	set_int8(row, kRestarts, generation > 0 ? generation - 1 : 0);
	set_int8(row, kAnswered, pg_atomic_read_u64(&state->n_answered));
	set_int8(row, kShippedRows, pg_atomic_read_u64(&state->n_shipped_rows));
	set_int8(row, kInlineLoads, pg_atomic_read_u64(&state->n_inline_loads));
	set_int8(row, kBackgroundLoads, pg_atomic_read_u64(&state->n_background_loads));
	set_int8(row, kBackgroundUpdates, pg_atomic_read_u64(&state->n_background_updates));
	for (int i = 0; i < static_cast<int>(Fallback::kCount); i++)
		counts[i] = pg_atomic_read_u64(&state->fallbacks[i]);
	set_fallbacks(row, kFallbacks, kFallbackReasons, counts);
}

Datum
uuid_text(const wire::CopyKey *key)
{
	return CStringGetTextDatum(
		psprintf("%016" PRIx64 "%016" PRIx64, static_cast<uint64>(key->uuid_high), static_cast<uint64>(key->uuid_low)));
}

Datum
text_array(Datum *texts, int n)
{
	return PointerGetDatum(construct_array(texts, n, TEXTOID, -1, false, TYPALIGN_INT));
}

Datum
int8_array(Datum *numbers, int n)
{
	return PointerGetDatum(construct_array(numbers, n, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/// Host memory; of several devices their names and bytes.
void
fill_devices(const Row &row, wire::WorkerStats *stats)
{
	Datum names[kMostDevices];
	Datum bytes[kMostDevices];
	Datum lost[kMostDevices];
	int n = 0;
	int n_lost = 0;

	set_int8(row, kHostBytes, stats->host_bytes);
	for (uint32 i = 0; i < Min(stats->n_devices, static_cast<uint32>(kMostDevices)); i++)
	{
		wire::WorkerDevice *device = &stats->devices[i];

		device->name[sizeof(device->name) - 1] = '\0';
		names[n] = CStringGetTextDatum(device->name);
		if (device->usable == 0)
			lost[n_lost++] = names[n];
		bytes[n++] = Int64GetDatum(static_cast<int64>(device->resident_bytes));
	}
	if (n == 0)
		return;
	set(row, kDevices, text_array(names, n));
	set(row, kDeviceBytes, int8_array(bytes, n));
	set(row, kLostDevices, text_array(lost, n_lost));
}

/// Where a copy is: bytes in host memory; of several devices those that have it or a part of it.
void
put_copy_devices(ReturnSetInfo *result, const wire::CopyInfo *copy, const wire::WorkerStats *stats)
{
	Datum values[kCopyDeviceColumns] = {};
	bool nulls[kCopyDeviceColumns];
	const Row row = {values, nulls};
	Datum names[kMostDevices];
	Datum bytes[kMostDevices];
	int n = 0;

	memset(nulls, true, sizeof(nulls));
	for (uint32 i = 0; i < Min(Min(copy->n_devices, stats->n_devices), static_cast<uint32>(kMostDevices)); i++)
		if (copy->device_bytes[i] > 0)
		{
			names[n] = CStringGetTextDatum(pnstrdup(stats->devices[i].name, sizeof(stats->devices[i].name)));
			bytes[n++] = Int64GetDatum(static_cast<int64>(copy->device_bytes[i]));
		}
	set(row, kOnTablespace, ObjectIdGetDatum(copy->key.tablespace));
	set(row, kOnFileNode, ObjectIdGetDatum(copy->key.relfilenode));
	set(row, kOnUuid, uuid_text(&copy->key));
	set_int8(row, kOnHostBytes, copy->host_bytes);
	if (copy->n_devices > 0 && stats->n_devices > 0)
	{
		set(row, kOnDevices, text_array(names, n));
		set(row, kOnDeviceBytes, int8_array(bytes, n));
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

void
put_copy(ReturnSetInfo *result, const wire::CopyInfo *copy, uint64 now_ns)
{
	Datum values[kCopyColumns];
	bool nulls[kCopyColumns];
	const Row row = {values, nulls};
	Interval *idle = static_cast<Interval *>(palloc0(sizeof(Interval)));

	memset(values, 0, sizeof(values));
	memset(nulls, true, sizeof(nulls));
	idle->time = copy->last_used_ns < now_ns ? static_cast<TimeOffset>((now_ns - copy->last_used_ns) / 1000) : 0;
	set(row, kTablespace, ObjectIdGetDatum(copy->key.tablespace));
	set(row, kFileNode, ObjectIdGetDatum(copy->key.relfilenode));
	set(row, kUuid, uuid_text(&copy->key));
	set_int8(row, kCopyBytes, copy->resident_bytes);
	set_int8(row, kRows, copy->n_rows);
	set_int8(row, kDeltaRows, copy->delta_rows);
	set_int8(row, kDeadRows, copy->n_dead);
	set_int8(row, kManifestGeneration, copy->version.manifest_generation);
	set_int8(row, kDeltaEnd, copy->version.delta_end);
	set_int8(row, kTombstoneGeneration, copy->version.tombstone_generation);
	set_int8(row, kLoads, copy->n_loads);
	set_int8(row, kCopySearches, copy->n_searches);
	set(row, kIdle, IntervalPGetDatum(idle));
	set(row, kLoading, BoolGetDatum(copy->leased != 0));
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/// Return true if the caller may see the copy: as in the view vectorgpu_indexes, if it may read the table.
bool
may_see(const wire::CopyKey *key)
{
	Oid index;
	Oid heap;

	// This includes a copy whose index is gone and that is not swept yet.
	if (superuser() || has_privs_of_role(GetUserId(), ROLE_PG_STAT_SCAN_TABLES))
		return true;
	index =
		pg::relation_of_file(key->tablespace == MyDatabaseTableSpace ? InvalidOid : key->tablespace, key->relfilenode);
	heap = OidIsValid(index) ? IndexGetRelation(index, true) : InvalidOid;
	return OidIsValid(heap) && pg::may_read_table(heap);
}

} // namespace
} // namespace vectorgpu::bridge

/// vectorgpu_worker_stats(): one row.
Datum
vectorgpu_worker_stats(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu::bridge;
	SharedState *state = shared_state();
	TupleDesc descriptor;
	Datum values[kStatsColumns];
	bool nulls[kStatsColumns];
	const Row row = {values, nulls};

	if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
		check_columns(0, kStatsColumns);
	check_columns(descriptor->natts, kStatsColumns);
	memset(values, 0, sizeof(values));
	memset(nulls, true, sizeof(nulls));
	if (state != nullptr)
	{
		fill_from_worker(row);
		fill_from_shared(row, state);
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/// vectorgpu_worker_filters(): one row.
Datum
vectorgpu_worker_filters(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu;
	using namespace vectorgpu::bridge;
	TupleDesc descriptor;
	wire::WorkerStats stats;
	Datum values[kFilterColumns] = {};
	bool nulls[kFilterColumns];
	const Row row = {values, nulls};

	if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
		check_columns(0, kFilterColumns);
	check_columns(descriptor->natts, kFilterColumns);
	memset(nulls, true, sizeof(nulls));
	if (shared_state() != nullptr && ask_stats(&stats))
	{
		set_int8(row, kFiltersMade, stats.n_filters_made);
		set_int8(row, kFiltersFound, stats.n_filters_found);
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/// vectorgpu_worker_devices(): one row; NULLs of devices if the worker has only one.
Datum
vectorgpu_worker_devices(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu;
	using namespace vectorgpu::bridge;
	TupleDesc descriptor;
	wire::WorkerStats stats;
	Datum values[kDeviceColumns] = {};
	bool nulls[kDeviceColumns];
	const Row row = {values, nulls};

	if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
		check_columns(0, kDeviceColumns);
	check_columns(descriptor->natts, kDeviceColumns);
	memset(nulls, true, sizeof(nulls));
	if (shared_state() != nullptr && ask_stats(&stats))
		fill_devices(row, &stats);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}

/// vectorgpu_worker_copy_devices(): where the copies of vectorgpu_worker_copies() are.
Datum
vectorgpu_worker_copy_devices(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu;
	using namespace vectorgpu::bridge;
	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	wire::WorkerStats stats;
	wire::CopyInfo *copies;
	uint32 n;

	InitMaterializedSRF(fcinfo, 0);
	check_columns(result->setDesc->natts, kCopyDeviceColumns);
	if (shared_state() == nullptr || !ask_stats(&stats))
		return (Datum) 0;
	copies = static_cast<wire::CopyInfo *>(palloc(sizeof(wire::CopyInfo) * kCopiesPerReply));
	for (uint32 first = 0; (n = session_inventory(first, copies)) > 0; first += n)
		for (uint32 i = 0; i < n; i++)
			if (copies[i].key.database == MyDatabaseId && may_see(&copies[i].key))
				put_copy_devices(result, &copies[i], &stats);
	return (Datum) 0;
}

/// vectorgpu_worker_copies(): the copies of this database's indexes, as far as the caller may see them.
Datum
vectorgpu_worker_copies(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu;
	using namespace vectorgpu::bridge;
	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);
	wire::CopyInfo *copies;
	uint32 n;

	InitMaterializedSRF(fcinfo, 0);
	check_columns(result->setDesc->natts, kCopyColumns);
	copies = static_cast<wire::CopyInfo *>(palloc(sizeof(wire::CopyInfo) * kCopiesPerReply));
	for (uint32 first = 0; (n = session_inventory(first, copies)) > 0; first += n)
		for (uint32 i = 0; i < n; i++)
			if (copies[i].key.database == MyDatabaseId && may_see(&copies[i].key))
				put_copy(result, &copies[i], wire::monotonic_ns());
	return (Datum) 0;
}

/// vectorgpu_index_fallbacks(index): one row; NULLs if the caller may not see it, or nothing is counted for lack of
/// shared memory.
Datum
vectorgpu_index_fallbacks(PG_FUNCTION_ARGS)
{
	using namespace vectorgpu;
	using namespace vectorgpu::bridge;
	const Oid index = PG_GETARG_OID(0);
	const Oid heap = IndexGetRelation(index, true);
	TupleDesc descriptor;
	Datum values[kIndexColumns] = {};
	bool nulls[kIndexColumns] = {true, true};
	const Row row = {values, nulls};
	uint64 counts[static_cast<int>(Fallback::kCount)];

	if (get_call_result_type(fcinfo, nullptr, &descriptor) != TYPEFUNC_COMPOSITE)
		check_columns(0, kIndexColumns);
	check_columns(descriptor->natts, kIndexColumns);
	if (OidIsValid(heap) && pg::may_read_table(heap) && read_index_fallbacks(index, counts))
		set_fallbacks(row, kIndexFallbacks, kIndexReasons, counts);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(descriptor), values, nulls));
}
