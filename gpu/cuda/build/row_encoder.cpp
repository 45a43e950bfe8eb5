// See row_encoder.hpp.
#include "cuda/build/row_encoder.hpp"

#include "kernels/codes/codes_encode.hpp"

namespace vectorgpu::cuda
{

using engine::ivf::CodeKind;
using engine::ivf::PqSpec;

bool
RowEncoder::serves(const engine::ivf::CodeSpec &codes)
{
	return codes.kind == CodeKind::kSq8 ||
		(codes.kind == CodeKind::kPq && !codes.pq.opq &&
			engine::ivf::pq_sub_dim(codes.pq) <= kernels::kMostEncodedElements);
}

Status
RowEncoder::make_room(const engine::ListCoder &coder, uint32_t most_rows)
{
	const size_t rows = most_rows;
	const size_t model_bytes = coder.model().size() * sizeof(float);

	VECTORGPU_TRY(model_.allocate(context_->budget, model_bytes, "the codes' model"));
	VECTORGPU_TRY(codes_.allocate(context_->budget, rows * engine::ivf::code_bytes(spec_), "codes"));
	if (spec_.kind == CodeKind::kSq8)
		VECTORGPU_TRY(is_out_.allocate(context_->budget, rows, "codes"));
	else
	{
		VECTORGPU_TRY(labels_.allocate(context_->budget, rows * sizeof(uint32_t), "labels"));
		VECTORGPU_TRY(terms_.allocate(context_->budget, rows * sizeof(float), "codes"));
	}

	const GpuWait wait(context_->device);

	VECTORGPU_TRY(context_->check(cudaMemcpyAsync(model_.as<float>(), coder.model().data(), model_bytes,
									  cudaMemcpyHostToDevice, context_->stream.get()),
		"send the codes' model"));
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
	spec_ = coder.spec().codes;

	const Status status = make_room(coder, most_rows);

	is_ready_ = status.is_ok();
	has_failed_ = !is_ready_;
	return status;
}

/// Make codes_, and read is_out [rows.n()].
Status
RowEncoder::encode_sq8(const ClusterRows &rows, uint8_t *is_out)
{
	const cudaStream_t stream = context_->stream.get();
	kernels::EncodeSq8Args args;

	args.rows = rows.vectors();
	args.ranges = model_.as<float>();
	args.n_rows = rows.n();
	args.dim = spec_.dim;
	args.dim_pad = rows.dim_pad();
	args.codes = codes_.as<uint8_t>();
	args.is_out = is_out_.as<uint8_t>();
	VECTORGPU_TRY(context_->check(kernels::launch_encode_sq8(args, stream), "code rows"));
	return context_->check(
		cudaMemcpyAsync(is_out, is_out_.as<uint8_t>(), rows.n(), cudaMemcpyDeviceToHost, stream), "read codes");
}

/// Make codes_, and read terms [rows.n()], if the codes have terms.
Status
RowEncoder::encode_pq(const ClusterRows &rows, const ClusterCentroids &centroids, const uint32_t *labels, float *terms)
{
	const cudaStream_t stream = context_->stream.get();
	const PqSpec &spec = spec_.pq;
	const size_t n = rows.n();
	const bool has_terms = engine::ivf::pq_has_row_terms(spec);
	kernels::EncodeArgs args;

	args.rows = rows.vectors();
	args.labels = labels_.as<uint32_t>();
	args.centroids = centroids.vectors();
	args.codebook = model_.as<float>();
	args.n_rows = rows.n();
	args.dim = spec.dim;
	args.dim_pad = rows.dim_pad();
	args.m = spec.m;
	args.sub_dim = engine::ivf::pq_sub_dim(spec);
	args.bits = spec.bits;
	args.codes = codes_.as<uint8_t>();
	args.terms = has_terms ? terms_.as<float>() : nullptr;
	VECTORGPU_TRY(context_->check(
		cudaMemcpyAsync(labels_.as<uint32_t>(), labels, n * sizeof(uint32_t), cudaMemcpyHostToDevice, stream),
		"send labels"));
	VECTORGPU_TRY(context_->check(kernels::launch_encode_pq(args, stream), "code rows"));
	if (!has_terms)
		return Status::ok();
	return context_->check(
		cudaMemcpyAsync(terms, terms_.as<float>(), n * sizeof(float), cudaMemcpyDeviceToHost, stream), "read terms");
}

Status
RowEncoder::encode(const ClusterRows &rows, const ClusterCentroids &centroids, const uint32_t *labels, size_t at,
	const engine::CodedRows &coded)
{
	const size_t code_bytes = engine::ivf::code_bytes(spec_);

	if (spec_.kind == CodeKind::kSq8)
		VECTORGPU_TRY(encode_sq8(rows, coded.is_out + at));
	else
		VECTORGPU_TRY(
			encode_pq(rows, centroids, labels, engine::ivf::code_has_terms(spec_) ? coded.terms + at : nullptr));
	VECTORGPU_TRY(context_->check(cudaMemcpyAsync(coded.codes + at * code_bytes, codes_.as<uint8_t>(),
									  rows.n() * code_bytes, cudaMemcpyDeviceToHost, context_->stream.get()),
		"read codes"));
	return context_->wait();
}

} // namespace vectorgpu::cuda
