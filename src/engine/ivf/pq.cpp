// See pq.hpp.
#include "engine/ivf/pq.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "common/limits.hpp"
#include "engine/ivf/assign.hpp"
#include "engine/ivf/ivf_kernels.hpp"

namespace vectorgpu::engine::ivf
{
namespace
{

constexpr size_t kWidestPanel = 32;

struct EncoderMemory
{
	Coarse *quantisers;  // [m]
	float *codewords;    // [m, n_codewords, sub_dim]
	float *rotation;     // the rotation in panels
	uint8_t *panels;     // [m] of coarse_init's memory
	size_t panels_bytes; // of each
};

EncoderMemory
take_encoder_memory(Arena *arena, const PqSpec &spec)
{
	EncoderMemory memory;

	memory.quantisers = arena->take<Coarse>(spec.m);
	memory.codewords = arena->take<float>(pq_codebook_floats(spec));
	memory.rotation = arena->take<float>(spec.opq ? pq_rotated_stride(spec) * spec.dim : 0);
	memory.panels_bytes = coarse_bytes(pq_sub_dim(spec), pq_n_codewords(spec));
	memory.panels = arena->take<uint8_t>(spec.m * memory.panels_bytes);
	return memory;
}

/// Scratch of a thread of pq_encode.
struct EncodeScratch
{
	float *rotated;   // [block, rotated_stride]
	float *residuals; // [block, padded_dim]
	uint32_t *labels; // [block]
	AssignScratch assign;
};

size_t
encode_block_rows(const PqSpec &spec)
{
	return std::min(assign_block_rows(pq_padded_dim(spec)), assign_block_rows(pq_sub_dim(spec)));
}

EncodeScratch
take_encode_scratch(Arena *arena, const PqSpec &spec)
{
	const size_t n = encode_block_rows(spec);
	EncodeScratch scratch;

	scratch.rotated = arena->take<float>(n * pq_rotated_stride(spec));
	scratch.residuals = arena->take<float>(n * pq_padded_dim(spec));
	scratch.labels = arena->take<uint32_t>(n);
	scratch.assign = take_assign_scratch(arena, pq_sub_dim(spec));
	return scratch;
}

} // namespace

size_t
pq_rotated_stride(const PqSpec &spec)
{
	return (spec.dim + kWidestPanel - 1) / kWidestPanel * kWidestPanel;
}

void
pq_pack_rotation(const PqModel &model, size_t panel_width, float *panels)
{
	const size_t dim = model.spec.dim;
	const size_t stride = pq_rotation_stride(model.spec);

	for (size_t column = 0; column < pq_rotated_stride(model.spec); column++)
		for (size_t d = 0; d < dim; d++)
			panels[column / panel_width * panel_width * dim + d * panel_width + column % panel_width] =
				column < dim ? model.rotation[d * stride + column] : 0;
}

Outcome
pq_check(const PqSpec &spec)
{
	if (spec.metric != Metric::kL2 && spec.metric != Metric::kInnerProduct && spec.metric != Metric::kCosine)
		return {StatusCode::kUnsupported, "product quantisation does not support this distance"};
	if (spec.dim == 0 || spec.dim > static_cast<uint32_t>(kMaxDimensions))
		return {StatusCode::kInvalidArgument, "number of dimensions is out of range"};
	if (spec.m == 0 || spec.m > spec.dim)
		return {
			StatusCode::kInvalidArgument, "number of sub-quantisers must be between 1 and the number of dimensions"};
	if (spec.bits != 4 && spec.bits != 8)
		return {StatusCode::kInvalidArgument, "bits of a code must be 4 or 8"};
	if (spec.opq && spec.dim > kMaxOpqDimensions)
		return {StatusCode::kUnsupported, "number of dimensions is too large for OPQ"};
	return {};
}

void
pq_rotate(const PqModel &model, const float *rows, size_t n_rows, float *rotated)
{
	const IvfKernels &kernels = ivf_kernels();
	const size_t dim = model.spec.dim;
	const size_t padded = pq_padded_dim(model.spec);
	const size_t stride = pq_rotation_stride(model.spec);
	const size_t whole = dim / 16 * 16;

	for (size_t i = 0; i < n_rows; i++)
	{
		const float *row = rows + i * dim;
		float *out = rotated + i * padded;

		std::fill_n(out, padded, 0.0f);
		if (!model.spec.opq)
			std::copy_n(row, dim, out);
		else
		{
			float tail[16] = {}; // the output may end before a multiple of 16

			for (size_t d = 0; d < dim; d++)
			{
				kernels.multiply_add(row[d], model.rotation + d * stride, whole, out);
				if (whole < dim)
					kernels.multiply_add(row[d], model.rotation + d * stride + whole, 16, tail);
			}
			std::copy_n(tail, dim - whole, out + whole);
		}
	}
}

namespace
{

constexpr size_t kRotatedTogether = 16; // rows of dim² products each

struct RotateJob
{
	const PqModel &model;
	const float *rows;
	size_t n_rows;
	size_t n_pieces;
	float *rotated;
	const Call &call;
	Share share;
};

void
rotate_worker(void *argument, size_t worker)
{
	RotateJob &job = *static_cast<RotateJob *>(argument);
	size_t piece;

	while ((piece = job.share.take(job.n_pieces)) < job.n_pieces)
	{
		const size_t first = piece * kRotatedTogether;

		if (worker == 0 && !go_on(job.call, {first, job.n_rows}))
		{
			job.share.stop.store(true, std::memory_order_relaxed);
			return;
		}
		pq_rotate(job.model, job.rows + first * job.model.spec.dim, std::min(kRotatedTogether, job.n_rows - first),
			job.rotated + first * pq_padded_dim(job.model.spec));
	}
}

} // namespace

Outcome
pq_rotate(const PqModel &model, const float *rows, size_t n_rows, float *rotated, const Call &call)
{
	const size_t n_pieces = (n_rows + kRotatedTogether - 1) / kRotatedTogether;
	RotateJob job = {model, rows, n_rows, n_pieces, rotated, call, {}};

	run_workers(call, std::min(usable_threads(call, kMaxThreads), n_pieces), rotate_worker, &job);
	return job.share.stop.load(std::memory_order_relaxed) ? cancelled() : Outcome{};
}

size_t
pq_encoder_bytes(const PqSpec &spec)
{
	Arena arena;

	take_encoder_memory(&arena, spec);
	return arena.bytes_needed();
}

Outcome
pq_encoder_init(
	const PqModel &model, const float *rotated_centroids, void *memory, size_t memory_bytes, PqEncoder *encoder)
{
	const PqSpec &spec = model.spec;
	const Outcome possible = pq_check(spec);

	if (!possible.is_ok())
		return possible;

	const uint32_t n_codewords = pq_n_codewords(spec);
	const uint32_t sub_dim = pq_sub_dim(spec);
	Arena arena(memory, memory_bytes);
	const EncoderMemory taken = take_encoder_memory(&arena, spec);

	if (arena.is_short())
		return work_memory_short();
	for (size_t j = 0; j < spec.m; j++)
	{
		float *codewords = taken.codewords + j * n_codewords * sub_dim;

		for (size_t i = 0; i < n_codewords; i++)
			for (size_t d = 0; d < sub_dim; d++)
				codewords[i * sub_dim + d] = model.codebook[(j * sub_dim + d) * n_codewords + i];

		const Outcome packed = coarse_init(codewords, n_codewords, sub_dim, taken.panels + j * taken.panels_bytes,
			taken.panels_bytes, new (taken.quantisers + j) Coarse);

		if (!packed.is_ok())
			return packed;
	}
	if (spec.opq)
		pq_pack_rotation(model, taken.quantisers[0].panel_width, taken.rotation);
	encoder->model = &model;
	encoder->rotated_centroids = rotated_centroids;
	encoder->quantisers = taken.quantisers;
	encoder->codewords = taken.codewords;
	encoder->rotation = taken.rotation;
	return {};
}

size_t
pq_encode_work_bytes(const PqEncoder &encoder, size_t n_threads)
{
	Arena arena;

	for (size_t i = 0; i < std::clamp<size_t>(n_threads, 1, kMaxThreads); i++)
		take_encode_scratch(&arena, encoder.model->spec);
	return arena.bytes_needed();
}

namespace
{

struct EncodeJob
{
	const PqEncoder &encoder;
	const float *rows;
	const uint32_t *labels;
	size_t n_rows;
	size_t block_rows;
	uint8_t *codes;
	float *row_terms;
	const EncodeScratch *scratch;
	const Call &call;
	Share share;
};

/// Set residuals of rows first .. first + n - 1: z - z_c, one rounding each.
void
residuals_of(const EncodeJob &job, size_t first, size_t n, const EncodeScratch &scratch)
{
	const PqSpec &spec = job.encoder.model->spec;
	const IvfKernels &kernels = ivf_kernels_of_width(job.encoder.quantisers[0].panel_width);
	const size_t dim = spec.dim;
	const size_t padded = pq_padded_dim(spec);
	const size_t stride = spec.opq ? pq_rotated_stride(spec) : dim;
	const float *z = job.rows + first * dim;

	if (spec.opq)
	{
		kernels.multiply(
			{z, dim, 1, n, dim}, {job.encoder.rotation, stride / kernels.panel_width}, scratch.rotated, stride);
		z = scratch.rotated;
	}
	for (size_t i = 0; i < n; i++)
	{
		const float *centroid = job.encoder.rotated_centroids + job.labels[first + i] * padded;
		float *residual = scratch.residuals + i * padded;

		for (size_t d = 0; d < dim; d++)
			residual[d] = z[i * stride + d] - centroid[d];
		std::fill(residual + dim, residual + padded, 0.0f);
	}
}

/// Adds sub-quantiser j's codes and terms of a block.
void
encode_block(const EncodeJob &job, size_t first, size_t n, const EncodeScratch &scratch)
{
	const PqSpec &spec = job.encoder.model->spec;
	const size_t padded = pq_padded_dim(spec);
	const size_t sub_dim = pq_sub_dim(spec);
	const size_t code_bytes = pq_code_bytes(spec);
	double terms[256] = {}; // a block has at most 240 rows

	residuals_of(job, first, n, scratch);
	for (size_t j = 0; j < spec.m; j++)
	{
		assign_block(job.encoder.quantisers[j], {scratch.residuals + j * sub_dim, padded, nullptr}, 0, n,
			scratch.assign, scratch.labels, nullptr);
		for (size_t i = 0; i < n; i++)
		{
			uint8_t *code = job.codes + (first + i) * code_bytes;
			const uint32_t label = scratch.labels[i];

			if (spec.bits == 8)
				code[j] = static_cast<uint8_t>(label);
			else if (j % 2 == 0)
				code[j / 2] = static_cast<uint8_t>(label);
			else
				code[j / 2] = static_cast<uint8_t>(code[j / 2] | label << 4);
			if (job.row_terms == nullptr)
				continue;

			const float *y = job.encoder.codewords + (j * pq_n_codewords(spec) + label) * sub_dim;
			const float *centroid = job.encoder.rotated_centroids + job.labels[first + i] * padded + j * sub_dim;

			for (size_t d = 0; d < sub_dim; d++) // |y|² + 2 z_c · y
				terms[i] +=
					static_cast<double>(y[d]) * (static_cast<double>(y[d]) + 2 * static_cast<double>(centroid[d]));
		}
	}
	for (size_t i = 0; job.row_terms != nullptr && i < n; i++)
		job.row_terms[first + i] = static_cast<float>(terms[i]);
}

/// Return the rows of a block, fewer if there were not several blocks for each thread.
size_t
shared_block_rows(const PqSpec &spec, size_t n_rows, size_t n_threads)
{
	constexpr size_t kLeast = 32; // rows that pay for reading the codewords
	constexpr size_t kEach = 3;   // blocks of a thread
	const size_t share = n_rows / (kEach * std::max<size_t>(n_threads, 1)) / kLeast * kLeast;

	return std::min(encode_block_rows(spec), std::max(share, kLeast));
}

void
encode_worker(void *argument, size_t worker)
{
	EncodeJob &job = *static_cast<EncodeJob *>(argument);
	const size_t rows_per_block = job.block_rows;
	const size_t n_blocks = (job.n_rows + rows_per_block - 1) / rows_per_block;
	size_t block;

	while ((block = job.share.take(n_blocks)) < n_blocks)
	{
		const size_t first = block * rows_per_block;

		if (worker == 0 && !go_on(job.call, {first, job.n_rows}))
			job.share.stop.store(true, std::memory_order_relaxed);
		encode_block(job, first, std::min(rows_per_block, job.n_rows - first), job.scratch[worker]);
	}
}

} // namespace

Outcome
pq_encode(const PqEncoder &encoder, const float *rows, const uint32_t *labels, size_t n_rows, uint8_t *codes,
	float *row_terms, void *work, size_t work_bytes, const Call &call)
{
	Arena arena(work, work_bytes);
	EncodeScratch scratch[kMaxThreads];
	Call usable = call;

	usable.n_threads = usable_threads(call, kMaxThreads);
	for (size_t i = 0; i < usable.n_threads; i++)
		scratch[i] = take_encode_scratch(&arena, encoder.model->spec);
	if (arena.is_short())
		return work_memory_short();

	EncodeJob job = {encoder, rows, labels, n_rows, shared_block_rows(encoder.model->spec, n_rows, usable.n_threads),
		codes, pq_has_row_terms(encoder.model->spec) ? row_terms : nullptr, scratch, usable, {}};

	run_workers(usable, usable.n_threads, encode_worker, &job);
	return job.share.stop.load(std::memory_order_relaxed) ? cancelled() : Outcome{};
}

void
pq_decode(const PqModel &model, const float *centroids, const uint8_t *codes, const uint32_t *labels, size_t n_rows,
	float *rows, float *scratch)
{
	const PqSpec &spec = model.spec;
	const size_t sub_dim = pq_sub_dim(spec);
	const size_t n_codewords = pq_n_codewords(spec);
	const size_t stride = pq_rotation_stride(spec);

	for (size_t i = 0; i < n_rows; i++)
	{
		const uint8_t *code = codes + i * pq_code_bytes(spec);
		const float *centroid = centroids + size_t{labels[i]} * spec.dim;
		float *row = rows + i * spec.dim;

		for (size_t j = 0; j < spec.m; j++)
		{
			const size_t number = spec.bits == 8 ? code[j] : (code[j / 2] >> (j % 2 * 4)) & 15;

			for (size_t d = 0; d < sub_dim; d++)
				scratch[j * sub_dim + d] = model.codebook[(j * sub_dim + d) * n_codewords + number];
		}
		for (size_t d = 0; d < spec.dim; d++)
		{
			double y = static_cast<double>(scratch[d]);

			if (spec.opq) // the transposed rotation takes it back
			{
				y = 0;
				for (size_t j = 0; j < spec.dim; j++)
					y += static_cast<double>(model.rotation[d * stride + j]) * static_cast<double>(scratch[j]);
			}
			row[d] = static_cast<float>(static_cast<double>(centroid[d]) + y);
		}
	}
}

} // namespace vectorgpu::engine::ivf
