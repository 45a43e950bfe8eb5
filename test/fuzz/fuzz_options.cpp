// libFuzzer target: storage parameters of gpuivf and gpugraph and operator class options of gpumatch, as core passes
// them on once it has parsed names and bounds. Accepted options must be accepted by vectorgpu_check in a metapage, and
// their sizes must fit the type; a value that gpumatch stores by such options must pass the check, and be at no
// distance from itself.
#include "options_shape.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "am/gpuivf/ivf.hpp"
#include "am/gpuivf/storage.hpp"
#include "am/gpumatch/gpumatch.hpp"
#include "common/limits.hpp"
#include "types/vector_type.hpp"

using namespace vectorgpu;
using namespace vectorgpu::fuzz;

extern "C"
{
	Datum vectorgpu_text_gram_options(PG_FUNCTION_ARGS);
	Datum vectorgpu_lsh_options(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_text_gram(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_vector_lsh_l2(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_vector_lsh_l1(PG_FUNCTION_ARGS);
	Datum vectorgpu_shape_vector_lsh_cosine(PG_FUNCTION_ARGS);
}

namespace
{

constexpr Size kMostDimensions = 24, kMostText = 300;

struct OperatorClass
{
	PGFunction shape, options;
	bool is_text;
};

constexpr OperatorClass kClasses[] = {
	{vectorgpu_shape_text_gram, vectorgpu_text_gram_options, true},
	{vectorgpu_shape_vector_lsh_l2, vectorgpu_lsh_options, false},
	{vectorgpu_shape_vector_lsh_l1, vectorgpu_lsh_options, false},
	{vectorgpu_shape_vector_lsh_cosine, vectorgpu_lsh_options, false},
};

bytea *class_options[1];

void
try_ivf(fuzz::Draw draw)
{
	const Relation index = fuzz::the_relation();

	draw_shape(&draw);
	const uint32 n_rows = draw.take<uint32_t>();
	const am::IndexShape shape = shape_now();

	fuzz::options_draw = draw;
	// CREATE INDEX and ALTER INDEX refuse combinations that are wrong for every column; an index of an earlier release
	// may still have them.
	if (!fuzz::no_error([&] { index->rd_options = am::ivf_parse_options(0, true); }))
	{
		require_refusal();
		fuzz::options_draw = draw;
		index->rd_options = am::ivf_parse_options(0, false);
		if (!fuzz::no_error([&] { am::ivf_store_options(index, &shape, meta.am_options); }))
			return require_refusal();
		REQUIRE(false);
	}
	if (!fuzz::no_error([&] { am::ivf_store_options(index, &shape, meta.am_options); }))
		return require_refusal();
	// A segment of no rows has no streams: nothing but the options can be wrong with it.
	REQUIRE(am::ivf_check_entry(&meta, &meta.segments[0]) == nullptr);

	const am::IvfLayout layout = am::ivf_layout(&meta);
	const uint32 lists = am::ivf_lists_for(reinterpret_cast<const am::IvfOptions *>(meta.am_options), n_rows);

	// Codes of RaBitQ have factors beside the dimensions, which are eight at a time.
	const Size beside =
		layout.codes.kind == engine::ivf::CodeKind::kRabitq ? engine::ivf::kMaxRabitqFactors * sizeof(float) + 7 : 0;

	REQUIRE(layout.kept_bytes <= meta.dim * sizeof(float) && layout.code_bytes <= meta.dim * sizeof(float) + beside);
	REQUIRE(layout.kept_bytes > 0 || layout.code_bytes > 0);
	REQUIRE(am::code_stream_bytes(&layout, n_rows) >= uint64{n_rows} * layout.code_bytes);
	REQUIRE(lists >= 1 && lists <= am::kMaxLists && lists <= Max(n_rows, 1u));
}

Datum
draw_value(fuzz::Draw *draw, bool is_text)
{
	if (is_text)
	{
		const Size length = Min(draw->size, kMostText);
		text *value = static_cast<text *>(palloc(VARHDRSZ + length));

		SET_VARSIZE(value, VARHDRSZ + length);
		memcpy(VARDATA(value), draw->data, length);
		// no string of a server has a zero byte
		std::replace(VARDATA(value), VARDATA(value) + length, '\0', ' ');
		return PointerGetDatum(value);
	}

	const int dim = static_cast<int>(Min(Max(draw->size / sizeof(int16_t), Size{1}), kMostDimensions));
	const Size n_bytes = sizeof(types::VectorValue) + dim * sizeof(float);
	types::VectorValue *value = static_cast<types::VectorValue *>(palloc0(n_bytes));

	SET_VARSIZE(value, n_bytes);
	value->dim = static_cast<int16>(dim);
	for (int i = 0; i < dim; i++)
	{
		const float number = static_cast<float>(draw->take<int16_t>()) / 16.0f;

		memcpy(static_cast<char *>(value->elements()) + i * sizeof(float), &number, sizeof(number));
	}
	return PointerGetDatum(value);
}

void
try_match(fuzz::Draw draw)
{
	const Relation index = fuzz::the_relation();
	const OperatorClass &operators = kClasses[draw.take<uint8_t>() % lengthof(kClasses)];
	am::IndexShape shape = {};

	memset(&meta, 0, sizeof(meta));
	fuzz::shape_function.fn_addr = operators.shape;
	fuzz::options_draw = draw;
	if (!fuzz::no_error([&] { class_options[0] = fuzz::operator_class_options(operators.options); }))
		return require_refusal();
	draw = fuzz::options_draw;

	const Datum datum = draw_value(&draw, operators.is_text);

	if (!operators.is_text)
		TupleDescAttr(index->rd_att, 0)->atttypmod = reinterpret_cast<const types::VectorValue *>(datum)->dim;
	REQUIRE(fuzz::no_error([&] { am::match_store_options(index, &shape, meta.am_options); }));
	REQUIRE(am::match_check_entry(&meta, &meta.segments[0]) == nullptr);

	const am::MatchOptions options = am::match_options(meta.am_options);
	const int32 code = DatumGetInt32(FunctionCall0Coll(&fuzz::shape_function, InvalidOid));

	shape.element = static_cast<ElementType>(code >> 8 & 0xFF);
	shape.metric = static_cast<Metric>(code & 0xFF);
	memcpy(shape.am_options, meta.am_options, sizeof(shape.am_options));
	REQUIRE(
		options.elements.gram_length >= types::kMinGramLength && options.elements.gram_length <= types::kMaxGramLength);
	REQUIRE(options.elements.hashes >= 1 && options.elements.hashes <= types::kMaxHashes);
	REQUIRE(options.elements.buckets >= 2 && options.elements.buckets <= types::kMaxBuckets);
	REQUIRE(std::isfinite(options.elements.width) && options.elements.width > 0);
	if (!operators.is_text && options.elements.hashes > 256)
		return; // the hash functions of one value would take seconds

	char *value = nullptr;
	void *query = nullptr;
	double distance = -1;

	REQUIRE(fuzz::no_error([&] { value = am::match_make_value(options, datum); }));
	REQUIRE(am::kMatchValues.check(value) == nullptr);
	REQUIRE(fuzz::no_error([&] { query = am::kMatchValues.query(&shape, datum); }));
	REQUIRE(fuzz::no_error([&] { distance = am::kMatchValues.score(&shape, query, value); }));
	REQUIRE(std::isnan(distance) ? shape.metric == Metric::kCosine : std::fabs(distance) < 1e-6);
}

void
define_all()
{
	am::ivf_define_options();
	define_graph();
}

} // namespace

extern "C"
{

	bytea **RelationGetIndexAttOptions(Relation, bool)
	{
		return class_options;
	}

	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
	{
		static const bool defined = (define_all(), true);
		fuzz::Draw draw = {data, size};
		const fuzz::Call one_call;

		(void) defined;
		switch (draw.take<uint8_t>() % 3)
		{
			case 0:
				try_ivf(draw);
				break;
			case 1:
				try_graph(draw);
				break;
			default:
				try_match(draw);
				break;
		}
		return 0;
	}

} // extern "C"
