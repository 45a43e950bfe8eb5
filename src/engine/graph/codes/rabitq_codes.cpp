// See rabitq_codes.hpp and code_scores.hpp.
#include "engine/graph/codes/rabitq_codes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/graph/codes/hash.hpp"
#include "engine/ivf/kmeans.hpp"
#include "engine/ivf/rabitq/rabitq.hpp"
#include "engine/ivf/work.hpp"
#include "engine/recall/stratified.hpp"

namespace vectorgpu::engine::graph
{

namespace
{

constexpr uint32_t kTrainingRows = 65536;
constexpr uint32_t kPieceElements = 1u << 18; // coded in some milliseconds
constexpr float kMostElement = 127;
constexpr float kMostScore = std::numeric_limits<float>::max(); // also of what is no number

ivf::RabitqSpec
rabitq_spec(const CodeSpec &spec)
{
	return {spec.rows.metric, spec.rows.dim, spec.bits};
}

struct Work
{
	float *row;     // [dim]
	float *list;    // [padded_dim]: zeros, the rotated centre of the only list less that of the model
	float *rotated; // [padded_dim]
	uint8_t *code;  // of ivf's layout
	void *encode;
	size_t encode_bytes;

	Work(const CodeSpec &spec, ivf::Arena *arena)
	{
		const ivf::RabitqSpec rabitq = rabitq_spec(spec);

		row = arena->take<float>(spec.rows.dim);
		list = arena->take<float>(ivf::rabitq_padded_dim(rabitq));
		rotated = arena->take<float>(ivf::rabitq_padded_dim(rabitq));
		code = arena->take<uint8_t>(ivf::rabitq_code_bytes(rabitq));
		encode_bytes = ivf::rabitq_encode_work_bytes(rabitq);
		encode = arena->take<uint8_t>(encode_bytes);
	}
};

Work
take_work(const CodeSpec &spec, float *memory)
{
	ivf::Arena arena(memory, rabitq_work_floats(spec) * sizeof(float));

	return {spec, &arena};
}

/// row [dim]: a row or query as float32, for cosine of length 1.
void
widen(const CodeSpec &spec, const void *vector, float *row)
{
	if (spec.rows.element == ElementType::kFloat16)
		widen_halves(vector, spec.rows.dim, row);
	else
		memcpy(row, vector, spec.rows.dim * sizeof(float));
	if (spec.rows.metric == Metric::kCosine)
		ivf::normalise_rows(row, 1, spec.rows.dim);
}

/// A model over the caller's, which is only read.
struct Model
{
	float seed;
	ivf::RabitqModel rabitq;

	explicit Model(const CodeModel &model)
		: seed(static_cast<float>(model.spec.seed % (1u << 24))),
		  rabitq{rabitq_spec(model.spec), const_cast<float *>(model.floats), &seed}
	{
	}
	Model(const Model &) = delete;
	Model &operator=(const Model &) = delete;
};

/// The code of code_scores.hpp from that of ivf.
void
pack(const ivf::RabitqSpec &spec, const uint8_t *made, uint8_t *code)
{
	const size_t n_bytes = rabitq_number_bytes(spec.bits, spec.dim);
	const size_t plane_bytes = ivf::rabitq_plane_bytes(spec);
	const uint8_t *factors = made + plane_bytes;
	const uint8_t *planes = factors + ivf::rabitq_n_factors(spec) * sizeof(float);
	const size_t full = spec.bits == 1 ? ivf::kRabitqAdd : ivf::kRabitqFullAdd;
	size_t byte = 0;
	uint32_t shift = 0;

	memcpy(code, factors + full * sizeof(float), sizeof(RabitqFactors));
	code += sizeof(RabitqFactors);
	memset(code, 0, n_bytes);
	for (size_t i = 0; i < ivf::rabitq_padded_dim(spec); i++)
	{
		uint32_t number = made[i / 8] >> (i % 8) & 1u;

		for (uint32_t bit = spec.bits - 1; bit-- > 0;)
			number = 2 * number + (planes[bit * plane_bytes + i / 8] >> (i % 8) & 1u);
		code[byte] = static_cast<uint8_t>(code[byte] | number << shift);
		if (++byte == n_bytes)
		{
			byte = 0;
			shift += spec.bits;
		}
	}
}

template <uint32_t kBits>
int32_t
plain_product(const uint8_t *numbers, const int8_t *elements, size_t n_bytes)
{
	int32_t sum = 0;

	for (uint32_t part = 0; part < 8 / kBits; part++)
		for (size_t i = 0; i < n_bytes; i++)
			sum += (numbers[i] >> (part * kBits) & ((1 << kBits) - 1)) * elements[part * n_bytes + i];
	return sum;
}

RabitqProduct
product_of(uint32_t bits)
{
	if (simd_level() == SimdLevel::kAvx2 || simd_level() == SimdLevel::kAvx512)
		return rabitq_product_avx2(bits);
	return bits == 1 ? plain_product<1> : bits == 2 ? plain_product<2> : plain_product<4>;
}

} // namespace

size_t
rabitq_work_floats(const CodeSpec &spec)
{
	ivf::Arena arena;

	(void) Work(spec, &arena);
	return (arena.bytes_needed() + sizeof(float) - 1) / sizeof(float);
}

uint32_t
rabitq_piece_rows(const CodeSpec &spec)
{
	return std::max(1u, kPieceElements / ivf::rabitq_padded_dim(rabitq_spec(spec)));
}

bool
rabitq_train_centre(const CodeSpec &spec, const GraphRows &rows, float *centre, float *work_memory, const Call &call)
{
	const Work work = take_work(spec, work_memory);
	const uint32_t n_rows = std::min(rows.n_rows, kTrainingRows);
	const uint32_t piece = rabitq_piece_rows(spec);

	std::fill_n(centre, spec.rows.dim, 0.0f);
	for (uint32_t i = 0; i < n_rows; i++)
	{
		// A running mean, so that nothing grows with the number of rows.
		const float share = 1.0f / static_cast<float>(i + 1);

		if (i % piece == 0 && call.progress != nullptr && !call.progress(call.progress_context, 0, rows.n_rows))
			return false;
		widen(spec, rows.row(static_cast<uint32_t>(stratified_row(i, n_rows, rows.n_rows))), work.row);
		for (uint32_t j = 0; j < spec.rows.dim; j++)
		{
			const float step = (work.row[j] - centre[j]) * share;

			if (std::isfinite(step))
				centre[j] = centre[j] + step;
		}
	}
	return true;
}

void
rabitq_rows(const CodeModel &model, const GraphRows &rows, uint8_t *codes, float *work_memory)
{
	const CodeSpec &spec = model.spec;
	const Work work = take_work(spec, work_memory);
	const Model own(model);
	const ivf::RabitqEncoder encoder = {&own.rabitq, model.floats, work.list};
	const size_t n_bytes = code_bytes(spec.bits, spec.rows.dim);
	const uint32_t label = 0;

	std::fill_n(work.list, ivf::rabitq_padded_dim(own.rabitq.spec), 0.0f);
	for (uint32_t i = 0; i < rows.n_rows; i++)
	{
		widen(spec, rows.row(i), work.row);
		(void) ivf::rabitq_encode(encoder, work.row, &label, 1, work.code, work.encode, work.encode_bytes);
		pack(own.rabitq.spec, work.code, codes + i * n_bytes);
	}
}

void
rabitq_query(const CodeModel &model, const void *query, uint8_t *code, float *work_memory)
{
	const CodeSpec &spec = model.spec;
	const Work work = take_work(spec, work_memory);
	const Model own(model);
	const uint32_t n = ivf::rabitq_padded_dim(own.rabitq.spec);
	int8_t *elements = reinterpret_cast<int8_t *>(code + sizeof(RabitqQueryHead));
	RabitqQueryHead head = {};
	float most = 0;
	float inverse;

	memset(code, 0, code_query_bytes(spec.bits, spec.rows.dim));
	widen(spec, query, work.row);
	ivf::rabitq_rotate(own.rabitq, work.row, model.floats, 1, work.rotated);
	for (uint32_t i = 0; i < n; i++)
		most = std::max(most, std::fabs(work.rotated[i]));
	inverse = kMostElement / most;
	// Of the centre itself, and where numbers overflow, nothing is known but the rows' lengths.
	if (most > 0 && std::isfinite(most) && std::isfinite(inverse))
	{
		for (uint32_t i = 0; i < n; i++)
		{
			const float element = std::isfinite(work.rotated[i]) ? std::nearbyint(work.rotated[i] * inverse) : 0;

			elements[i] = static_cast<int8_t>(element);
			head.sum += elements[i];
		}
		head.sum *= (1 << spec.bits) - 1;
		head.scale = most / kMostElement * 0.5f;
	}
	memcpy(code, &head, sizeof(head));
}

void
compute_code_scores(
	uint32_t bits, uint32_t dim, const void *query_code, const void *codes, size_t stride, size_t n, double *scores)
{
	if (!codes_are_rabitq(bits))
	{
		compute_scores(hash_distance(bits), query_code, codes, stride, n, scores, 0);
		return;
	}

	const size_t n_bytes = rabitq_number_bytes(bits, dim);
	const RabitqProduct product = product_of(bits);
	const int8_t *elements = static_cast<const int8_t *>(query_code) + sizeof(RabitqQueryHead);
	RabitqQueryHead head;

	memcpy(&head, query_code, sizeof(head));
	for (size_t i = 0; i < n; i++)
	{
		const uint8_t *code = static_cast<const uint8_t *>(codes) + i * stride;
		RabitqFactors factors;

		memcpy(&factors, code, sizeof(factors));

		// A kernel computes the same, operation by operation. The last one turns -0 to 0.
		const float twice = static_cast<float>(2 * product(code + sizeof(factors), elements, n_bytes) - head.sum);
		const float score = factors.add + factors.scale * (head.scale * twice) + 0.0f;

		scores[i] = static_cast<double>(score < kMostScore ? score : kMostScore);
	}
}

} // namespace vectorgpu::engine::graph
