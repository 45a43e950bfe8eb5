// The SQL function vectorgpu_kmeans: k-means over a column, with the algorithm that trains indexes. PG dialect.
//
// Rows are read by a query that runs as the caller, so the executor enforces privileges and row-level security. The
// first reading fills the training sample with as many rows as maintenance_work_mem has room for. If there are more
// rows, a second reading with the same snapshot assigns every row, so sizes and inertia are always those of the whole
// relation. If a worker is available and able, it trains and assigns (kmeans_worker.hpp).
#include "pg/postgres.hpp"

#include <algorithm>

#include "am/functions/kmeans_worker.hpp"
#include "engine/ivf/coarse.hpp"
#include "engine/ivf/kmeans.hpp"
#include "types/vector_type.hpp"

extern "C"
{
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

	PG_FUNCTION_INFO_V1(vectorgpu_kmeans);
}

namespace
{

using namespace vectorgpu;
namespace ivf = vectorgpu::engine::ivf;

constexpr int kBatchRows = 512;
constexpr int kMaxIterations = 1000;

/// The state of a call; lives in its own memory context.
struct Work
{
	SPIPlanPtr plan;
	ivf::KMeansSpec spec;
	uint64 seen;     // rows read that are not NULL
	uint64 capacity; // most rows in the sample
	uint64 allocated;
	float *sample; // [spec.n_rows, spec.dim]
	float *centroids;
	uint64 *sizes;
	double *inertia;
	uint64 random; // state of a xorshift
	am::KMeansWorker worker;
	uint32 n_used; // clusters
	ivf::Coarse coarse;
	void *assign_memory; // null: this process has not yet assigned a row
	Size assign_bytes;
	MemoryContext context;
	MemoryContext batch_context;
};

using ConsumeBatch = void (*)(Work *work, const float *rows, int n);

/// An interrupt may jump out of here: the engine's frames hold no object that needs a destructor.
bool
check_interrupts(void *, uint64_t, uint64_t)
{
	CHECK_FOR_INTERRUPTS();
	return true;
}

ivf::Call
engine_call()
{
	ivf::Call call;

	call.progress = check_interrupts;
	return call;
}

void
require_ok(ivf::Outcome outcome)
{
	if (!outcome.is_ok())
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not run k-means: %s", outcome.message)));
}

uint64
next_random(Work *work)
{
	work->random ^= work->random << 13;
	work->random ^= work->random >> 7;
	work->random ^= work->random << 17;
	return work->random;
}

/// Raise 42804 if the column's values do not cast to vector.
void
require_vectors(Oid relation, const char *column, Oid function)
{
	const Oid type = get_atttype(relation, get_attnum(relation, column));
	const Oid vector = GetSysCacheOid2(
		TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("vector"), ObjectIdGetDatum(get_func_namespace(function)));
	Oid cast;
	const CoercionPathType vectors = find_coercion_pathway(vector, type, COERCION_EXPLICIT, &cast);

	// A conversion through text would accept every type and then fail at the first value.
	if (vectors != COERCION_PATH_FUNC && vectors != COERCION_PATH_RELABELTYPE && vectors != COERCION_PATH_ARRAYCOERCE)
		ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
				errmsg("column \"%s\" is of type %s, which does not cast to vector", column, format_type_be(type)),
				errhint(
					"Choose a column of type vector, halfvec or an array of numbers; a view can cast other types.")));
}

constexpr char kReadable[] = {
	RELKIND_RELATION, RELKIND_PARTITIONED_TABLE, RELKIND_VIEW, RELKIND_MATVIEW, RELKIND_FOREIGN_TABLE, '\0'};

/// Return the query text, which casts the column to the extension's vector type.
const char *
make_query(Oid relation, const char *column, Oid function)
{
	const char *name = get_rel_name(relation);
	const char *type_schema = quote_identifier(get_namespace_name(get_func_namespace(function)));

	if (name == nullptr)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation with OID %u does not exist", relation)));
	if (strchr(kReadable, get_rel_relkind(relation)) == nullptr)
		ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"%s\" has no rows to read", name),
				errhint("Pass a table, a view, a materialized view or a foreign table; instead of an index, pass its "
						"table.")));
	if (get_attnum(relation, column) == InvalidAttrNumber)
		ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
				errmsg("column \"%s\" of relation \"%s\" does not exist", column, name)));

	require_vectors(relation, column, function);

	const char *quoted = quote_identifier(column);

	return psprintf("SELECT t.%s::%s.vector FROM %s t WHERE t.%s IS NOT NULL", quoted, type_schema,
		quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)), name), quoted);
}

/// Set the dimensions from the first row, and the number of rows for which there is room.
void
start_sample(Work *work, int dim)
{
	const Size budget = static_cast<Size>(maintenance_work_mem) * 1024;
	const Size centroid_bytes = static_cast<Size>(work->spec.n_clusters) * (dim * sizeof(float) + 24);
	const Size row_bytes = dim * sizeof(float);

	work->spec.dim = static_cast<uint32>(dim);
	work->spec.n_rows = 0;

	const Size fixed = centroid_bytes + ivf::kmeans_work_bytes(work->spec) +
		ivf::coarse_bytes(work->spec.dim, work->spec.n_clusters) + kBatchRows * row_bytes;
	const Size per_row = row_bytes + 16 + (work->spec.balance > 0 ? 1 : 0); // label, two orders, error; a flag

	work->capacity = fixed < budget ? (budget - fixed) / per_row : 0;
	work->capacity = std::min<uint64>(work->capacity, UINT32_MAX);
	if (work->capacity < work->spec.n_clusters)
		ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				errmsg("memory for k-means with %u clusters is too small", work->spec.n_clusters),
				errdetail("%u clusters of %d dimensions need %zu kB.", work->spec.n_clusters, dim,
					(fixed + work->spec.n_clusters * per_row) / 1024 + 1),
				errhint("Increase maintenance_work_mem, or request fewer clusters.")));
}

/// Add rows to the sample. Once it is full, each row of the relation is in it with equal probability (Vitter's
/// algorithm R).
void
sample_batch(Work *work, const float *rows, int n)
{
	const Size row_bytes = work->spec.dim * sizeof(float);

	for (int i = 0; i < n; i++, work->seen++)
	{
		uint64 place = work->seen;

		if (place >= work->capacity)
		{
			place = next_random(work) % (work->seen + 1);
			if (place >= work->capacity)
				continue;
		}
		else
			work->spec.n_rows++;
		if (place >= work->allocated)
		{
			work->allocated = std::min(std::max<uint64>(2 * work->allocated, 1024), work->capacity);
			work->sample = static_cast<float *>(work->sample == nullptr
					? MemoryContextAllocHuge(work->context, work->allocated * row_bytes)
					: repalloc_huge(work->sample, work->allocated * row_bytes));
		}
		memcpy(work->sample + place * work->spec.dim, rows + static_cast<Size>(i) * work->spec.dim, row_bytes);
	}
}

/// Prepare the centroids for assignment by this process.
void
start_assignment(Work *work)
{
	const Size coarse_bytes = ivf::coarse_bytes(work->spec.dim, work->n_used);

	require_ok(ivf::coarse_init(work->centroids, work->n_used, work->spec.dim,
		MemoryContextAllocHuge(work->context, coarse_bytes), coarse_bytes, &work->coarse));
	work->assign_bytes = ivf::coarse_assign_work_bytes(work->coarse, 1);
	work->assign_memory = MemoryContextAllocHuge(work->context, work->assign_bytes);
}

/// Assign rows to clusters and count them.
void
assign_batch(Work *work, const float *rows, int n)
{
	uint32 labels[kBatchRows];
	float scores[kBatchRows];

	if (!am::kmeans_worker_assign(&work->worker, rows, static_cast<uint64>(n), labels, scores))
	{
		if (work->assign_memory == nullptr)
			start_assignment(work);
		require_ok(ivf::coarse_assign(work->coarse, rows, work->spec.dim, n, labels, scores, work->assign_memory,
			work->assign_bytes, engine_call()));
	}
	for (int i = 0; i < n; i++)
	{
		work->sizes[labels[i]]++;
		work->inertia[labels[i]] += static_cast<double>(scores[i]);
	}
}

/// Read all rows, one batch at a time. Call with SPI connected.
void
read_rows(Work *work, ConsumeBatch consume)
{
	Portal portal = SPI_cursor_open(nullptr, work->plan, nullptr, nullptr, true);
	float *rows = nullptr;

	for (;;)
	{
		int n = 0;

		SPI_cursor_fetch(portal, true, kBatchRows);
		if (SPI_processed == 0)
			break;

		MemoryContext outer = MemoryContextSwitchTo(work->batch_context);

		for (uint64 i = 0; i < SPI_processed; i++)
		{
			bool is_null;
			const Datum datum = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &is_null);

			if (is_null)
				continue; // a cast may turn a value into NULL
			const types::VectorValue *value = types::vector_from_datum(datum);

			if (work->spec.dim == 0)
				start_sample(work, value->dim);
			if (static_cast<uint32>(value->dim) != work->spec.dim)
				ereport(ERROR,
					(errcode(ERRCODE_DATA_EXCEPTION),
						errmsg("different vector dimensions %u and %d", work->spec.dim, value->dim),
						errdetail("For k-means all rows must have the same number of dimensions."),
						errhint("Select such rows with a view, or declare the column as vector(%u).", work->spec.dim)));
			if (rows == nullptr)
				rows = static_cast<float *>(
					MemoryContextAllocHuge(work->context, Size{kBatchRows} * work->spec.dim * sizeof(float)));
			memcpy(rows + static_cast<Size>(n++) * work->spec.dim, types::elements_of<types::Float32>(value),
				work->spec.dim * sizeof(float));
			if (value != reinterpret_cast<const types::VectorValue *>(DatumGetPointer(datum)))
				pfree(const_cast<types::VectorValue *>(value));
		}
		MemoryContextSwitchTo(outer);
		SPI_freetuptable(SPI_tuptable);
		MemoryContextReset(work->batch_context);
		if (work->spec.kind == ivf::ClusterKind::kSpherical)
			ivf::normalise_rows(rows, n, work->spec.dim);
		consume(work, rows, n);
		CHECK_FOR_INTERRUPTS();
	}
	SPI_cursor_close(portal);
	if (rows != nullptr)
		pfree(rows);
}

/// Train in this process.
void
train_here(Work *work)
{
	const Size work_bytes = ivf::kmeans_work_bytes(work->spec);
	void *memory = MemoryContextAllocHuge(work->context, work_bytes);
	ivf::KMeansReport report;

	require_ok(ivf::kmeans_train(work->spec, {work->sample, work->spec.dim}, work->centroids, nullptr, &report, memory,
		work_bytes, engine_call()));
	pfree(memory);
	work->n_used = report.n_used;
}

/// Balance the clusters in this process, over the same sample: the worker trains without balance.
void
balance_here(Work *work)
{
	const Size work_bytes = ivf::kmeans_work_bytes(work->spec);
	const Size centroid_bytes = static_cast<Size>(work->n_used) * work->spec.dim * sizeof(float);
	float *trained = static_cast<float *>(MemoryContextAllocHuge(work->context, centroid_bytes));
	void *memory = MemoryContextAllocHuge(work->context, work_bytes);
	const uint32 n_trained = work->n_used;
	ivf::KMeansReport report;

	memcpy(trained, work->centroids, centroid_bytes);
	require_ok(ivf::kmeans_balance(work->spec, {work->sample, work->spec.dim}, n_trained, work->centroids, nullptr,
		&report, memory, work_bytes, engine_call()));
	pfree(memory);
	work->n_used = report.n_used;
	if (work->n_used != n_trained || memcmp(trained, work->centroids, centroid_bytes) != 0)
		(void) am::kmeans_worker_give(&work->worker, work->centroids, work->n_used);
	pfree(trained);
}

/// Compute the centroids of the sample, then sizes and inertia of all rows.
void
train(Work *work)
{
	const uint32 k = work->spec.n_clusters;

	work->centroids = static_cast<float *>(
		MemoryContextAllocHuge(work->context, static_cast<Size>(k) * work->spec.dim * sizeof(float)));
	work->sizes = static_cast<uint64 *>(MemoryContextAllocZero(work->context, k * sizeof(uint64)));
	work->inertia = static_cast<double *>(MemoryContextAllocZero(work->context, k * sizeof(double)));
	if (!am::kmeans_worker_train(
			&work->worker, work->context, &work->spec, work->sample, work->centroids, &work->n_used))
		train_here(work);
	else if (work->spec.balance > 0)
		balance_here(work);
	if (work->seen > work->spec.n_rows)
	{
		pfree(work->sample);
		read_rows(work, assign_batch);
	}
	else
		for (uint64 first = 0; first < work->spec.n_rows; first += kBatchRows)
			assign_batch(work, work->sample + first * work->spec.dim,
				static_cast<int>(std::min<uint64>(kBatchRows, work->spec.n_rows - first)));
	am::kmeans_worker_end(&work->worker);
}

int
argument_in_range(FunctionCallInfo fcinfo, int number, const char *name, int largest)
{
	const int value = PG_GETARG_INT32(number);

	if (value < 1 || value > largest)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be between 1 and %d", name, largest),
				errdetail("It is %d.", value)));
	return value;
}

} // namespace

/// vectorgpu_kmeans(relation regclass, column_name name, k int, spherical bool, max_iterations int, balance real, seed
/// bigint): one row per cluster.
Datum
vectorgpu_kmeans(PG_FUNCTION_ARGS)
{
	Work *work = static_cast<Work *>(palloc0(sizeof(Work)));

	work->spec = {};
	work->spec.n_clusters =
		static_cast<uint32>(argument_in_range(fcinfo, 2, "number of clusters", static_cast<int>(ivf::kMaxClusters)));
	work->spec.kind = PG_GETARG_BOOL(3) ? ivf::ClusterKind::kSpherical : ivf::ClusterKind::kL2;
	work->spec.max_iterations =
		static_cast<uint32>(argument_in_range(fcinfo, 4, "number of iterations", kMaxIterations));
	work->spec.tolerance = 1e-4f;
	work->spec.balance = PG_GETARG_FLOAT4(5);
	work->spec.seed = static_cast<uint64>(PG_GETARG_INT64(6));
	work->random = work->spec.seed * 2 + 1; // never zero
	if (!(work->spec.balance == 0 || work->spec.balance >= 1))
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("balance must be 0 or at least 1"),
				errhint("With 2, clusters are kept above half of the mean size.")));
	InitMaterializedSRF(fcinfo, 0);
	work->context = AllocSetContextCreate(CurrentMemoryContext, "k-means", ALLOCSET_DEFAULT_SIZES);
	work->batch_context = AllocSetContextCreate(work->context, "k-means batch", ALLOCSET_DEFAULT_SIZES);
	SPI_connect();
	work->plan =
		SPI_prepare(make_query(PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)), fcinfo->flinfo->fn_oid), 0, nullptr);
	if (work->plan == nullptr)
		elog(ERROR, "could not prepare the query of k-means: %s", SPI_result_code_string(SPI_result));
	read_rows(work, sample_batch);
	if (work->seen > 0)
		train(work);
	SPI_finish();

	ReturnSetInfo *result = reinterpret_cast<ReturnSetInfo *>(fcinfo->resultinfo);

	for (uint32 c = 0; c < work->n_used; c++)
	{
		types::VectorValue *centroid = types::new_vector<types::Float32>(static_cast<int>(work->spec.dim));

		memcpy(centroid->elements(), work->centroids + static_cast<Size>(c) * work->spec.dim,
			work->spec.dim * sizeof(float));

		Datum values[] = {Int32GetDatum(static_cast<int32>(c + 1)), PointerGetDatum(centroid),
			Int64GetDatum(static_cast<int64>(work->sizes[c])), Float8GetDatum(work->inertia[c])};
		bool nulls[lengthof(values)] = {};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		pfree(centroid);
	}
	MemoryContextDelete(work->context);
	return static_cast<Datum>(0);
}
