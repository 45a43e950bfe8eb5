// See row_encoder.hpp.
#include "cuda/build/row_encoder.hpp"

#include "kernels/codes/codes_encode.hpp"

namespace vectorgpu::cuda
{

using engine::ivf::PqSpec;

bool
RowEncoder::serves(const engine::ivf::CodeSpec &codes)
{
	return codes.kind == engine::ivf::CodeKind::kPq && !codes.pq.opq &&
		engine::ivf::pq_sub_dim(codes.pq) <= kernels::kMostEncodedElements;
}

Status
RowEncoder::make_room(const engine::ListCoder &coder, uint32_t most_rows)
{
	const size_t rows = most_rows;
	const size_t floats = engine::ivf::pq_codebook_floats(spec_);

	VECTORGPU_TRY(codebook_.allocate(context_->budget, floats * sizeof(float), "codebooks"));
	VECTORGPU_TRY(labels_.allocate(context_->budget, rows * sizeof(uint32_t), "labels"));
	VECTORGPU_TRY(codes_.allocate(context_->budget, rows * engine::ivf::pq_code_bytes(spec_), "codes"));
	VECTORGPU_TRY(terms_.allocate(context_->budget, rows * sizeof(float), "codes"));

	const GpuWait wait(context_->device);

	VECTORGPU_TRY(context_->check(cudaMemcpyAsync(codebook_.as<float>(), coder.model().data(), floats * sizeof(float),
									  cudaMemcpyHostToDevice, context_->stream.get()),
		"send codebooks"));
	return context_->wait();
}

Status
RowEncoder::prepare(ClusterContext *context, const engine::ListCoder &coder, uint32_t most_rows)
{
	if (has_failed_)
		return Status::error(StatusCode::kOutOfMemory, "no device memory for codes");
	if (is_ready_)
		return Status::ok();
	context_ = context;
	spec_ = coder.spec().codes.pq;

	const Status status = make_room(coder, most_rows);

	is_ready_ = status.is_ok();
	has_failed_ = !is_ready_;
	return status;
}

Status
RowEncoder::encode(const ClusterRows &rows, const ClusterCentroids &centroids, const uint32_t *labels, size_t at,
	const engine::CodedRows &coded)
{
	const cudaStream_t stream = context_->stream.get();
	const size_t n = rows.n();
	const size_t code_bytes = engine::ivf::pq_code_bytes(spec_);
	const bool has_terms = engine::ivf::pq_has_row_terms(spec_);
	kernels::EncodeArgs args;

	args.rows = rows.vectors();
	args.labels = labels_.as<uint32_t>();
	args.centroids = centroids.vectors();
	args.codebook = codebook_.as<float>();
	args.n_rows = rows.n();
	args.dim = spec_.dim;
	args.dim_pad = rows.dim_pad();
	args.m = spec_.m;
	args.sub_dim = engine::ivf::pq_sub_dim(spec_);
	args.bits = spec_.bits;
	args.codes = codes_.as<uint8_t>();
	args.terms = has_terms ? terms_.as<float>() : nullptr;
	VECTORGPU_TRY(context_->check(
		cudaMemcpyAsync(labels_.as<uint32_t>(), labels, n * sizeof(uint32_t), cudaMemcpyHostToDevice, stream),
		"send labels"));
	VECTORGPU_TRY(context_->check(kernels::launch_encode_pq(args, stream), "code rows"));
	VECTORGPU_TRY(context_->check(cudaMemcpyAsync(coded.codes + at * code_bytes, codes_.as<uint8_t>(), n * code_bytes,
									  cudaMemcpyDeviceToHost, stream),
		"read codes"));
	if (has_terms)
		VECTORGPU_TRY(context_->check(
			cudaMemcpyAsync(coded.terms + at, terms_.as<float>(), n * sizeof(float), cudaMemcpyDeviceToHost, stream),
			"read terms"));
	return context_->wait();
}

} // namespace vectorgpu::cuda
