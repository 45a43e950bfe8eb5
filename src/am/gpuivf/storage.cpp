// See storage.hpp.
#include "am/gpuivf/storage.hpp"

namespace vectorgpu::am
{

namespace
{

static_assert(static_cast<int>(IvfStorage::kFp16) == static_cast<int>(engine::ivf::CodeKind::kHalves) &&
	static_cast<int>(IvfStorage::kSq8) == static_cast<int>(engine::ivf::CodeKind::kSq8) &&
	static_cast<int>(IvfStorage::kPq) == static_cast<int>(engine::ivf::CodeKind::kPq) &&
	static_cast<int>(IvfStorage::kRabitq) == static_cast<int>(engine::ivf::CodeKind::kRabitq));

constexpr int kDefaultPqBits = 8;
constexpr int kDefaultRabitqBits = 4;
constexpr uint32 kDefaultSubDim = 4; // of a sub-quantiser of 8 bits: codes take a sixteenth of the float32 vector

engine::ivf::PqSpec
pq_spec(const IvfOptions *options, Metric metric, uint32 dim)
{
	engine::ivf::PqSpec spec;

	spec.metric = metric;
	spec.dim = dim;
	spec.m = options->pq_m;
	spec.bits = options->pq_bits;
	spec.opq = options->opq != 0;
	return spec;
}

/// A hint that leaves a parameter out, in CREATE INDEX and for an existing index.
const char *
left_out(const char *parameter)
{
	return psprintf("leave out %s (of an existing index: ALTER INDEX ... RESET (%s))", parameter, parameter);
}

/// Raises 22023 for storage parameters that contradict each other.
[[noreturn]] void
refuse(const char *message, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s", message), errhint("%s", hint)));
	pg_unreachable();
}

/// Raises 22023 for invalid numbers.
void
refuse_for_bits(const IvfStorageRequest *request)
{
	if (request->storage != kStorageDefault)
		refuse("storage is not for type bit",
			psprintf("The lists hold the bits themselves, which are shorter than codes: %s.", left_out("storage")));
	if (request->refine != kRefineDefault)
		refuse("refine is not for type bit",
			psprintf("The lists hold the bits themselves, which give the distances: %s.", left_out("refine")));
}

IvfStorage
resolve_codes(const IvfStorageRequest *request, ElementType element)
{
	const bool halves = element == ElementType::kFloat16;

	switch (request->storage)
	{
		case kStorageFp32:
			if (halves)
				refuse("storage \"fp32\" is not for type halfvec",
					psprintf("The lists hold the column's halves: %s.", left_out("storage")));
			return IvfStorage::kPlain;
		case kStorageFp16:
			return halves ? IvfStorage::kPlain : IvfStorage::kFp16;
		case kStorageSq8:
			return IvfStorage::kSq8;
		case kStoragePq:
			return IvfStorage::kPq;
		case kStorageRabitq:
			return IvfStorage::kRabitq;
		default:
			return IvfStorage::kPlain;
	}
}

IvfRefine
resolve_refine(const IvfStorageRequest *request, ElementType element, IvfStorage storage)
{
	const bool halves = element == ElementType::kFloat16;

	if (request->refine == kRefineFp32 && halves)
		refuse("refine \"fp32\" is not for type halfvec",
			psprintf("Distances are refined by the column's halves: %s.", left_out("refine")));
	if (storage == IvfStorage::kPlain)
	{
		if (request->refine == kRefineFp16 && !halves)
			refuse("refine \"fp16\" does not go with lists of full vectors",
				psprintf("Set storage to \"fp16\" to halve the index, or %s.", left_out("refine")));
		if (request->refine == kRefineNone)
			ereport(NOTICE,
				(errmsg("refine \"none\" changes nothing for lists of full vectors"),
					errdetail("The index needs the vectors to compute distances."),
					errhint("For an index without full vectors, set storage to \"sq8\", \"pq\", \"rabitq\" or, of "
							"vector, \"fp16\".")));
		return IvfRefine::kFull;
	}
	switch (request->refine)
	{
		case kRefineNone:
			return IvfRefine::kNone;
		case kRefineFp16:
			if (halves)
				return IvfRefine::kFull;
			return storage == IvfStorage::kFp16 ? IvfRefine::kNone
												: IvfRefine::kFp16; // the codes are the halves themselves
		case kRefineFp32:
			return IvfRefine::kFull;
		default:
			return storage == IvfStorage::kFp16 ? IvfRefine::kNone : IvfRefine::kFull;
	}
}

void
resolve_pq(const IvfStorageRequest *request, Metric metric, uint32 dim, IvfOptions *options)
{
	if (metric == Metric::kL1)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("storage \"pq\" does not support the taxicab distance"),
				errdetail("A product quantiser needs a sum of squares, which it splits into the parts of a vector."),
				errhint("Set storage to \"sq8\".")));
	options->pq_bits = static_cast<uint8>(request->pq_bits == 0 ? kDefaultPqBits : request->pq_bits);
	if (request->pq_m > 0 && static_cast<uint32>(request->pq_m) > dim)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("pq_m cannot be larger than the number of dimensions"),
				errdetail("pq_m is %d, the column has %u dimensions.", request->pq_m, dim),
				errhint("Set pq_m to %u or less, or %s.", dim, left_out("pq_m"))));
	options->pq_m = request->pq_m > 0 ? static_cast<uint32>(request->pq_m) : ivf_default_pq_m(options->pq_bits, dim);
	options->opq = request->opq > 0;
	if (options->opq && dim > engine::ivf::kMaxOpqDimensions)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				errmsg("opq does not support more than %u dimensions", engine::ivf::kMaxOpqDimensions),
				errdetail("The column has %u.", dim), errhint("Set opq to off.")));
}

void
resolve_rabitq(const IvfStorageRequest *request, Metric metric, IvfOptions *options)
{
	if (metric == Metric::kL1)
		ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("storage \"rabitq\" does not support the taxicab distance"),
				errdetail("A random rotation keeps lengths and inner products, not sums of differences."),
				errhint("Set storage to \"sq8\".")));
	options->bits = static_cast<uint8>(request->bits == 0 ? kDefaultRabitqBits : request->bits);
}

/// Raises 22023 for a parameter of one storage only.
void
refuse_without(const char *storage, const char *parameter)
{
	refuse(psprintf("%s needs storage \"%s\"", parameter, storage),
		psprintf("Set storage to \"%s\", or %s.", storage, left_out(parameter)));
}

} // namespace

uint32
ivf_default_pq_m(uint32 pq_bits, uint32 dim)
{
	const uint32 sub_dim = pq_bits == 4 ? kDefaultSubDim / 2 : kDefaultSubDim;

	return (dim + sub_dim - 1) / sub_dim;
}

Size
ivf_rabitq_code_bytes(int bits, uint32 dim)
{
	return engine::ivf::rabitq_code_bytes(
		{Metric::kL2, dim, static_cast<uint32>(bits == 0 ? kDefaultRabitqBits : bits)});
}

void
ivf_check_storage(const IvfStorageRequest *request)
{
	if (request->pq_bits != 0 && request->pq_bits != 4 && request->pq_bits != 8)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("pq_bits must be 4 or 8"),
				errdetail("pq_bits is %d.", request->pq_bits),
				errhint("For codes of 8 bits, %s.", left_out("pq_bits"))));
	if (request->bits > 0 && request->storage != kStorageRabitq)
		refuse_without("rabitq", "bits");
	if (request->storage == kStoragePq)
		return;
	if (request->opq > 0)
		refuse_without("pq", "opq");
	if (request->pq_m > 0)
		refuse_without("pq", "pq_m");
	if (request->pq_bits > 0)
		refuse_without("pq", "pq_bits");
}

void
ivf_resolve_storage(
	const IvfStorageRequest *request, ElementType element, Metric metric, uint32 dim, IvfOptions *options)
{
	ivf_check_storage(request); // for parameters set under a release that did not check them
	if (element == ElementType::kBit)
		refuse_for_bits(request);
	options->storage = resolve_codes(request, element);
	options->refine = resolve_refine(request, element, options->storage);
	if (options->storage == IvfStorage::kPq)
		resolve_pq(request, metric, dim, options);
	if (options->storage == IvfStorage::kRabitq)
		resolve_rabitq(request, metric, options);
}

IvfLayout
ivf_layout_of(const IvfOptions *options, ElementType element, Metric metric, uint32 dim)
{
	IvfLayout layout = {};

	layout.storage = options->storage;
	layout.refine = options->refine;
	layout.kept = options->refine == IvfRefine::kFp16 ? ElementType::kFloat16 : element;
	layout.kept_bytes = options->refine == IvfRefine::kNone ? 0 : vector_bytes(layout.kept, dim);
	layout.codes.kind = static_cast<engine::ivf::CodeKind>(options->storage);
	layout.codes.metric = metric;
	layout.codes.dim = dim;
	if (options->storage == IvfStorage::kPq)
		layout.codes.pq = pq_spec(options, metric, dim);
	layout.codes.bits = options->bits;
	layout.code_bytes = engine::ivf::code_bytes(layout.codes);
	layout.row_terms = engine::ivf::code_has_terms(layout.codes);
	layout.codec_floats = engine::ivf::code_model_floats(layout.codes);
	return layout;
}

IvfLayout
ivf_layout(const MetaData *meta)
{
	return ivf_layout_of(ivf_options(meta), meta->element, meta->metric, meta->dim);
}

} // namespace vectorgpu::am
